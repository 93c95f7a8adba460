"""`mfw turn`: the turns that could not be answered."""

from __future__ import annotations

import click

from cli.common import as_json, print_json, stores, table, when


@click.group()
def command() -> None:
    """List, retry and dismiss turns that were set aside."""


@command.command("list")
@click.option("--open", "open_", is_flag=True, help="Those that wait or run instead.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
@as_json
def list_(open_: bool, limit: int, as_json: bool) -> None:
    """List turns that were set aside, the oldest first."""
    with stores() as opened:
        states = ("waiting", "running") if open_ else ("set_aside",)
        turns = opened.turns.in_state(states, limit)  # type: ignore[arg-type]
    if as_json:
        print_json(
            [
                {
                    "id": one.id, "state": one.state, "person": one.person, "key": one.key,
                    "conversation": one.conversation, "accepted_at": one.accepted_at,
                    "attempts": one.attempts, "failures": one.failures, "deaths": one.deaths,
                    "reason": one.reason,
                }
                for one in turns
            ]
        )  # fmt: skip
        return
    table(
        ["id", "state", "person", "conversation", "accepted", "attempts", "why"],
        [
            [one.id, one.state, one.person, one.conversation, when(one.accepted_at),
             str(one.attempts), one.reason]
            for one in turns
        ],
    )  # fmt: skip


@command.command()
@click.argument("turn_id", metavar="ID")
def retry(turn_id: str) -> None:
    """Try a turn that was set aside anew; the server takes it up within a second."""
    with stores() as opened:
        opened.turns.retry(turn_id)
    click.echo(f"{turn_id} waits to be tried again", err=True)


@command.command()
@click.argument("turn_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
def dismiss(turn_id: str, yes: bool) -> None:
    """Give up a turn that was set aside; the message itself stays in the archive."""
    if not yes:
        click.confirm(f"Give {turn_id} up for good?", abort=True, err=True)
    with stores() as opened:
        opened.turns.dismiss(turn_id)
    click.echo(f"{turn_id} is dismissed", err=True)
