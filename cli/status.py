"""`mfw status`: what each memory rests on, and what waits."""

from __future__ import annotations

from typing import Any

import click

from cli.common import as_json, print_json, safe, stores, when
from cli.serve import archive_of


@click.command()
@as_json
def command(as_json: bool) -> None:
    """Say what each memory rests on and what waits."""
    from bot.settings import load

    settings = load()
    with stores() as opened:
        counts = opened.turns.counts()
        processes = opened.processes.all()
        parts = opened.deliveries.counts()
        lanes = opened.deliveries.lanes()
    status: dict[str, Any] = {
        "archive": {
            "kind": "sqlite" if settings.database_url is None else "postgresql",
            "where": archive_of(settings),
            **({} if settings.database_url else {"bytes": settings.archive_path.stat().st_size}),
        },
        "history": {"kind": "process", "mirror": "redis" if settings.redis_url else "none"},
        "model": {"kind": "openai" if settings.model_url else "extractive",
                  "name": settings.model or "extractive"},
        "chat": {
            "format": settings.google_chat_format or "off",
            "project_number": settings.google_chat_project_number,
            "audience": settings.google_chat_audience,
            "parts_waiting": parts.get("waiting", 0),
            "placeholders": parts.get("placeholder", 0),
            "lanes": [
                {"id": one.space, "closed": one.closed, "held_s": round(one.seconds, 1)}
                for one in lanes
            ],
        },
        "turns": {state: counts.get(state, 0) for state in ("waiting", "running", "set_aside")},
        "processes": [
            {"id": one.id, "host": one.host, "pid": one.pid, "version": one.version,
             "started_at": one.started_at, "alive": one.alive}
            for one in processes
        ],
    }  # fmt: skip
    if as_json:
        print_json(status)
        return
    click.echo(f"archive      {status['archive']['where']}")
    mirrored = ", mirrored in Redis" if status["history"]["mirror"] == "redis" else ""
    click.echo(f"history      in the serving process{mirrored}, rebuilt from the archive")
    click.echo(f"model        {status['model']['name']}")
    _tell_chat(status["chat"])
    turns = status["turns"]
    click.echo(
        f"turns        {turns['waiting']} waiting, {turns['running']} running, "
        f"{turns['set_aside']} set aside"
    )
    if turns["set_aside"]:
        click.echo("             look at them with: mfw turn list")
    for one in processes:
        state = "alive" if one.alive else "dead"
        click.echo(f"process      {one.pid} on {one.host}, since {when(one.started_at)}, {state}")
    if not any(one.alive for one in processes):
        click.echo("process      none serves now")


def _tell_chat(chat: dict[str, Any]) -> None:
    if chat["format"] == "off":
        click.echo("Google Chat  off")
        return
    audience = chat["audience"] or "the project number"
    click.echo(f"Google Chat  {chat['format']}, project {chat['project_number']}, for {audience}")
    click.echo(f"             {chat['parts_waiting']} parts of answers wait to be sent, "
               f"{chat['placeholders']} placeholders stand")  # fmt: skip
    for lane in chat["lanes"]:
        told = f"gets nothing: {lane['closed']}" if lane["closed"] else f"held {lane['held_s']} s"
        click.echo(f"             {safe(lane['id'])} {safe(told)}")
