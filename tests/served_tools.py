"""`mfw serve` with two tools of the tests: one that writes, one that cannot be undone.

Each leaves a line in a file of the data folder whenever it is really done.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from bot import logs
from bot.http.app import flask_app
from bot.mercury import build
from bot.serve import serve
from bot.settings import load
from bot.tools import Arguments, Context, Staged, Tool
from memory.confirmations import Confirmation


class Line(Arguments):
    """What both tools take."""

    text: str


def add_line(path: Path, text: str) -> None:
    """Adds a line that survives a kill."""
    with path.open("a") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    """Serves as `mfw serve` does."""
    settings = load()
    logs.configure(settings)
    notes, published = settings.mercury_data / "notes", settings.mercury_data / "published"

    def note(context: Context, given: Line) -> dict[str, Any]:
        add_line(notes, given.text)
        return {"path": "notes"}

    def stage(context: Context, given: Line) -> Staged:
        return Staged("publish", {"text": given.text})

    def publish(confirmation: Confirmation) -> str:
        done = published.read_text().splitlines() if published.exists() else []
        if confirmation.id not in [line.split()[0] for line in done]:
            add_line(published, f"{confirmation.id} {confirmation.content['text']}")
        return "published"

    tools = [
        Tool("note", "Writes a line.", Line, "writes", note),
        Tool("publish", "Publishes a line.", Line, "irreversible", stage),
    ]

    def made() -> Any:
        mercury = build(settings, tools=tools, actions={"publish": publish})
        return flask_app(mercury, "key"), mercury

    serve(settings, made, lambda line: print(line, file=sys.stderr), "127.0.0.1", "key")


if __name__ == "__main__":
    main()
