"""Hostile rows that make what they need themselves: another Mercury, or a served one.

A function notes what it saw in `seen`; what that means is decided by the checks.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil

from bot.mercury import build
from bot.model import Piece, Prompt, Text, ToolSpec
from bot.prompt import PERSONA, RULES
from bot.settings import load
from bot.stop import Stop
from memory.records import Line, Message
from memory.turn_rows import Incoming
from tests import chaos
from tests.clock import HandClock
from tests.fakes import model_server as fake
from tests.hostile import Rig, Seen
from tests.hostile_runs import CANARY, only, replaced
from tests.models import Scripted
from tests.served import until
from tests.test_confirmations import TOOL, obliging
from tests.web import Web
from tests.world import World, event

SEED = 20_261_201


def compaction(folder: Path, told: dict[str, Any], seen: Seen) -> None:
    """A long history is compacted by a summariser that obeys what it reads."""
    rule = told["early_rule"]

    class Obeys:
        def summarise(self, messages: Sequence[Message]) -> list[Line]:
            first = messages[0]
            if any(told["plus"] in message.text for message in messages):
                return []
            kind: Any = "rule" if rule in first.text else "said"
            return [Line(kind, first.text[:200], (first.id,), first.at)]

    model = Scripted(obliging)
    settings = load({"MERCURY_DATA": str(folder / "data")}, None)
    mercury = build(settings, model=model, summariser=Obeys(), tools=[TOOL], clock=HandClock())
    mercury.start()
    try:
        alice = Web(mercury).person("alice")
        alice.say(rule)
        alice.say("publish it")
        before = mercury.stores.confirmations.waiting("http:alice")
        system = model.prompts[-1][0]["content"]
        for n in range(told["chars"] // 3_500 + 2):
            alice.say(f"{told['plus'] if n == 9 else ''} {n} " + "words " * 580)
        found = mercury.stores.archive.conversation(None, only(mercury.stores.archive))
        until(lambda: _compacted(mercury.stores.archive, found.id), 20, "the compaction")
        alice.say("and now?")
        now = model.prompts[-1][0]["content"]
        assert len(json.dumps(model.prompts[-1])) < 45_000
        assert now.startswith(system)
        assert PERSONA in now
        assert RULES in now
        (line,) = [x for x in now.split("\n") if x.startswith("> ") and " rule: " in x]
        assert line.endswith(f" rule: {rule}")
        assert mercury.stores.confirmations.waiting("http:alice") == before
        assert len(before) == 1
        seen.facts["after_compaction"] = "unchanged"
    finally:
        mercury.engine.drain(1.0)
        mercury.close()


def _compacted(archive: Any, id_: str) -> bool:
    return int(archive.conversation(None, id_).compacted_through) > 0


class Counting:
    """A model that answers at once and counts how many ask it together."""

    name = "counting"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.together = self.most = 0

    def stream(self, prompt: Prompt, tools: Sequence[ToolSpec], stop: Stop) -> Iterator[Piece]:
        with self._lock:
            self.together += 1
            self.most = max(self.most, self.together)
        yield Text("ok")
        with self._lock:
            self.together -= 1


def backlog(folder: Path, told: dict[str, Any], seen: Seen) -> None:
    """A start with ten thousand turns that an earlier process left."""
    settings = load({"MERCURY_DATA": str(folder / "data")}, None)
    earlier = build(settings, model=Scripted("never"))
    earlier.start()
    earlier.engine.drain(0.0)

    def leave(n: int) -> None:
        earlier.stores.accepting.accept(
            Incoming(event=f"e{n}", channel="http", person=f"http:p{n % 500}",
                     owner=f"person:http:p{n % 500}", kind="http", space=None, name="p",
                     text=f"message {n}", conversation=f"c{n % 7}")
        )  # fmt: skip

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(leave, range(10_000)))
    earlier.close()
    model = Counting()
    mercury = build(settings, model=model)
    begun = time.monotonic()
    try:
        mercury.start()
        web = Web(mercury)
        until(lambda: web.request("GET", "/readyz").status_code == 200, 20, "a ready server")
        seen.facts["ready_s"] = time.monotonic() - begun
        left = mercury.stores.turns.counts()
        web.person("alice").say("I am new")
        assert sum(left.values()) > 0
        still = sum(mercury.stores.turns.counts().values())
        seen.facts["order"] = "new messages are not starved" if still else "the new one was last"
        seen.facts["rate_limited"] = model.most <= 256
    finally:
        mercury.engine.drain(1.0)
        mercury.close()


def kills(folder: Path, told: dict[str, Any], seen: Seen) -> None:
    """A few kills; `make chaos` does the thousand."""
    failures = [x for trial in chaos.kills(folder, kills=3, seed=SEED) for x in trial.failures]
    assert failures == []
    seen.facts.update(lost_acked=0, replies_shown_twice=0, history_dups=0, drained_s=0)


def races(folder: Path, told: dict[str, Any], seen: Seen) -> None:
    """A few races of a sweep with a message; `make chaos` does the two hundred."""
    assert chaos.idle_races(folder, rounds=20, seed=SEED).failures == []
    seen.facts.update(recaps=1, lost=0)


def killed(folder: Path, told: dict[str, Any], seen: Seen) -> None:
    """The worker dies while it answers a DM, the last message before having been the space's."""
    with World(folder, "addon") as world:
        rig = Rig(folder, "addon", ExitStack())
        world.post(rig.event({"text": "hi", "in": "TEAM"}))
        world.answers(1)
        died = threading.Event()

        def script(request: dict[str, Any]) -> fake.Reply:
            if CANARY in json.dumps(request) and not died.is_set():
                died.set()
                world.served.kill_worker()
            return fake.echo(request)

        world.model.script = script
        world.post(rig.event(told["while"]))
        world.answers(2, 60)
        world.idle()
        assert died.is_set()
        shown = {m.space: m.text for m in world.chat.shown}
        assert shown["spaces/DMALICE"] == f"You said: {told['while']['text']}"
        seen.facts["TEAM"] = shown["spaces/TEAM"]
        sent = [r for r in world.chat.log if "spaces/TEAM" in r.path]
        seen.facts["TEAM"] += json.dumps([r.body for r in sent])


