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
    """Turns the errors of Mercury's own modules into Failed."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except (click.ClickException, click.Abort):
        raise
    except Exception as error:
        raise _translated(error) from error


def _translated(error: Exception) -> Exception:
    from bot.settings import SettingsError
    from memory.errors import Conflict, NotFound, StoreDown, WrongSchema

    if isinstance(error, (SettingsError, WrongSchema)):
        return Failed(str(error), NOT_ALLOWED)
    if isinstance(error, StoreDown):
        return Failed(str(error), STORE_DOWN)
    if isinstance(error, NotFound):
        return Failed(f"not found: {error}", NOT_FOUND)
    if isinstance(error, Conflict):
        return Failed(f"not possible: it is {error.state.replace('_', ' ')}")
    return error
