"""The commands of `mfw vault` that write: write, edit, move, delete, restore and promote."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.common import as_json, make_sure, person_option, safe, safe_block
from cli.errors import NOT_FOUND, Failed, translated
from cli.vault_open import OpenNotes, author_option, opened, print_saved
from cli.vault_reading import commit_argument

if TYPE_CHECKING:
    from wiki.vault import By, Found, Offer, Saved

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would be done.")


# -- one text ---------------------------------------------------------------------------------


@click.command(short_help="Write a note from standard input.")
@click.argument("path")
@click.option("--base", metavar="ID", help="The version that the text was made from.")
@click.option("--force", is_flag=True, help="Write over whatever is there.")
@person_option()
@author_option
@as_json
def write(
    path: str, base: str | None, force: bool, person: str | None, author: str | None, as_json: bool
) -> None:
    """Write a note, its whole text from standard input.

    A note that exists needs the --base that was read (`mfw vault read --json`), so that nobody
    else's change is lost, or --force.
    """
    from wiki.errors import Stale
    from wiki.vault import By

    if force and base:
        raise click.UsageError("--force writes over any version: leave out --base")
    with opened(person, path) as notes:
        text = text_from_stdin()
        if force:
            base = base_of(notes.now(path))
        try:
            saved = notes.vault.write(
                notes.access, path, text, base, By(author or ""), bare=notes.bare
            )  # fmt: skip
        except Stale as error:
            if base:
                raise
            raise Failed(
                f"{safe(notes.shown(path))} is there already, its base is {error.base}: "
                "read it, then give that with --base, or --force to write over it"
            ) from None
    print_saved(saved, as_json)


def text_from_stdin() -> str:
    """The whole of standard input, word for word.

    Raises:
        TooLong: it can be no note.
        Failed: it is not UTF-8.
    """
    from wiki.errors import TooLong
    from wiki.note import LONGEST

    if sys.stdin.isatty():
        click.echo("the text of the note, then Ctrl-D:", err=True)
    most = 4 * LONGEST
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise TooLong(f"a note has at most {LONGEST:,} characters")
    return decoded(data)


def decoded(data: bytes) -> str:
    """The text of a note.

    Raises:
        Failed: it is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Failed(
            f"a note is UTF-8 text, and byte {error.start + 1} of this is not: convert it first"
        ) from None


def base_of(found: Found | None) -> str | None:
    """The version that a change is made from."""
    return None if found is None else found.base


@click.command(short_help="Change a note in your editor.")
@click.argument("path")
@person_option()
@author_option
@as_json
def edit(path: str, person: str | None, author: str | None, as_json: bool) -> None:
    """Open a note, or a new one, in $VISUAL or $EDITOR and save what was changed.

    When somebody else has changed the note meanwhile, nothing is saved, and your text stays in a
    file that is named.
    """
    from wiki.vault import By, Saved

    if not sys.stdin.isatty() and not (os.environ.get("VISUAL") or os.environ.get("EDITOR")):
        raise click.UsageError("there is no terminal here: set EDITOR, or use `mfw vault write`")
    with opened(person, path) as notes:
        found = notes.now(path)
        old, shown = "" if found is None else found.text, notes.shown(path)
        with draft_of(shown, old) as draft:
            text = edited(draft)
            if text == old:
                saved = Saved(shown, base_of(found) or "", "")
            else:
                saved = save(notes, path, text, base_of(found), By(author or ""))
    print_saved(saved, as_json)


def edited(draft: Path) -> str:
    """The text of a file after the person's editor has ended.

    Raises:
        click.ClickException: the editor failed, or has left no text.
    """
    click.edit(filename=str(draft))
    try:
        return decoded(draft.read_bytes())
    except FileNotFoundError:
        raise Failed("the editor has taken the file away: nothing is changed") from None


def save(notes: OpenNotes, path: str, text: str, base: str | None, by: By) -> Saved:
    """Writes what was edited.

    Raises:
        Failed: somebody has changed the note meanwhile.
    """
    from wiki.errors import Stale

    try:
        return notes.vault.write(notes.access, path, text, base, by, bare=notes.bare)
    except Stale as error:
        raise Failed(
            f"{safe(notes.shown(path))} was changed meanwhile, its base is now "
            f"{error.base or 'none'}: merge the two, then use `mfw vault write`"
        ) from None


