"""What goes wrong, as one sentence on stderr and an exit code; never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

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
    from memory.errors import Conflict, NotFound, StoreDown, WrongSchema

    if isinstance(error, SettingsError):
        return Failed(str(error), NOT_ALLOWED)
    said = " ".join(str(error).split())
    if isinstance(error, (WrongSchema, PermissionError)):
        return Failed(said, NOT_ALLOWED)
    if isinstance(error, (StoreDown, OSError)):
        return Failed(said, STORE_DOWN)
    if isinstance(error, NotFound):
        return Failed(f"not found: {said}", NOT_FOUND)
    if isinstance(error, Conflict):
        return Failed(f"not possible: it is {error.state.replace('_', ' ')}")
    return Failed(f"something went wrong here: {where(error)}")
