"""Turns and what belongs to them, as values and as rows; within a transaction of the caller's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from memory.database import Row, Tx
from memory.deliveries import parts_taken
from memory.records import Message, ToolCall
from memory.rows import Conversation

State = Literal["waiting", "running", "done", "cancelled", "set_aside"]
Channel = Literal["chat", "http", "cli"]


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message of a person, as a channel hands it over.

    `event` names it for ever; `hash` tells two messages under one event id apart (empty: the
    id alone decides). `key` is the conversation key on Chat; elsewhere None, and `conversation`
    is what the client gave: None for a new one, ours (`cv_…`), or a name of its own.
    `target` is JSON that says where the answer goes, for the channel alone. `command` is a
    command's name and what was typed after it: such an event takes its place in the order and
    is no message.
    """

    event: str
    channel: Channel
    person: str
    owner: str
    kind: str
    space: str | None
    name: str
    text: str
    key: str | None = None
    conversation: str | None = None
    hash: str = ""
    target: str = "{}"
    command: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Where a message went; `new` is False when the event was known already.

    A command has no `message`, and no `conversation` before the first message under its key.
    """

    turn: str
    message: str
    conversation: str
    key: str
    new: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a person until its answer is delivered."""

    id: str
    event: str
    key: str
    seq: int
    conversation: str
    channel: Channel
    person: str
    kind: str
    space: str | None
    target: str
    state: State
    attempts: int
    deaths: int
    failures: int
    answered: bool
    extras: dict[str, Any]
    reason: str
    accepted_at: int
    due_at: int
    ended_at: int | None
    command: str = ""
    """A command's name and what was typed after it, `say` for a reply that was made at the
    door, or '' for the turn of a message."""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """A turn that was taken, with everything that its attempt needs from the archive."""

    turn: Turn
    fence: int
    message: Message
    """The person's; one that is empty and in no archive for a command."""
    conversation: Conversation
    calls: tuple[ToolCall, ...]
    """Calls that an earlier attempt recorded."""
    next_part: int
    """The part under which the answer will be stored."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A turn that was at hand when its process died, twice: the next attempt is made alone."""

    turn: str


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an answer on its way out: its id with the channel, and its text.

    `card` is the confirmation that the part asks for; it then has no text. A `private` part is
    shown to the turn's person alone.
    """

    message: str
    text: str
    card: str = ""
    private: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What ends a turn: the text that is stored, and what goes with it."""

    text: str
    tools: tuple[ToolCall, ...] = ()
    extras: dict[str, Any] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    state: State = "done"
    reason: str = ""
    told: tuple[str, ...] = ()
    """The stores of whose absence the person is told now, and not again in this conversation."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer that is in the archive, and the conversation's stamp from then on."""

    message: Message
    stamp: str
    previous_stamp: str


COLUMNS = (
    "id", "event", "key", "seq", "conversation", "channel", "person", "kind", "space", "target",
    "state", "attempts", "deaths", "failures", "answered", "extras", "reason", "accepted_at",
    "due_at", "ended_at", "command", "owner",
)  # fmt: skip
TURN = ", ".join(f"t.{name}" for name in COLUMNS)
NOWHERE = Conversation("", "", "", "", "", "", 0, 0, None, None, "", 0, 0, 0, None)
"""The conversation of a command before the first message under its key."""


def turn_of(row: Row) -> Turn:
    """The record of a row selected with TURN."""
    values: list[Any] = list(row)
    values[14] = bool(values[14])
    values[15] = json.loads(values[15])
    return Turn(*values)


def store_turn(tx: Tx, turn: Turn, hash: str, fence: int) -> None:
    """Stores an event and the turn that it began."""
    tx.run(
        "INSERT INTO events (id, channel, kind, at, turn, hash, detail)"
        " VALUES (?, ?, ?, ?, ?, ?, '{}')",
        turn.event, turn.channel, turn.command.partition(" ")[0] or "message", turn.accepted_at,
        turn.id, hash,
    )  # fmt: skip
    tx.run(
        "INSERT INTO turns (id, event, key, seq, conversation, channel, person, kind, space,"
        " target, state, attempts, fence, accepted_at, answered, command, owner)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        turn.id, turn.event, turn.key, turn.seq, turn.conversation, turn.channel, turn.person,
        turn.kind, turn.space, turn.target, turn.state, turn.attempts, fence, turn.accepted_at,
        int(turn.answered), turn.command, turn.owner,
    )  # fmt: skip


def store_parts(tx: Tx, turn: Turn, parts: tuple[Part, ...], now: int) -> None:
    """Stores the parts of an answer; the first takes the place of a placeholder."""
    if not parts:
        return
    for n, part in enumerate(parts, parts_taken(tx, turn.id)):
        tx.run(
            "INSERT INTO deliveries (turn, part, message, text, state, at, card, private)"
            " VALUES (?, ?, ?, ?, 'waiting', ?, ?, ?) ON CONFLICT (turn, part) DO UPDATE SET"
            " text = excluded.text, state = 'waiting', at = excluded.at",
            turn.id, n, part.message, part.text, now, part.card, int(part.private),
        )  # fmt: skip


def no_message(turn: Turn) -> Message:
    """What stands in the place of a command's message."""
    return Message(
        "", turn.conversation, turn.id, turn.seq, 0, "person", turn.person, "", turn.accepted_at, ""
    )
