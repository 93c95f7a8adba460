"""`mfw status`: what each memory rests on, and what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli.common import as_json, print_json, safe, stores, when
from cli.serve import archive_of
from cli.vault_open import opened as opened_notes
from cli.vault_reading import people

if TYPE_CHECKING:
    from pathlib import Path


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
        "wiki": wiki_of(settings.wiki_path),
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
    _tell_wiki(status["wiki"])
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


def wiki_of(path: Path) -> dict[str, Any]:
    """What there is in the wiki; one that is away is said to be so.

    Args:
        path: of its folder.
    """
    from wiki.errors import WikiFault
    from wiki.paths import Access

    told: dict[str, Any] = {"path": str(path), "problems": []}
    try:
        with opened_notes() as notes:
            vault = notes.vault
            if not vault.is_there():
                return {
                    **told, "state": "none", "notes": 0, "people": 0, "conflicts": 0,
                    "unpushed": [],
                }  # fmt: skip
            problems = {**vault.folder.areas()[1], **vault.problems()}
            return {
                "path": str(path), "state": "ok", "notes": vault.count(Access("")),
                "people": len(people(notes)), "conflicts": len(vault.conflicts()),
                "problems": [{"id": at, "problem": why} for at, why in problems.items()],
                "unpushed": notes.remote.unpushed() if notes.remote else [],
            }  # fmt: skip
    except (WikiFault, OSError) as error:
        return {
            **told, "state": "down", "notes": None, "people": None, "conflicts": None,
            "unpushed": None,
            "problems": [{"id": "wiki", "problem": str(error)}],
        }  # fmt: skip


def _tell_wiki(wiki: dict[str, Any]) -> None:
    if wiki["state"] == "none":
        click.echo(f"wiki         none yet; the first note makes it in {wiki['path']}")
        return
    if wiki["state"] == "down":
        (one,) = wiki["problems"]
        click.echo(f"wiki         down: {safe(one['problem'])}")
        return
    click.echo(f"wiki         {_many(wiki['notes'], 'note')} in curated/, areas of "
               f"{_many(wiki['people'], 'person', 'people')}, {wiki['path']}")  # fmt: skip
    if wiki["conflicts"]:
        click.echo(f"             {_many(wiki['conflicts'], 'conflict')}; "
                   "look with: mfw vault conflicts")  # fmt: skip
    for one in wiki["problems"]:
        click.echo(f"             {safe(one['id'])}: {safe(one['problem'])}")
    if wiki["problems"]:
        click.echo("             look with: mfw vault sync")
    if wiki["unpushed"]:
        click.echo(f"             {_many(len(wiki['unpushed']), 'branch', 'branches')} not at the "
                   "remote yet; try with: mfw vault sync")  # fmt: skip


def _many(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


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
