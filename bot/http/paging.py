"""Pages of a list that is read whole, such as the notes or a note's versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from flask import request

from bot.http.query import bad_cursor, limit
from memory import cursor as cursors

T = TypeVar("T")


def page(
    items: Iterable[T], place: Callable[[T], tuple[Any, ...]], *kinds: type
) -> tuple[list[T], str | None]:
    """The page that the request's `limit` and `cursor` ask for, and the cursor of the next.

    Args:
        items: all of them, in the order of their places.
        place: where an item stands; no other item has that place.
        kinds: the types of a place's values, `int` or `str`.

    Raises:
        Problem: 422, the limit is none, or the list has not given out the cursor.
    """
    size, cursor = limit(), request.args.get("cursor")
    try:
        after = cursors.decode(cursor, *kinds) if cursor is not None else None
    except ValueError as error:
        raise bad_cursor(error) from None
    left = [one for one in items if after is None or place(one) > after]
    shown = left[:size]
    return shown, cursors.encode(*place(shown[-1])) if len(left) > size else None
