"""The archive as it is read: conversations, messages word for word, search.

Every call takes the scope of who is asking, and what belongs to another owner is "not found",
the same as what does not exist. Messages are never altered here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from memory import cursor as cursors
from memory import search
from memory.clock import Clock
from memory.conversation import History, fold
from memory.database import Database, Tx
from memory.errors import NotFound
from memory.ids import Ids
from memory.records import Line, Message, Scope
from memory.rows import (
    CONVERSATION,
    MESSAGE,
    Conversation,
    conversation_of,
    end_conversation,
    has_open_turn,
    line_of,
    message_of,
    with_calls,
)

PAGE = 50
LONGEST_PAGE = 200


@dataclass(frozen=True, slots=True)
class Page:
    """Messages oldest first, and the cursor of the page before (or after) it, or None."""

    items: list[Message]
    next: str | None


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """Conversations, the one with the newest message first, and the next page's cursor."""

    items: list[Conversation]
    next: str | None


@dataclass(frozen=True, slots=True)
class HitPage:
    """Found messages, and the next page's cursor."""

    items: list[Message]
    next: str | None


class Archive:
    """Reading side of the archive.

    Args:
        database: where the rows are.
        clock: the archive's time.
        ids: makes stamps.
        limit: `HISTORY_MAX_CHARS`, which bounds what lines a history shows.
    """

    def __init__(self, database: Database, clock: Clock, ids: Ids, limit: int) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._limit = limit

    # -- conversations --------------------------------------------------------------------

    def conversation(self, scope: Scope | None, name: str) -> Conversation:
        """The conversation under that id, its own or the client's; None asks as operator.

        Raises:
            NotFound: there is none, or it is not the asker's.
        """
        return self._database.read(lambda tx: _conversation(tx, scope, name))

    def conversations(
        self, owner: str | None, limit: int = PAGE, cursor: str | None = None
    ) -> ConversationPage:
        """Conversations of one memory (or, for the operator, of all), newest message first.

        Raises:
            ValueError: the cursor is none of ours.
        """
        limit = max(1, min(limit, LONGEST_PAGE))
        at, last = cursors.decode(cursor, int, str) if cursor else (1 << 62, "")
        whose, values = ("c.owner = ? AND ", [owner]) if owner is not None else ("", [])
        rows = self._database.read(
            lambda tx: tx.rows(
                f"SELECT {CONVERSATION} FROM conversations c WHERE {whose}"
                "(c.last_at < ? OR (c.last_at = ? AND c.id > ?))"
                " ORDER BY c.last_at DESC, c.id LIMIT ?",
                *values, at, at, last, limit + 1,
            )
        )  # fmt: skip
        items = [conversation_of(row) for row in rows[:limit]]
        more = len(rows) > limit
        return ConversationPage(
            items, cursors.encode(items[-1].last_at, items[-1].id) if more else None
        )

    def rename(self, scope: Scope, name: str, title: str) -> Conversation:
        """Gives a conversation another title.

        Raises:
            NotFound: it is not the asker's.
        """

        def run(tx: Tx) -> Conversation:
            found = _conversation(tx, scope, name)
            tx.run("UPDATE conversations SET title = ? WHERE id = ?", title, found.id)
            return _conversation(tx, scope, found.id)

        return self._database.write(run)

    def end_idle(self, idle_ms: int, limit: int = 100) -> list[str]:
        """Ends Chat conversations that have been silent for that long; returns their ids."""
        now = self._clock.now()
        rows = self._database.read(
            lambda tx: tx.rows(
                "SELECT id FROM conversations WHERE channel = 'chat' AND ended_at IS NULL"
                " AND last_at <= ? ORDER BY last_at LIMIT ?",
                now - idle_ms, limit,
            )
        )  # fmt: skip
        return [str(id_) for (id_,) in rows if self._end_if_idle(str(id_), now, idle_ms)]

    def _end_if_idle(self, conversation: str, now: int, idle_ms: int) -> bool:
        def run(tx: Tx) -> bool:
            found = _conversation(tx, None, conversation)
            tx.locked("SELECT fence FROM keys WHERE key = ?", found.key)
            row = tx.row(
                "SELECT key FROM conversations WHERE id = ? AND ended_at IS NULL AND last_at <= ?",
                conversation, now - idle_ms,
            )  # fmt: skip
            if row is None or has_open_turn(tx, str(row[0])):
                return False
            return end_conversation(tx, conversation, now)

        return self._database.write(run)

    def end(self, name: str) -> Conversation:
        """Ends a conversation by the operator's hand; on Chat the next message opens a new one.

        Raises:
            NotFound: there is none.
        """

        def run(tx: Tx) -> Conversation:
            found = _conversation(tx, None, name)
            end_conversation(tx, found.id, self._clock.now())
            return found

        return self._database.write(run)

    def touch(self, name: str) -> Conversation:
        """Gives a conversation a new stamp, so that every cache folds it anew.

        Raises:
            NotFound: there is none.
        """

        def run(tx: Tx) -> Conversation:
            found = _conversation(tx, None, name)
            tx.run("UPDATE conversations SET stamp = ? WHERE id = ?", self._ids(""), found.id)
            return _conversation(tx, None, found.id)

        return self._database.write(run)

    # -- the history ----------------------------------------------------------------------

    def history(self, conversation: Conversation, before: int | None = None) -> History:
        """Folds the conversation; with `before` as the turn at that place sees it."""
        return self._database.read(lambda tx: self._history(tx, conversation.id, before))

    def _history(self, tx: Tx, id_: str, before: int | None) -> History:
        conversation = _conversation(tx, None, id_)
        lines = self._lines(tx, conversation, conversation.compacted_through)
        bound = (1 << 62) if before is None else before
        rows = tx.rows(
            f"SELECT {MESSAGE} FROM messages m WHERE m.conversation = ? AND m.seq > ?"
            " AND m.seq < ? ORDER BY m.seq, m.part",
            id_, conversation.compacted_through, bound,
        )  # fmt: skip
        unfinished = {
            row[0]
            for row in tx.rows(
                "SELECT seq FROM turns WHERE key = ? AND state IN ('waiting', 'running')"
                " AND answered = 0",
                conversation.key,
            )
        }
        messages = with_calls(
            tx,
            [message for row in rows if (message := message_of(row)).seq not in unfinished],
            "t.conversation = ? AND t.seq > ?",
            id_, conversation.compacted_through,
        )  # fmt: skip
        return fold(
            id_, conversation.stamp, conversation.recap or "", lines, messages, self._limit,
            conversation.owner.startswith("space:"),
        )  # fmt: skip

    def lines(self, conversation: Conversation) -> list[Line]:
        """Every line that describes the conversation, oldest first."""
        return self._database.read(lambda tx: self._lines(tx, conversation, 1 << 62))

    @staticmethod
    def _lines(tx: Tx, conversation: Conversation, through: int) -> list[Line]:
        if through == 0:
            return []
        rows = tx.rows(
            "SELECT kind, text, messages, at FROM lines WHERE conversation = ? AND seq <= ?"
            " ORDER BY seq, n",
            conversation.id, through,
        )  # fmt: skip
        return [line_of(row) for row in rows]

    def set_recap(self, conversation: str, recap: str) -> tuple[str, str]:
        """Stores the recap unless there is one; returns the recap and the stamp that hold."""

        def run(tx: Tx) -> tuple[str, str]:
            stamp = self._ids("")
            tx.run(
                "UPDATE conversations SET recap = ?, stamp = ? WHERE id = ? AND recap IS NULL",
                recap, stamp, conversation,
            )  # fmt: skip
            row = tx.row("SELECT recap, stamp FROM conversations WHERE id = ?", conversation)
            assert row is not None
            return str(row[0]), str(row[1])

        return self._database.write(run)

    # -- messages -------------------------------------------------------------------------

    def messages(
        self,
        scope: Scope | None,
        name: str,
        before: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page:
        """A page of a conversation, word for word; the newest without a cursor.

        Args:
            before, after: a cursor; at most one of the two.
            limit: 1 to 200.

        Raises:
            NotFound: the conversation is not the asker's.
            ValueError: the cursor is none of ours, or both are given.
        """
        if before and after:
            raise ValueError("a page lies before or after a place, not both")
        limit = max(1, min(limit, LONGEST_PAGE))
        upward = after is not None
        place = before or after
        seq, part = cursors.decode(place, int, int) if place else (1 << 62, 0)
        sign, order = (">", "ASC") if upward else ("<", "DESC")

        def run(tx: Tx) -> Page:
            found = _conversation(tx, scope, name)
            rows = tx.rows(
                f"SELECT {MESSAGE} FROM messages m WHERE m.conversation = ?"
                f" AND (m.seq {sign} ? OR (m.seq = ? AND m.part {sign} ?))"
                f" ORDER BY m.seq {order}, m.part {order} LIMIT ?",
                found.id, seq, seq, part, limit + 1,
            )  # fmt: skip
            items = [message_of(row) for row in rows[:limit]]
            more = len(rows) > limit
            if not upward:
                items.reverse()
            if not items:
                return Page([], None)
            edge = items[-1] if upward else items[0]
            items = with_calls(
                tx, items, "t.conversation = ? AND t.seq BETWEEN ? AND ?",
                found.id, items[0].seq, items[-1].seq,
            )  # fmt: skip
            return Page(items, cursors.encode(edge.seq, edge.part) if more else None)

        return self._database.read(run)

    def message(self, scope: Scope | None, id_: str, around: int = 0) -> list[Message]:
        """One message, with `around` neighbours on each side.

        Raises:
            NotFound: there is none, or it is not the asker's.
        """

        owner = None if scope is None else scope.owner

        def run(tx: Tx) -> list[Message]:
            row = tx.row(f"SELECT m.owner, {MESSAGE} FROM messages m WHERE m.id = ?", id_)
            if row is None or owner not in (None, row[0]):
                raise NotFound(id_)
            found = message_of(row[1:])
            sides: list[list[Message]] = []
            for sign, order in (("<", "DESC"), (">", "ASC")):
                rows = tx.rows(
                    f"SELECT {MESSAGE} FROM messages m WHERE m.conversation = ?"
                    f" AND (m.seq {sign} ? OR (m.seq = ? AND m.part {sign} ?))"
                    f" ORDER BY m.seq {order}, m.part {order} LIMIT ?",
                    found.conversation, found.seq, found.seq, found.part, around,
                )  # fmt: skip
                sides.append([message_of(one) for one in rows])
            items = [*reversed(sides[0]), found, *sides[1]]
            return with_calls(
                tx, items, "t.conversation = ? AND t.seq BETWEEN ? AND ?",
                found.conversation, items[0].seq, items[-1].seq,
            )  # fmt: skip

        return self._database.read(run)

    def last_exchanges(self, conversation: str, count: int) -> list[Message]:
        """The messages of the last `count` turns, in order, with their tool calls."""

        def run(tx: Tx) -> list[Message]:
            rows: list[Any] = tx.rows(
                "SELECT DISTINCT seq FROM messages WHERE conversation = ? AND role <> 'settled'"
                " ORDER BY seq DESC LIMIT ?",
                conversation, count,
            )  # fmt: skip
            if not rows:
                return []
            first = rows[-1][0]
            messages = tx.rows(
                f"SELECT {MESSAGE} FROM messages m WHERE m.conversation = ? AND m.seq >= ?"
                " AND m.role <> 'settled' ORDER BY m.seq, m.part",
                conversation, first,
            )  # fmt: skip
            return with_calls(
                tx, [message_of(row) for row in messages], "t.conversation = ? AND t.seq >= ?",
                conversation, first,
            )  # fmt: skip

        return self._database.read(run)

    def typed(self, conversation: str, part: str, through: int) -> list[str]:
        """What persons wrote in a conversation that holds `part`, whatever its case; newest first.

        Args:
            through: the last place (`turn_seq`) that counts.
        """
        pattern = re.sub(r"[\\%_]", r"\\\g<0>", part.lower())
        rows = self._database.read(
            lambda tx: tx.rows(
                "SELECT text FROM messages WHERE conversation = ? AND role = 'person' AND seq <= ?"
                " AND lower(text) LIKE ? ESCAPE '\\' ORDER BY seq DESC LIMIT 50",
                conversation, through, f"%{pattern}%",
            )
        )  # fmt: skip
        return [str(text) for (text,) in rows]

    # -- search ---------------------------------------------------------------------------

    def search(
        self,
        scope: Scope,
        query: str,
        limit: int = 10,
        order: search.Order = "best",
        since: int | None = None,
        until: int | None = None,
        cursor: str | None = None,
        without_turn: str = "",
    ) -> HitPage:
        """Messages of the asker's memory that hold the words and the exact quotes of `query`.

        Args:
            order: `best` first by BM25, or `newest` first.
            since, until: bounds of the message's time in milliseconds; `until` is exclusive.
            cursor: continues a page.
            without_turn: a turn whose own messages are left out.

        Raises:
            ValueError: the cursor is none of ours.
        """
        limit = max(1, min(limit, LONGEST_PAGE))
        mode, place = cursors.decode(cursor, int, int) if cursor else (0, 0)
        found = search.Search(
            scope.owner, query, limit, order, since, until,
            (int(mode), int(place)) if cursor else None, without_turn,
        )  # fmt: skip

        def run(tx: Tx) -> HitPage:
            rows, following = search.find(tx, found)
            items = [message_of(row) for row in rows]
            return HitPage(items, None if following is None else cursors.encode(*following))

        return self._database.read(run)

    def check(self) -> None:
        """Raises StoreDown when the archive cannot be read now."""
        self._database.read(lambda tx: tx.row("SELECT value FROM meta WHERE name = 'schema'"))


def _conversation(tx: Tx, scope: Scope | None, name: str) -> Conversation:
    """By our own id, or by the name that the asker's client gave it."""
    row = tx.row(f"SELECT {CONVERSATION} FROM conversations c WHERE c.id = ?", name)
    if row is None and scope is not None:
        row = tx.row(
            f"SELECT {CONVERSATION} FROM conversations c WHERE c.key = ?"
            " AND c.channel <> 'chat' LIMIT 1",
            f"{scope.person}/{name}",
        )
    if row is None:
        raise NotFound(name)
    found = conversation_of(row)
    if scope is not None and found.owner != scope.owner:
        raise NotFound(name)
    return found
