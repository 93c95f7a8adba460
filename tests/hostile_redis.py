"""The hostile rows about Redis, on a real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from pydantic import SecretStr

from bot.mercury import build
from bot.settings import SettingsError
from memory.redis_link import RedisLink
from tests.fakes import model_server as fake
from tests.hostile import Rig
from tests.redis_server import LossyProxy, RedisServer
from tests.served import until
from tests.web import Web


class Place:
    """A Redis server beside a row's Mercury, and the proxy before it."""

    def __init__(self, stack: ExitStack) -> None:
        self.server = stack.enter_context(RedisServer())
        self.proxy = stack.enter_context(LossyProxy(self.server.port))

    def parts(self) -> dict[str, Any]:
        """What the row's Mercury is told."""
        return {"settings": {"redis_url": SecretStr(self.proxy.url)}}


def link_of(rig: Rig) -> RedisLink:
    link = rig.mercury.shared.link
    assert link is not None
    return link


def took(rig: Rig, text: str = "hi") -> float:
    """How long a message takes until its answer is out."""
    begun = time.monotonic()
    rig.tell(text)
    return time.monotonic() - begun


def broken(breaks: Callable[[Place], None]) -> Callable[[Rig, dict[str, Any], Place], None]:
    """A fault while a message is answered, beside the time that it takes without one."""

    def run(rig: Rig, told: dict[str, Any], place: Place) -> None:
        usual = took(rig, "before")
        before = len(rig.replies())
        time.sleep(1.0)  # the lane of the space takes one message a second
        breaks(place)
        rig.seen.facts["extra_s"] = max(0.0, took(rig) - usual)
        rig.seen.facts["shown"] = rig.replies()[before:]
        texts = [str(text) for (text,) in rig.rows("SELECT text FROM messages WHERE part = 0")]
        rig.seen.facts["history_dups"] = len(texts) - len(set(texts))
        rig.seen.facts["alert"] = any('"severity": "ERROR"' in line for line in rig.log)

    return run


def lossy(place: Place) -> None:
    place.proxy.lossy = True


def kill(place: Place) -> None:
    place.server.kill()


def pause(place: Place) -> None:
    place.server.pause()


def no_writes(place: Place) -> None:
    place.server.client().config_set("min-replicas-to-write", "1")


def evicted(rig: Rig, told: dict[str, Any], place: Place) -> None:
    """The copy is gone, and so is the process's own."""
    rig.tell("the hall is green")
    place.server.client().flushall()
    rig.mercury.histories.free_idle(-1)
    rig.rest()
    rig.tell("hi")
    rig.seen.facts["shown"] = rig.replies()[1:]
    said = [one["content"] for one in rig.model.requests[-1]["messages"][1:]]
    wanted = "rebuilt from archive, not silently empty"
    rig.seen.facts[wanted] = said == ["the hall is green", "You said: the hall is green", "hi"]


def read_only(rig: Rig, told: dict[str, Any], place: Place) -> None:
    place.server.client().replicaof("127.0.0.1", "9")
    rig.tell("hi")
    rig.seen.facts["shown"] = rig.replies()
    until(lambda: link_of(rig).away, 10, "the breaker")
    place.server.client().replicaof("NO", "ONE")
    begun = time.monotonic()
    until(lambda: not link_of(rig).away, 20, "the link")
    rig.seen.facts["recovers_s"] = time.monotonic() - begun


def refused(rig: Rig, told: dict[str, Any], place: Place) -> None:
    with RedisServer("--requirepass", "x-of-tests") as guarded:
        settings = rig.settings.model_copy(
            update={"redis_url": SecretStr(guarded.url), "mercury_data": rig.folder / "other"}
        )
        mercury = build(settings, model=rig.mercury.model)
        try:
            mercury.start()
        except SettingsError as error:
            said = str(error) == "REDIS_URL: Redis refuses our credentials"
            rig.seen.facts["start"] = "refused with a clear line" if said else str(error)
        finally:
            mercury.close()


def junk(rig: Rig, told: dict[str, Any], place: Place) -> None:
    rig.tell("first")
    link = link_of(rig)
    key = link.key("history", str(rig.rows("SELECT id FROM conversations")[0][0]))
    until(lambda: link.client.exists(key), 10, "the copy")
    for value in (b"\x80\x04\x95 pickle", b"junk", b"[99, 1]"):
        link.client.set(key, value)
        rig.mercury.histories.free_idle(-1)
        time.sleep(1.0)
        rig.tell("hi")
    rig.seen.facts["shown"] = rig.replies()[-1:]
    rig.seen.facts["quarantined"] = any("is taken out" in line for line in rig.log)


def flushed(rig: Rig, told: dict[str, Any], place: Place) -> None:
    held = threading.Event()

    def slow(request: dict[str, Any]) -> fake.Reply:
        assert held.wait(20)
        return fake.echo(request)

    rig.model.script = slow
    rig.post(rig.event({"text": "hi"}))
    rig.model.wait_for(1)
    place.server.client().flushall()
    held.set()
    rig.rest()
    rig.seen.facts["shown"] = rig.replies()
    rig.seen.facts["replies"] = len(rig.replies())


def left(rig: Rig, told: dict[str, Any], place: Place) -> None:
    """Clients that go away in the middle, then others read."""
    web = Web(rig.mercury)
    people = [web.person(f"p{n}") for n in range(20)]
    for n in range(told["n"]):
        stream = people[n % 20].begin(f"secret of p{n % 20}.", "c")
        stream.next()
        stream.leave()
    rig.rest()
    crossed = 0
    for n, person in enumerate(people):
        items = person.get("/api/conversations/c/messages?limit=200").get_json()["items"]
        crossed += sum(f"secret of p{n}." not in one["text"] for one in items)
    rig.seen.facts["cross_reads"] = crossed


REDIS: dict[str, Callable[[Rig, dict[str, Any], Place], None]] = {
    "redis-01": broken(pause), "redis-03": broken(kill), "redis-04": broken(lossy),
    "redis-06": evicted, "redis-07": broken(no_writes), "redis-09": read_only,
    "redis-10": refused, "redis-12": junk, "redis-13": flushed, "scope-18": left,
}  # fmt: skip
