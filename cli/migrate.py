"""`mfw migrate`: brings the archive to this version's schema."""

from __future__ import annotations

import click

from cli.errors import NOT_ALLOWED, NOT_FOUND, Failed


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def command(dry_run: bool) -> None:
    """Bring the archive to this version's schema.

    Needs the data folder for itself: stop the server first.
    """
    from bot.mercury import open_stores
    from bot.serve import ServeLock
    from bot.settings import load
    from memory.schema import migrate, pending

    settings = load()
    if dry_run:
        if not settings.archive_path.exists():
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
        steps = migrate(opened.database)
        opened.database.close()
    finally:
        lock.release()
    for step in steps:
        click.echo(f"schema {step.version}: {step.why}", err=True)
    click.echo("the archive is up to date", err=True)
