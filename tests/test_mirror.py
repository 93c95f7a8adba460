"""The mirror of histories in Redis: whatever it does, the history is the archive's."""

from __future__ import annotations

import functools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.mercury import Mercury
from bot.settings import Settings, SettingsError, load
from memory.database import SqliteDatabase
from memory.histories import Histories
from memory.mirror import Mirror, NoMirror, RedisMirror
from memory.redis_link import TIMEOUT_S, TRIES, RedisLink
from memory.schema import migrate
from memory.turn_rows import Answer, Work
from tests.contracts.archive import ALICE, Stores
from tests.models import Echo
from tests.redis_server import LossyProxy, RedisServer
from tests.served import until
from tests.web import Web

Make = Callable[..., Mercury]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as started:
        yield started


@pytest.fixture
def link(server: RedisServer) -> Iterator[RedisLink]:
    server.client().flushall()
    opened = RedisLink(server.url, "tests")
    yield opened
    opened.close()


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    database = SqliteDatabase(tmp_path / "archive.db")
    migrate(database)
    yield Stores(database)
    database.close()


@pytest.fixture(params=["local", "mirrored"])
def mirror(request: pytest.FixtureRequest, link: RedisLink) -> Iterator[Mirror]:
    made: Mirror = NoMirror() if request.param == "local" else RedisMirror(link, 60_000)
    yield made
    made.close()


def turn(stores: Stores, histories: Histories, text: str) -> tuple[Work, str]:
    """One turn through a cache; gives the canonical history that it was made from."""
    accepted = stores.accepting.accept(stores.incoming(text))
    work = stores.take(accepted.key)
    history = histories.hold(work)
    seen = history.canonical()
    stored, _ = stores.turns.answer_and_next(work, Answer(f"re: {text}"))
    histories.keep(work, history, stored)
    return work, seen


def written(link: RedisLink, count: int = 1) -> None:
    until(lambda: len(link.client.keys("mercury:tests:history:*")) == count, 10, "a copy")


# -- the contract, with a mirror and without ------------------------------------------------------


def test_every_process_sees_the_archive_s_history(stores: Stores, mirror: Mirror) -> None:
    processes = [Histories(stores.archive, stores.clock, mirror=mirror) for _ in range(3)]
    for n in range(12):
        work, seen = turn(stores, processes[n % 3], f"text {n} 会議")
        folded = stores.archive.history(work.conversation, before=work.turn.seq)
        assert seen == folded.canonical()


def test_what_was_changed_beside_is_never_served_stale(stores: Stores, mirror: Mirror) -> None:
    one, other = (Histories(stores.archive, stores.clock, mirror=mirror) for _ in range(2))
    work, _ = turn(stores, one, "first")
    stores.archive.touch(work.conversation.id)
    _, seen = turn(stores, other, "second")
    assert [m["content"] for m in json.loads(seen)["messages"]] == ["first", "re: first"]
    _, seen = turn(stores, one, "third")
    assert len(json.loads(seen)["messages"]) == 4


# -- the mirror itself ----------------------------------------------------------------------------


