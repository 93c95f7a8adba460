"""Reads and checks the parameters of requests."""

from __future__ import annotations

from flask import request

from bot.http.problems import Problem
from memory.search import Order


def allow(*names: str) -> None:
    """Refuses query parameters that the route does not know, and doubled ones.

    Raises:
        Problem: 422 with the parameter's pointer.
    """
    for name in request.args:
        if name not in names:
            raise Problem(
                422, "unknown_field", f"there is no parameter {name[:64]!r}", f"/{name[:64]}"
            )
        if len(request.args.getlist(name)) > 1:
            raise Problem(422, "invalid_field", f"{name} was given twice", f"/{name}")


def limit() -> int:
    """The `limit` of a list, 1 to 200, 50 without one."""
    text = request.args.get("limit", "50")
    if not text.isascii() or not text.isdigit() or len(text) > 3 or not 1 <= int(text) <= 200:
        raise Problem(422, "invalid_field", "limit is a number from 1 to 200", "/limit")
    return int(text)


def order() -> Order:
    """The `order` of a search."""
    text = request.args.get("order", "best")
    if text not in ("best", "newest"):
        raise Problem(422, "invalid_field", "order is best or newest", "/order")
    return "best" if text == "best" else "newest"


def sought() -> str:
    """The `q` of a search."""
    text = request.args.get("q", "")
    if not text.strip() or len(text) > 1_000:
        raise Problem(422, "invalid_field", "q holds 1 to 1,000 characters", "/q")
    return text


def bad_cursor(error: ValueError, name: str = "cursor") -> Problem:
    """A cursor that the list did not give out."""
    return Problem(422, "invalid_field", str(error), f"/{name}")
