"""Who may post events: the bearer tokens of both forms, and the keys they are held against."""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bot.chat.verify import (
    KEYS,
    Certificates,
    CertificatesAway,
    Fetched,
    Form,
    Unverified,
    Verifier,
    certificates_url,
)
from tests.fakes import google_keys
from tests.fakes.chat_server import ChatServer, Signer
from tests.fakes.google_keys import ADDON, AUDIENCE, CLASSIC, PROJECT
from tests.shared import cases, load, needs_shared

NOW = 1_800_000_000.0
PEM = {name: google_keys.certificate(name) for name in (ADDON, CLASSIC)}
SIGNER = Signer(now=lambda: NOW)
KEY_OF: Mapping[str, str] = {"addon": ADDON, "classic": CLASSIC}


class Google:
    """Where certificates are fetched: a set of keys that a test may change, cut and count."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self.keys = dict(keys)
        self.headers: dict[str, str] = {"cache-control": "public, max-age=3600"}
        self.body: bytes | None = None
        self.away = False
        self.fetched = 0
        self.at = 1_000.0

    def fetch(self, url: str) -> Fetched:
        self.fetched += 1
        if self.away:
            raise OSError("unreachable")
        return Fetched(self.body or json.dumps(self.keys).encode(), self.headers)

    def certificates(self) -> Certificates:
        return Certificates("https://certs.example.test", self.fetch, lambda: NOW, lambda: self.at)


def verifier(form: Form = "addon", certificates: Certificates | None = None) -> Verifier:
    certificates = certificates or Google({"k1": PEM[KEY_OF[form]]}).certificates()
    return Verifier(form, AUDIENCE, PROJECT, certificates, lambda: NOW)


def refusal(headers: list[str], form: Form = "addon") -> str:
    with pytest.raises(Unverified) as refused:
        verifier(form).verify(headers)
    return refused.value.reason


def judge(case: dict[str, Any], form: Form) -> None:
    made = google_keys.token(case["header"], case["claims"], case["signed_with"])
    try:
        verifier(form).verify([f"Bearer {made}"])
    except Unverified:
        assert case["verdict"] == "reject"
    else:
        assert case["verdict"] == "accept"


@needs_shared
@pytest.mark.parametrize("case", cases("google-chat/tokens/addon_mode.json", "cases"))
def test_addon_tokens_are_judged_as_the_fixture_says(case: dict[str, Any]) -> None:
    judge(case, "addon")


@needs_shared
@pytest.mark.parametrize(
    "case", cases("google-chat/tokens/classic_project_number_mode.json", "cases")
)
def test_classic_tokens_are_judged_as_the_fixture_says(case: dict[str, Any]) -> None:
    judge(case, "classic")


@needs_shared
def test_the_fixtures_configuration_is_the_one_tried_here() -> None:
    config = load("google-chat/tokens/addon_mode.json")["config"]
    assert (config["audience"], config["project_number"]) == (AUDIENCE, PROJECT)


def test_the_scheme_is_taken_in_any_case() -> None:
    verifier().verify([f"bearer {SIGNER.addon()}"])
    verifier("classic").verify([f"BEARER {SIGNER.classic()}"])


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "no_header"),
        (["Bearer a.b.c", "Bearer d.e.f"], "two_headers"),
        (["Bearer a.b.c,Bearer d.e.f"], "two_headers"),
        (["Bearer " + "a" * 8_192], "header_too_long"),
        (["Bearer "], "no_bearer_token"),
        (["Bearer"], "no_bearer_token"),
        ([""], "no_bearer_token"),
        (["Basic YTpi"], "no_bearer_token"),
        (["Bearer a.b"], "no_bearer_token"),
        (["Bearer a.b.c.d"], "no_bearer_token"),
        (["Bearer é.b.c"], "no_bearer_token"),
        (["Bearer a.b.c"], "malformed"),
        (["Bearer e30.W10.YQ"], "malformed"),
    ],
)
def test_what_is_no_one_bearer_token_is_refused(headers: list[str], reason: str) -> None:
    assert refusal(headers) == reason


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW + 10 * 365 * 86_400}, "lives_too_long"),
        ({"iat": NOW, "exp": NOW - 1}, "lives_too_long"),
        ({"iat": True}, "times"),
        ({"exp": float("nan")}, "times"),
        ({"exp": float("inf")}, "times"),
        ({"iat": None}, "times"),
        ({"aud": [AUDIENCE]}, "audience"),
        ({"aud": AUDIENCE + "/"}, "audience"),
        ({"iss": ["https://accounts.google.com"]}, "issuer"),
        ({"email": f"x@service-{PROJECT}.example"}, "identity"),
        ({"email_verified": False}, "identity_not_verified"),
        ({"email_verified": 1}, "identity_not_verified"),
    ],
)
def test_a_claim_that_is_not_exactly_right_is_refused(claims: dict[str, Any], reason: str) -> None:
    assert refusal([f"Bearer {SIGNER.addon(**claims)}"]) == reason


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"alg": "RS256"}, "no_key_id"),
        ({"alg": "RS256", "kid": ""}, "no_key_id"),
        ({"alg": "RS256", "kid": ["k1"]}, "no_key_id"),
        ({"alg": "ES256", "kid": "k1"}, "algorithm"),
        ({"alg": ["RS256"], "kid": "k1"}, "algorithm"),
        ({"kid": "k1"}, "algorithm"),
        ({"alg": "RS256", "kid": "k2"}, "unknown_key"),
    ],
)
def test_a_token_header_that_is_not_exactly_right_is_refused(
    header: dict[str, Any], reason: str
) -> None:
    claims = SIGNER.addon().split(".")[1]
    told = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert refusal([f"Bearer {google_keys.token(header, told, ADDON)}"]) == reason


def test_a_signature_that_is_not_google_s_is_refused() -> None:
    head, claims, _ = SIGNER.addon().split(".")
    other = SIGNER.addon(sub="2").split(".")[2]
    assert refusal([f"Bearer {head}.{claims}.{other}"]) == "signature"
    assert refusal([f"Bearer {head}.{claims}.YQ"]) == "signature"


def test_an_addon_token_is_not_good_for_classic_nor_the_other_way() -> None:
    assert refusal([f"Bearer {SIGNER.addon()}"], "classic") == "issuer"
    assert refusal([f"Bearer {SIGNER.classic()}"], "addon") == "issuer"


def test_a_refusal_tells_nothing_of_the_token(caplog: pytest.LogCaptureFixture) -> None:
    made = SIGNER.addon(aud="https://secret.example.test")
    with caplog.at_level(logging.DEBUG), pytest.raises(Unverified) as refused:
        verifier().verify([f"Bearer {made}"])
    assert str(refused.value) == "audience"
    assert made not in caplog.text


@pytest.mark.parametrize(
    ("audience", "project"),
    [("", PROJECT), ("your-url", PROJECT), (AUDIENCE, ""), (AUDIENCE, "my-project")],
)
def test_a_missing_or_placeholder_configuration_is_no_verifier(audience: str, project: str) -> None:
    with pytest.raises(ValueError):
        Verifier("addon", audience, project, Google({}).certificates())


def test_certificates_are_fetched_once_for_as_long_as_they_hold() -> None:
    google = Google({"k1": PEM[ADDON]})
    mine = verifier(certificates=google.certificates())
    for _ in range(100):
        mine.verify([f"Bearer {SIGNER.addon()}"])
    assert google.fetched == 1
    google.at += 3_601
    mine.verify([f"Bearer {SIGNER.addon()}"])
    assert google.fetched == 2


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 60),
        ({"cache-control": "no-store"}, 60),
        ({"cache-control": "max-age=1"}, 60),
        ({"cache-control": "public, max-age=600, must-revalidate"}, 600),
        ({"cache-control": "max-age=600", "age": "200"}, 400),
        ({"cache-control": "s-maxage=5, max-age=99999999"}, 86_400),
        ({"cache-control": "x-max-age=600"}, 60),
        ({"expires": "Fri, 15 Jan 2027 08:10:00 GMT"}, 600),
        ({"expires": "0"}, 60),
    ],
)
def test_certificates_hold_between_a_minute_and_a_day(
    headers: dict[str, str], seconds: float
) -> None:
    google = Google({"k1": PEM[ADDON]})
    google.headers = headers
    certificates = google.certificates()
    certificates.get("k1")
    google.at += seconds - 1
    certificates.get("k1")
    assert google.fetched == 1
    google.at += 2
    certificates.get("k1")
    assert google.fetched == 2


def test_an_unknown_key_is_asked_for_at_most_once_in_five_minutes() -> None:
    google = Google({"k1": PEM[ADDON]})
    certificates = google.certificates()
    certificates.get("k1")
    google.keys = {"k2": PEM[ADDON]}
    assert "k2" in certificates.get("k2")
    for n in range(50):
        assert "k1" not in certificates.get(f"made up {n}")
    assert google.fetched == 2
    google.at += 301
    certificates.get("made up")
    assert google.fetched == 3


def test_the_last_good_set_serves_while_no_newer_one_is_to_be_had() -> None:
    google = Google({"k1": PEM[ADDON]})
    mine = verifier(certificates=google.certificates())
    mine.verify([f"Bearer {SIGNER.addon()}"])
    google.away = True
    google.at += 7_200
    for _ in range(20):
        mine.verify([f"Bearer {SIGNER.addon()}"])
    assert google.fetched == 2
    google.at += 86_400
    with pytest.raises(CertificatesAway):
        mine.verify([f"Bearer {SIGNER.addon()}"])


def test_without_any_certificates_nobody_can_tell() -> None:
    google = Google({"k1": PEM[ADDON]})
    google.away = True
    mine = verifier(certificates=google.certificates())
    with pytest.raises(CertificatesAway):
        mine.verify([f"Bearer {SIGNER.addon()}"])
    google.away = False
    google.at += 2
    mine.verify([f"Bearer {SIGNER.addon()}"])


def test_a_token_that_does_not_name_us_asks_for_no_certificates() -> None:
    google = Google({"k1": PEM[ADDON]})
    with pytest.raises(Unverified):
        verifier(certificates=google.certificates()).verify([f"Bearer {SIGNER.addon(aud='x')}"])
    assert google.fetched == 0


@pytest.mark.parametrize(
    "body",
    [
        b"<html>down</html>",
        b"[]",
        b"{}",
        b'{"k1": 1}',
        b'{"k1": "no certificate"}',
        b"[" * 100_000,
    ],
)
def test_an_answer_that_is_no_set_of_certificates_counts_as_away(body: bytes) -> None:
    google = Google({})
    google.body = body
    with pytest.raises(CertificatesAway):
        google.certificates().get("k1")


def test_more_keys_than_google_ever_had_are_no_set_of_certificates() -> None:
    google = Google({f"k{n}": PEM[ADDON] for n in range(KEYS + 1)})
    with pytest.raises(CertificatesAway):
        google.certificates().get("k1")


def test_many_threads_fetch_once() -> None:
    google = Google({"k1": PEM[ADDON]})
    certificates = google.certificates()
    ready = threading.Barrier(16)
    failed: list[Exception] = []

    def work() -> None:
        ready.wait()
        try:
            certificates.get("k1")
        except CertificatesAway as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (google.fetched, failed) == (1, [])


@pytest.mark.parametrize("form", ["addon", "classic"])
def test_certificates_come_over_http(form: Form) -> None:
    sign: Mapping[str, Callable[[], str]] = {"addon": SIGNER.addon, "classic": SIGNER.classic}
    with ChatServer() as server:
        url = server.certs_url if form == "addon" else server.classic_certs_url
        verifier(form, Certificates(url)).verify([f"Bearer {sign[form]()}"])
        server.fail("certs", times=1, status=500)
        with pytest.raises(CertificatesAway):
            Certificates(url).get("k1")
    with pytest.raises(CertificatesAway):
        Certificates(url).get("k1")


def test_google_s_own_addresses_are_the_default() -> None:
    assert certificates_url("addon") == "https://www.googleapis.com/oauth2/v1/certs"
    assert certificates_url("classic").endswith("/x509/chat@system.gserviceaccount.com")
