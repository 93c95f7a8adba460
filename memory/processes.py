"""The serving processes, as rows with a heartbeat by the database's clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.database import Database, Tx
from memory.turns import PROCESS_DEAD_MS

FORGOTTEN_AFTER_MS = 86_400_000
"""Rows of processes that died are kept this long for the operator to see."""


@dataclass(frozen=True, slots=True)
class Process:
    """One serving process; `alive` while its last heartbeat is younger than ten seconds."""

    id: str
    host: str
    pid: int
    version: str
    started_at: int
    heartbeat_at: int
    alive: bool


class Processes:
    """The rows of serving processes in the archive."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def beat(self, process: str, host: str, pid: int, version: str) -> None:
        """Says that a process lives; the first beat registers it."""

        def run(tx: Tx) -> None:
            now = tx.now()
            if not tx.run("UPDATE processes SET heartbeat_at = ? WHERE id = ?", now, process):
                tx.run("DELETE FROM processes WHERE heartbeat_at < ?", now - FORGOTTEN_AFTER_MS)
                tx.run(
                    "INSERT INTO processes (id, host, pid, version, started_at, heartbeat_at)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    process, host, pid, version, now, now,
                )  # fmt: skip

        self._database.write(run)

    def leave(self, process: str) -> None:
        """Takes a process that ends in order out of the list."""
        self._database.write(lambda tx: tx.run("DELETE FROM processes WHERE id = ?", process))

    def all(self) -> list[Process]:
        """Every known process, the youngest first."""

        def run(tx: Tx) -> list[Process]:
            dead = tx.now() - PROCESS_DEAD_MS
            rows: list[Any] = tx.rows(
                "SELECT id, host, pid, version, started_at, heartbeat_at, heartbeat_at > ?"
                " FROM processes ORDER BY started_at DESC",
                dead,
            )
            return [Process(*[*row[:6], bool(row[6])]) for row in rows]

        return self._database.read(run)
