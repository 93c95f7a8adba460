"""`mfw setup`: sets up what lies outside of Mercury, step by step."""

from __future__ import annotations

import time

import click

from cli.common import safe, stores
from cli.errors import FAILED, NOT_ALLOWED, Failed

LOOK_S = 1.0


@click.group()
def command() -> None:
    """Set up what lies outside of Mercury."""


@command.command("google-chat", short_help="What to enter in Google's console.")
@click.option(
    "--wait", type=click.IntRange(0, 86_400), default=600, show_default=True, metavar="SECONDS",
    help="How long to wait for the first event; 0 does not.",
)  # fmt: skip
def google_chat(wait: int) -> None:
    """Say what to enter in Google's console, check each step, wait for the first event."""
    from bot.chat.setup import checks, console
    from bot.settings import load

    settings = load()
    click.echo(console(settings))
    click.echo()
    failed = False
    for check in checks(settings):
        mark = "ok  " if check.ok else "FAIL"
        click.echo(f"{mark}  {check.name:<13}{safe(check.says)}")
        failed = failed or not check.ok
    if failed:
        raise Failed("mend what failed and run this again", NOT_ALLOWED)
    if wait:
        _first_event(wait)


def _first_event(seconds: int) -> None:
    """Waits for an event that Google signed, and for its answer."""
    click.echo("\nNow write to Mercury in Google Chat, in a direct message.", err=True)
    until = time.monotonic() + seconds
    with stores() as opened:
        since = opened.clock.now()
        heard = answered = None
        while time.monotonic() < until and not answered:
            heard = opened.turns.first_since("chat", since)
            answered = heard if heard is not None and heard.state != "waiting" else None
            if answered is not None and answered.state == "running":
                answered = None
            if not answered:
                time.sleep(LOOK_S)
    if heard is None:
        raise Failed("no event has come: see steps 3 and 4, and the server's log", FAILED)
    if answered is None or answered.state != "done":
        why = heard.reason or heard.state
        raise Failed(f"an event has come, but its answer has not gone out: {why}", FAILED)
    click.echo(f"ok    event        from {safe(heard.person)}, answered")
