"""`POST /chat/events`: what a request of Google Chat is answered, and when.

Verified before a byte of the body is read, stored before it is answered (google-chat.md §2 and
§3). After repeated 400s Google stops delivering, so only what is no strict JSON object gets
one; everything else that is authenticated is 200 `{}`. Knows nothing of turns or answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from flask import Blueprint, Response, request
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge

from bot.chat.events import Event, Form, Ignored, parse
from bot.chat.verify import CertificatesAway, Unverified
from bot.http.body import read_bytes
from bot.http.strict import NotStrict, loads
from memory.errors import StoreDown

log = logging.getLogger(__name__)

PATH = "/chat/events"
RETRY_AFTER_S = 5


class Verifies(Protocol):
    """Tells Google's requests from others."""

    def verify(self, authorization_headers: list[str]) -> None:
        """Raises Unverified or CertificatesAway unless the request is Google's."""


def blueprint(
    verifier: Verifies,
    form: Form,
    domains: frozenset[str],
    accept: Callable[[Event], None],
) -> Blueprint:
    """The route of one form of event.

    Args:
        verifier: of that form's tokens.
        form: the form that is configured.
        domains: e-mail domains whose people are answered; empty for all.
        accept: stores an event, once for every id; raises StoreDown when it could not.
    """
    routes = Blueprint("chat", __name__)

    @routes.post(PATH)
    def events() -> Response:
        if (refusal := _refusal(verifier)) is not None:
            return refusal
        try:
            body = loads(_body())
        except _Refuses as refused:
            return _empty(refused.status)
        except NotStrict as error:
            log.warning("event refused: %s", error)
            return _empty(400)
        if body is None or isinstance(body, str | int | float):
            log.warning("event refused: no object")
            return _empty(400)
        event = parse(body, form, domains)
        if isinstance(event, Ignored):
            log.info("event ignored: %s (keys: %s)", event.why, ", ".join(event.keys))
            return _taken()
        try:
            accept(event)
        except StoreDown as error:
            log.error("event not stored: %s", type(error).__name__)
            return _later()
        return _taken()

    return routes


class _Refuses(Exception):
    """Ends the reading of a body with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def _refusal(verifier: Verifies) -> Response | None:
    """The answer to a request that is not, or cannot now be, known to be Google's."""
    try:
        verifier.verify(request.headers.getlist("Authorization"))
    except Unverified as refused:
        log.warning("event refused: %s", refused.reason)
        return _empty(401)
    except CertificatesAway:
        log.error("event not verified: Google's certificates cannot be had")
        return _later()
    return None


def _body() -> bytes:
    """The body, at most 1 MiB and as it is: what is packed is not unpacked."""
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise _Refuses(415)
    try:
        return read_bytes(request)
    except RequestEntityTooLarge:
        raise _Refuses(413) from None
    except ClientDisconnected:
        raise _Refuses(400) from None


def _taken() -> Response:
    return Response("{}", 200, mimetype="application/json")


def _empty(status: int) -> Response:
    return Response(b"", status)


def _later() -> Response:
    answer = _empty(503)
    answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer
