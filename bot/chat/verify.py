"""Whether a request comes from Google Chat: the bearer token of an event, and Google's keys.

Takes the Authorization headers, gives nothing or one of two refusals. Rules: google-chat.md §2.
Knows nothing of Flask, bodies or events, and nothing of a request but that header.

    Refused
    ├── Unverified        not proven to be from Google; 401
    └── CertificatesAway  Google's keys cannot be had, so nobody can tell; 503
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal, Protocol

from google.auth import crypt, jwt

log = logging.getLogger(__name__)

Form = Literal["addon", "classic"]

LEEWAY_S = 30
LONGEST_LIFE_S = 3_700
"""Google's tokens live an hour; one that claims more was not made by Google."""
HEADER_BYTES = 8_192
FETCH_TIMEOUT_S = 5.0
KEYS = 16
CERTIFICATES_BYTES = 256 * 1024
SHORTEST_AGE_S, LONGEST_AGE_S = 60.0, 86_400.0
UNKNOWN_KEY_S = 300.0
"""Pause between two fetches that only an unknown key id asked for."""
RETRY_WARM_S, RETRY_COLD_S = 30.0, 1.0
STALE_S = 86_400.0
"""How long the last good set serves past its age while no newer one is to be had."""

_BEARER = re.compile(r"bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)", re.IGNORECASE)
_ISSUERS: Mapping[Form, tuple[str, ...]] = {
    "addon": ("https://accounts.google.com", "accounts.google.com"),
    "classic": ("chat@system.gserviceaccount.com",),
}
_ANY_TIME_S = 10**15
"""Leeway for google-auth's own look at the times, which uses a clock that is not ours."""


class Refused(Exception):
    """The root of the tree; never raised itself."""


class Unverified(Refused):
    """The request is not proven to come from Google Chat; `reason` is a code that may be logged."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CertificatesAway(Refused):
    """No keys are at hand and none could be fetched."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A body with the headers that say how long it holds; names in lower case."""

    body: bytes
    headers: Mapping[str, str]


def fetch(url: str) -> Fetched:
    """Fetches the certificates.

    Raises:
        OSError: the server is away, redirects, or answers anything but 200.
    """
    import requests  # heavy, and only needed where events are served

    with requests.get(url, timeout=FETCH_TIMEOUT_S, allow_redirects=False, stream=True) as response:
        if response.status_code != 200:
            raise OSError(f"certificates answered {response.status_code}")
        body, until = b"", time.monotonic() + FETCH_TIMEOUT_S
        for piece in response.iter_content(16_384):
            body += piece
            if len(body) > CERTIFICATES_BYTES or time.monotonic() > until:
                raise OSError("certificates are too large or too slow")
        headers = {name.lower(): value for name, value in response.headers.items()}
    return Fetched(body, headers)


def certificates_url(form: Form) -> str:
    """Where Google publishes the keys of a form's tokens: PEM certificates by key id."""
    if form == "addon":
        return "https://www.googleapis.com/oauth2/v1/certs"
    account = "chat@system.gserviceaccount.com"
    return f"https://www.googleapis.com/service_accounts/v1/metadata/x509/{account}"


class Keys(Protocol):
    """Google's public keys, by key id."""

    def get(self, kid: str) -> Mapping[str, str]:
        """The current set of PEM certificates, which may be without `kid`."""


