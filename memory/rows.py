"""Rows and records: the few statements that several stores of the archive share.

Everything here works within a transaction that its caller has begun.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from memory import search
from memory.database import Row, Tx
from memory.records import Line, Message, ToolCall

TITLE_CHARS = 60


@dataclass(frozen=True, slots=True)
class Conversation:
    """One sitting under a key, as its row says; `name` is its id as clients see it."""

    id: str
    key: str
    name: str
    channel: str
    owner: str
    title: str
    started_at: int
    last_at: int
    ended_at: int | None
    previous: str | None
    stamp: str
    last_seq: int
    compacted_through: int
    segmented_through: int
    recap: str | None
    told: frozenset[str] = frozenset()
    """The stores of whose absence the person has been told in it."""

    @property
    def writable(self) -> bool:
        """Whether messages can be posted to it over HTTP."""
        return self.channel != "chat"


CONVERSATION = (
    "c.id, c.key, c.name, c.channel, c.owner, c.title, c.started_at, c.last_at, c.ended_at,"
    " c.previous, c.stamp, c.last_seq, c.compacted_through, c.segmented_through, c.recap, c.told"
)
MESSAGE = search.MESSAGE


def conversation_of(row: Row) -> Conversation:
    """The record of a row selected with CONVERSATION."""
    values: list[Any] = list(row)
    values[15] = frozenset() if values[15] == "[]" else frozenset(json.loads(values[15]))
    return Conversation(*values)


def message_of(row: Row) -> Message:
    """The record of a row selected with MESSAGE, still without its tool calls."""
    values: list[Any] = list(row)
    return Message(*values)


def with_calls(tx: Tx, messages: list[Message], where: str, *values: str | int) -> list[Message]:
    """The messages with their tool calls; `where` selects messages `t` whose turns' are read.

    The calls of a turn belong to its last answer. The turns are found by their first messages,
    which are in the order of the conversation; no index leads from a conversation to its turns.
    """
    rows = tx.rows(
        "SELECT k.turn, k.n, k.name, k.arguments, k.outcome, k.reads FROM messages t"
        " JOIN tool_calls k ON k.turn = t.turn"
        f" WHERE {where} AND t.part = 0 ORDER BY k.turn, k.n",
        *values,
    )
    if not rows:
        return messages
    calls: dict[str, list[ToolCall]] = {}
    for turn, n, name, arguments, outcome, reads in rows:
        call: list[Any] = [n, name, arguments, outcome, bool(reads)]
        calls.setdefault(str(turn), []).append(ToolCall(*call))
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message.role == "assistant" and message.turn in calls:
            messages[place] = replace(message, tools=tuple(calls.pop(message.turn)))
    return messages


def calls_of(tx: Tx, turn: str) -> tuple[ToolCall, ...]:
    """The tool calls that were recorded for a turn."""
    rows: list[Any] = tx.rows(
        "SELECT n, name, arguments, outcome, reads FROM tool_calls WHERE turn = ? ORDER BY n", turn
    )
    return tuple(ToolCall(n, name, args, out, bool(reads)) for n, name, args, out, reads in rows)


def store_call(tx: Tx, turn: str, attempt: int, call: ToolCall, at: int) -> None:
    """Writes a tool call down, or its outcome over the same call's."""
    tx.run(
        "INSERT INTO tool_calls (turn, n, attempt, name, arguments, outcome, reads, at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (turn, n) DO UPDATE SET"
        " outcome = excluded.outcome, at = excluded.at",
        turn, call.n, attempt, call.name, call.arguments, call.outcome, int(call.reads), at,
    )  # fmt: skip


def store_message(tx: Tx, owner: str, message: Message) -> None:
    """Stores a message word for word, and its words in the search index under its owner."""
    row = tx.row(
        "INSERT INTO messages (id, conversation, turn, seq, part, role, author, name, owner, at,"
        " text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING n",
        message.id, message.conversation, message.turn, message.seq, message.part, message.role,
        message.author, message.name, owner, message.at, _copy(message.text),
    )  # fmt: skip
    assert row is not None
    search.index(tx, int(str(row[0])), owner, message.text)


def _copy(text: str) -> str:
    """A text to give to the driver, which leaves its UTF-8 form within what is no ASCII.

    The message itself stays in the history for as long as its conversation is active.
    """
    return text if text.isascii() else text[:1] + text[1:]


def line_of(row: Row) -> Line:
    """The record of a row `kind, text, messages, at`."""
    kind, text, messages, at = row
    values: list[Any] = [kind, text, tuple(json.loads(str(messages))), at]
    return Line(*values)


def has_open_turn(tx: Tx, key: str) -> bool:
    """Whether a turn under the key is not finished yet."""
    row = tx.row(
        "SELECT 1 FROM turns WHERE key = ? AND state IN ('waiting', 'running') LIMIT 1", key
    )
    return row is not None


def end_conversation(tx: Tx, conversation: str, now: int) -> bool:
    """Ends a conversation unless it has ended before."""
    return bool(
        tx.run(
            "UPDATE conversations SET ended_at = ? WHERE id = ? AND ended_at IS NULL",
            now, conversation,
        )
    )  # fmt: skip


def title_of(text: str) -> str:
    """A conversation's first title: the beginning of its first message, on one line."""
    words = " ".join(text[: 4 * TITLE_CHARS].split())
    return words if len(words) <= TITLE_CHARS else words[: TITLE_CHARS - 1].rstrip() + "…"


def joined(values: Iterable[object]) -> str:
    """Placeholders for an IN list of that many values."""
    return ", ".join("?" for _ in values)
