"""`mfw archive`: what was said, word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.common import (
    as_json,
    expecting,
    person_option,
    print_json,
    safe,
    safe_block,
    scope_of,
    stores,
    when,
)

if TYPE_CHECKING:
    from memory.records import Message


@click.group()
def command() -> None:
    """List, read and search what was said."""


@command.command("list", short_help="List conversations.")
@person_option()
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@as_json
def list_(person: str | None, limit: int, as_json: bool) -> None:
    """List conversations; without --person of everybody, and then without any text."""
    from cli.conversation import print_conversations

    print_conversations(person, limit, as_json)


@command.command(short_help="Read a page of a conversation.")
@click.argument("conversation")
@person_option()
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@click.option("--before", help="A cursor: the page before it.")
@click.option("--after", help="A cursor: the page after it.")
@as_json
def read(
    conversation: str, person: str | None, limit: int, before: str | None, after: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Read a page of a conversation, the newest without a cursor.

    A name that a client chose itself needs --person.
    """
    with stores() as opened, expecting(f"conversation {conversation}"):
        scope = scope_of(person) if person else None
        try:
            page = opened.archive.messages(scope, conversation, before, after, limit)
        except ValueError as error:
            hint = "--after" if after else "--before"
            raise click.BadParameter(str(error), param_hint=hint) from None
    if as_json:
        print_json({"items": [as_object(m) for m in page.items], "next": page.next})
        return
    for message in page.items:
        print_message(message)
    if page.next:
        flag = "--after" if after else "--before"
        whose = f" --person {person}" if person else ""
        click.echo(f"more: mfw archive read {conversation}{whose} {flag} {page.next}", err=True)


@command.command(short_help="Search a person's messages.")
@click.argument("query")
@person_option(required=True)
@click.option("--limit", type=click.IntRange(1, 200), default=10, show_default=True)
@click.option("--newest", is_flag=True, help="Newest first instead of best first.")
@click.option("--cursor", help="Continues a search.")
@as_json
def search(
    query: str, person: str, limit: int, newest: bool, cursor: str | None, as_json: bool
) -> None:
    """Search a person's messages by words and exact quotes ("like this")."""
    with stores() as opened:
        try:
            page = opened.archive.search(
                scope_of(person), query, limit, "newest" if newest else "best", cursor=cursor
            )
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--cursor") from None
    if as_json:
        print_json({"items": [as_object(m) for m in page.items], "next": page.next})
        return
    if not page.items:
        click.echo("nothing found", err=True)
    for message in page.items:
        print_message(message)
    if page.next:
        click.echo(f"more: --cursor {page.next}", err=True)


def as_object(message: Message) -> dict[str, object]:
    """A message as JSON."""
    return {
        "id": message.id, "conversation": message.conversation, "turn": message.turn,
        "role": message.role, "author": message.author, "name": message.name, "at": message.at,
        "text": message.text,
        "tools": [
            {"name": call.name, "arguments": call.arguments, "outcome": call.outcome}
            for call in message.tools
        ],
    }  # fmt: skip


def print_message(message: Message) -> None:
    """A message for people."""
    head = f"{when(message.at)}  {safe(message.name or message.author)}  {message.id}"
    click.echo(click.style(head, bold=True))
    for call in message.tools:
        click.echo(f"  [{safe(call.name)}: {safe(call.outcome)}]")
    click.echo(safe_block(message.text) + "\n")
