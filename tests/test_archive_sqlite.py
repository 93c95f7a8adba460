"""The archive's contract on SQLite, and what only a file can do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from memory.database import Database, SqliteDatabase, Tx
from memory.errors import Damaged, NotFound, StoreDown, WrongSchema
from memory.ids import random_id
from memory.schema import STEPS, migrate, pending
from memory.turns import Turns
from tests.clock import HandClock
from tests.contracts.archive import ArchiveContract


class TestArchiveOnSqlite(ArchiveContract):
    @pytest.fixture
    def database(self, tmp_path: Path) -> Iterator[Database]:
        opened = SqliteDatabase(tmp_path / "archive.db")
        yield opened
        opened.close()


def test_every_connection_keeps_the_same_rules(tmp_path: Path) -> None:
    opened = SqliteDatabase(tmp_path / "a.db")
    for ask in (opened.write, opened.read):
        values = [
            ask(lambda tx, name=name: tx.row(f"PRAGMA {name}"))  # type: ignore[misc]
            for name in ("journal_mode", "synchronous", "secure_delete")
        ]
        assert values == [("wal",), (2,), (1,)]
    opened.close()


def test_a_damaged_file_is_reported_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    opened = SqliteDatabase(path)
    migrate(opened)
    opened.write(
        lambda tx: [
            tx.run("INSERT INTO meta (name, value) VALUES (?, ?)", f"n{n}", "x" * 500)
            for n in range(500)
        ]
    )
    opened.close()
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 8192] = os.urandom(8192)
    path.write_bytes(raw)
    again = SqliteDatabase(path)
    damage = again.check()
    assert damage is not None
    assert "damaged" in damage
    with pytest.raises(Damaged):
        again.write(lambda tx: tx.run("DELETE FROM meta"))
    with pytest.raises(Damaged):
        again.read(lambda tx: tx.row("SELECT 1"))
    again.close()
    assert path.read_bytes() == bytes(raw)


def test_a_log_without_its_database_is_damage_not_a_fresh_start(tmp_path: Path) -> None:
    (tmp_path / "a.db-wal").write_bytes(b"x" * 4096)
    opened = SqliteDatabase(tmp_path / "a.db")
    with pytest.raises(Damaged, match="write-ahead log"):
        opened.write(lambda tx: tx.run("CREATE TABLE t (x)"))
    assert not (tmp_path / "a.db").exists()


def test_a_missing_file_is_not_made_by_those_who_only_look(tmp_path: Path) -> None:
    opened = SqliteDatabase(tmp_path / "a.db", create=False)
    with pytest.raises(StoreDown, match="does not exist"):
        opened.read(lambda tx: tx.row("SELECT 1"))
    assert list(tmp_path.iterdir()) == []


def test_a_newer_archive_is_refused_in_words(tmp_path: Path) -> None:
    opened = SqliteDatabase(tmp_path / "a.db")
    migrate(opened)
    opened.write(lambda tx: tx.run("UPDATE meta SET value = '99' WHERE name = 'schema'"))
    with pytest.raises(WrongSchema, match="schema 99"):
        pending(opened)
    opened.close()


def test_a_locked_file_is_an_outage_and_works_again_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.database.BUSY_TIMEOUT_MS", 50)
    opened = SqliteDatabase(tmp_path / "a.db")
    migrate(opened)
    other = apsw.Connection(str(tmp_path / "a.db"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreDown):
        opened.write(lambda tx: tx.run("INSERT INTO meta VALUES ('a', 'b')"))
    other.execute("ROLLBACK")
    other.close()
    assert opened.write(lambda tx: tx.run("INSERT INTO meta VALUES ('a', 'b')")) == 1
    opened.close()


def test_what_fails_in_a_shared_commit_takes_nobody_else_with_it(tmp_path: Path) -> None:
    opened = SqliteDatabase(tmp_path / "a.db")
    opened.write(lambda tx: tx.run("CREATE TABLE t (n INTEGER PRIMARY KEY)"))

    def write(n: int) -> int:
        def run(tx: Tx) -> int:
            tx.run("INSERT INTO t (n) VALUES (?)", n)
            if n % 7 == 0:
                raise ValueError(n)
            return n

        return opened.write(run)

    with ThreadPoolExecutor(16) as pool:
        futures = {n: pool.submit(write, n) for n in range(400)}
    failed = {n for n, future in futures.items() if isinstance(future.exception(), ValueError)}
    assert failed == set(range(0, 400, 7))
    assert all(future.result() == n for n, future in futures.items() if n not in failed)
    kept = {row[0] for row in opened.read(lambda tx: tx.rows("SELECT n FROM t"))}
    assert kept == set(range(400)) - failed
    opened.close()


def test_an_archive_emptied_under_us_is_an_outage(tmp_path: Path) -> None:
    opened = SqliteDatabase(tmp_path / "a.db")
    with pytest.raises(StoreDown, match="holds no archive"):
        opened.read(lambda tx: tx.row("SELECT 1 FROM turns"))
    opened.close()


WRITER = """
import sys
from pathlib import Path
from memory.database import SqliteDatabase
database = SqliteDatabase(Path(sys.argv[1]))
database.write(lambda tx: tx.run("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY)"))
while True:
    n = database.write(lambda tx: tx.row("INSERT INTO t DEFAULT VALUES RETURNING n"))[0]
    print(n, flush=True)
"""


def test_what_was_acknowledged_survives_the_writer_s_death(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    acknowledged = 0
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(50):
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait()
        writer.stdout.close()
        whole = [int(line) for line in rest[:-1]]
        acknowledged = max([acknowledged, *whole])
        opened = SqliteDatabase(path)
        rows = opened.read(lambda tx: tx.row("SELECT count(*), max(n) FROM t"))
        assert rows is not None
        assert int(str(rows[0])) >= acknowledged
        opened.close()


def test_an_archive_of_the_first_schema_is_brought_to_the_newest(tmp_path: Path) -> None:
    """What was stored before commands and cards came is found as before."""
    database = SqliteDatabase(tmp_path / "archive.db")

    def first(tx: Tx) -> None:
        for statement in STEPS[0].sql.replace("{serial}", "INTEGER PRIMARY KEY").split(";"):
            if statement.strip():
                tx.run(statement)
        tx.run("INSERT INTO meta (name, value) VALUES ('schema', '1')")
        tx.run(
            "INSERT INTO conversations (id, key, name, channel, owner, title, started_at, last_at,"
            " stamp) VALUES ('cv_1', 'spaces/S', 'cv_1', 'chat', 'person:p', 't', 1, 1, 's')"
        )
        tx.run(
            "INSERT INTO turns (id, event, key, seq, conversation, channel, person, kind, target,"
            " state, accepted_at) VALUES ('t_1', 'e', 'spaces/S', 1, 'cv_1', 'chat', 'p', 'dm',"
            " '{}', 'waiting', 1)"
        )

    database.write(first)
    assert [step.version for step in migrate(database)] == [2, 3]
    turns = Turns(database, HandClock(), random_id)
    assert turns.get("t_1", "person:p").command == ""
    with pytest.raises(NotFound):
        turns.get("t_1", "person:q")
    database.close()
