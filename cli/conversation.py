"""`mfw conversation`: list, show, end and rebuild conversations."""

from __future__ import annotations

import click

from cli.common import as_json, person_option, print_json, safe, scope_of, stores, table, when


@click.group()
def command() -> None:
    """List, show, end and rebuild conversations."""


@command.command("list")
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


@command.command()
@click.argument("conversation")
@person_option()
@click.option("--history", is_flag=True, help="The history as the model gets it.")
@as_json
def show(conversation: str, person: str | None, history: bool, as_json: bool) -> None:
    """Show a conversation's state; with --history --json its canonical history."""
    with stores() as opened:
        scope = scope_of(person) if person else None
        found = opened.archive.conversation(scope, conversation)
        folded = opened.archive.history(found)
    if history and as_json:
        click.echo(folded.canonical())
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
        if folded.recap:
            click.echo("\nrecap\n" + "\n".join("  " + safe(x) for x in folded.recap.splitlines()))
        for line in folded.lines:
            click.echo(f"\n{line.kind}: {safe(line.text)}")
        for message in folded.messages:
            click.echo(f"\n{message['role']}: {safe(str(message['content'] or ''))}")


@command.command()
@click.argument("conversation")
def end(conversation: str) -> None:
    """End a conversation; on Chat the next message opens a new one with a recap."""
    with stores() as opened:
        found = opened.archive.end(conversation)
    click.echo(f"{found.id} has ended", err=True)


@command.command()
@click.argument("conversation")
@as_json
def rebuild(conversation: str, as_json: bool) -> None:
    """Fold the history from the archive anew, and make the server do so too."""
    with stores() as opened:
        found = opened.archive.touch(conversation)
        folded = opened.archive.history(found)
    if as_json:
        print_json({"id": found.id, "messages": len(folded.messages), "history_chars": folded.size})
    else:
        click.echo(
            f"{found.id}: {len(folded.messages)} messages, {folded.size:,} characters", err=True
        )
