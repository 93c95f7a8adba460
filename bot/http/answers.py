"""Answers in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flask import Response


def answer(
    value: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON answer."""
    return Response(
        json.dumps(value, ensure_ascii=False), status, headers, content_type="application/json"
    )


def nothing(status: int, headers: Mapping[str, str] | None = None) -> Response:
    """An answer without a body, and so without a content type, which would say that it is HTML."""
    response = Response(status=status, headers=headers)
    del response.headers["Content-Type"]
    return response
