"""What a request says of the version that it knows: `If-Match` and `If-None-Match`.

A note's ETag is its version, quoted (https://www.rfc-editor.org/rfc/rfc9110#section-13).
"""

from __future__ import annotations

from flask import request

from bot.http.problems import Problem
from wiki.vault import Found


def etag(base: str) -> dict[str, str]:
    """The header that names a version; none for no version."""
    return {"ETag": f'"{base}"'} if base else {}


def is_known(base: str) -> bool:
    """Whether `If-None-Match` names a version, or any."""
    return request.if_none_match.contains_weak(base)


def names_a_version() -> bool:
    """Whether the request says which version it was made from.

    A header that cannot be read counts: it is no leave to change whatever is there.
    """
    return "If-Match" in request.headers


def must_not_be_known(now: Found | None) -> None:
    """Refuses a note that `If-None-Match` excludes; `*` excludes any.

    Raises:
        Problem: 412.
    """
    if now is not None and is_known(now.base):
        raise stale(now.text, now.base)


def must_be_current(now: Found | None) -> None:
    """Refuses a change that was made from another version than is there now.

    Raises:
        Problem: 412, `If-Match` names others; 428, there is a note, and no `If-Match`.
    """
    if names_a_version():
        if now is None or not request.if_match.contains(now.base):
            raise stale(None if now is None else now.text, "" if now is None else now.base)
    elif now is not None:
        raise Problem(
            428, "precondition_required",
            "there is a note already: say with If-Match which version was read",
        )  # fmt: skip


def stale(text: str | None, base: str) -> Problem:
    """Another version is there, and what it says; neither text nor base where there is no note."""
    return Problem(
        412, "stale", "another version is there now", headers=etag(base),
        text=text, base=base or None,
    )  # fmt: skip
