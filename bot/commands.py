"""The commands that people type or choose: their names, and the text that is one. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAMES = ("help", "new", "memory", "forget", "recap", "web", "stop")
"""The place in this list, counted from one, is the id that the console is given."""
COMMAND_IDS = dict(enumerate(NAMES, 1))
AT_THE_DOOR = ("help", "stop")
"""What is answered at once; the others take their place among the messages."""
ARGUMENT_CHARS = 300

_TYPED = re.compile(rf"\s*/({'|'.join(NAMES)})(?:\s+(.*))?\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """A command's name and what was typed after it, on one line."""

    name: str
    rest: str

    @property
    def line(self) -> str:
        """The command as the archive keeps it."""
        return f"{self.name} {self.rest}".rstrip()


def command_of(text: str) -> Command | None:
    """The command that a text is, or None for any other text."""
    match = _TYPED.fullmatch(text)
    if match is None:
        return None
    return Command(match[1].lower(), " ".join((match[2] or "").split())[:ARGUMENT_CHARS])
