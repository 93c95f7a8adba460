"""Who calls over HTTP: a bearer token of a person, or the key of this server's own folder."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable

from flask import Request

from bot.http.problems import Problem
from bot.scope import Scope
from memory.tokens import Tokens

Authenticate = Callable[[Request], Scope]

CHALLENGE = {"WWW-Authenticate": "Bearer"}
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/=-]{1,4096})", re.IGNORECASE)
_USER = re.compile(r"[A-Za-z0-9._@-]{1,128}")


def authenticator(tokens: Tokens, local_key: str) -> Authenticate:
    """A function that makes the scope of a request.

    Args:
        tokens: the bearer tokens.
        local_key: lets the owner of the data folder speak as `cli:<user>`, the user being named
            in `X-Mercury-User`; '' lets nobody.

    The function raises Problem 401; a token in the query is never looked at.
    """

    def authenticate(request: Request) -> Scope:
        headers = request.headers.getlist("Authorization")
        match = _BEARER.fullmatch(headers[0]) if len(headers) == 1 else None
        if match is None:
            raise Problem(401, "unauthenticated", "a bearer token is needed", headers=CHALLENGE)
        token = match[1]
        if local_key and hmac.compare_digest(token, local_key):
            user = request.headers.get("X-Mercury-User", "")
            if _USER.fullmatch(user):
                return Scope(f"cli:{user}", "cli")
        person = tokens.person_of(token)
        if person is None:
            raise Problem(401, "unauthenticated", "the token is not valid", headers=CHALLENGE)
        return Scope(person, "http")

    return authenticate
