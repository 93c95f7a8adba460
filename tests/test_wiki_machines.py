"""Notes on several machines: shared before they are called saved, else kept where all see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot import mercury
from bot.notes import Notes
from bot.scope import Scope
from bot.settings import SettingsError, load
from memory.confirmations import Confirmation
from memory.database import Database, SqliteDatabase
from memory.errors import StoreDown
from memory.ids import random_id
from memory.postgres import PostgresDatabase
from memory.schema import migrate
from memory.waiting_notes import WaitingNotes
from tests.clock import HandClock
from tests.postgres import Postgres
from tests.wikis import AT, git, is_sound, vault_in
from wiki.paths import Access
from wiki.remote import Remote
from wiki.vault import By

ALICE = "http:alice"
ACCESS, SCOPE = Access(ALICE), Scope(ALICE, "http")


class Machine(Notes):
    """The notes of one machine, which asks the remote again whenever it is asked to."""

    def __init__(self, folder: Path, url: str, waiting: WaitingNotes) -> None:
        vault = vault_in(folder)
        super().__init__(vault, Remote(vault.repository, url, "", lambda: AT), waiting)

    def look(self) -> None:
        """What the sweep does when its pause is over."""
        self._next_look = 0.0
        self.vault.sweep()
        self.share()
        self.vault.sweep()

    def texts(self) -> dict[str, str]:
        self.titles(SCOPE)
        return {
            one.path: self.vault.read(ACCESS, one.path).text for one in self.vault.notes(ACCESS)
        }


@pytest.fixture(params=["sqlite", "postgresql"])
def waiting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WaitingNotes]:
    database: Database
    if request.param == "sqlite":
        database = SqliteDatabase(tmp_path / "archive.db")
    else:
        server: Postgres = request.getfixturevalue("postgres")
        database = PostgresDatabase(server.url())
    migrate(database)
    yield WaitingNotes(database, HandClock(), random_id)
    database.close()


@pytest.fixture
def machines(tmp_path: Path, waiting: WaitingNotes) -> Iterator[list[Machine]]:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    made = [Machine(tmp_path / n, str(tmp_path / "remote.git"), waiting) for n in ("one", "two")]
    yield made
    for one in made:
        assert is_sound(one.vault)
        one.vault.close()


def away(tmp_path: Path, is_away: bool) -> None:
    names = ("remote.git", "gone.git") if is_away else ("gone.git", "remote.git")
    (tmp_path / names[0]).rename(tmp_path / names[1])


def test_a_note_is_at_the_remote_when_it_is_called_saved(
    machines: list[Machine], waiting: WaitingNotes
) -> None:
    one, two = machines
    saved = one.write(ACCESS, "a.md", "one\n", None, By(ALICE))
    assert saved.is_shared
    assert waiting.all() == []
    two.look()
    assert two.texts() == {"mine/a.md": "one\n"}


def test_a_note_waits_where_all_machines_see_it(
    tmp_path: Path, machines: list[Machine], waiting: WaitingNotes
) -> None:
    one, two = machines
    base = one.write(ACCESS, "a.md", "one\n", None, By(ALICE)).base
    two.look()
    away(tmp_path, True)
    assert not one.write(ACCESS, "a.md", "changed\n", base, By(ALICE, ("Turn: t_1/1",))).is_shared
    assert not one.write(ACCESS, "b.md", "new\n", None, By(ALICE)).is_shared
    assert two.texts() == {"mine/a.md": "changed\n", "mine/b.md": "new\n"}
    assert two.vault.wrote(ALICE, "Turn: t_1/1") is not None
    two.look()
    assert len(waiting.all()) == 2
    away(tmp_path, False)
    two.look()
    assert waiting.all() == []
    one.look()
    two.look()
    assert one.texts() == two.texts() == {"mine/a.md": "changed\n", "mine/b.md": "new\n"}
    assert one.vault.conflicts() == []


def test_what_a_lost_machine_could_not_share_is_not_lost(
    tmp_path: Path, machines: list[Machine], waiting: WaitingNotes
) -> None:
    one, two = machines
    away(tmp_path, True)
    one.write(ACCESS, "a.md", "only here\n", None, By(ALICE))
    away(tmp_path, False)
    two.look()
    three = Machine(tmp_path / "three", str(tmp_path / "remote.git"), waiting)
    three.look()
    assert three.texts() == {"mine/a.md": "only here\n"}
    three.vault.close()


def test_two_machines_that_change_one_note_apart_keep_both(
    tmp_path: Path, machines: list[Machine], waiting: WaitingNotes
) -> None:
    one, two = machines
    base = one.write(ACCESS, "a.md", "a\n\n\n\nz\n", None, By(ALICE)).base
    two.look()
    away(tmp_path, True)
    one.write(ACCESS, "a.md", "a one\n\n\n\nz\n", base, By(ALICE))
    now = two.texts()["mine/a.md"]
    assert now == "a one\n\n\n\nz\n"
    base = two.vault.read(ACCESS, "a.md").base
    two.write(ACCESS, "a.md", "a one\n\n\n\nz two\n", base, By(ALICE))
    away(tmp_path, False)
    for machine in (one, two, one):
        machine.look()
    assert one.texts() == two.texts() == {"mine/a.md": "a one\n\n\n\nz two\n"}


def test_the_common_area_waits_for_the_remote(
    tmp_path: Path, machines: list[Machine], waiting: WaitingNotes
) -> None:
    one, two = machines
    staged = one.change(SCOPE, "curated/x.md", "all\n", None)

    asked: Any = Confirmation(
        "cf_1", ALICE, "k", "", "", staged.action, staged.content, "running", 5, "confirm", "",
        AT * 1000, AT * 1000, None,
    )  # fmt: skip
    settle = one.actions()[staged.action]
    away(tmp_path, True)
    with pytest.raises(StoreDown):
        settle(asked)
    assert two.texts() == {}
    away(tmp_path, False)
    one._next_look = 0.0
    assert settle(asked).startswith("curated/x.md (")
    two.look()
    assert two.texts() == {"curated/x.md": "all\n"}
    assert two.actions()[staged.action](asked).startswith("curated/x.md (")
    assert git(two.vault.root, "rev-list", "--count", "main").strip() == "2"


def test_a_second_machine_without_a_remote_is_refused(
    postgres: Postgres, tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {
        "MERCURY_DATA": str(tmp_path / "one"), "DATABASE_URL": postgres.url(),
        "MERCURY_SECRET": "a-secret-of-the-tests-that-is-long-enough",
        "REDIS_URL": "redis://127.0.0.1:1/0",
    }  # fmt: skip
    monkeypatch.setattr(mercury, "OTHERS_S", 0.0)
    first = make(load(environ, None))
    first.stores.processes.beat("p_elsewhere", "another.example.test", 1, "1")
    with pytest.raises(SettingsError, match="WIKI_REMOTE"):
        first._wait_for_others()
