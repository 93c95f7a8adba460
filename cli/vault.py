"""`mfw vault`: the notes, as the operator reads, writes and looks after them.

The commands that read and those that write have modules of their own; here are the group and
what keeps the folder and the repository together.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from cli import vault_reading, vault_writing
from cli.common import as_json, print_json, safe, table
from cli.errors import Failed
from cli.vault_open import opened

if TYPE_CHECKING:
    from wiki.folder import Report
    from wiki.vault import Vault


@click.group()
def command() -> None:
    """Read, write and look after the notes.

    A path is curated/NAME.md, mine/NAME.md (with --person) or people/FOLDER/NAME.md. Without an
    area it is in curated/, with --person in mine/. Every change is a commit in the operator's
    name, or in that of --author. Whoever can run these commands can read everybody's notes.
    """


for one in (*vault_reading.commands, *vault_writing.commands):
    command.add_command(one)


@command.command(short_help="Make the folder and the repository equal.")
@as_json
def sync(as_json: bool) -> None:
    """Take in what was edited by hand in the folder, and show there what it lacks.

    Then the remote (WIKI_REMOTE) is brought to the same. The server does so every few seconds;
    only notes that were taken away in bulk wait for this command, which shows them again. Exits
    with 1 while something is left to be mended.
    """
    with opened() as notes:
        report = _settled(notes.vault)
        if notes.remote is not None:
            notes.vault.ready()
            if notes.remote.sync():
                report.taken += notes.vault.sweep().taken
    if as_json:
        print_json(
            {
                "taken": report.taken,
                "waiting": report.waiting,
                "problems": [{"id": at, "problem": why} for at, why in report.problems.items()],
            }
        )
    else:
        _tell(report)
    if report.problems:
        raise Failed(f"{len(report.problems)} left to mend by hand, then `mfw vault sync` again")


def _settled(vault: Vault) -> Report:
    """What a look at the folder found; a file that is just being written is given time to rest."""
    from wiki.folder import YOUNG_S, Report

    report = vault.sweep(show_missing=True)
    if not report.waiting:
        return report
    time.sleep(YOUNG_S)
    later = vault.sweep(show_missing=True)
    return Report([*report.taken, *later.taken], later.waiting, later.problems)


def _tell(report: Report) -> None:
    from wiki.merge import is_conflict

    for path in report.taken:
        click.echo(safe(path))
    for path, why in report.problems.items():
        click.echo(f"{safe(path)}: {safe(why)}", err=True)
    if report.taken:
        click.echo(f"{len(report.taken)} taken in", err=True)
        if any(is_conflict(path) for path in report.taken):
            click.echo("some were changed in two places: `mfw vault conflicts`", err=True)
    elif report.waiting and not report.problems:
        click.echo("a file is still being written: it is taken in at the next look", err=True)
    elif not report.problems:
        click.echo("nothing to take in", err=True)


@command.command(short_help="List the notes that were changed in two places.")
@as_json
def conflicts(as_json: bool) -> None:
    """List the other versions of notes that were changed in two places at once.

    Bring what you want to keep of one into its note, then delete it.
    """
    from wiki.paths import CONFLICT

    with opened() as notes:
        found = [(path, CONFLICT.sub("", path)) for path in notes.vault.conflicts()]
    if as_json:
        print_json([{"id": path, "note": note} for path, note in found])
        return
    table(["other version", "note"], found)
    if found:
        click.echo(
            "compare them, `mfw vault edit` the note, `mfw vault delete` the other version",
            err=True,
        )
