"""How the value of a single setting is checked and put into its form.

Each check takes a text and gives the value, or raises ValueError with what was expected; none of
them repeats the text, which may be a secret.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import BeforeValidator

from bot import trials

T = TypeVar("T")

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SECRET_CHARS = 16

_HOST = re.compile(r"[\w-]+(\.[\w-]+)*\.?", re.ASCII)
_PLACEHOLDER = re.compile(
    r".*<[^>]*>.*|\$\{.*|(https?://)?your[-_ ].*|example|"
    r"(.*[-_ ])?change[-_ ]?(me|this)([-_ ].*)?|todo|tbd|fixme|replace[-_ ]?me|"
    r"placeholder|none|null|x{3,8}|\.\.\.",
    re.IGNORECASE,
)
_EXAMPLE_HOST = re.compile(r"(.*\.)?example\.(com|org|net|edu)", re.IGNORECASE)
_COUNTED = ("123456789", "1234567890", "12345678901", "123456789012", "012345678901")
_SCP_LIKE = re.compile(r"[\w.-]+@[\w.-]+:(?!//)[^\s]+", re.ASCII)
_SERVICE_LINK = re.compile(r"\w+_(SERVICE_HOST|SERVICE_PORT\w*|PORT|PORT_\d+_\w+)")
_USERINFO = re.compile(r"(?<=://)[^\s/@]*@")


def checked(check: Callable[[str], T]) -> BeforeValidator:
    """A check for a text; what already has its type passes."""
    return BeforeValidator(lambda value: check(value) if isinstance(value, str) else value)


def whole(low: int, high: int) -> Callable[[str], int]:
    """A whole number within bounds."""

    def check(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,15}", text) or not low <= int(text) <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return int(text)

    return check


def number(low: float, high: float) -> Callable[[str], float]:
    """A number within bounds."""

    def check(text: str) -> float:
        value = float(text) if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", text) else math.nan
        if not low <= value <= high:
            raise ValueError(f"expected a number from {low} to {high}")
        return value

    return check


def choice(*allowed: str) -> Callable[[str], str]:
    """One of some words, in whatever case."""
    known = {word.casefold(): word for word in allowed}

    def check(text: str) -> str:
        if text and text.casefold() not in known:
            near = nearest(text.casefold(), known, 0.6)
            hint = f"; did you mean {known[near]}?" if near else ""
            raise ValueError(f"expected {' or '.join(allowed)}{hint}")
        return known.get(text.casefold(), text)

    return check


def path(value: Any) -> Any:
    """A file's or folder's name; a leading `~` is the home folder."""
    if not isinstance(value, str | Path):
        return value
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise ValueError("expected a home folder that exists behind ~") from None


def real(value: Any) -> Any:
    """No placeholder."""
    if isinstance(value, str) and _PLACEHOLDER.fullmatch(value):
        raise ValueError("expected a real value, this is a placeholder")
    return value


def instance_secret(value: Any) -> Any:
    """A secret that nobody guesses."""
    if isinstance(value, str) and len(real(value)) < SECRET_CHARS:
        raise ValueError(
            f"expected at least {SECRET_CHARS} characters, such as `openssl rand -hex 32` prints"
        )
    return value


def url(text: str) -> str:
    """An http or https URL, without a slash at its end."""
    _split(text, "http", "https")
    return text.rstrip("/")


def outer_url(text: str) -> str:
    """An https URL, or plain http on the loopback for trials; word for word."""
    parts = _split(text, "http", "https")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError("expected an https URL (plain http only on loopback, for trials)")
    return text


def audience(text: str) -> str:
    """Our endpoint's URL, which tokens name literally."""
    parts = urlsplit(outer_url(text))
    if _EXAMPLE_HOST.fullmatch(parts.hostname or ""):
        raise ValueError("expected a real value, this is a placeholder")
    if parts.fragment:
        raise ValueError("expected the endpoint's URL, without a fragment")
    return text


def issuer(text: str) -> str:
    """An OIDC issuer, which tokens name literally."""
    parts = urlsplit(outer_url(text))
    if parts.query or parts.fragment:
        raise ValueError("expected an issuer's URL, without query or fragment")
    return text


def public_url(text: str) -> str:
    """Where people reach us: an origin."""
    return _origin(outer_url(text))


def database_url(value: Any) -> Any:
    """A PostgreSQL URL."""
    if isinstance(value, str):
        _split(real(value), "postgresql", "postgres", login=True, host=False)
    return value


def redis_url(value: Any) -> Any:
    """A Redis URL."""
    if isinstance(value, str):
        _split(real(value), "redis", "rediss", "unix", login=True, host=False)
    return value


