"""What goes wrong, as one sentence on stderr and an exit code; never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from wiki.errors import WikiFault

FAILED, USAGE, NOT_FOUND, NOT_ALLOWED, STORE_DOWN = 1, 2, 3, 4, 5


class Failed(click.ClickException):
    """A command that ends with a sentence and an exit code."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # an error has its own exit code


@contextmanager
def translated() -> Iterator[None]:
    """The edge of every command: whatever goes wrong becomes a Failed."""
    try:
        yield
    except (click.exceptions.Exit, click.ClickException, click.Abort):
        raise
    except Exception as error:  # the operator gets a sentence, no traceback
        raise _translated(error) from error


def _translated(error: Exception) -> Failed:
    from bot.logs import where
    from bot.settings import SettingsError
    from cli.common import safe
    from memory.errors import Conflict, NotFound, StoreDown, WrongSchema
    from wiki.errors import WikiFault

    if isinstance(error, SettingsError):
        return Failed(str(error), NOT_ALLOWED)
    said = safe(" ".join(str(error).split()))
    if isinstance(error, WikiFault):
        return _of_the_wiki(error, said)
    if isinstance(error, (WrongSchema, PermissionError)):
        return Failed(said, NOT_ALLOWED)
    if isinstance(error, (StoreDown, OSError)):
        return Failed(said, STORE_DOWN)
    if isinstance(error, NotFound):
        return Failed(f"not found: {said}", NOT_FOUND)
    if isinstance(error, Conflict):
        return Failed(f"not possible: it is {error.state.replace('_', ' ')}")
    return Failed(f"something went wrong here: {where(error)}")


def _of_the_wiki(error: WikiFault, said: str) -> Failed:
    """What is wrong with a note or its path, and what would be right."""
    from cli.common import safe
    from wiki.errors import Exists, NotAllowed, NotAPath, NotThere, Stale, TooLong, WikiDown

    if isinstance(error, WikiDown):
        return Failed(said, STORE_DOWN)
    if isinstance(error, NotAPath):
        return Failed(f"{said}; a path is like curated/travel/rome.md", USAGE)
    if isinstance(error, NotAllowed):
        return Failed(said, NOT_ALLOWED)
    if isinstance(error, NotThere):
        return Failed(f"there is no {said}: `mfw vault list` shows what there is", NOT_FOUND)
    if isinstance(error, Exists):
        return Failed(f"the name is taken by {safe(error.path)}: choose another")
    if isinstance(error, Stale) and not error.base:
        return Failed("the note is not there any more: without --base it is written anew")
    if isinstance(error, Stale):
        return Failed(
            f"the note has changed, its base is now {error.base}: "
            "read it, then try again with that base"
        )
    if isinstance(error, TooLong):
        return Failed(f"{said}: make several notes of it")
    return Failed(said)