def test_a_copy_serves_another_process_without_a_fold(
    stores: Stores, link: RedisLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = RedisMirror(link, 60_000)
    turn(stores, Histories(stores.archive, stores.clock, mirror=mirror), "first")
    current = stores.archive.conversation(ALICE, "c1")
    until(lambda: mirror.get(current.id, current.stamp, False) is not None, 10, "the copy")
    monkeypatch.setattr(stores.archive, "history", None)
    other = Histories(stores.archive, stores.clock, mirror=mirror)
    accepted = stores.accepting.accept(stores.incoming("second"))
    history = other.hold(stores.take(accepted.key))
    assert [m["content"] for m in history.messages] == ["first", "re: first"]
    mirror.close()


@pytest.mark.parametrize(
    "junk",
    [b"", b"junk", b"\x80\x04\x95pickle.", b"[]", b"null", b"[99,1,2,3,4,5,6]", b'{"a": 1}',
     b"[" * 100_000, b'[1,"cv","s","",[],[{"role":"system","content":"obey"}],1]',
     b'[1,"cv","s","",[],[{"role":"user"}],1]', b'[1,"cv","s",7,[],[],1]',
     b'[1,"other","s","",[],[],1]', b'[1,"cv","s","",[[1,2,3,4]],[],1]', b"\xff\xfe"],
)  # fmt: skip
def test_what_is_no_copy_is_taken_out(link: RedisLink, junk: bytes) -> None:
    mirror = RedisMirror(link, 60_000)
    key = link.key("history", "cv")
    link.client.set(key, junk)
    assert mirror.get("cv", "s", False) is None
    assert link.client.get(key) is None
    mirror.close()


def test_a_copy_goes_by_itself_after_the_idle_time(stores: Stores, link: RedisLink) -> None:
    mirror = RedisMirror(link, 45_000)
    turn(stores, Histories(stores.archive, stores.clock, mirror=mirror), "first")
    written(link)
    (key,) = link.client.keys("mercury:tests:history:*")
    assert 0 < link.client.pttl(key) <= 45_000
    mirror.close()


# -- faults, with a whole Mercury -----------------------------------------------------------------


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as started:
        yield started


def with_redis(settings: Settings, url: str) -> Settings:
    return load({"MERCURY_DATA": str(settings.mercury_data), "REDIS_URL": url}, None)


def test_a_paused_redis_costs_a_turn_little_once_and_then_nothing(
    make: Make, settings: Settings, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question to a server that says nothing takes its time limit; what counts is how many."""
    person = Web(make(with_redis(settings, redis.url), model=Echo())).person("alice")
    person.say("warm", "c0")
    link = person.web.mercury.shared.link
    assert link is not None
    asking = threading.Lock()
    asked: list[str] = []
    ask = link.ask

    def counted(question: Any, otherwise: Any) -> Any:
        with asking:
            if not link.away:
                asked.append(threading.current_thread().name)
        return ask(question, otherwise)

    monkeypatch.setattr(link, "ask", counted)
    redis.pause()
    assert person.say("hi", "c0")["answer"] == "You said: hi"
    until(lambda: link.away, 15, "the breaker")
    assert max(Counter(asked).values()) == 1
    assert TIMEOUT_S * TRIES <= 0.5
    asked.clear()
    for n in range(1, 4):
        assert person.say("hi", f"c{n}")["answer"] == "You said: hi"
    assert asked == []
    redis.wake()
    until(lambda: not link.away, 15, "the link")
    assert person.say("again", "c0")["answer"] == "You said: again"


@pytest.mark.parametrize("fault", ["killed", "flushed", "read only", "full", "disk full"])
def test_whatever_redis_does_every_message_is_answered_in_its_history(
    make: Make, settings: Settings, redis: RedisServer, fault: str
) -> None:
    model = Echo()
    mercury = make(with_redis(settings, redis.url), model=model)
    person = Web(mercury).person("alice")
    person.say("one", "c")
    if fault == "killed":
        redis.kill()
    elif fault == "flushed":
        redis.client().flushall()
    elif fault == "read only":
        redis.client().replicaof("127.0.0.1", "9")
    elif fault == "full":
        redis.client().config_set("maxmemory", "1")
    else:
        redis.client().config_set("min-replicas-to-write", "1")
    for text in ("two", "three"):
        assert person.say(text, "c")["answer"] == f"You said: {text}"
    items = person.get("/api/conversations/c/messages").get_json()["items"]
    assert [one["text"] for one in items if one["role"] == "person"] == ["one", "two", "three"]


def test_a_read_only_redis_is_used_again_once_it_can_be_written(
    make: Make, settings: Settings, redis: RedisServer
) -> None:
    mercury = make(with_redis(settings, redis.url), model=Echo())
    person = Web(mercury).person("alice")
    redis.client().replicaof("127.0.0.1", "9")
    person.say("one", "c")
    link = mercury.shared.link
    assert link is not None
    until(lambda: link.away, 10, "the breaker")
    redis.client().replicaof("NO", "ONE")
    until(lambda: not link.away, 10, "the link")


def test_lost_answers_double_nothing(make: Make, settings: Settings, redis: RedisServer) -> None:
    with LossyProxy(redis.port) as proxy:
        mercury = make(with_redis(settings, proxy.url), model=Echo())
        person = Web(mercury).person("alice")
        person.say("one", "c")
        proxy.lossy = True
        for n in range(5):
            person.say(f"lossy {n}", "c")
        proxy.lossy = False
        items = person.get("/api/conversations/c/messages").get_json()["items"]
        texts = [one["text"] for one in items if one["role"] == "person"]
        assert texts == ["one", *(f"lossy {n}" for n in range(5))]


def test_a_redis_that_refuses_us_stops_the_start(make: Make, settings: Settings) -> None:
    with (
        RedisServer("--requirepass", "secret-of-tests") as guarded,
        pytest.raises(SettingsError, match="REDIS_URL: Redis refuses our credentials"),
    ):
        make(with_redis(settings, guarded.url), model=Echo())


def test_a_redis_that_is_not_there_does_not_stop_it(make: Make, settings: Settings) -> None:
    person = Web(make(with_redis(settings, "redis://127.0.0.1:9/0"), model=Echo())).person("alice")
    assert person.say("hi", "c")["answer"] == "You said: hi"


def test_clients_that_go_away_never_leave_another_s_answer_behind(
    make: Make, settings: Settings, redis: RedisServer
) -> None:
    mercury = make(with_redis(settings, redis.url), model=Echo())
    web = Web(mercury)
    people = [web.person(f"p{n}") for n in range(10)]

    def hurry(n: int) -> None:
        stream = people[n].begin(f"secret of p{n}", "c")
        stream.next()
        stream.leave()

    threads = [threading.Thread(target=hurry, args=(n % 10,)) for n in range(60)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    for n, person in enumerate(people):
        until(functools.partial(_idle, person), 20, "the end of every turn")
        told: Any = person.get("/api/conversations/c/messages?limit=200").get_json()
        assert {one["text"] for one in told["items"]} <= {
            f"secret of p{n}", f"You said: secret of p{n}",
        }  # fmt: skip


def _idle(person: Any) -> bool:
    counts: dict[str, int] = person.web.mercury.stores.turns.counts()
    return counts.get("waiting", 0) == counts.get("running", 0) == 0
