"""Accepting: what a channel received becomes a turn, once per event, before anybody is told.

One transaction locks the key's row, gives the turn its place, decides which sitting it belongs
to and stores it, and may hand it to whoever is to work on it. Knows nothing of what becomes of
a turn after that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from memory.clock import Clock
from memory.database import Database, Tx
from memory.errors import Conflict, Mismatch, NotFound
from memory.ids import Ids
from memory.records import Message
from memory.rows import (
    CONVERSATION,
    Conversation,
    conversation_of,
    end_conversation,
    has_open_turn,
    store_message,
    title_of,
)
from memory.turn_rows import Accepted, Channel, Incoming, Part, Turn, Work, store_parts, store_turn


class Accepting:
    """The archive's door.

    Args:
        database: where the turns are.
        clock: the archive's time.
        ids: makes ids.
        idle_ms: how long a Chat conversation may be silent before the next message opens a new
            one.
    """

    def __init__(self, database: Database, clock: Clock, ids: Ids, idle_ms: int) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._idle_ms = idle_ms

    def accept(self, incoming: Incoming) -> Accepted:
        """Stores one message and its turn, once per event id.

        Raises:
            Mismatch: the event is known with another hash.
            NotFound: the conversation named is not the person's.
            Conflict: `read_only_here`, the conversation belongs to another channel.
            StoreDown: nothing was stored.
        """
        return self._database.write(lambda tx: self._accept(tx, incoming, "", lambda _: False)[0])

    def accept_and_take(
        self, incoming: Incoming, process: str, may_take: Callable[[str], bool]
    ) -> tuple[Accepted, Work | None]:
        """As `accept`, and takes the new turn's key in the same transaction where it may.

        Args:
            may_take: whether this process is to work on a key now; asked before anybody else
                can see the turn, perhaps more than once.

        Raises as `accept`. The work is None where the turn has to wait.
        """

        return self._database.write(lambda tx: self._accept(tx, incoming, process, may_take))

    def _accept(
        self, tx: Tx, incoming: Incoming, process: str, may_take: Callable[[str], bool]
    ) -> tuple[Accepted, Work | None]:
        known = tx.row("SELECT turn, hash FROM events WHERE id = ?", incoming.event)
        if known is not None:
            if incoming.hash and known[1] != incoming.hash:
                raise Mismatch(incoming.event)
            return self._again(tx, str(known[0])), None
        now = self._clock.now()
        key = self._key_of(tx, incoming)
        row: Any = tx.row(
            "INSERT INTO keys (key, turn_seq) VALUES (?, 1) ON CONFLICT (key) DO UPDATE"
            " SET turn_seq = keys.turn_seq + 1 RETURNING turn_seq, conversation, holder",
            key,
        )
        seq, current, holder = row
        if incoming.command:
            return self._accept_command(tx, incoming, key, seq, current, now), None
        conversation = self._sitting(tx, incoming, key, current, now)
        fence = None
        if holder is None and not has_open_turn(tx, key) and may_take(key):
            fence = _take_free(tx, key, process)
        turn = Turn(
            self._ids("t_"), incoming.event, key, seq, conversation.id, incoming.channel,
            incoming.person, incoming.kind, incoming.space, incoming.target,
            "waiting" if fence is None else "running", 0 if fence is None else 1, 0, 0, False, {},
            "", now, 0, None, "", incoming.owner,
        )  # fmt: skip
        store_turn(tx, turn, incoming.hash, fence or 0)
        message = Message(
            self._ids("m_"), conversation.id, turn.id, seq, 0, "person", incoming.person,
            incoming.name, now, incoming.text,
        )  # fmt: skip
        store_message(tx, incoming.owner, message)
        accepted = Accepted(turn.id, message.id, conversation.name, key, True)
        if fence is None:
            return accepted, None
        return accepted, Work(turn, fence, message, conversation, (), 1)

    def _accept_command(
        self, tx: Tx, incoming: Incoming, key: str, seq: int, current: str | None, now: int
    ) -> Accepted:
        """Stores a command in its place; `new` ends the sitting here, where the order is made."""
        if current is not None and incoming.command.split()[0] == "new":
            end_conversation(tx, current, now)
        turn = self._beside(incoming, key, seq, current or "", now)
        store_turn(tx, turn, incoming.hash, 0)
        return Accepted(turn.id, "", current or "", key, True)

    def say(self, incoming: Incoming, parts: tuple[Part, ...]) -> Accepted:
        """Stores a reply that was made at the door, to be delivered outside of any order.

        Args:
            incoming: what is replied to; of its event nothing but the id is kept.
            parts: the reply.

        Raises:
            StoreDown: nothing was stored.
        """

        def run(tx: Tx) -> Accepted:
            known = tx.row("SELECT turn FROM events WHERE id = ?", incoming.event)
            if known is not None:
                return Accepted(str(known[0] or ""), "", "", "", False)
            now = self._clock.now()
            key = f"say/{incoming.event}"
            tx.run("INSERT INTO keys (key, turn_seq) VALUES (?, 1)", key)
            turn = replace(self._beside(incoming, key, 1, "", now), command="say", answered=True)
            store_turn(tx, turn, "", 0)
            store_parts(tx, turn, parts, now)
            return Accepted(turn.id, "", "", key, True)

        return self._database.write(run)

    def _beside(self, incoming: Incoming, key: str, seq: int, conversation: str, now: int) -> Turn:
        """A waiting turn that has no message."""
        return Turn(
            self._ids("t_"), incoming.event, key, seq, conversation, incoming.channel,
            incoming.person, incoming.kind, incoming.space, incoming.target, "waiting", 0, 0, 0,
            False, {}, "", now, 0, None, incoming.command, incoming.owner,
        )  # fmt: skip

    def note_event(self, event: str, channel: Channel, kind: str, detail: str = "{}") -> bool:
        """Remembers an event that is no message, without its text; False when it is known.

        Args:
            detail: JSON that `noted` gives back.
        """
        now = self._clock.now()
        return bool(
            self._database.write(
                lambda tx: tx.run(
                    "INSERT INTO events (id, channel, kind, at, hash, detail)"
                    " VALUES (?, ?, ?, ?, '', ?) ON CONFLICT (id) DO NOTHING",
                    event, channel, kind, now, detail,
                )
            )
        )  # fmt: skip

    def noted(self, event: str) -> tuple[str, dict[str, Any]] | None:
        """The kind and the detail of a known event."""
        row = self._database.read(
            lambda tx: tx.row("SELECT kind, detail FROM events WHERE id = ?", event)
        )
        return None if row is None else (str(row[0]), json.loads(str(row[1])))

    @staticmethod
    def _again(tx: Tx, turn: str) -> Accepted:
        row = tx.row(
            "SELECT coalesce(m.id, ''), coalesce(c.name, ''), t.key FROM turns t"
            " LEFT JOIN conversations c ON c.id = t.conversation"
            " LEFT JOIN messages m"
            " ON m.conversation = t.conversation AND m.seq = t.seq AND m.part = 0"
            " WHERE t.id = ?",
            turn,
        )
        if row is None:
            raise NotFound(turn)
        return Accepted(turn, str(row[0]), str(row[1]), str(row[2]), False)

    def _key_of(self, tx: Tx, incoming: Incoming) -> str:
        """The conversation key; one of our own ids has to be the person's."""
        if incoming.key is not None:
            return incoming.key
        given = incoming.conversation
        if given is None:
            return f"{incoming.person}/{self._ids('cv_')}"
        if not given.startswith("cv_"):
            return f"{incoming.person}/{given}"
        row = tx.row("SELECT key, owner, channel FROM conversations WHERE id = ?", given)
        if row is None or row[1] != incoming.owner:
            raise NotFound(given)
        if row[2] == "chat":
            raise Conflict("read_only_here")
        return str(row[0])

    def _sitting(
        self, tx: Tx, incoming: Incoming, key: str, current: str | None, now: int
    ) -> Conversation:
        """The conversation that the message belongs to, opened if need be."""
        previous = None
        if current is not None:
            row = tx.row(f"SELECT {CONVERSATION} FROM conversations c WHERE c.id = ?", current)
            assert row is not None
            found = conversation_of(row)
            if incoming.key is None or not self._is_over(tx, found, now):
                return found
            end_conversation(tx, current, now)
            previous = current
        if incoming.key is not None:
            id_ = name = self._ids("cv_")
        else:
            name = key[len(incoming.person) + 1 :]
            id_ = name if name.startswith("cv_") else self._ids("cv_")
        opened = Conversation(
            id_, key, name, incoming.channel, incoming.owner, title_of(incoming.text), now, now,
            None, previous, self._ids(""), 0, 0, 0, None,
        )  # fmt: skip
        tx.run(
            "INSERT INTO conversations (id, key, name, channel, owner, title, started_at, last_at,"
            " previous, stamp) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            id_, key, name, opened.channel, opened.owner, opened.title, now, now, previous,
            opened.stamp,
        )  # fmt: skip
        tx.run("UPDATE keys SET conversation = ? WHERE key = ?", id_, key)
        return opened

    def _is_over(self, tx: Tx, found: Conversation, now: int) -> bool:
        if found.ended_at is not None:
            return True
        return now - found.last_at >= self._idle_ms and not has_open_turn(tx, found.key)

    def accepted(self, turn_id: str) -> Accepted:
        """Where a known turn's message went.

        Raises:
            NotFound: there is no such turn.
        """
        return self._database.read(lambda tx: self._again(tx, turn_id))


def _take_free(tx: Tx, key: str, process: str) -> int:
    """Takes a key that nobody holds; returns its new fence."""
    row = tx.row(
        "UPDATE keys SET holder = ?, fence = fence + 1 WHERE key = ? RETURNING fence",
        process, key,
    )  # fmt: skip
    assert row is not None
    return int(str(row[0]))