def remote(text: str) -> str:
    """A git remote: a URL, `user@host:path`, or a folder."""
    if "://" in text:
        scheme = text.partition("://")[0]
        _split(text, "https", "http", "ssh", "file", login=scheme == "ssh", host=scheme != "file")
    elif not (_SCP_LIKE.fullmatch(text) or text.startswith(("/", "./", "../", "~/"))):
        raise ValueError("expected an https, ssh or file URL, user@host:path, or a folder's path")
    return text


def project_number(text: str) -> str:
    """A Google Cloud project's number."""
    if not re.fullmatch(r"[0-9]{6,20}", text):
        raise ValueError("expected the project's number, digits only (not its name or id)")
    if text in _COUNTED or len(set(text)) == 1:
        raise ValueError("expected a real value, this is a placeholder")
    return text


def hosts(text: str) -> tuple[str, ...]:
    """Host names, or `*` for all."""
    found = _parts(text)
    if any(one != "*" and not _HOST.fullmatch(one) for one in found):
        raise ValueError("expected host names such as docs.example.com, or *, with commas between")
    return tuple(one.lower() for one in found)


def domains(text: str) -> tuple[str, ...]:
    """E-mail domains."""
    found = _parts(text)
    if any(not _HOST.fullmatch(one) for one in found):
        raise ValueError("expected e-mail domains such as example.com, with commas between")
    return tuple(one.lower() for one in found)


def origins(text: str) -> tuple[str, ...]:
    """Origins of web pages."""
    expected = "expected origins such as https://app.example.com, with commas between"
    try:
        return tuple(_origin(url(one)) for one in _parts(text))
    except ValueError:
        raise ValueError(expected) from None


def networks(text: str) -> tuple[str, ...]:
    """IP addresses and networks."""
    try:
        return tuple(str(ipaddress.ip_network(one, strict=False)) for one in _parts(text))
    except ValueError:
        raise ValueError(
            "expected addresses or networks such as 10.0.0.0/8, with commas between"
        ) from None


def stop_at(text: str) -> str:
    """A step of `MERCURY_TEST_STOP_AT`."""
    try:
        trials.parse(text)
    except ValueError as error:
        near = nearest(text.partition(":")[0], trials.STEPS, 0.6)
        raise ValueError(f"{error}{f'; did you mean {near}?' if near else ''}") from None
    return text


def nearest(name: str, right: Iterable[str], cutoff: float) -> str:
    """The right name that is most like a wrong one, or ''.

    Args:
        name: the wrong one.
        right: the right ones.
        cutoff: how alike they have to be, up to 1 (difflib's ratio).
    """
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, right, 1, cutoff)), "")


def is_service_link(name: str) -> bool:
    """Whether Kubernetes or Docker made this name for a service that happens to be called so."""
    return _SERVICE_LINK.fullmatch(name) is not None


def passwords(text: str) -> list[str]:
    """The passwords that a URL holds, as written and as meant."""
    try:
        password = urlsplit(text).password or ""
    except ValueError:
        return []
    return [password, unquote(password)] if password else []


def without_userinfo(text: str) -> str:
    """A text in which no URL shows a login."""
    return _USERINFO.sub("***@", text)


def shown(text: str, most: int) -> str:
    """A value for a message: on one line, and not too long."""
    safe = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return safe if len(safe) <= most else safe[:most] + "…"


def _split(text: str, *schemes: str, login: bool = False, host: bool = True) -> SplitResult:
    """A URL's parts, of some schemes, with or without a login and a host."""
    expected = f"expected a URL that begins with {' or '.join(f'{one}://' for one in schemes)}"
    try:
        parts = urlsplit(text)
        good = parts.scheme in schemes and (parts.port is None or parts.port > 0)
    except ValueError:
        raise ValueError(expected) from None
    if not good or " " in text:
        raise ValueError(expected)
    if host and not _is_host(parts.hostname or ""):
        raise ValueError(f"{expected} and names a host")
    if not login and "@" in parts.netloc:
        raise ValueError("expected a URL without a login: keys have settings of their own")
    return parts


def _is_host(text: str) -> bool:
    if ":" in text:
        try:
            ipaddress.IPv6Address(text.partition("%")[0])
        except ValueError:
            return False
        return True
    return _HOST.fullmatch(text) is not None


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if parts.path not in ("", "/") or parts.query or parts.fragment or text[-1] in "?#":
        raise ValueError(
            "expected an origin such as https://bot.example.com, without path or query"
        )
    return text.rstrip("/")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
