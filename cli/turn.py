"""`mfw turn`: the turns that could not be answered."""

from __future__ import annotations

import click

from cli.common import as_json, expecting, make_sure, print_json, stores, table, when
from cli.errors import Failed


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


@command.command(short_help="Try a turn anew.")
@click.argument("turn_id", metavar="ID")
def retry(turn_id: str) -> None:
    """Try a turn that was set aside anew; the server takes it up within a second."""
    with stores() as opened, expecting(f"turn {turn_id}"):
        opened.turns.retry(turn_id)
    click.echo(f"{turn_id} waits to be tried again", err=True)


@command.command(short_help="Give a turn up.")
@click.argument("turn_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def dismiss(turn_id: str, yes: bool, dry_run: bool) -> None:
    """Give up a turn that was set aside; the message itself stays in the archive."""
    with stores() as opened, expecting(f"turn {turn_id}"):
        found = opened.turns.get(turn_id)
        if found.state != "set_aside":
            raise Failed(f"{turn_id} is not set aside: it is {found.state}")
        if dry_run:
            click.echo(f"{turn_id} would be dismissed", err=True)
            return
        make_sure(f"Give {turn_id} up for good?", yes)
        opened.turns.dismiss(turn_id)
    click.echo(f"{turn_id} is dismissed", err=True)