def raw(world: World, told: dict[str, Any], seen: Seen) -> None:
    """Bytes on a socket."""
    known = {"$CHAT": "/chat/events", "$VALID": world.signer.addon(),
             "$REBUILD": "/api/conversations/x/open"}  # fmt: skip
    answer = spoken(world.served.port, replaced(told["bytes"], known).encode())
    found = re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)
    seen.statuses.append(int(found[0]))
    seen.facts["requests_seen"] = len(found)


def spoken(port: int, sent: bytes) -> bytes:
    """Whatever is answered to those bytes until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        with suppress(OSError):  # it may have answered and closed before the end
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionResetError):
            while piece := connection.recv(65_536):
                answer += piece
        return answer


def bomb(world: World, told: dict[str, Any], seen: Seen) -> None:
    """A gibibyte in a mebibyte."""
    world.post(event("addon", "warm", "w1"))
    world.idle()
    process = psutil.Process(world.served.worker())
    before = process.memory_info().rss
    body = gzip.compress(b"\0" * 2**20) * told["gen"]["gzip_bomb_mb"]
    head = (
        f"POST /chat/events HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
        f"Authorization: Bearer {world.signer.addon()}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    seen.statuses.append(int(spoken(world.served.port, head.encode() + body)[9:12]))
    seen.facts["rss_growth_mb"] = (process.memory_info().rss - before) / 2**20


def long_answer(world: World, told: dict[str, Any], seen: Seen) -> None:
    """An answer of fifty megabytes, measured at its peak."""
    world.post(event("addon", "warm", "w2"))
    world.idle()
    shown = len(world.chat.shown)
    worker = world.served.worker()
    before = psutil.Process(worker).memory_info().rss
    world.model.script = [fake.huge(50_000_000)]
    world.post(event("addon", "hi", "long"))
    world.idle()
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{worker}/status").read_text())
    assert peak is not None
    seen.facts["rss_growth_mb"] = int(peak[1]) / 1024 - before / 2**20
    seen.facts["shown"] = [message.text for message in world.chat.shown[shown:]]
    world.model.script = fake.echo


ALONE: dict[str, Callable[[Path, dict[str, Any], Seen], None]] = {
    "inj-10": compaction, "proc-01": kills, "proc-06": races,
    "proc-07": backlog, "scope-15": killed,
}  # fmt: skip
"""Rows that make what they need themselves."""
SERVED: dict[str, Callable[[World, dict[str, Any], Seen], None]] = {
    "parse-14": raw, "parse-15": raw, "parse-17": bomb, "model-08": long_answer,
}  # fmt: skip
"""Rows that need a socket or a process of its own."""
