"""The commands of `mfw vault` that read: list, read, search, history and diff."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from cli.common import as_json, person_option, print_json, safe, safe_block, table, when
from cli.errors import NOT_FOUND, Failed
from cli.vault_open import OpenNotes, must_say_whose, opened

if TYPE_CHECKING:
    from wiki.paths import Area

PEOPLE = "people"


def commit_argument(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """A version as an argument's value.

    Raises:
        click.BadParameter: it is not the id of a commit.
    """
    if value is not None and not re.fullmatch("[0-9a-fA-F]{7,40}", value):
        raise click.BadParameter("a version is seven digits or more, as `mfw vault history` shows")
    return value


@click.command("list", short_help="List notes.")
@click.argument("area", default="")
@person_option()
@click.option("--limit", type=click.IntRange(1, 10_000), help="Only so many.")
@as_json
def list_(area: str, person: str | None, limit: int | None, as_json: bool) -> None:
    """List notes, those first that were changed last.

    AREA is curated, mine (with --person) or people/FOLDER; without it curated is listed, and
    with --person mine as well. With `people` it lists whose areas there are.
    """
    from wiki.errors import NotThere

    must_say_whose(area, person)
    with opened(person) as notes:
        if area.strip("/") == PEOPLE:
            print_areas(notes, as_json)
            return
        try:
            found = notes.vault.notes(notes.access, area, limit)
        except NotThere:
            raise Failed(
                f"there is no area {safe(area)}: give curated, mine or people/FOLDER", NOT_FOUND
            ) from None
    if as_json:
        print_json(
            [
                {"id": one.path, "title": one.title, "base": one.blob,
                 "updated": one.updated * 1000}
                for one in found
            ]
        )  # fmt: skip
        return
    table(
        ["path", "updated", "title"],
        [[one.path, when(one.updated * 1000), one.title] for one in found],
    )


def print_areas(notes: OpenNotes, as_json: bool) -> None:
    """The areas of people, and how many notes each has."""
    found = [(area.folder, notes.vault.index.count([area])) for area in people(notes)]
    if as_json:
        print_json([{"id": folder, "notes": count} for folder, count in found])
    else:
        table(["area", "notes"], [[folder, str(count)] for folder, count in found])


def people(notes: OpenNotes) -> list[Area]:
    """Everybody's own areas."""
    from wiki.paths import COMMON

    if not notes.vault.is_there():
        return []
    return sorted(
        (area for area in notes.vault.folder.areas()[0] if area != COMMON),
        key=lambda area: area.folder,
    )


@click.command(short_help="Print a note.")
@click.argument("path")
@person_option()
@as_json
def read(path: str, person: str | None, as_json: bool) -> None:
    """Print a note word for word; with --json also its base, title and backlinks."""
    from wiki.note import title_of

    with opened(person, path) as notes:
        found = notes.read(path)
        links = notes.backlinks(path) if as_json else []
    if as_json:
        print_json(
            {
                "id": found.path, "path": found.path, "text": found.text, "base": found.base,
                "title": title_of(found.text, found.path), "backlinks": links,
            }
        )  # fmt: skip
    elif sys.stdout.isatty():
        click.echo(safe_block(found.text).removesuffix("\n"))
    else:
        click.echo(found.text.encode(), nl=False)


@click.command(short_help="Find notes by words.")
@click.argument("query")
@person_option()
@click.option("--limit", type=click.IntRange(1, 50), default=10, show_default=True)
@as_json
def search(query: str, person: str | None, limit: int, as_json: bool) -> None:
    """Find notes by words and exact quotes ("like this"), the best first.

    Looks in curated, and with --person in mine as well.
    """
    with opened(person) as notes:
        hits = notes.vault.search(notes.access, query, limit)
    if as_json:
        print_json(
            [
                {"id": hit.path, "title": hit.title, "line": hit.line, "text": hit.text,
                 "updated": hit.updated * 1000}
                for hit in hits
            ]
        )  # fmt: skip
        return
    if not hits:
        click.echo("nothing found", err=True)
    for hit in hits:
        click.echo(f"{safe(hit.path)}:{hit.line}: {safe(hit.text)}")


@click.command(short_help="List a note's versions.")
@click.argument("path")
@person_option()
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
@as_json
def history(path: str, person: str | None, limit: int, as_json: bool) -> None:
    """List the commits that changed a note, the newest first; also of a note that is gone."""
    with opened(person, path) as notes:
        versions = notes.vault.history(notes.access, path, limit, notes.bare)
    if as_json:
        print_json(
            [
                {"id": one.id, "at": one.at * 1000, "author": one.author,
                 "subject": subject(one.message), "message": one.message}
                for one in versions
            ]
        )  # fmt: skip
        return
    table(
        ["commit", "when", "author", "subject"],
        [
            [one.id[:7], when(one.at * 1000), one.author, subject(one.message)]
            for one in versions
        ],
    )  # fmt: skip


def subject(message: str) -> str:
    """The first line of a commit's message."""
    return message.split("\n", 1)[0]


@click.command(short_help="Show what changed in a note.")
@click.argument("path")
@click.argument("from_", metavar="FROM", callback=commit_argument)
@click.argument("to", required=False, callback=commit_argument)
@person_option()
@as_json
def diff(path: str, from_: str, to: str | None, person: str | None, as_json: bool) -> None:
    """Show what changed in a note between two commits, or from one until now."""
    with opened(person, path) as notes:
        found = notes.vault.diff(notes.access, path, from_, to or "", notes.bare)
        shown = notes.shown(path)
    if as_json:
        print_json({"id": shown, "from": from_, "to": to, "diff": found})
    elif found:
        click.echo(safe_block(found))
    else:
        click.echo("no difference", err=True)


commands = (list_, read, search, history, diff)