class Certificates:
    """Google's certificates, fetched when they are first needed and kept while they hold.

    The last good set serves on while a newer one cannot be had, for a day at most. Safe for
    many threads: one fetches, the others use what is there.

    Args:
        url: where they are, see `certificates_url`.
        fetch: gets them; raises OSError.
        now: seconds since the epoch, for an `Expires` header.
        monotonic: seconds, for everything that is waited for.
    """

    def __init__(
        self,
        url: str,
        fetch: Callable[[str], Fetched] = fetch,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._fetch = fetch
        self._now = now
        self._monotonic = monotonic
        self._fetching = threading.Lock()
        self._keys: Mapping[str, str] = {}
        self._fresh_until = self._next_try = self._next_unknown = -math.inf

    def get(self, kid: str) -> Mapping[str, str]:
        """The certificates by key id; without `kid` where Google has no such key.

        Raises:
            CertificatesAway: there are none, or only ones that are too old.
        """
        if self._wanted(kid) and self._fetching.acquire(blocking=kid not in self._keys):
            try:
                if self._wanted(kid):  # unless another thread has just fetched them
                    self._refresh(kid)
            finally:
                self._fetching.release()
        if not self._keys or self._monotonic() >= self._fresh_until + STALE_S:
            raise CertificatesAway
        return self._keys

    def _wanted(self, kid: str) -> bool:
        at = self._monotonic()
        if at < self._next_try:
            return False
        return at >= self._fresh_until or (kid not in self._keys and at >= self._next_unknown)

    def _refresh(self, kid: str) -> None:
        at = self._monotonic()
        if at < self._fresh_until:
            self._next_unknown = at + UNKNOWN_KEY_S
        try:
            fetched = self._fetch(self._url)
            self._keys = _certificates(fetched.body)
        except (OSError, ValueError, RecursionError) as error:
            log.warning("certificates could not be fetched: %s", type(error).__name__)
            self._next_try = self._monotonic() + (RETRY_WARM_S if self._keys else RETRY_COLD_S)
            return
        self._fresh_until = self._monotonic() + _age(fetched.headers, self._now())
        self._next_try = -math.inf


def _certificates(body: bytes) -> Mapping[str, str]:
    """The certificates of an answer; ValueError when it is not a set of them."""
    found = json.loads(body)
    if not isinstance(found, dict) or not 1 <= len(found) <= KEYS:
        raise ValueError("not a set of certificates")
    for pem in found.values():
        if not isinstance(pem, str):
            raise ValueError("not a certificate")
        crypt.RSAVerifier.from_string(pem)  # type: ignore[no-untyped-call]
    return found


def _age(headers: Mapping[str, str], now: float) -> float:
    """Seconds for which an answer holds, between a minute and a day."""
    seconds = SHORTEST_AGE_S
    if found := re.search(r"(?:^|[\s,])max-age=([0-9]{1,9})", headers.get("cache-control", "")):
        seconds = float(found[1])
        if re.fullmatch(r"[0-9]{1,9}", headers.get("age", "")):
            seconds -= float(headers["age"])
    elif "expires" in headers:
        try:
            seconds = parsedate_to_datetime(headers["expires"]).timestamp() - now
        except (ValueError, OverflowError):
            seconds = SHORTEST_AGE_S
    return min(max(seconds, SHORTEST_AGE_S), LONGEST_AGE_S)


class Verifier:
    """Verifies the bearer tokens of one form of event.

    Args:
        form: which of Google's two kinds of token is expected, from the configuration.
        audience: our endpoint URL, letter for letter; not used for classic events.
        project_number: the digits of our Google Cloud project.
        certificates: the keys of that form.
        now: seconds since the epoch.

    Raises:
        ValueError: the audience or the project number cannot be one.
    """

    def __init__(
        self,
        form: Form,
        audience: str,
        project_number: str,
        certificates: Keys,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not re.fullmatch(r"[0-9]{1,32}", project_number):
            raise ValueError(f"not a project number: {project_number!r}")
        if form == "addon" and not re.fullmatch(r"https?://[^\s/]+\S*", audience):
            raise ValueError(f"not the URL of an endpoint: {audience!r}")
        self._form = form
        self._audience = audience if form == "addon" else project_number
        self._email = f"service-{project_number}@gcp-sa-gsuiteaddons.iam.gserviceaccount.com"
        self._certificates = certificates
        self._now = now

    def verify(self, authorization_headers: list[str]) -> None:
        """Returns when the one header holds a token that Google made for us, and that is valid.

        The claims are looked at before the keys are fetched, so that only a token that names us
        can ask for them; nothing is believed before the signature over these claims is good.

        Args:
            authorization_headers: every Authorization header of the request.

        Raises:
            Unverified: it is not so; the exception carries a code and nothing of the token.
            CertificatesAway: nobody can tell now.
        """
        token = _bearer(authorization_headers)
        kid = self._look(token)
        certificates = self._certificates.get(kid)
        if kid not in certificates:
            raise Unverified("unknown_key")
        if not _signed(token, {kid: certificates[kid]}):
            raise Unverified("signature")

    def _look(self, token: str) -> str:
        """The key id of a token whose every claim is right."""
        header, claims = _decoded(token)
        if header.get("alg") != "RS256":
            raise Unverified("algorithm")
        kid = header.get("kid")
        if not isinstance(kid, str) or not 1 <= len(kid) <= 256:
            raise Unverified("no_key_id")
        if claims.get("iss") not in _ISSUERS[self._form]:
            raise Unverified("issuer")
        if claims.get("aud") != self._audience:
            raise Unverified("audience")
        self._check_times(claims)
        if self._form == "addon":
            if claims.get("email") != self._email:
                raise Unverified("identity")
            if claims.get("email_verified") is not True:
                raise Unverified("identity_not_verified")
        return kid

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        issued, expires = _time(claims, "iat"), _time(claims, "exp")
        now = self._now()
        if issued > now + LEEWAY_S:
            raise Unverified("too_early")
        if expires < now - LEEWAY_S:
            raise Unverified("expired")
        if not 0 <= expires - issued <= LONGEST_LIFE_S:
            raise Unverified("lives_too_long")


def _time(claims: Mapping[str, Any], name: str) -> float:
    """A claim that is a number of seconds and nothing else."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10**12:
        raise Unverified("times")
    return float(value)


def _bearer(headers: list[str]) -> str:
    """The token of the one header there may be; a server joins two of them with a comma."""
    if not headers:
        raise Unverified("no_header")
    if len(headers) > 1 or "," in headers[0]:
        raise Unverified("two_headers")
    if len(headers[0]) > HEADER_BYTES:
        raise Unverified("header_too_long")
    found = _BEARER.fullmatch(headers[0].strip(" "))
    if found is None:
        raise Unverified("no_bearer_token")
    return found[1]


def _decoded(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    try:
        header = jwt.decode_header(token)  # type: ignore[no-untyped-call]
        return header, jwt.decode(token, verify=False)  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001  # google-auth raises many kinds on a bad token
        # Its message may hold the whole token, so not even the chain of causes is kept.
        raise Unverified("malformed") from None


def _signed(token: str, certificates: Mapping[str, str]) -> bool:
    try:
        jwt.decode(  # type: ignore[no-untyped-call]
            token, certs=certificates, clock_skew_in_seconds=_ANY_TIME_S
        )
    except Exception:  # noqa: BLE001  # as above
        return False
    return True
