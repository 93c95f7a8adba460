"""Moves a whole archive into an empty one on another database, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable

from memory import search
from memory.database import Database, Row, SqliteDatabase, Tx
from memory.errors import Conflict
from memory.schema import migrate

TABLES = (
    "meta", "keys", "conversations", "messages", "tool_calls", "segments", "lines", "events",
    "turns", "deliveries", "lanes", "confirmations", "tokens", "notes_waiting",
)  # fmt: skip
"""Every table but the processes, which stay where they run, and the index, which is made anew."""
ROWS_A_STATEMENT = 500
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def move(source: SqliteDatabase, target: Database, said: Callable[[str, int], None]) -> None:
    """Copies every row in one transaction of the target.

    Args:
        source: of this version's schema; nobody writes to it meanwhile.
        target: a database without an archive; its tables are made.
        said: told each table's name and how many rows it has.

    Raises:
        Conflict: `not_empty`, the target holds an archive already.
        StoreDown: nothing was kept.
    """
    migrate(target)

    def write(to: Tx) -> None:
        to.alone()
        if to.row("SELECT 1 FROM keys LIMIT 1") or to.row("SELECT 1 FROM tokens LIMIT 1"):
            raise Conflict("not_empty")
        to.run("DELETE FROM meta")
        for table in TABLES:
            said(table, _copy(source, to, table))
        if to.dialect == "postgresql":
            to.row(
                "SELECT setval(pg_get_serial_sequence('messages', 'n'),"
                " (SELECT coalesce(max(n), 0) + 1 FROM messages), false)"
            )

    target.write(write)


def _copy(source: SqliteDatabase, target: Tx, table: str) -> int:
    columns = source.read(lambda tx: [str(row[0]) for row in tx.rows(_COLUMNS, table)])
    names = ", ".join(columns)
    marks = f"({', '.join('?' for _ in columns)})"
    place, count = 0, 0
    while rows := _after(source, table, names, place):
        target.run(
            f"INSERT INTO {table} ({names}) VALUES {', '.join([marks] * len(rows))}",
            *[value for row in rows for value in row[1:]],
        )
        if table == "messages":
            for row in rows:
                told = dict(zip(columns, row[1:], strict=True))
                search.index(target, int(str(told["n"])), str(told["owner"]), str(told["text"]))
        place, count = int(str(rows[-1][0])), count + len(rows)
    return count


def _after(source: SqliteDatabase, table: str, names: str, place: int) -> list[Row]:
    """The next rows of a table, each behind its row number."""
    sql = f"SELECT rowid, {names} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?"
    return source.read(lambda tx: tx.rows(sql, place, ROWS_A_STATEMENT))
