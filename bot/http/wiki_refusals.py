"""Paths and errors of the wiki, as HTTP has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bot.http.preconditions import stale
from bot.http.problems import RETRY_S, Problem, not_found
from bot.notes import told
from memory.errors import StoreDown
from wiki import paths
from wiki.errors import Exists, NotAPath, NotThere, Stale, TooLong, WikiDown
from wiki.paths import Access, Place

PATH_CHARS = 1_000
"""No path is longer, however its letters are composed; what is longer is not even looked at."""


@contextmanager
def refused(pointer: str = "/path", text: str | None = None) -> Iterator[None]:
    """Turns the wiki's refusals into problems.

    Args:
        pointer: the field or parameter that holds the path.
        text: the field that holds the note's text.

    Raises:
        Problem: 404, 409, 412, 422 or 503.
        StoreDown: the archive cannot be used.
    """
    try:
        with told():
            yield
    except NotThere:
        raise not_found() from None
    except NotAPath as error:
        raise Problem(422, "invalid_path", str(error), pointer) from None
    except TooLong as error:
        raise Problem(422, "too_long", str(error), text) from None
    except Exists as error:
        raise Problem(
            409, "exists", "there is a note or a folder whose name differs in its case only",
            pointer, path=error.path,
        ) from None  # fmt: skip
    except Stale as error:
        raise stale(error.text, error.base) from None
    except StoreDown as error:
        if not isinstance(error.__cause__, WikiDown):
            raise  # it is the archive
        headers = {"Retry-After": RETRY_S}
        raise Problem(503, "wiki_down", "the wiki cannot be used now", headers=headers) from None


def place_of(access: Access, path: str, pointer: str = "/path") -> Place:
    """The place of a path in a request.

    Raises:
        Problem: 422, no note can have it; 404, it is in no area that this access knows.
    """
    if len(path) > PATH_CHARS:
        raise Problem(422, "invalid_path", "the path is too long", pointer)
    if "\ufffd" in path:  # what bytes of an address become that are no text
        raise Problem(422, "invalid_path", "the path is not UTF-8", pointer)
    with refused(pointer):
        return paths.place(access, path)
