"""`mfw migrate`: brings the archive to this version's schema, or to another database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.errors import FAILED, NOT_ALLOWED, NOT_FOUND, Failed

if TYPE_CHECKING:
    from memory.database import SqliteDatabase


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--to", metavar="URL", help="Copy the archive to this empty PostgreSQL database.")
def command(dry_run: bool, to: str | None) -> None:
    """Bring the archive to this version's schema.

    With --to it is copied to a PostgreSQL database as well, all of it or nothing; the archive
    itself stays as it is. Needs the data folder for itself: stop the server first.
    """
    from bot.mercury import open_stores
    from bot.serve import ServeLock
    from bot.settings import load
    from memory.database import SqliteDatabase
    from memory.schema import migrate, pending

    settings = load()
    if to is not None and settings.database_url is not None:
        raise click.UsageError("--to copies the embedded archive: unset DATABASE_URL for it")
    if dry_run:
        if settings.database_url is None and not settings.archive_path.exists():
            raise Failed(f"there is no archive in {settings.mercury_data}", NOT_FOUND)
        opened = open_stores(settings, create=False)
        steps = pending(opened.database)
        opened.database.close()
        for step in steps:
            click.echo(f"schema {step.version}: {step.why}")
        if not steps:
            click.echo("nothing to do", err=True)
        return
    lock = ServeLock(settings.serve_lock_path)
    if not lock.take(0.0):
        raise Failed("a server has the data folder: stop it first", NOT_ALLOWED)
    try:
        opened = open_stores(settings)
        try:
            steps = migrate(opened.database)
            if to is not None:
                assert isinstance(opened.database, SqliteDatabase)
                _copy(opened.database, to)
        finally:
            opened.database.close()
    finally:
        lock.release()
    for step in steps:
        click.echo(f"schema {step.version}: {step.why}", err=True)
    click.echo("the archive is up to date", err=True)


def _copy(source: SqliteDatabase, url: str) -> None:
    from memory.errors import Conflict
    from memory.moving import move
    from memory.postgres import PostgresDatabase

    target = PostgresDatabase(url)
    try:
        move(source, target, lambda table, n: click.echo(f"{n:>9} {table}", err=True))
    except Conflict:
        raise Failed("that database holds an archive already: give an empty one", FAILED) from None
    finally:
        target.close()
    click.echo(
        "copied. Now set DATABASE_URL to it, and MERCURY_SECRET to what the file `secret` of the "
        "data folder holds",
        err=True,
    )
