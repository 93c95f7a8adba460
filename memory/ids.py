"""Ids: opaque, URL-safe, at most 64 characters, told apart by a short prefix."""

from __future__ import annotations

import secrets
from collections.abc import Callable

Ids = Callable[[str], str]
"""Makes a new id under a prefix such as `cv_`; an argument, so that tests can foresee them."""


def random_id(prefix: str) -> str:
    """`prefix` and 96 random bits in base64url, without a leading or trailing dash."""
    while True:
        body = secrets.token_urlsafe(12)
        if body[0] not in "-_" and body[-1] not in "-_":
            return prefix + body
