"""Cursors: an opaque text that stands for a place in an ordered list."""

from __future__ import annotations

import base64
import binascii
import json


def encode(*place: int | str) -> str:
    """The cursor for the row whose ordering values are `place`."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def decode(cursor: str, *kinds: type) -> tuple[int | str, ...]:
    """The place that `cursor` stands for.

    Args:
        cursor: what `encode` gave.
        kinds: the type of each value, `int` or `str`.

    Raises:
        ValueError: it is none of ours.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place = json.loads(raw)
    except (binascii.Error, UnicodeError, ValueError, RecursionError):
        raise ValueError("not a cursor that this list gave out") from None
    if not isinstance(place, list) or [type(value) for value in place] != list(kinds):
        raise ValueError("not a cursor that this list gave out")
    if any(isinstance(value, int) and abs(value) >= 1 << 62 for value in place):
        raise ValueError("not a cursor that this list gave out")
    return tuple(place)
