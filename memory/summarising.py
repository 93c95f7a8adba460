"""What turns finished talk into segments with lines, and a long history into a short one.

One summariser works on a conversation at a time, under a claim that expires; every step is a
compare-and-set, so that two of them, or one that was killed, can neither lose nor double a
line. A summariser that fails leaves everything as it is, and is tried again with growing pauses.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from memory import segments
from memory.clock import Clock
from memory.conversation import prepare, size_of
from memory.database import Database, Tx
from memory.ids import Ids
from memory.records import Line, Message
from memory.rows import CONVERSATION, MESSAGE, Conversation, conversation_of, message_of, with_calls
from memory.summaries import Summariser, SummaryFailed

log = logging.getLogger(__name__)

CLAIM_MS = 180_000
"""How long one summariser may be at a conversation before another may take over."""
PAUSES_S = (30, 60, 120, 300, 600)
VERBATIM_SHARE = 3
"""What stays word for word fits in about a third of the limit."""


class Summarising:
    """Segments, lines and compaction, on the archive.

    Args:
        database, clock, ids: the archive's.
        summariser: makes lines of a segment's messages.
        limit: `HISTORY_MAX_CHARS`.
        step: called with the name of each point at which a trial may stop the process.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        ids: Ids,
        summariser: Summariser,
        limit: int,
        step: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._summariser = summariser
        self._limit = limit
        self._step = step

    def due(self, idle_ms: int, limit: int = 20) -> list[str]:
        """Conversations that ended, or have been idle, with talk that no segment describes."""
        now = self._clock.now()
        rows = self._database.read(
            lambda tx: tx.rows(
                "SELECT id FROM conversations WHERE segmented_through < last_seq"
                " AND (last_at <= ? OR ended_at IS NOT NULL)"
                " AND (summary_due <= ? OR summary_due > ?) ORDER BY last_at LIMIT ?",
                now - idle_ms, now, now + PAUSES_S[-1] * 1000, limit,
            )
        )  # fmt: skip
        return [str(id_) for (id_,) in rows]

    def describe(self, conversation: str, closing: bool) -> bool:
        """Summarises the segments that are still to be described; True when none is left.

        Args:
            closing: whether the rest that fills no segment is described too.
        """
        claim = self._claim(conversation)
        if claim is None:
            return False
        try:
            return self._describe(conversation, closing)
        except SummaryFailed as error:
            log.warning("a summary failed and will be tried again: %s", error)
            self._pause(conversation)
            return False
        finally:
            self._unclaim(conversation, claim)

    def compact(self, conversation: str) -> bool:
        """Moves `compacted_through` so that the history is below half of its limit.

        Returns False when the lines could not be made; the history then stays as it is.
        """
        self._step("compacting")
        if not self.describe(conversation, closing=False):
            return False
        return self._database.write(lambda tx: self._compact(tx, conversation))

    # -- describing -----------------------------------------------------------------------

    def _describe(self, id_: str, closing: bool) -> bool:
        conversation, messages = self._undescribed(id_)
        shared = conversation.owner.startswith("space:")
        turns = [list(turn) for _, turn in groupby(messages, key=lambda message: message.seq)]
        through = conversation.segmented_through
        closed = segments.close(turns, closing, size=lambda m: _size(m, shared))
        for first, last in closed:
            chosen = [message for message in messages if first <= message.seq <= last]
            lines = self._summariser.summarise(chosen)
            self._step("summarised")
            if not self._store(conversation, through, first, last, lines):
                return False
            through = last
        return True

    def _undescribed(self, id_: str) -> tuple[Conversation, list[Message]]:
        def run(tx: Tx) -> tuple[Conversation, list[Message]]:
            row = tx.row(f"SELECT {CONVERSATION} FROM conversations c WHERE c.id = ?", id_)
            assert row is not None
            conversation = conversation_of(row)
            open_seq = tx.row(
                "SELECT min(seq) FROM turns WHERE key = ? AND state IN ('waiting', 'running')"
                " AND answered = 0",
                conversation.key,
            )
            bound = open_seq[0] if open_seq and open_seq[0] is not None else 1 << 62
            rows = tx.rows(
                f"SELECT {MESSAGE} FROM messages m WHERE m.conversation = ? AND m.seq > ?"
                " AND m.seq < ? ORDER BY m.seq, m.part",
                id_, conversation.segmented_through, bound,
            )  # fmt: skip
            messages = with_calls(
                tx, [message_of(one) for one in rows], "t.conversation = ? AND t.seq > ?",
                id_, conversation.segmented_through,
            )  # fmt: skip
            return conversation, messages

        return self._database.read(run)

    def _store(
        self, conversation: Conversation, through: int, first: int, last: int,
        lines: Sequence[Line],
    ) -> bool:  # fmt: skip
        now = self._clock.now()

        def run(tx: Tx) -> bool:
            moved = tx.run(
                "UPDATE conversations SET segmented_through = ?, summary_tries = 0,"
                " summary_due = 0 WHERE id = ? AND segmented_through = ?",
                last, conversation.id, through,
            )  # fmt: skip
            if not moved:
                return False
            segment = self._ids("sg_")
            tx.run(
                "INSERT INTO segments (id, conversation, owner, first_seq, last_seq, at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                segment, conversation.id, conversation.owner, first, last, now,
            )  # fmt: skip
            for n, line in enumerate(lines):
                tx.run(
                    "INSERT INTO lines (id, segment, conversation, owner, seq, n, kind, text,"
                    " messages, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    self._ids("mm_"), segment, conversation.id, conversation.owner, last, n,
                    line.kind, line.text, json.dumps(line.messages), line.at,
                )  # fmt: skip
            return True

        return self._database.write(run)

    # -- the claim ------------------------------------------------------------------------

    def _claim(self, conversation: str) -> str | None:
        claim, now = self._ids(""), self._clock.now()
        taken = self._database.write(
            lambda tx: tx.run(
                "UPDATE conversations SET claim = ?, claim_until = ? WHERE id = ?"
                " AND (claim IS NULL OR claim_until <= ? OR claim_until > ?)"
                " AND (summary_due <= ? OR summary_due > ?)",
                claim, now + CLAIM_MS, conversation, now, now + CLAIM_MS,
                now, now + PAUSES_S[-1] * 1000,
            )
        )  # fmt: skip
        return claim if taken else None

    def _unclaim(self, conversation: str, claim: str) -> None:
        self._database.write(
            lambda tx: tx.run(
                "UPDATE conversations SET claim = NULL, claim_until = 0 WHERE id = ? AND claim = ?",
                conversation, claim,
            )
        )  # fmt: skip

    def _pause(self, conversation: str) -> None:
        now = self._clock.now()

        def run(tx: Tx) -> None:
            row = tx.row("SELECT summary_tries FROM conversations WHERE id = ?", conversation)
            tries = int(str(row[0])) if row else 0
            pause = PAUSES_S[min(tries, len(PAUSES_S) - 1)]
            tx.run(
                "UPDATE conversations SET summary_tries = summary_tries + 1, summary_due = ?"
                " WHERE id = ?",
                now + pause * 1000, conversation,
            )  # fmt: skip

        self._database.write(run)

    def void_claims(self) -> None:
        """Voids every claim; for a process that knows that it is alone."""
        self._database.write(
            lambda tx: tx.run(
                "UPDATE conversations SET claim = NULL, claim_until = 0 WHERE claim IS NOT NULL"
            )
        )

    # -- compaction -----------------------------------------------------------------------

    def _compact(self, tx: Tx, id_: str) -> bool:
        row = tx.row(f"SELECT {CONVERSATION} FROM conversations c WHERE c.id = ?", id_)
        assert row is not None
        conversation = conversation_of(row)
        through = self._cut(tx, conversation)
        if through is None:
            return False
        return bool(
            tx.run(
                "UPDATE conversations SET compacted_through = ?, stamp = ? WHERE id = ?"
                " AND compacted_through = ?",
                through, self._ids(""), id_, conversation.compacted_through,
            )
        )  # fmt: skip

    def _cut(self, tx: Tx, conversation: Conversation) -> int | None:
        """The earliest segment's end after which no more than a third of the limit remains.

        The last message of the person and what follows it always remain.
        """
        ends: list[Any] = tx.rows(
            "SELECT last_seq FROM segments WHERE conversation = ? AND last_seq > ?"
            " AND last_seq < (SELECT max(seq) FROM messages WHERE conversation = ?"
            " AND role = 'person') ORDER BY last_seq",
            conversation.id, conversation.compacted_through, conversation.id,
        )  # fmt: skip
        if not ends:
            return None
        rows = tx.rows(
            f"SELECT {MESSAGE} FROM messages m WHERE m.conversation = ? AND m.seq > ?"
            " ORDER BY m.seq, m.part",
            conversation.id, conversation.compacted_through,
        )  # fmt: skip
        shared = conversation.owner.startswith("space:")
        messages = with_calls(
            tx, [message_of(one) for one in rows], "t.conversation = ? AND t.seq > ?",
            conversation.id, conversation.compacted_through,
        )  # fmt: skip
        sizes = [(message.seq, _size(message, shared)) for message in messages]
        for (end,) in ends:
            if sum(size for seq, size in sizes if seq > end) <= self._limit // VERBATIM_SHARE:
                return int(end)
        return int(ends[-1][0])


def _size(message: Message, shared: bool) -> int:
    return sum(size_of(prepared) for prepared in prepare(message, shared))
