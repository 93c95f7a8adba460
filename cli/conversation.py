"""`mfw conversation`: list, show, end and rebuild conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.common import (
    as_json,
    echo_json,
    expecting,
    person_option,
    print_json,
    safe,
    safe_block,
    scope_of,
    stores,
    table,
    when,
)
from cli.errors import Failed

if TYPE_CHECKING:
    from memory.conversation import History


@click.group()
def command() -> None:
    """List, show, end and rebuild conversations."""


@command.command("list", short_help="List conversations.")
@person_option()
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@as_json
def list_(person: str | None, limit: int, as_json: bool) -> None:
    """List conversations, the one with the newest message first."""
    print_conversations(person, limit, as_json)


def print_conversations(person: str | None, limit: int, as_json: bool) -> None:
    """Conversations of one person with titles, or of everybody without any text."""
    with stores() as opened:
        owner = scope_of(person).owner if person else None
        page = opened.archive.conversations(owner, limit)
    if as_json:
        print_json(
            [
                {
                    "id": one.id, "name": one.name, "owner": one.owner, "channel": one.channel,
                    "started_at": one.started_at, "last_at": one.last_at,
                    "ended_at": one.ended_at, "turns": one.last_seq,
                    **({"title": one.title} if person else {}),
                }
                for one in page.items
            ]
        )  # fmt: skip
        return
    table(
        ["id", "owner", "channel", "last message", "ended", *(["title"] if person else [])],
        [
            [one.id, one.owner, one.channel, when(one.last_at), when(one.ended_at),
             *([one.title] if person else [])]
            for one in page.items
        ],
    )  # fmt: skip


@command.command(short_help="Show a conversation's state and history.")
@click.argument("conversation")
@person_option()
@click.option("--history", is_flag=True, help="The history as the model gets it.")
@as_json
def show(conversation: str, person: str | None, history: bool, as_json: bool) -> None:
    """Show a conversation's state; with --history --json its canonical history.

    A name that a client chose itself needs --person.
    """
    with stores() as opened, expecting(f"conversation {conversation}"):
        scope = scope_of(person) if person else None
        found = opened.archive.conversation(scope, conversation)
        folded = opened.archive.history(found)
    if history and as_json:
        echo_json(folded.canonical())
        return
    state = {
        "id": found.id, "name": found.name, "owner": found.owner, "channel": found.channel,
        "started_at": found.started_at, "last_at": found.last_at, "ended_at": found.ended_at,
        "compacted_through": found.compacted_through,
        "segmented_through": found.segmented_through, "last_seq": found.last_seq,
        "history_chars": folded.size, "messages": len(folded.messages),
    }  # fmt: skip
    if as_json:
        print_json(state)
        return
    for name, value in state.items():
        shown = when(value) if name.endswith("_at") and isinstance(value, int) else value
        click.echo(f"{name:18} {'' if shown is None else shown}")
    if history:
        print_history(folded)


def print_history(history: History) -> None:
    """A history for people: recap, lines, messages, and the calls that were made."""
    if history.recap:
        click.echo("\nrecap: " + safe_block(history.recap))
    for line in history.lines:
        click.echo(f"\n{line.kind}: {safe(line.text)}")
    for message in history.messages:
        if message["content"]:
            click.echo(f"\n{message['role']}: {safe_block(message['content'])}")
        for call in message.get("tool_calls", ()):
            called = call["function"]
            click.echo(f"\ncall: {safe(called['name'])} {safe(called['arguments'])}")


@command.command(short_help="End a conversation of Google Chat.")
@click.argument("conversation")
def end(conversation: str) -> None:
    """End a conversation of Google Chat; the next message opens a new one with a recap."""
    with stores() as opened, expecting(f"conversation {conversation}"):
        found = opened.archive.conversation(None, conversation)
        if found.channel != "chat":
            raise Failed(f"{found.id} is not from Google Chat: it never ends")
        opened.archive.end(conversation)
    click.echo(f"{found.id} has ended", err=True)


@command.command(short_help="Fold a history from the archive anew.")
@click.argument("conversation")
@as_json
def rebuild(conversation: str, as_json: bool) -> None:
    """Fold the history from the archive anew, and make the server do so too."""
    with stores() as opened, expecting(f"conversation {conversation}"):
        found = opened.archive.touch(conversation)
        folded = opened.archive.history(found)
    if as_json:
        print_json({"id": found.id, "messages": len(folded.messages), "history_chars": folded.size})
    else:
        click.echo(
            f"{found.id}: {len(folded.messages)} messages, {folded.size:,} characters", err=True
        )
