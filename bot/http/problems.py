"""Errors over HTTP: `application/problem+json` (RFC 9457), whatever went wrong and wherever.

Under `/v1` the same problem is said in the words of OpenAI's clients. Never HTML, never a
traceback, never what somebody else owns.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, has_request_context, request
from werkzeug.exceptions import HTTPException

from bot.logs import where
from memory.errors import StoreDown

log = logging.getLogger(__name__)

RETRY_S = "5"
OPENAI = "/v1/"
_KEPT = ("Allow", "Retry-After", "WWW-Authenticate")
_CODES = {401: "unauthenticated", 413: "too_large"}
_DETAILS = {
    400: "the request cannot be understood",
    404: "there is no such thing here",
    405: "this method is not allowed here",
    413: "the body is too large",
    415: "the body has another content type than is taken here",
    500: "something went wrong here",
}


class Problem(Exception):
    """An error with the words that the caller gets.

    Args:
        status: the HTTP status.
        code: a stable word for programs.
        detail: a sentence for people, never with anybody's text in it.
        pointer: JSON pointer of the field that is wrong.
        headers: sent with it.
        extra: further members of the object, such as the current text of a note; none of them
            replaces one of the members above.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        pointer: str | None = None,
        headers: Mapping[str, str] | None = None,
        **extra: object,
    ) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.detail = detail
        self.pointer = pointer
        self.headers = dict(headers or {})
        self.extra = extra

    def body(self) -> dict[str, Any]:
        """The problem as an object."""
        body: dict[str, Any] = {
            **self.extra,
            "type": "about:blank",
            "title": _phrase(self.status),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.pointer is not None:
            body["pointer"] = self.pointer
        return body

    def openai(self) -> dict[str, Any]:
        """The problem in OpenAI's shape (https://platform.openai.com/docs/guides/error-codes)."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        if self.status == 429:
            kind = "rate_limit_error"
        param = self.pointer.strip("/").replace("/", ".") if self.pointer else None
        return {"error": {"message": self.detail, "type": kind, "param": param, "code": self.code}}

    def response(self) -> Response:
        """The problem as a response."""
        return Response(
            json.dumps(self.body()),
            self.status,
            self.headers,
            content_type="application/problem+json",
        )


def register(app: Flask) -> None:
    """Makes every error of an application a problem.

    Args:
        app: whose routes may be added before or after.
    """
    app.url_map.merge_slashes = False  # it redirects `//path` with a page of HTML

    @app.errorhandler(Problem)
    def problem(error: Problem) -> Response:
        return _answer(error)

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        headers = {name: value for name, value in error.get_headers() if name in _KEPT}
        detail = _DETAILS.get(status, _phrase(status))
        return _answer(Problem(status, _code(status), detail, headers=headers))

    @app.errorhandler(Exception)
    def unexpected(error: Exception) -> Response:
        return _answer(problem_of(error))


def not_found() -> Problem:
    """Foreign and missing are the same answer."""
    return Problem(404, "not_found", "there is no such thing here")


def problem_of(error: Exception) -> Problem:
    """What the caller is told of an error that no route expects, which is logged here."""
    if isinstance(error, StoreDown):
        log.error("the archive is away: %s", error)
        headers = {"Retry-After": RETRY_S}
        return Problem(503, "store_down", "a store cannot be reached", headers=headers)
    # The places are part of the message: no handler that is set up elsewhere can then
    # write the exception's text, which may be somebody's.
    log.error("%s failed: %s", _asked(), where(error))
    return Problem(500, "internal", _DETAILS[500])


def _answer(problem: Problem) -> Response:
    """The response, in the shape that the clients of this path know."""
    response = problem.response()
    if request.path.startswith(OPENAI):
        response.set_data(json.dumps(problem.openai()))
        response.content_type = "application/json"
    return response


def _asked() -> str:
    """The method and the rule that a request met; never its path, which may be somebody's."""
    if not has_request_context():
        return "a stream"
    return f"{request.method} {request.url_rule.rule if request.url_rule else 'no route'}"


def _code(status: int) -> str:
    try:
        return _CODES.get(status, HTTPStatus(status).name.lower())
    except ValueError:
        return "error"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
