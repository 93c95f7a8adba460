"""The archive's contract on PostgreSQL, and what only a server can do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory.database import Database
from memory.errors import StoreDown
from memory.postgres import PostgresDatabase
from memory.schema import migrate
from tests.contracts.archive import ArchiveContract
from tests.postgres import Postgres


class TestArchiveOnPostgres(ArchiveContract):
    @pytest.fixture
    def database(self, postgres: Postgres) -> Iterator[Database]:
        opened = PostgresDatabase(postgres.url())
        yield opened
        opened.close()


def test_a_server_that_is_not_there_is_a_store_that_is_down() -> None:
    database = PostgresDatabase("postgresql://nobody@127.0.0.1:9/none?connect_timeout=1")
    database.WAIT_S = 0.2  # type: ignore[attr-defined]
    with pytest.raises(StoreDown):
        database.read(lambda tx: tx.row("SELECT 1"))
    database.close()


def test_a_database_without_tables_says_so(postgres: Postgres) -> None:
    database = PostgresDatabase(postgres.url())
    with pytest.raises(StoreDown, match="no archive"):
        database.read(lambda tx: tx.row("SELECT 1 FROM meta"))
    migrate(database)
    database.close()
