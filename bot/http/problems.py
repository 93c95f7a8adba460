"""Errors over HTTP: `application/problem+json` (RFC 9457), whatever went wrong and wherever."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from memory.errors import StoreDown

log = logging.getLogger(__name__)

RETRY_S = "5"


class Problem(Exception):
    """An error with the words that the caller gets.

    Args:
        status: the HTTP status.
        code: a stable word for programs.
        detail: a sentence for people, never with anybody's text in it.
        pointer: JSON pointer of the field that is wrong.
        headers: sent with it.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        pointer: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.detail = detail
        self.pointer = pointer
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The problem as an object."""
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.pointer is not None:
            body["pointer"] = self.pointer
        return body

    def response(self) -> Response:
        """The problem as a response."""
        return Response(
            json.dumps(self.body()), self.status, self.headers,
            content_type="application/problem+json",
        )  # fmt: skip


def register(app: Flask) -> None:
    """Makes every error of an application a problem."""

    @app.errorhandler(Problem)
    def problem(error: Problem) -> Response:
        return error.response()

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        code = HTTPStatus(status).phrase.lower().replace(" ", "_").replace("-", "_")
        headers = {
            name: value for name, value in error.get_headers() if name in ("Allow", "Retry-After")
        }
        return Problem(status, code, _detail(status), headers=headers).response()

    @app.errorhandler(StoreDown)
    def store_down(error: StoreDown) -> Response:
        log.error("the archive is away: %s", error)
        headers = {"Retry-After": RETRY_S}
        return Problem(503, "store_down", "a store cannot be reached", headers=headers).response()

    @app.errorhandler(Exception)
    def unexpected(error: Exception) -> Response:
        log.exception("a request failed")
        return Problem(500, "internal", "something went wrong here").response()


def _detail(status: int) -> str:
    return {
        404: "there is no such thing here",
        405: "this method is not allowed here",
        413: "the body is larger than 1 MiB",
    }.get(status, HTTPStatus(status).description or HTTPStatus(status).phrase)
