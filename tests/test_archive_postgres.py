"""The archive's contract on PostgreSQL, and what only a server can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from bot.mercury import Mercury
from bot.settings import Settings, load
from memory.database import Database, SqliteDatabase
from memory.errors import Conflict, StoreDown
from memory.moving import move
from memory.postgres import PostgresDatabase
from memory.schema import migrate
from tests.contracts.archive import ALICE, ArchiveContract, Stores
from tests.models import Echo
from tests.postgres import Postgres
from tests.web import Web

Make = Callable[..., Mercury]


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


# -- faults, with a whole Mercury -----------------------------------------------------------------


@pytest.fixture
def web(make: Make, settings: Settings, postgres: Postgres) -> Web:
    environ = {
        "MERCURY_DATA": str(settings.mercury_data), "DATABASE_URL": postgres.url(),
        "MERCURY_SECRET": "a-secret-of-the-tests-that-is-long-enough",
    }  # fmt: skip
    return Web(make(load(environ, None), model=Echo()))


def admin(web: Web, *statements: str) -> None:
    """Runs statements beside the server."""
    url = web.mercury.settings.database_url
    assert url is not None
    with psycopg.connect(url.get_secret_value(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def test_connections_that_were_cut_lose_nothing(web: Web) -> None:
    person = web.person("alice")
    for n in range(5):
        assert person.say(f"text {n}", "c")["answer"] == f"You said: text {n}"
        admin(web, CUT)
    items = person.get("/api/conversations/c/messages").get_json()["items"]
    assert [one["text"] for one in items if one["role"] == "person"] == [
        f"text {n}" for n in range(5)
    ]


def test_a_server_that_cannot_take_it_is_an_honest_503_and_nothing_is_half_done(web: Web) -> None:
    person = web.person("alice")
    person.say("before", "c")
    admin(web, "ALTER TABLE messages RENAME TO elsewhere")
    response = person.turn("lost", "c")
    assert (response.status_code, response.get_json()["code"]) == (503, "not_stored")
    admin(web, "ALTER TABLE elsewhere RENAME TO messages")
    assert person.say("after", "c")["answer"] == "You said: after"
    items = person.get("/api/conversations/c/messages").get_json()["items"]
    assert [one["text"] for one in items if one["role"] == "person"] == ["before", "after"]


def test_many_writers_of_one_key_keep_its_order(postgres: Postgres) -> None:
    """Eight threads accept at once; places are given once each and none is left out."""
    database = PostgresDatabase(postgres.url())
    migrate(database)
    stores = Stores(database)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: stores.accepting.accept(stores.incoming(f"t{n}")), range(80)))
    turns = stores.turns.in_state(("waiting",), 200)
    assert sorted(turn.seq for turn in turns) == list(range(1, 81))
    database.close()
