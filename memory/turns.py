"""The turns: accepted messages, in order under their keys, until each answer is delivered.

What is left to do is what stands here as not done; there is no second queue. Every write of a
turn's work goes through the fence that was raised when its key was taken, so that a process
that was overtaken can do no harm. Knows rows and states, nothing of models or channels.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from memory.clock import Clock
from memory.database import Database, Row, Tx
from memory.errors import Conflict, Fenced, Mismatch, NotFound
from memory.ids import Ids
from memory.records import Message, ToolCall
from memory.rows import (
    CONVERSATION,
    MESSAGE,
    Conversation,
    calls_of,
    conversation_of,
    end_conversation,
    has_open_turn,
    joined,
    message_of,
    store_call,
    store_message,
    title_of,
)

State = Literal["waiting", "running", "done", "cancelled", "set_aside"]
Channel = Literal["chat", "http", "cli"]

PROCESS_DEAD_MS = 10_000
"""A process whose heartbeat is older than this has lost its leases."""
DEATHS_BEFORE_ALONE = 2
LONGEST_RETRY_MS = 600_000
"""No retry is ever planned further ahead; a later time means that a clock was moved."""


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

    `card` is the confirmation that the part asks for; it then has no text.
    """

    message: str
    text: str
    card: str = ""


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


_COLUMNS = (
    "id", "event", "key", "seq", "conversation", "channel", "person", "kind", "space", "target",
    "state", "attempts", "deaths", "failures", "answered", "extras", "reason", "accepted_at",
    "due_at", "ended_at", "command", "owner",
)  # fmt: skip
_TURN = ", ".join(f"t.{name}" for name in _COLUMNS)
_NOWHERE = Conversation("", "", "", "", "", "", 0, 0, None, None, "", 0, 0, 0, None)
"""The conversation of a command before the first message under its key."""


def _turn(row: Row) -> Turn:
    values: list[Any] = list(row)
    values[14] = bool(values[14])
    values[15] = json.loads(values[15])
    return Turn(*values)


