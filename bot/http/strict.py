"""Strict JSON: what every reader of a body agrees on, or a clear refusal. Pure.

Escapes of lone surrogates are let through: they are well-formed JSON, and are mended with the
rest of the text where it is stored.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

DEPTH = 32
DIGITS = 400
"""The longest number; Python refuses integers of more than 4,300 digits with an error."""
BOM = b"\xef\xbb\xbf"

# Strings are stepped over whole. Possessive, and content with no closing quote: a body cannot make
# the scan go over the same bytes twice.
_STRUCTURE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)


class NotStrict(ValueError):
    """The bytes are no strict JSON; the text says why, and repeats none of them."""


def loads(data: bytes) -> object:
    """The value of a body.

    Args:
        data: the body as it came.

    Raises:
        NotStrict: broken UTF-8 or JSON, a BOM, NaN or Infinity, a duplicate key, a number of
            absurd length, or deeper than 32 levels.
    """
    if data.startswith(BOM):
        raise NotStrict("a byte order mark")
    _check_depth(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise NotStrict("not UTF-8") from None
    try:
        return json.loads(
            text,
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
            parse_int=_short_int,
            parse_float=_finite,
        )
    except NotStrict:
        raise
    except (ValueError, RecursionError):
        raise NotStrict("not JSON") from None


def _check_depth(data: bytes) -> None:
    """Counts brackets outside strings before anything is parsed, without recursion."""
    if data.count(b"[") + data.count(b"{") <= DEPTH:
        return
    depth = 0
    for match in _STRUCTURE.finditer(data):
        mark = match[0]
        if mark in (b"[", b"{"):
            depth += 1
            if depth > DEPTH:
                raise NotStrict(f"nested deeper than {DEPTH} levels")
        elif mark in (b"]", b"}"):
            depth -= 1


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotStrict("the same key twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise NotStrict(f"{name} is no JSON")


def _short_int(digits: str) -> int:
    if len(digits) > DIGITS:
        raise NotStrict("a number of too many digits")
    return int(digits)


def _finite(digits: str) -> float:
    if len(digits) > DIGITS:
        raise NotStrict("a number of too many digits")
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise NotStrict("a number out of range")
    return value
