"""What is on its way out to a channel, and the lane of each space that it goes through.

The parts of an answer are stored with the answer, before the first is sent. A space takes one
write a second from all apps together, so every write there first takes the space's next slot;
the slots stand in the archive and hold across processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from memory.database import Database, Row, Tx

DeliveryState = Literal["placeholder", "waiting", "sent", "dropped", "settled"]
"""A placeholder is or will be there under the id of an answer that is not made yet; `settled`
is a card whose buttons are gone."""

SLOT_MS = 1_000
"""One write a second and space (Google Chat's usage limits)."""
LONGEST_LANE_MS = 60_000
"""No slot is ever planned further ahead; a later one means that a clock was moved."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One part of an answer: the id under which the channel knows it, its text and its state.

    `name` is what the channel calls it once it is there, a placeholder's too; `card` is the
    confirmation that the part asks for, or ''; a `private` part is seen by the turn's person only.
    """

    turn: str
    part: int
    message: str
    text: str
    state: DeliveryState
    name: str
    thread: str
    tries: int
    card: str = ""
    private: int = 0


@dataclass(frozen=True, slots=True)
class Card:
    """A card that asks for a confirmation which does not wait any more; `target` is the turn's."""

    delivery: Delivery
    target: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A space whose lane is closed, or held for `seconds` still, and the parts that wait for it."""

    space: str
    closed: str
    seconds: float


_COLUMNS = (
    "d.turn, d.part, d.message, d.text, d.state, d.name, d.thread, d.tries, d.card, d.private"
)


class Deliveries:
    """The parts of answers and the lanes of spaces, in the archive."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, turn: str) -> list[Delivery]:
        """The parts of a turn's answers, in order."""
        rows: list[Any] = self._database.read(
            lambda tx: tx.rows(
                f"SELECT {_COLUMNS} FROM deliveries d WHERE d.turn = ? ORDER BY d.part", turn
            )
        )
        return [Delivery(*row) for row in rows]

    def taken(self, turn: str) -> int:
        """How many parts a turn has that are no placeholder: the place of the next one."""
        return self._database.read(lambda tx: parts_taken(tx, turn))

    def mark(self, delivery: Delivery, state: DeliveryState, name: str, thread: str) -> None:
        """Writes down how a part went: `sent` under the channel's `name`, or `dropped`."""
        self._database.write(
            lambda tx: tx.run(
                "UPDATE deliveries SET state = ?, name = ?, thread = ?, tries = tries + 1"
                " WHERE turn = ? AND part = ?",
                state, name, thread, delivery.turn, delivery.part,
            )
        )  # fmt: skip

    def place(self, turn: str, key: str, fence: int, message: str) -> Delivery | None:
        """Writes down that a placeholder is about to be there under the answer's first id.

        Returns None when the turn is not the caller's any more, is answered, or has one.
        """

        def run(tx: Tx) -> Delivery | None:
            held = tx.locked("SELECT fence FROM keys WHERE key = ?", key)
            row = tx.row(
                "SELECT 1 FROM turns WHERE id = ? AND key = ? AND state = 'running'"
                " AND answered = 0",
                turn, key,
            )  # fmt: skip
            states = tx.rows("SELECT state FROM deliveries WHERE turn = ? ORDER BY part", turn)
            has_one = bool(states) and states[-1][0] == "placeholder"
            if held != (fence,) or row is None or has_one:
                return None
            part = len(states)
            tx.run(
                "INSERT INTO deliveries (turn, part, message, text, state, at)"
                " VALUES (?, ?, ?, '', 'placeholder', ?)",
                turn, part, message, tx.now(),
            )  # fmt: skip
            return Delivery(turn, part, message, "", "placeholder", "", "", 0)

        return self._database.write(run)

    def placed(self, delivery: Delivery, name: str, thread: str) -> None:
        """Writes down where a placeholder is, whatever has become of its part meanwhile."""
        self._database.write(
            lambda tx: tx.run(
                "UPDATE deliveries SET name = ?, thread = ? WHERE turn = ? AND part = ?"
                " AND name = ''",
                name, thread, delivery.turn, delivery.part,
            )
        )  # fmt: skip

    def cards_to_settle(self, now: int, limit: int) -> list[Card]:
        """Cards that are out and whose confirmations are settled or have expired.

        Args:
            now: the archive's time, in milliseconds.
        """
        rows: list[Any] = self._database.read(
            lambda tx: tx.rows(
                f"SELECT {_COLUMNS}, t.target FROM deliveries d"
                " JOIN confirmations c ON c.id = d.card JOIN turns t ON t.id = d.turn"
                " WHERE d.card <> '' AND d.state = 'sent' AND c.state <> 'running'"
                " AND (c.state <> 'waiting' OR c.expires_at <= ?) AND"
                " (c.state <> 'cancelled' OR c.outcome <> '') LIMIT ?",
                now, limit,
            )
        )  # fmt: skip
        return [Card(Delivery(*row[:-1]), str(row[-1])) for row in rows]

    def counts(self) -> dict[str, int]:
        """How many parts wait to be sent, and how many placeholders stand for an answer."""
        rows = self._database.read(
            lambda tx: tx.rows(
                "SELECT state, count(*) FROM deliveries WHERE state IN ('waiting', 'placeholder')"
                " GROUP BY state"
            )
        )
        return {str(state): int(str(count)) for state, count in rows}

    def lanes(self) -> list[Lane]:
        """The lanes that are closed or held for more than a slot."""

        def run(tx: Tx) -> list[Lane]:
            now = tx.now()
            rows = tx.rows(
                "SELECT space, closed, free_at FROM lanes WHERE closed <> ''"
                " OR (free_at > ? AND free_at <= ?) ORDER BY space LIMIT 200",
                now + SLOT_MS, now + LONGEST_LANE_MS,
            )  # fmt: skip
            return [
                Lane(str(space), str(closed), max(0, int(str(free_at)) - now) / 1000)
                for space, closed, free_at in rows
            ]

        return self._database.read(run)

    def count_try(self, delivery: Delivery) -> int:
        """Counts a try that came to nothing; returns how many there have been."""

        def run(tx: Tx) -> int:
            row = tx.row(
                "UPDATE deliveries SET tries = tries + 1 WHERE turn = ? AND part = ?"
                " RETURNING tries",
                delivery.turn, delivery.part,
            )  # fmt: skip
            return int(str(row[0])) if row else 0

        return self._database.write(run)

    def resplit(self, delivery: Delivery, texts: list[str], messages: list[str]) -> None:
        """Replaces a part that was too long by smaller ones; the parts after it move back."""

        def run(tx: Tx) -> None:
            rows = tx.rows(
                "SELECT part FROM deliveries WHERE turn = ? AND part > ? ORDER BY part DESC",
                delivery.turn, delivery.part,
            )  # fmt: skip
            for (part,) in rows:
                tx.run(
                    "UPDATE deliveries SET part = part + ? WHERE turn = ? AND part = ?",
                    len(texts) - 1, delivery.turn, part,
                )  # fmt: skip
            row = tx.row(
                "SELECT at FROM deliveries WHERE turn = ? AND part = ?",
                delivery.turn, delivery.part,
            )  # fmt: skip
            assert row is not None
            tx.run(
                "UPDATE deliveries SET text = ? WHERE turn = ? AND part = ?",
                texts[0], delivery.turn, delivery.part,
            )  # fmt: skip
            for n, text in enumerate(texts[1:], 1):
                tx.run(
                    "INSERT INTO deliveries (turn, part, message, text, state, tries, at, private)"
                    " VALUES (?, ?, ?, ?, 'waiting', 1, ?, ?)",
                    delivery.turn, delivery.part + n, messages[n], text, row[0], delivery.private,
                )  # fmt: skip

        self._database.write(run)

    def slot(self, space: str) -> float | None:
        """Takes the space's slot if it is free: 0.0; else the seconds until it may be.

        None for a closed lane. Nothing is reserved ahead, so that a process that dies while it
        waits costs the lane nothing.
        """

        def run(tx: Tx) -> float | None:
            now = tx.now()
            row = _lane(tx, space)
            if row[1]:
                return None
            free_at = int(str(row[0]))
            if now < free_at <= now + LONGEST_LANE_MS:
                return (free_at - now) / 1000
            _set_lane(tx, space, now + SLOT_MS)
            return 0.0

        return self._database.write(run)

    def hold_lane(self, space: str, seconds: float) -> None:
        """Keeps the lane empty for that long, because the channel asked for a pause."""

        def run(tx: Tx) -> None:
            until = tx.now() + min(int(seconds * 1000), LONGEST_LANE_MS)
            if int(str(_lane(tx, space)[0])) < until:
                _set_lane(tx, space, until)

        self._database.write(run)

    def close_lane(self, space: str, why: str) -> None:
        """Lets nothing through to a space any more: we were removed from it."""

        def run(tx: Tx) -> None:
            tx.run(
                "INSERT INTO lanes (space, free_at, closed) VALUES (?, ?, ?)"
                " ON CONFLICT (space) DO UPDATE SET closed = excluded.closed",
                space, tx.now(), why,
            )  # fmt: skip

        self._database.write(run)

    def open_lane(self, space: str) -> None:
        """Opens a closed lane again: a message came from the space."""
        if self._database.read(
            lambda tx: tx.row("SELECT 1 FROM lanes WHERE space = ? AND closed <> ''", space)
        ):
            self._database.write(
                lambda tx: tx.run("UPDATE lanes SET closed = '' WHERE space = ?", space)
            )


def parts_taken(tx: Tx, turn: str) -> int:
    """How many parts a turn has that are no placeholder."""
    row = tx.row("SELECT count(*) FROM deliveries WHERE turn = ? AND state <> 'placeholder'", turn)
    return int(str(row[0])) if row else 0


def _lane(tx: Tx, space: str) -> Row:
    """When the lane is free and why it is closed; it is made if need be."""
    row = tx.locked("SELECT free_at, closed FROM lanes WHERE space = ?", space)
    if row is None:
        tx.run(
            "INSERT INTO lanes (space, free_at) VALUES (?, 0) ON CONFLICT (space) DO NOTHING", space
        )
        row = tx.locked("SELECT free_at, closed FROM lanes WHERE space = ?", space)
    assert row is not None
    return row


def _set_lane(tx: Tx, space: str, free_at: int) -> None:
    tx.run("UPDATE lanes SET free_at = ? WHERE space = ?", free_at, space)