class Turns:
    """The turns in the archive.

    Args:
        database: where they are.
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

    # -- accepting ------------------------------------------------------------------------

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
        _store_turn(tx, turn, incoming.hash, fence or 0)
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
        _store_turn(tx, turn, incoming.hash, 0)
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
            _store_turn(tx, turn, "", 0)
            _store_parts(tx, turn, parts, now)
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

    # -- leases ---------------------------------------------------------------------------

    def take(self, key: str, process: str, alone: bool = False) -> Work | Suspect | None:
        """Takes the key and its first waiting turn, and counts the attempt.

        Args:
            alone: whether nothing else runs in the process; only then a suspect is given.

        Returns None when another live process holds the key, when nothing waits under it, or
        when what waits is not due yet; Suspect when the turn is to be tried alone.
        """
        return self._database.write(lambda tx: self._take(tx, key, process, alone))

    def _take(self, tx: Tx, key: str, process: str, alone: bool) -> Work | Suspect | None:
        now = tx.now()
        before = tx.row("SELECT holder FROM keys WHERE key = ?", key)
        row = tx.row(
            "UPDATE keys SET holder = ?, fence = fence + 1 WHERE key = ? AND (holder IS NULL"
            " OR holder = ? OR holder NOT IN (SELECT id FROM processes WHERE heartbeat_at > ?))"
            " RETURNING fence",
            process, key, process, now - PROCESS_DEAD_MS,
        )  # fmt: skip
        if before is None or row is None:
            return None
        was_mine = before[0] == process
        work = self._next(tx, key, int(str(row[0])), now, alone, was_mine)
        if not isinstance(work, Work):
            tx.run("UPDATE keys SET holder = NULL WHERE key = ?", key)
        return work

    def _next(
        self, tx: Tx, key: str, fence: int, now: int, alone: bool, was_mine: bool
    ) -> Work | Suspect | None:
        """The key's first turn; one that runs while this process does not hold its key has died."""
        row = tx.row(
            f"SELECT {_TURN} FROM turns t WHERE t.key = ? AND t.state IN ('waiting', 'running')"
            " ORDER BY t.seq LIMIT 1",
            key,
        )
        if row is None:
            return None
        turn = _turn(row)
        if now < turn.due_at <= now + LONGEST_RETRY_MS:
            return None
        died = turn.state == "running" and not turn.answered and not was_mine
        if not alone and not turn.answered and turn.deaths + died >= DEATHS_BEFORE_ALONE:
            return Suspect(turn.id)
        fresh = tx.row(
            "UPDATE turns SET state = 'running', fence = ?, attempts = attempts + ?,"
            f" deaths = deaths + ?, due_at = 0 WHERE id = ? RETURNING {', '.join(_COLUMNS)}",
            fence, 0 if turn.answered else 1, 1 if died else 0, turn.id,
        )  # fmt: skip
        assert fresh is not None
        return self._work(tx, _turn(fresh), fence)

    @staticmethod
    def _work(tx: Tx, turn: Turn, fence: int) -> Work:
        row = tx.row(
            f"SELECT {CONVERSATION} FROM conversations c WHERE c.id = ?", turn.conversation
        )
        conversation = _NOWHERE if row is None else conversation_of(row)
        if turn.command:
            return Work(turn, fence, _no_message(turn), conversation, (), 0)
        messages = tx.rows(
            f"SELECT {MESSAGE} FROM messages m WHERE m.conversation = ? AND m.seq = ?"
            " ORDER BY m.part",
            turn.conversation, turn.seq,
        )  # fmt: skip
        calls = calls_of(tx, turn.id)
        return Work(turn, fence, message_of(messages[0]), conversation, calls, len(messages))

    def to_do(self, process: str, limit: int) -> list[tuple[str, Channel]]:
        """Keys with a turn that is due and that no other live process holds, oldest first."""

        def work(tx: Tx) -> list[tuple[str, Channel]]:
            now = tx.now()
            rows = tx.rows(
                "SELECT t.key, t.channel FROM turns t LEFT JOIN keys k ON k.key = t.key"
                " WHERE t.state IN ('waiting', 'running') AND (t.due_at <= ? OR t.due_at > ?)"
                " AND NOT EXISTS (SELECT 1 FROM turns e WHERE e.key = t.key AND e.seq < t.seq"
                " AND e.state IN ('waiting', 'running'))"
                " AND (k.holder IS NULL OR k.holder = ? OR k.holder NOT IN"
                " (SELECT id FROM processes WHERE heartbeat_at > ?))"
                " ORDER BY t.accepted_at LIMIT ?",
                now, now + LONGEST_RETRY_MS, process, now - PROCESS_DEAD_MS, limit,
            )  # fmt: skip
            return [(str(key), channel) for key, channel in rows]  # type: ignore[misc]

        return self._database.read(work)

    def release(self, work: Work) -> None:
        """Lets go of the key, unless somebody else has it already."""
        self._database.write(lambda tx: _release(tx, work))

    # -- working --------------------------------------------------------------------------

    def record_call(self, work: Work, call: ToolCall) -> None:
        """Writes a tool call down before it runs, or its outcome after it.

        Raises:
            Fenced: the key was taken by another.
        """

        def run(tx: Tx) -> None:
            _hold(tx, work)
            store_call(tx, work.turn.id, work.turn.attempts, call, self._clock.now())

        self._database.write(run)

    def check_fence(self, work: Work) -> None:
        """Raises Fenced when the key was taken by another."""
        self._database.read(lambda tx: _hold(tx, work))

    def answer(self, work: Work, answer: Answer) -> Stored:
        """Stores the answer with its tool records and parts; with no parts the turn has ended.

        Raises:
            Fenced: the key was taken by another, or the turn was cancelled.
        """
        return self._database.write(lambda tx: self._answer(tx, work, answer))

    def answer_and_next(self, work: Work, answer: Answer) -> tuple[Stored, Work | None]:
        """As `answer` for a turn that ends with it; takes the key's next turn, or lets it go."""

        def run(tx: Tx) -> tuple[Stored, Work | None]:
            stored = self._answer(tx, work, answer)
            return stored, self._next_or_release(tx, work)

        return self._database.write(run)

    def _answer(self, tx: Tx, work: Work, answer: Answer) -> Stored:
        _hold(tx, work)
        turn, now = work.turn, self._clock.now()
        if turn.command:
            stored = Stored(replace(work.message, text=answer.text), "", "")
        else:
            for call in answer.tools:
                store_call(tx, turn.id, turn.attempts, call, now)
            stored = self._say(tx, turn, work.next_part, answer.text, answer.tools, now)
            if answer.told:
                _remember_told(tx, turn.conversation, answer.told)
        _store_parts(tx, turn, answer.parts, now)
        ended = not answer.parts
        tx.run(
            "UPDATE turns SET answered = 1, state = ?, final = ?, extras = ?, reason = ?,"
            " ended_at = ? WHERE id = ?",
            answer.state if ended else "running", answer.state, json.dumps(answer.extras),
            answer.reason, now if ended else None, turn.id,
        )  # fmt: skip
        return stored

    def _say(
        self, tx: Tx, turn: Turn, part: int, text: str, tools: tuple[ToolCall, ...], now: int
    ) -> Stored:
        """Stores what Mercury says in a turn, and gives the conversation a new stamp."""
        row = tx.row("SELECT stamp, owner FROM conversations WHERE id = ?", turn.conversation)
        assert row is not None
        message = Message(
            self._ids("m_"), turn.conversation, turn.id, turn.seq, part, "assistant",
            "mercury", "Mercury", now, text, tools,
        )  # fmt: skip
        store_message(tx, str(row[1]), message)
        stamp = self._ids("")
        tx.run(
            "UPDATE conversations SET stamp = ?, last_at = ?, last_seq = CASE WHEN last_seq > ?"
            " THEN last_seq ELSE ? END WHERE id = ?",
            stamp, now, turn.seq, turn.seq, turn.conversation,
        )  # fmt: skip
        return Stored(message, stamp, str(row[0]))

    def delivered(self, work: Work, lost: str = "") -> Work | None:
        """Ends an answered turn whose parts are out; takes the key's next turn, or lets it go.

        Args:
            lost: why parts of it will never be out; the turn is then set aside.

        Raises:
            Fenced: the key was taken by another.
        """

        def run(tx: Tx) -> Work | None:
            _hold(tx, work)
            now = self._clock.now()
            if lost:
                tx.run(
                    "UPDATE turns SET state = 'set_aside', reason = ?, ended_at = ? WHERE id = ?",
                    lost, now, work.turn.id,
                )  # fmt: skip
            else:
                tx.run(
                    "UPDATE turns SET state = final, ended_at = ? WHERE id = ?", now, work.turn.id
                )
            return self._next_or_release(tx, work)

        return self._database.write(run)

    def _next_or_release(self, tx: Tx, work: Work) -> Work | None:
        if work.turn.command == "say":
            tx.run("DELETE FROM keys WHERE key = ?", work.turn.key)
            return None
        following = self._next(tx, work.turn.key, work.fence, tx.now(), alone=False, was_mine=True)
        if isinstance(following, Work):
            return following
        _release(tx, work)
        return None

    def postpone(self, work: Work, seconds: float, why: str, failed: bool) -> None:
        """Puts a turn back to be tried again later, and lets the key go.

        Args:
            seconds: how long it waits, at most ten minutes.
            why: what happened, for the operator.
            failed: whether this counts as one of the turn's own failures.
        """

        def run(tx: Tx) -> None:
            _hold(tx, work)
            due = tx.now() + min(int(seconds * 1000), LONGEST_RETRY_MS)
            tx.run(
                "UPDATE turns SET state = 'waiting', failures = failures + ?, due_at = ?,"
                " reason = ? WHERE id = ?",
                int(failed), due, why, work.turn.id,
            )  # fmt: skip
            _release(tx, work)

        self._database.write(run)

    def hand_over(self, process: str) -> int:
        """Gives every turn that the process is at back as it was, attempt included.

        Returns how many there were; whatever still works on them is fenced out.
        """

        def run(tx: Tx) -> int:
            count = tx.run(
                "UPDATE turns SET state = 'waiting', attempts = attempts - (1 - answered)"
                " WHERE state = 'running' AND key IN (SELECT key FROM keys WHERE holder = ?)",
                process,
            )
            tx.run("UPDATE keys SET holder = NULL, fence = fence + 1 WHERE holder = ?", process)
            return count

        return self._database.write(run)

    def void_leases(self) -> None:
        """Voids every lease; for a process that knows that it is alone."""

        def run(tx: Tx) -> None:
            tx.run("UPDATE keys SET holder = NULL WHERE holder IS NOT NULL")
            tx.run("DELETE FROM processes")

        self._database.write(run)

    # -- what people and operators do -------------------------------------------------------

    def cancel(self, turn_id: str, owner: str, text: str, parts: tuple[Part, ...] = ()) -> Turn:
        """Ends an unanswered turn as cancelled; `text` is stored in the place of its answer.

        Args:
            parts: how the channel is told; the turn ends when they are out.

        Raises:
            NotFound: there is no such turn of that owner.
            Conflict: it has ended, or its answer is already stored.
        """

        def run(tx: Tx) -> Turn:
            turn = self._find(tx, turn_id, owner)
            if turn.state not in ("waiting", "running"):
                raise Conflict(turn.state)
            if turn.answered or turn.command:
                raise Conflict("done")
            if turn.state == "running":
                tx.run("UPDATE keys SET holder = NULL, fence = fence + 1 WHERE key = ?", turn.key)
            now = self._clock.now()
            self._say(tx, turn, _next_part(tx, turn), text, calls_of(tx, turn.id), now)
            _store_parts(tx, turn, parts, now)
            tx.run(
                "UPDATE turns SET state = ?, final = 'cancelled', answered = 1, due_at = 0,"
                " ended_at = ? WHERE id = ?",
                "waiting" if parts else "cancelled", None if parts else now, turn.id,
            )  # fmt: skip
            return turn

        return self._database.write(run)

    def unfinished(self, key: str, person: str) -> Turn | None:
        """The person's first message under a key that is not answered yet."""
        row = self._database.read(
            lambda tx: tx.row(
                f"SELECT {_TURN} FROM turns t WHERE t.key = ? AND t.person = ?"
                " AND t.state IN ('waiting', 'running') AND t.answered = 0 AND t.command = ''"
                " ORDER BY t.seq LIMIT 1",
                key, person,
            )
        )  # fmt: skip
        return None if row is None else _turn(row)

    def overtaken(self, fences: Mapping[str, int]) -> list[str]:
        """Which of these turns, with the fences they run under, are not ours any more."""
        if not fences:
            return []
        rows = self._database.read(
            lambda tx: tx.rows(
                "SELECT t.id, k.fence FROM turns t LEFT JOIN keys k ON k.key = t.key"
                f" WHERE t.id IN ({joined(fences)})",
                *fences,
            )
        )
        return [str(turn) for turn, fence in rows if fence != fences[str(turn)]]

    def retry(self, turn_id: str) -> Turn:
        """Puts a turn that was set aside back to be tried anew.

        Raises:
            NotFound: there is no such turn.
            Conflict: it is not set aside.
        """

        def run(tx: Tx) -> Turn:
            turn = self._find(tx, turn_id, None)
            if turn.state != "set_aside":
                raise Conflict(turn.state)
            tx.run(
                "UPDATE turns SET state = 'waiting', answered = 0, attempts = 0, deaths = 0,"
                " failures = 0, due_at = 0, ended_at = NULL, reason = '' WHERE id = ?",
                turn_id,
            )
            tx.run(
                "UPDATE conversations SET stamp = ? WHERE id = ?",
                self._ids(""), turn.conversation,
            )  # fmt: skip
            return turn

        return self._database.write(run)

    def dismiss(self, turn_id: str) -> Turn:
        """Ends a turn that was set aside for good.

        Raises:
            NotFound: there is no such turn.
            Conflict: it is not set aside.
        """

        def run(tx: Tx) -> Turn:
            turn = self._find(tx, turn_id, None)
            if turn.state != "set_aside":
                raise Conflict(turn.state)
            tx.run(
                "UPDATE turns SET state = 'cancelled', reason = 'dismissed' WHERE id = ?", turn_id
            )
            return turn

        return self._database.write(run)

    # -- looking --------------------------------------------------------------------------

    def get(self, turn_id: str, owner: str | None = None) -> Turn:
        """One turn; with `owner` only if it belongs to that memory.

        Raises:
            NotFound: there is no such turn of that owner.
        """
        return self._database.read(lambda tx: self._find(tx, turn_id, owner))

    def accepted(self, turn_id: str) -> Accepted:
        """Where a known turn's message went.

        Raises:
            NotFound: there is no such turn.
        """
        return self._database.read(lambda tx: self._again(tx, turn_id))

    def result(self, turn_id: str) -> tuple[Turn, Message | None]:
        """A turn with the last thing that Mercury said in it.

        Raises:
            NotFound: there is no such turn.
        """

        def run(tx: Tx) -> tuple[Turn, Message | None]:
            turn = self._find(tx, turn_id, None)
            row = tx.row(
                f"SELECT {MESSAGE} FROM messages m WHERE m.conversation = ? AND m.seq = ?"
                " AND m.part > 0 ORDER BY m.part DESC LIMIT 1",
                turn.conversation, turn.seq,
            )  # fmt: skip
            if row is None:
                return turn, None
            return turn, replace(message_of(row), tools=calls_of(tx, turn_id))

        return self._database.read(run)

    @staticmethod
    def _find(tx: Tx, turn_id: str, owner: str | None) -> Turn:
        row = tx.row(f"SELECT {_TURN} FROM turns t WHERE t.id = ?", turn_id)
        turn = None if row is None else _turn(row)
        if turn is None or owner not in (None, turn.owner):
            raise NotFound(turn_id)
        return turn

    def in_state(self, states: tuple[State, ...], limit: int) -> list[Turn]:
        """The oldest turns in those states."""
        marks = ", ".join("?" for _ in states)
        rows = self._database.read(
            lambda tx: tx.rows(
                f"SELECT {_TURN} FROM turns t WHERE t.state IN ({marks})"
                " ORDER BY t.accepted_at, t.seq LIMIT ?",
                *states,
                limit,
            )
        )
        return [_turn(row) for row in rows]

    def first_since(self, channel: Channel, at: int) -> Turn | None:
        """The first turn of a channel that was accepted at that time or later.

        Looks through all turns: for a command that waits, not for the server.
        """
        row = self._database.read(
            lambda tx: tx.row(
                f"SELECT {_TURN} FROM turns t WHERE t.channel = ? AND t.accepted_at >= ?"
                " ORDER BY t.accepted_at, t.seq LIMIT 1",
                channel, at,
            )
        )  # fmt: skip
        return None if row is None else _turn(row)

    def count_running(self) -> int:
        """How many turns run here or elsewhere, or did when their process died."""
        row = self._database.read(
            lambda tx: tx.row(
                "SELECT count(*) FROM turns WHERE state IN ('waiting', 'running')"
                " AND state = 'running'"  # the first half names the index that has them
            )
        )
        assert row is not None
        return int(str(row[0]))

    def counts(self) -> dict[str, int]:
        """How many turns are waiting, running and set aside."""
        rows = self._database.read(
            lambda tx: tx.rows(
                "SELECT state, count(*) FROM turns WHERE state IN ('waiting', 'running')"
                " GROUP BY state UNION ALL"
                " SELECT state, count(*) FROM turns WHERE state = 'set_aside' GROUP BY state"
            )
        )
        return {str(state): int(str(count)) for state, count in rows}


