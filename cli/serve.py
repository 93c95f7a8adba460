"""`mfw serve`: the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flask import Flask

    from bot.mercury import Mercury
    from bot.settings import Settings


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65_535), help="Instead of PORT.")
def command(host: str, port: int | None) -> None:
    """Serve Google Chat and HTTP until told to end."""
    import secrets

    from bot import logs
    from bot.mercury import preload
    from bot.serve import serve
    from bot.settings import load

    settings = load()
    if port is not None:
        settings = settings.model_copy(update={"port": port})
    logs.configure(settings)
    for warning in settings.warnings:
        say(f"warning: {warning}")
    key = secrets.token_urlsafe(32)

    def build() -> tuple[Flask, Mercury]:
        from bot.http.app import flask_app
        from bot.mercury import build as build_mercury

        mercury = build_mercury(settings)
        return flask_app(mercury, key), mercury

    preload(settings)
    for line in banner(settings, host):
        say(line)
    serve(settings, build, say, host, key)


def say(line: str) -> None:
    """A line for the operator, on stderr."""
    click.echo(line, err=True)


def banner(settings: Settings, host: str) -> list[str]:
    """Where it listens, and what each memory rests on."""
    chat = (
        f"{settings.google_chat_format} events at /chat/events"
        if settings.google_chat_format
        else "off (set GOOGLE_CHAT_FORMAT)"
    )
    model = (
        f"{settings.model} at {settings.model_url}"
        if settings.model_url
        else "none: answers are quotes from memory (set MODEL_URL and MODEL)"
    )
    return [
        f"Mercury listens on http://{host}:{settings.port}",
        f"  archive      SQLite, {settings.archive_path}",
        "  history      in this process, rebuilt from the archive",
        f"  model        {model}",
        f"  Google Chat  {chat}",
        "  try it       mfw chat      (in another terminal)",
    ]
