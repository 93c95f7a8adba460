"""The recap of a conversation that has ended, for the one that follows it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby

from memory.records import Line, Message

RECAP_CHARS = 4_000
SIDE_CHARS = 1_500
"""What each side of an exchange may take."""
_FIRST = ("decided", "rule")


def compose(
    lines: Sequence[Line], exchange: Sequence[Message], started_at: int, ended_at: int
) -> str:
    """The recap: when it was, what was said in short, and the last exchange.

    Args:
        lines: what describes the conversation, oldest first; may be empty.
        exchange: the messages of the last turns, oldest first, with their tool calls.
        started_at, ended_at: when it was, in milliseconds.

    Never empty, and at most 4,000 characters. Without lines earlier exchanges stand in.
    """
    head = f"From {_when(started_at)} to {_when(ended_at)} (UTC)."
    turns = [list(turn) for _, turn in groupby(exchange, key=lambda message: message.seq)]
    last = _exchange(turns[-1]) if turns else ""
    room = RECAP_CHARS - len(head) - len(last) - 2
    body = _lines(lines, room) if lines else _earlier(turns[:-1], room)
    return "\n".join(part for part in (head, body, last) if part)


def _lines(lines: Sequence[Line], room: int) -> str:
    newest = list(reversed(lines))
    ordered = [line for line in newest if line.kind in _FIRST]
    ordered += [line for line in newest if line.kind not in _FIRST]
    kept = []
    for line in ordered:
        text = f"{_day(line.at)} {line.kind}: {' '.join(line.text.split())}"
        if len(text) + 1 > room:
            break
        kept.append(text)
        room -= len(text) + 1
    return "\n".join(kept)


def _earlier(turns: Sequence[Sequence[Message]], room: int) -> str:
    kept: list[str] = []
    for turn in reversed(turns):
        text = _exchange(turn)
        if len(text) + 1 > room:
            break
        kept.append(text)
        room -= len(text) + 1
    return "\n".join(reversed(kept))


def _exchange(turn: Sequence[Message]) -> str:
    """One exchange: the person's words whole; the answer too, unless it rests on tools."""
    said = []
    for message in turn:
        if message.role == "person":
            said.append(f"{_name(message)} said: {_cut(message.text)}")
        elif message.rests_on_tools:
            calls = ", ".join(f"{call.name} ({call.outcome})" for call in message.tools)
            said.append(f"The answer rested on tools: {calls}"[:SIDE_CHARS])
        else:
            said.append(f"The answer was: {_cut(message.text)}")
    return "\n".join(said)


def _name(message: Message) -> str:
    return " ".join(message.name.split())[:64] or "The person"


def _cut(text: str) -> str:
    return text if len(text) <= SIDE_CHARS else text[: SIDE_CHARS - 1] + "…"


def _when(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M}"


def _day(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d}"