def _take_free(tx: Tx, key: str, process: str) -> int:
    """Takes a key that nobody holds; returns its new fence."""
    row = tx.row(
        "UPDATE keys SET holder = ?, fence = fence + 1 WHERE key = ? RETURNING fence",
        process, key,
    )  # fmt: skip
    assert row is not None
    return int(str(row[0]))


def _hold(tx: Tx, work: Work) -> None:
    row = tx.row("SELECT fence FROM keys WHERE key = ?", work.turn.key)
    if row is None or row[0] != work.fence:
        raise Fenced(work.turn.id)


def _release(tx: Tx, work: Work) -> None:
    tx.run("UPDATE keys SET holder = NULL WHERE key = ? AND fence = ?", work.turn.key, work.fence)


def _store_turn(tx: Tx, turn: Turn, hash: str, fence: int) -> None:
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


def _store_parts(tx: Tx, turn: Turn, parts: tuple[Part, ...], now: int) -> None:
    """Stores the parts of an answer; the first takes the place of a placeholder."""
    if not parts:
        return
    row = tx.row(
        "SELECT count(*) FROM deliveries WHERE turn = ? AND state <> 'placeholder'", turn.id
    )
    first = int(str(row[0])) if row else 0
    for n, part in enumerate(parts, first):
        tx.run(
            "INSERT INTO deliveries (turn, part, message, text, state, at, card)"
            " VALUES (?, ?, ?, ?, 'waiting', ?, ?) ON CONFLICT (turn, part) DO UPDATE SET"
            " text = excluded.text, state = 'waiting', at = excluded.at",
            turn.id, n, part.message, part.text, now, part.card,
        )  # fmt: skip


def _remember_told(tx: Tx, conversation: str, stores: tuple[str, ...]) -> None:
    row = tx.row("SELECT told FROM conversations WHERE id = ?", conversation)
    assert row is not None
    told = sorted({*json.loads(str(row[0])), *stores})
    tx.run("UPDATE conversations SET told = ? WHERE id = ?", json.dumps(told), conversation)


def _no_message(turn: Turn) -> Message:
    """What stands in the place of a command's message."""
    return Message(
        "", turn.conversation, turn.id, turn.seq, 0, "person", turn.person, "", turn.accepted_at, ""
    )


def _next_part(tx: Tx, turn: Turn) -> int:
    row = tx.row(
        "SELECT max(part) + 1 FROM messages WHERE conversation = ? AND seq = ?",
        turn.conversation, turn.seq,
    )  # fmt: skip
    assert row is not None
    return int(str(row[0]))
