"""What the `mfw vault` commands share: the notes beside the server, and how a write is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cli.common import F, checked_person, print_json, safe
from cli.errors import NOT_FOUND, Failed

if TYPE_CHECKING:
    from memory.clock import Clock
    from wiki.paths import Access, Bare, Place
    from wiki.remote import Remote
    from wiki.vault import Found, Saved, Vault


def author_option(function: F) -> F:
    """`--author PERSON`, checked for its form."""
    return click.option(
        "--author", metavar="PERSON", callback=checked_person,
        help="In whose name the commit is made; without it the operator's.",
    )(function)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenNotes:
    """The notes as the operator sees them, or a person for whom the operator acts.

    Args:
        bare: the area of a path that names none.
    """

    vault: Vault
    access: Access
    bare: Bare
    clock: Clock
    remote: Remote | None

    def read(self, path: str) -> Found:
        """A note.

        Raises:
            NotThere: there is none.
        """
        return self.vault.read(self.access, path, self.bare)

    def now(self, path: str) -> Found | None:
        """A note; None where there is none yet."""
        from wiki.errors import NotThere

        try:
            return self.read(path)
        except NotThere:
            return None

    def place(self, path: str) -> Place:
        """Where a path leads."""
        from wiki.paths import place

        return place(self.access, path, self.bare)

    def shown(self, path: str) -> str:
        """A path with its area, as it is shown."""
        from wiki.paths import shown

        return shown(self.access, self.place(path))

    def backlinks(self, path: str) -> list[str]:
        """The notes that link to a note, each once."""
        return list(dict.fromkeys(self.vault.backlinks(self.access, path, self.bare)))


@contextmanager
def opened(person: str | None = None, *paths: str, bare: Bare | None = None) -> Iterator[OpenNotes]:
    """The notes, opened beside a server that may be running.

    Args:
        paths: those that the command was given; a wrong one ends it before anything is opened.
        bare: the area of a path that names none, if it is not the usual one.

    Raises:
        NotAPath, NotThere: no note can have one of the paths.
        Failed: one of the notes, or its version, is not there, or a name is taken.
        click.UsageError: a path is in `mine/`, and it is not said whose that is.
    """
    from bot import logs
    from bot.clock import clock_from
    from bot.mercury import remote_of, vault_of
    from bot.settings import load
    from wiki.errors import Exists, NotThere
    from wiki.paths import CURATED, MINE, PEOPLE, Access, place

    access = Access(person or "", is_operator=True)
    bare = bare or ("mine" if person else "curated")
    for path in paths:
        first, slash, _ = path.partition("/")
        must_say_whose(first if slash and first in (CURATED, MINE, PEOPLE) else bare, person)
        place(access, path, bare)
    settings = load()
    logs.configure(settings, quiet=True)  # what goes wrong is told as the command's own sentence
    clock = clock_from(settings)
    vault = vault_of(settings, clock)
    notes = OpenNotes(vault, access, bare, clock, remote_of(settings, vault, clock))
    try:
        yield notes
    except NotThere as error:
        raise _missing(notes, str(error), paths) from error
    except Exists as error:
        raise _taken(notes, error.path, paths) from error
    finally:
        vault.close()


def _missing(notes: OpenNotes, what: str, paths: Sequence[str]) -> Failed:
    """A note that is not there, or a version of one that is."""
    if what in paths:
        told = f"there is no note {safe(notes.shown(what))}: `mfw vault list` shows those there are"
    else:
        told = f"the note has no version {safe(what)}: `mfw vault history` shows those it has"
    return Failed(told, NOT_FOUND)


def _taken(notes: OpenNotes, path: str, paths: Sequence[str]) -> Failed:
    """A name that is another note's, or differs from it only in its case."""
    if path in [notes.shown(one) for one in paths]:
        return Failed(f"there is a note at {safe(path)} already: choose another path")
    return Failed(
        f"names that differ only in case are one name on many systems: write it {safe(path)}"
    )


def must_say_whose(area: str, person: str | None) -> None:
    """Refuses `mine` where nobody is named.

    Raises:
        click.UsageError: give --person.
    """
    if area.strip("/") == "mine" and not person:
        raise click.UsageError("mine/ is a person's own area: say whose with --person")


def print_saved(saved: Saved, as_json: bool, **more: Any) -> None:
    """The receipt of a write: `path (commit)`, or a word that nothing changed.

    Args:
        more: what the JSON holds beside path, base and commit.
    """
    if as_json:
        receipt = {"path": saved.path, "base": saved.base, "commit": saved.commit}
        print_json({**receipt, **more})
    elif saved.commit:
        click.echo(f"{safe(saved.path)} ({saved.commit[:7]})")
    else:
        click.echo(f"{safe(saved.path)}: nothing changed", err=True)
