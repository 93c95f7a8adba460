"""Tokens and codes of confirmations, and the words that settle one. Pure.

A token is `<id>.<HMAC>` and a code is another HMAC of the id, both under the instance's secret;
so neither has to be stored, and neither can be made without the secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass

from memory.confirmations import Decision

ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
_TYPED = re.compile(r"\s*(confirm|cancel)\s+([0-9A-Za-z]{4}-[0-9A-Za-z]{4})\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TypedCode:
    """A text that is exactly `confirm XXXX-XXXX` or `cancel XXXX-XXXX`."""

    decision: Decision
    code: str


def typed_code(text: str) -> TypedCode | None:
    """The decision and code that a text consists of, or None for any other text."""
    match = _TYPED.fullmatch(text) if len(text) < 64 else None
    if match is None:
        return None
    decision: Decision = "confirm" if match[1].lower() == "confirm" else "cancel"
    return TypedCode(decision, match[2].upper())


def token_of(secret: bytes, confirmation: str) -> str:
    """The token of a confirmation: its id and 128 bits in base64url."""
    return f"{confirmation}.{_base64(_mac(secret, b'token', confirmation)[:16])}"


def code_of(secret: bytes, confirmation: str) -> str:
    """The code of a confirmation, to be typed: `ABCD-EFGH`."""
    number = int.from_bytes(_mac(secret, b"code", confirmation), "big")
    letters = []
    for _ in range(8):
        number, place = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[place])
    return "".join(letters[:4]) + "-" + "".join(letters[4:])


def id_of_token(secret: bytes, token: str) -> str | None:
    """The confirmation that a token is for, or None for a forged one."""
    confirmation, dot, _ = token.partition(".")
    if not dot or not confirmation.isascii() or not token.isascii():
        return None
    expected = token_of(secret, confirmation)
    return confirmation if hmac.compare_digest(expected, token) else None


def is_code(secret: bytes, confirmation: str, code: str) -> bool:
    """Whether `code` is the confirmation's, compared in constant time."""
    return hmac.compare_digest(code_of(secret, confirmation), code)


def page_key_of(secret: bytes, confirmation: str) -> str:
    """What the address of a confirmation's page carries: 128 bits in base64url."""
    return _base64(_mac(secret, b"page", confirmation)[:16])


def is_page_key(secret: bytes, confirmation: str, key: str) -> bool:
    """Whether `key` opens the confirmation's page, compared in constant time."""
    expected = page_key_of(secret, confirmation)
    return key.isascii() and confirmation.isascii() and hmac.compare_digest(expected, key)


def fingerprint(secret: bytes) -> str:
    """What the archive keeps to know an instance's secret again."""
    return _base64(_mac(secret, b"fingerprint", "")[:16])


def _mac(secret: bytes, purpose: bytes, confirmation: str) -> bytes:
    return hmac.new(secret, purpose + b"\0" + confirmation.encode(), hashlib.sha256).digest()


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
