"""What the commands share: the stores they work on, the person they act for, how they print."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.errors import NOT_ALLOWED, NOT_FOUND, Failed

if TYPE_CHECKING:
    from bot.mercury import Stores
    from bot.scope import Scope

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def person_option(required: bool = False) -> Callable[[F], F]:
    """`--person ID`, checked for its form."""
    return click.option(
        "--person", required=required, callback=checked_person, help="Whose memory it is.",
        metavar="PERSON",
    )  # fmt: skip


def checked_person(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """A person as an option's value.

    Raises:
        click.BadParameter: no person has that form.
    """
    from bot.scope import is_person

    if value is not None and not is_person(value):
        raise click.BadParameter(
            "a person is google-chat:users/<digits>, http:<name> or cli:<name>"
        )
    return value


def make_sure(question: str, yes: bool) -> None:
    """Asks before something is destroyed; on a terminal only.

    Args:
        yes: whether it was answered already, by `--yes`.

    Raises:
        click.UsageError: there is nobody to ask.
        click.Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("there is nobody to ask here: give --yes")
    click.confirm(safe(question), abort=True, err=True)


@contextmanager
def stores(create: bool = False) -> Iterator[Stores]:
    """The archive beside the server: read and written under the same rules.

    Args:
        create: whether a missing archive is made.

    Raises:
        Failed: there is no archive yet, or it needs `mfw migrate`.
    """
    from bot.mercury import needs_migration, open_stores
    from bot.settings import load
    from memory.schema import migrate

    settings = load()
    missing = settings.database_url is None and not settings.archive_path.exists()
    if missing and not create:
        raise Failed(
            f"there is no archive in {settings.mercury_data}: `mfw serve` makes one", NOT_FOUND
        )
    opened = open_stores(settings, create=create)
    try:
        if missing:
            migrate(opened.database)
        elif needs_migration(opened):
            raise Failed("the archive has an older schema: run `mfw migrate`", NOT_ALLOWED)
        yield opened
    finally:
        opened.database.close()


@contextmanager
def expecting(what: str) -> Iterator[None]:
    """Says what it was that is not there, such as `turn t_1`.

    Raises:
        Failed: it is not there.
    """
    from memory.errors import NotFound

    try:
        yield
    except NotFound:
        raise Failed(f"there is no {what}", NOT_FOUND) from None


def scope_of(person: str) -> Scope:
    """The scope in which the operator looks at a person's memory."""
    from bot.scope import Kind, Scope

    kind: Kind = "dm" if person.startswith("google-chat:") else "http"
    return Scope(person, kind)


def print_json(value: Any) -> None:
    """A value as indented JSON on stdout."""
    echo_json(json.dumps(value, ensure_ascii=False, indent=2))


def echo_json(text: str) -> None:
    """JSON as it is; on a terminal what could move the cursor is written as an escape."""
    if sys.stdout.isatty():
        text = "".join(c if c == "\n" or _shows(c) else json.dumps(c)[1:-1] for c in text)
    click.echo(text)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows in columns, or a word that there are none (on stderr)."""
    if not rows:
        click.echo("nothing there", err=True)
        return
    cells = [[safe(cell) for cell in row] for row in rows]
    widths = [
        max(len(heading), *(len(row[at]) for row in cells)) for at, heading in enumerate(headings)
    ]
    for row in [list(headings), *cells]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def safe(text: str) -> str:
    """Text that cannot move the cursor or write past its line: for a terminal."""
    return "".join(char if _shows(char) else "\N{REPLACEMENT CHARACTER}" for char in text)


def safe_block(text: str, err: bool = False) -> str:
    """The same for text of several lines; a pipe gets the text word for word.

    Args:
        err: whether it goes to stderr.
    """
    if not (sys.stderr if err else sys.stdout).isatty():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(safe(line.replace("\t", "    ")) for line in lines)


def _shows(char: str) -> bool:
    """Whether a terminal only draws it: printable, a space, or what joins emoji and letters."""
    return char.isprintable() or unicodedata.category(char) == "Zs" or char in "\u200c\u200d"


def when(at: int | None) -> str:
    """A time for people: UTC to the minute."""
    from datetime import UTC, datetime

    return "" if at is None else f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M}"
