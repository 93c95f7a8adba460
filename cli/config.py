"""`mfw config`: the settings in force."""

from __future__ import annotations

import click

from cli.common import as_json, print_json, table


@click.group()
def command() -> None:
    """Show the settings in force."""


@command.command("list", short_help="List every setting and its source.")
@as_json
def list_(as_json: bool) -> None:
    """List every setting with its value and where it comes from; secrets are never shown."""
    from bot.settings import describe, load

    settings = load()
    described = describe(settings)
    for warning in settings.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        print_json([{"id": d.name, "value": d.value, "source": d.source} for d in described])
        return
    table(["name", "value", "from"], [[d.name, d.value, d.source] for d in described])
