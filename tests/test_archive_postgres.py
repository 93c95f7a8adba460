"""The archive's contract on PostgreSQL, and what only a server can do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.database import Database, SqliteDatabase
from memory.errors import Conflict, StoreDown
from memory.moving import move
from memory.postgres import PostgresDatabase
from memory.schema import migrate
from tests.contracts.archive import ALICE, ArchiveContract, Stores
from tests.postgres import Postgres


class TestArchiveOnPostgres(ArchiveContract):
    @pytest.fixture
    def database(self, postgres: Postgres) -> Iterator[Database]:
        opened = PostgresDatabase(postgres.url())
        yield opened
        opened.close()


def test_a_server_that_is_not_there_is_a_store_that_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memory.postgres.WAIT_S", 0.2)
    database = PostgresDatabase("postgresql://nobody@127.0.0.1:9/none?connect_timeout=1")
    with pytest.raises(StoreDown):
        database.read(lambda tx: tx.row("SELECT 1"))
    database.close()


def test_a_database_without_tables_says_so(postgres: Postgres) -> None:
    database = PostgresDatabase(postgres.url())
    with pytest.raises(StoreDown, match="no archive"):
        database.read(lambda tx: tx.row("SELECT 1 FROM meta"))
    migrate(database)
    database.close()


def test_an_embedded_archive_moves_over_whole(postgres: Postgres, tmp_path: Path) -> None:
    source = SqliteDatabase(tmp_path / "archive.db")
    migrate(source)
    before = Stores(source)
    for n in range(30):
        before.exchange(
            f"the {n}th crate of 会議 is 'green'", f"answer {n}", conversation=f"c{n % 3}"
        )
    before.turns.cancel(before.accepting.accept(before.incoming("x")).turn, ALICE.owner, "Stopped.")
    _, token = before.tokens.new(ALICE.person, "", None)
    target = PostgresDatabase(postgres.url())
    told: dict[str, int] = {}
    move(source, target, told.__setitem__)
    after = Stores(target)
    assert told["messages"] == 62
    assert after.tokens.person_of(token) == ALICE.person
    for name in ("c0", "c1", "c2"):
        old, new = (one.archive.messages(ALICE, name, limit=200).items for one in (before, after))
        assert old == new
        conversation = after.archive.conversation(ALICE, name)
        assert (
            after.archive.history(conversation).canonical()
            == before.archive.history(before.archive.conversation(ALICE, name)).canonical()
        )
    found = after.archive.search(ALICE, '"7th crate" 会議')
    assert [message.text for message in found.items] == ["the 7th crate of 会議 is 'green'"]
    after.exchange("one more", "and its answer")
    with pytest.raises(Conflict):
        move(source, target, told.__setitem__)
    for database in (source, target):
        database.close()
