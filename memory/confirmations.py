"""The confirmations: what was staged, for whom, and how it was settled.

Rows only: tokens and codes are made elsewhere and stand in no store. A confirmation goes
`waiting` → `running` → `done` or `failed`, or `waiting` → `cancelled` or `expired`; each move
is one conditional update, so that of many who settle it at once one does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from memory.clock import Clock
from memory.database import Database, Row, Tx
from memory.errors import NotFound
from memory.ids import Ids
from memory.records import Message
from memory.rows import store_message

Decision = Literal["confirm", "cancel"]
ConfirmationState = Literal["waiting", "running", "done", "failed", "cancelled", "expired"]

LIVES_MS = 900_000
"""Fifteen minutes."""
TRIES = 5


@dataclass(frozen=True, slots=True)
class Confirmation:
    """One staged action; `content` is exactly what will be done if it is confirmed."""

    id: str
    person: str
    key: str
    conversation: str
    turn: str
    action: str
    content: dict[str, Any]
    state: ConfirmationState
    tries: int
    decision: str
    outcome: str
    created_at: int
    expires_at: int
    settled_at: int | None


_COLUMNS = (
    "id, person, key, conversation, turn, action, content, state, tries, decision, outcome,"
    " created_at, expires_at, settled_at"
)


def _confirmation(row: Row) -> Confirmation:
    values: list[Any] = list(row)
    values[6] = json.loads(values[6])
    return Confirmation(*values)


class Confirmations:
    """The confirmations in the archive."""

    def __init__(self, database: Database, clock: Clock, ids: Ids) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids

    def stage(
        self, person: str, key: str, conversation: str, turn: str, action: str,
        content: dict[str, Any],
    ) -> Confirmation:  # fmt: skip
        """Stores an action that waits for its person's word.

        Args:
            key: where a typed code settles it.
            conversation, turn: what it was asked for in; '' for neither.
        """
        now = self._clock.now()
        staged = Confirmation(
            self._ids("cf_"), person, key, conversation, turn, action, content, "waiting",
            TRIES, "", "", now, now + LIVES_MS, None,
        )  # fmt: skip
        self._database.write(
            lambda tx: tx.run(
                f"INSERT INTO confirmations ({_COLUMNS})"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                staged.id, person, key, conversation, turn, action, json.dumps(content),
                "waiting", TRIES, "", "", now, staged.expires_at, None,
            )
        )  # fmt: skip
        return staged

    def get(self, confirmation: str, person: str | None) -> Confirmation:
        """One confirmation of that person; None asks for whosever it is.

        Raises:
            NotFound: there is none, or it is somebody else's.
        """
        row = self._database.read(
            lambda tx: tx.row(f"SELECT {_COLUMNS} FROM confirmations WHERE id = ?", confirmation)
        )
        found = None if row is None else _confirmation(row)
        if found is None or person not in (None, found.person):
            raise NotFound(confirmation)
        return self._seen(found)

    def waiting(self, person: str, key: str | None = None) -> list[Confirmation]:
        """The person's waiting confirmations, the oldest first; of one key or of all."""
        rows = self._database.read(
            lambda tx: tx.rows(
                f"SELECT {_COLUMNS} FROM confirmations WHERE person = ? AND state = 'waiting'"
                " AND (CAST(? AS TEXT) IS NULL OR key = ?) ORDER BY created_at, id",
                person, key, key,
            )
        )  # fmt: skip
        seen = [self._seen(_confirmation(row)) for row in rows]
        return [one for one in seen if one.state == "waiting"]

    def of_turn(self, turn: str) -> list[Confirmation]:
        """What a turn staged, in order."""
        rows = self._database.read(
            lambda tx: tx.rows(
                f"SELECT {_COLUMNS} FROM confirmations WHERE turn = ? ORDER BY created_at, id",
                turn,
            )
        )
        return [self._seen(_confirmation(row)) for row in rows]

    def running(self) -> list[Confirmation]:
        """Those that were confirmed and whose action is not known to have ended."""
        rows = self._database.read(
            lambda tx: tx.rows(
                f"SELECT {_COLUMNS} FROM confirmations WHERE state = 'running'"
                " OR (state = 'cancelled' AND outcome = '')"
            )
        )
        return [_confirmation(row) for row in rows]

    def resume(self, confirmation: Confirmation) -> bool:
        """Takes a confirmation whose process is lost over; False when somebody else did."""
        now = self._clock.now()
        return bool(
            self._database.write(
                lambda tx: tx.run(
                    "UPDATE confirmations SET settled_at = ? WHERE id = ? AND settled_at = ?"
                    " AND outcome = ''",
                    now, confirmation.id, confirmation.settled_at,
                )
            )
        )  # fmt: skip

    def count_wrong(self, person: str, key: str) -> None:
        """Costs each waiting confirmation of the key a try; the last one expires it."""
        now = self._clock.now()

        def run(tx: Tx) -> None:
            tx.run(
                "UPDATE confirmations SET tries = tries - 1 WHERE person = ? AND key = ?"
                " AND state = 'waiting'",
                person, key,
            )  # fmt: skip
            tx.run(
                "UPDATE confirmations SET state = 'expired', outcome = 'out of tries',"
                " settled_at = ? WHERE person = ? AND key = ? AND state = 'waiting'"
                " AND tries <= 0",
                now, person, key,
            )  # fmt: skip

        self._database.write(run)

    def begin(self, confirmation: Confirmation, decision: Decision) -> Confirmation | None:
        """Moves a waiting one to `running` or `cancelled`; None when somebody else was quicker."""
        now = self._clock.now()
        state = "running" if decision == "confirm" else "cancelled"

        def run(tx: Tx) -> Row | None:
            return tx.row(
                "UPDATE confirmations SET state = ?, decision = ?, settled_at = ? WHERE id = ?"
                f" AND state = 'waiting' AND expires_at > ? RETURNING {_COLUMNS}",
                state, decision, now, confirmation.id, now,
            )  # fmt: skip

        row = self._database.write(run)
        return None if row is None else _confirmation(row)

    def settle(
        self, confirmation: Confirmation, state: ConfirmationState, outcome: str, text: str
    ) -> None:
        """Writes down how it ended, once, with an entry of its own in its conversation, if any.

        Args:
            state: `done`, `failed` or `cancelled`.
            outcome: what happened, for programs.
            text: what happened, as the conversation's entry says it.
        """
        now = self._clock.now()

        def run(tx: Tx) -> None:
            changed = tx.run(
                "UPDATE confirmations SET state = ?, outcome = ?, settled_at = ? WHERE id = ?"
                " AND state IN ('running', 'cancelled') AND outcome = ''",
                state, outcome, now, confirmation.id,
            )  # fmt: skip
            if changed and confirmation.conversation:
                self._enter(tx, confirmation, text, now)

        self._database.write(run)

    def _enter(self, tx: Tx, confirmation: Confirmation, text: str, now: int) -> None:
        key = tx.row(
            "UPDATE keys SET turn_seq = turn_seq + 1 WHERE key = ?"
            " RETURNING turn_seq, coalesce(conversation, ?)",
            confirmation.key, confirmation.conversation,
        )  # fmt: skip
        if key is None:
            return
        seq, current = int(str(key[0])), str(key[1])
        conversation = tx.row("SELECT owner FROM conversations WHERE id = ?", current)
        if conversation is None:
            return
        store_message(
            tx, str(conversation[0]),
            Message(self._ids("m_"), current, confirmation.turn, seq, 0,
                    "settled", "mercury", "Mercury", now, text),
        )  # fmt: skip
        tx.run(
            "UPDATE conversations SET stamp = ?, last_seq = ? WHERE id = ?",
            self._ids(""), seq, current,
        )  # fmt: skip

    def _seen(self, confirmation: Confirmation) -> Confirmation:
        """As it is now: a waiting one whose time is over has expired."""
        if confirmation.state != "waiting" or confirmation.expires_at > self._clock.now():
            return confirmation
        return Confirmation(
            confirmation.id, confirmation.person, confirmation.key, confirmation.conversation,
            confirmation.turn, confirmation.action, confirmation.content, "expired",
            confirmation.tries, "", "expired", confirmation.created_at,
            confirmation.expires_at, None,
        )  # fmt: skip