@contextmanager
def draft_of(shown: str, text: str) -> Iterator[Path]:
    """A file to edit, of one's own; it goes when its text is saved, and stays, named, when not."""
    draft = Path(tempfile.mkdtemp(prefix="mfw-")) / shown.rpartition("/")[2]
    draft.write_bytes(text.encode())
    try:
        with translated():
            yield draft
    except click.ClickException as error:
        if draft.exists() and draft.read_bytes() != text.encode():
            raise Failed(
                f"{error.format_message()}; your text is kept in {draft}", error.exit_code
            ) from error
        shutil.rmtree(draft.parent)
        raise
    shutil.rmtree(draft.parent)


@click.command(short_help="Write a note as it was once.")
@click.argument("path")
@click.argument("commit", callback=commit_argument)
@person_option()
@author_option
@as_json
def restore(path: str, commit: str, person: str | None, author: str | None, as_json: bool) -> None:
    """Write a note as it was at a commit; also one that was deleted."""
    from wiki.vault import By

    with opened(person, path) as notes:
        if notes.vault.version(notes.access, path, commit, notes.bare) is None:
            raise Failed(
                f"{safe(notes.shown(path))} was not there at {commit}: "
                "`mfw vault history` shows its versions", NOT_FOUND,
            )  # fmt: skip
        saved = notes.vault.restore(
            notes.access, path, commit, base_of(notes.now(path)), By(author or ""), notes.bare
        )
    print_saved(saved, as_json)


# -- where it is ------------------------------------------------------------------------------


@click.command(short_help="Move or rename a note.")
@click.argument("from_", metavar="FROM")
@click.argument("to")
@person_option()
@author_option
@as_json
def move(from_: str, to: str, person: str | None, author: str | None, as_json: bool) -> None:
    """Move a note, and rewrite the links that named it."""
    from wiki.vault import By

    with opened(person, from_, to) as notes:
        notes.read(from_)
        saved, linking = notes.vault.move(notes.access, from_, to, By(author or ""), notes.bare)
    print_saved(saved, as_json, links=linking)
    if not as_json:
        for path in linking:
            click.echo(f"  its links follow in {safe(path)}")


@click.command(short_help="Delete a note.")
@click.argument("path")
@click.option("--base", metavar="ID", help="Only this version.")
@person_option()
@author_option
@yes_option
@dry_run_option
@as_json
def delete(
    path: str, base: str | None, person: str | None, author: str | None, yes: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Delete a note; its versions stay in the history, and `restore` brings it back."""
    from wiki.errors import Stale
    from wiki.vault import By

    with opened(person, path) as notes:
        found = notes.read(path)
        if base is not None and base != found.base:
            raise Stale(found.text, found.base)
        if dry_run or not yes:
            tell_links(notes, path)
        if dry_run:
            click.echo(f"{safe(found.path)} would be deleted", err=True)
            return
        make_sure(f"Delete {found.path}?", yes)
        saved = notes.vault.delete(notes.access, path, found.base, By(author or ""), notes.bare)
    print_saved(saved, as_json)


def tell_links(notes: OpenNotes, path: str) -> None:
    """Who will link to nothing."""
    for linking in notes.backlinks(path):
        click.echo(f"{safe(linking)} links to it", err=True)


@click.command(short_help="Move a person's note to curated/.")
@click.argument("path")
@click.argument("to")
@person_option()
@author_option
@yes_option
@dry_run_option
@as_json
def promote(
    path: str,
    to: str,
    person: str | None,
    author: str | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Move a person's note to the common area, where everybody reads it.

    PATH is in mine/ of --person, or people/FOLDER/NAME.md; TO is in curated/. --dry-run prints
    the whole text, or what would change in a note that is there.
    """
    from memory.ids import random_id
    from wiki.vault import By

    with opened(person, path, bare="mine") as notes:
        if notes.place(path).is_common:
            raise click.UsageError("PATH is in curated/ already: use `mfw vault move`")
        notes.read(path)
        offer = notes.vault.offer(notes.access, path, to)
        if dry_run:
            if told := offer.diff or offer.text:
                click.echo(safe_block(told).removesuffix("\n"))
            click.echo(f"{safe(offer.path)} would become {offer.to}", err=True)
            return
        if not yes and sys.stdin.isatty():
            tell_offer(offer)
        make_sure(f"Move {offer.path} to {offer.to}, where everybody reads it?", yes)
        saved = notes.vault.settle(
            offer, random_id("cf_"), notes.clock.now() // 1000, By(author or "")
        )  # fmt: skip
    print_saved(saved, as_json)
    if not saved.commit:
        click.echo(f"{safe(offer.path)} said the same, and is taken away", err=True)


def tell_offer(offer: Offer) -> None:
    """What would stand in the common area, or change there, for the person who is asked."""
    click.echo(safe_block(offer.diff or offer.text, err=True), err=True)


commands = (write, edit, move, delete, restore, promote)
