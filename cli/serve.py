"""`mfw serve`: the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.errors import NOT_ALLOWED, Failed

if TYPE_CHECKING:
    from flask import Flask

    from bot.mercury import Mercury
    from bot.settings import Settings


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65_535), help="Instead of PORT.")
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True,
    help="How many processes serve; more than one needs DATABASE_URL and REDIS_URL.",
)  # fmt: skip
def command(host: str, port: int | None, workers: int) -> None:
    """Serve Google Chat and HTTP until told to end."""
    import secrets

    from bot import logs
    from bot.mercury import preload
    from bot.serve import serve
    from bot.settings import load

    settings = load()
    if port is not None:
        settings = settings.model_copy(update={"port": port})
    if workers > 1 and not settings.is_shared:
        missing = [
            name
            for name in ("DATABASE_URL", "REDIS_URL")
            if getattr(settings, name.lower()) is None
        ]
        raise Failed(
            f"{workers} processes would split the memory: set {' and '.join(missing)}", NOT_ALLOWED
        )
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
    serve(settings, build, say, host, key, workers)


def say(line: str) -> None:
    """A line for the operator, on stderr."""
    click.echo(line, err=True)


def archive_of(settings: Settings) -> str:
    """What the archive rests on, without the password in an address."""
    if settings.database_url is None:
        return f"SQLite, {settings.archive_path}"
    from psycopg.conninfo import conninfo_to_dict

    told = conninfo_to_dict(settings.database_url.get_secret_value())
    return f"PostgreSQL, {told.get('dbname', '')} on {told.get('host', 'localhost')}"


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
    mirror = "mirrored in Redis" if settings.redis_url else "no mirror (set REDIS_URL)"
    remote = "shared" if settings.wiki_remote else "no remote (set WIKI_REMOTE)"
    return [
        f"Mercury listens on http://{host}:{settings.port}",
        f"  archive      {archive_of(settings)}",
        f"  history      in this process, {mirror}, rebuilt from the archive",
        f"  wiki         notes in {settings.wiki_path}, {remote}",
        f"  model        {model}",
        f"  Google Chat  {chat}",
        "  try it       mfw chat      (in another terminal)",
    ]
