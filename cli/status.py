"""`mfw status`: what each memory rests on, and what waits."""

from __future__ import annotations

from typing import Any

import click

from cli.common import as_json, print_json, stores, when


@click.command()
@as_json
def command(as_json: bool) -> None:
    """Say what each memory rests on and what waits."""
    from bot.settings import load

    settings = load()
    with stores() as opened:
        counts = opened.turns.counts()
        processes = opened.processes.all()
    status: dict[str, Any] = {
        "archive": {"kind": "sqlite", "path": str(settings.archive_path),
                    "bytes": settings.archive_path.stat().st_size},
        "history": {"kind": "process"},
        "model": {"kind": "openai" if settings.model_url else "extractive",
                  "name": settings.model or "extractive"},
        "chat": {"format": settings.google_chat_format or "off"},
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
    click.echo(f"archive      SQLite, {status['archive']['path']}, "
               f"{status['archive']['bytes']:,} bytes")  # fmt: skip
    click.echo("history      in the serving process, rebuilt from the archive")
    click.echo(f"model        {status['model']['name']}")
    click.echo(f"Google Chat  {status['chat']['format']}")
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
