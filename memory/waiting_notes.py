"""Notes that were taken while the place that all machines share could not be reached.

Rows only: a text, whose it is, and under which path. They are kept here, where every machine
sees them, until one of them has brought them to that place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from memory.clock import Clock
from memory.database import Database, Row, Tx
from memory.ids import Ids


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """One note that waits; `base` is the version it was made from, '' for none."""

    id: str
    person: str
    path: str
    base: str
    text: str
    trailers: tuple[str, ...]
    at: int


_COLUMNS = "id, person, path, base, text, trailers, at"


def _note(row: Row) -> WaitingNote:
    id_, person, path, base, text, trailers, at = row
    told = tuple(json.loads(str(trailers)))
    return WaitingNote(str(id_), str(person), str(path), str(base), str(text), told, int(str(at)))


class WaitingNotes:
    """The notes that wait, in the archive."""

    def __init__(self, database: Database, clock: Clock, ids: Ids) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids

    def add(
        self, person: str, path: str, base: str, text: str, trailers: Sequence[str]
    ) -> WaitingNote:
        """Keeps a note."""
        made = WaitingNote(
            self._ids("wn_"), person, path, base, text, tuple(trailers), self._clock.now()
        )
        self._database.write(
            lambda tx: tx.run(
                f"INSERT INTO notes_waiting ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                made.id, person, path, base, text, json.dumps(made.trailers), made.at,
            )
        )  # fmt: skip
        return made

    def of(self, person: str) -> list[WaitingNote]:
        """A person's waiting notes, the oldest first."""
        rows = self._database.read(
            lambda tx: tx.rows(
                f"SELECT {_COLUMNS} FROM notes_waiting WHERE person = ? ORDER BY at, id", person
            )
        )
        return [_note(row) for row in rows]

    def all(self) -> list[WaitingNote]:
        """Everybody's, the oldest first."""
        rows = self._database.read(
            lambda tx: tx.rows(f"SELECT {_COLUMNS} FROM notes_waiting ORDER BY at, id")
        )
        return [_note(row) for row in rows]

    def drop(self, ids: Sequence[str]) -> None:
        """Forgets notes that have arrived."""

        def run(tx: Tx) -> None:
            for id_ in ids:
                tx.run("DELETE FROM notes_waiting WHERE id = ?", id_)

        self._database.write(run)
