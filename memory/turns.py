"""The turns: accepted messages, in order under their keys, until each answer is delivered.

What is left to do is what stands here as not done; there is no second queue. Every write of a
turn's work goes through the fence that was raised when its key was taken, so that a process
that was overtaken can do no harm. Knows rows and states, nothing of models or channels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from memory.clock import Clock
from memory.database import Database, Tx
from memory.errors import Conflict, Fenced, NotFound
from memory.ids import Ids
from memory.records import Message, ToolCall
from memory.rows import (
    CONVERSATION,
    MESSAGE,
    calls_of,
    conversation_of,
    joined,
    message_of,
    store_call,
    store_message,
)
from memory.turn_rows import (
    COLUMNS,
    NOWHERE,
    TURN,
    Answer,
    Channel,
    Part,
    State,
    Stored,
    Suspect,
    Turn,
    Work,
    no_message,
    store_parts,
    turn_of,
)

PROCESS_DEAD_MS = 10_000
"""A process whose heartbeat is older than this has lost its leases."""
DEATHS_BEFORE_ALONE = 2
LONGEST_RETRY_MS = 600_000
"""No retry is ever planned further ahead; a later time means that a clock was moved."""


class Turns:
    """The turns in the archive.

    Args:
        database: where they are.
        clock: the archive's time.
        ids: makes ids.
    """

    def __init__(self, database: Database, clock: Clock, ids: Ids) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids

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
        before = tx.locked("SELECT holder FROM keys WHERE key = ?", key)
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
            f"SELECT {TURN} FROM turns t WHERE t.key = ? AND t.state IN ('waiting', 'running')"
            " ORDER BY t.seq LIMIT 1",
            key,
        )
        if row is None:
            return None
        turn = turn_of(row)
        if now < turn.due_at <= now + LONGEST_RETRY_MS:
            return None
        died = turn.state == "running" and not turn.answered and not was_mine
        if not alone and not turn.answered and turn.deaths + died >= DEATHS_BEFORE_ALONE:
            return Suspect(turn.id)
        fresh = tx.row(
            "UPDATE turns SET state = 'running', fence = ?, attempts = attempts + ?,"
            f" deaths = deaths + ?, due_at = 0 WHERE id = ? RETURNING {', '.join(COLUMNS)}",
            fence, 0 if turn.answered else 1, 1 if died else 0, turn.id,
        )  # fmt: skip
        assert fresh is not None
        return self._work(tx, turn_of(fresh), fence)

    @staticmethod
    def _work(tx: Tx, turn: Turn, fence: int) -> Work:
        row = tx.row(
            f"SELECT {CONVERSATION} FROM conversations c WHERE c.id = ?", turn.conversation
        )
        conversation = NOWHERE if row is None else conversation_of(row)
        if turn.command:
            return Work(turn, fence, no_message(turn), conversation, (), 0)
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
        row = self._database.read(
            lambda tx: tx.row("SELECT fence FROM keys WHERE key = ?", work.turn.key)
        )
        if row is None or row[0] != work.fence:
            raise Fenced(work.turn.id)

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
        store_parts(tx, turn, answer.parts, now)
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
            turn = self._locked(tx, turn_id, owner)
            if turn.state not in ("waiting", "running"):
                raise Conflict(turn.state)
            if turn.answered or turn.command:
                raise Conflict("done")
            if turn.state == "running":
                tx.run("UPDATE keys SET holder = NULL, fence = fence + 1 WHERE key = ?", turn.key)
            now = self._clock.now()
            self._say(tx, turn, _next_part(tx, turn), text, calls_of(tx, turn.id), now)
            store_parts(tx, turn, parts, now)
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
                f"SELECT {TURN} FROM turns t WHERE t.key = ? AND t.person = ?"
                " AND t.state IN ('waiting', 'running') AND t.answered = 0 AND t.command = ''"
                " ORDER BY t.seq LIMIT 1",
                key, person,
            )
        )  # fmt: skip
        return None if row is None else turn_of(row)

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
            turn = self._locked(tx, turn_id, None)
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
            turn = self._locked(tx, turn_id, None)
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
        row = tx.row(f"SELECT {TURN} FROM turns t WHERE t.id = ?", turn_id)
        turn = None if row is None else turn_of(row)
        if turn is None or owner not in (None, turn.owner):
            raise NotFound(turn_id)
        return turn

    def _locked(self, tx: Tx, turn_id: str, owner: str | None) -> Turn:
        """As it is while nobody else can work on its key."""
        tx.locked("SELECT fence FROM keys WHERE key = ?", self._find(tx, turn_id, owner).key)
        return self._find(tx, turn_id, owner)

    def in_state(self, states: tuple[State, ...], limit: int) -> list[Turn]:
        """The oldest turns in those states."""
        marks = ", ".join("?" for _ in states)
        rows = self._database.read(
            lambda tx: tx.rows(
                f"SELECT {TURN} FROM turns t WHERE t.state IN ({marks})"
                " ORDER BY t.accepted_at, t.seq LIMIT ?",
                *states,
                limit,
            )
        )
        return [turn_of(row) for row in rows]

    def first_since(self, channel: Channel, at: int) -> Turn | None:
        """The first turn of a channel that was accepted at that time or later.

        Looks through all turns: for a command that waits, not for the server.
        """
        row = self._database.read(
            lambda tx: tx.row(
                f"SELECT {TURN} FROM turns t WHERE t.channel = ? AND t.accepted_at >= ?"
                " ORDER BY t.accepted_at, t.seq LIMIT 1",
                channel, at,
            )
        )  # fmt: skip
        return None if row is None else turn_of(row)

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


def _hold(tx: Tx, work: Work) -> None:
    row = tx.locked("SELECT fence FROM keys WHERE key = ?", work.turn.key)
    if row is None or row[0] != work.fence:
        raise Fenced(work.turn.id)


def _release(tx: Tx, work: Work) -> None:
    tx.run("UPDATE keys SET holder = NULL WHERE key = ? AND fence = ?", work.turn.key, work.fence)


def _remember_told(tx: Tx, conversation: str, stores: tuple[str, ...]) -> None:
    row = tx.row("SELECT told FROM conversations WHERE id = ?", conversation)
    assert row is not None
    told = sorted({*json.loads(str(row[0])), *stores})
    tx.run("UPDATE conversations SET told = ? WHERE id = ?", json.dumps(told), conversation)


def _next_part(tx: Tx, turn: Turn) -> int:
    row = tx.row(
        "SELECT max(part) + 1 FROM messages WHERE conversation = ? AND seq = ?",
        turn.conversation, turn.seq,
    )  # fmt: skip
    assert row is not None
    return int(str(row[0]))
