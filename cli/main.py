"""The `mfw` command: its groups, loaded only when they are used, and its exit codes.

0 done · 1 failed · 2 usage · 3 not found · 4 not allowed or misconfigured · 5 a store is down
"""

from __future__ import annotations

import importlib
from typing import Any

import click

from cli.errors import translated

COMMANDS = {
    "archive": "List, read and search what was said.",
    "chat": "Talk to Mercury in the terminal.",
    "config": "Show the settings in force.",
    "conversation": "List, show, end and rebuild conversations.",
    "migrate": "Bring the archive to this version's schema.",
    "serve": "Serve Google Chat and HTTP until told to end.",
    "setup": "Set up what lies outside of Mercury.",
    "status": "Say what each memory rests on and what waits.",
    "token": "Make, list and revoke bearer tokens.",
    "turn": "List, retry and dismiss turns that were set aside.",
    "vault": "Read, write and look after the notes.",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they run, so that `--help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        with translated():
            return super().invoke(ctx)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mercury-chat", prog_name="mfw")
def main() -> None:
    """Mercury, a Google Chat bot with memory: serve it, talk to it, look after it."""
