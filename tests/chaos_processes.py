"""Two serving processes over one PostgreSQL and one Redis, while these or their database break."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2

from tests.chaos import Trial
from tests.fakes import model_server as fake
from tests.fakes.model_server import ModelServer
from tests.postgres import Postgres
from tests.redis_server import RedisServer
from tests.served import Served, until

CONVERSATIONS = 20
SECRET = "a-secret-of-the-tests-that-is-long-enough"
_HEARD = re.compile(r"heard (\d+): (.*)")


class Pair:
    """Two `mfw serve` of one instance; use it in a `with`."""

    def __init__(
        self, folder: Path, postgres: Postgres, redis_url: str, model: ModelServer
    ) -> None:
        env = {
            "DATABASE_URL": postgres.url(), "REDIS_URL": redis_url, "MERCURY_SECRET": SECRET,
            "MODEL_URL": model.url, "MODEL": "fake", "HISTORY_MAX_CHARS": "10000000",
        }  # fmt: skip
        self.servers = [Served(folder / name, env) for name in ("one", "two")]

    def __enter__(self) -> Pair:
        for server in self.servers:
            server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.stop()


def heard(request: dict[str, Any]) -> fake.Reply:
    """Says how many messages of the person it was given, and the last of them."""
    said = [m["content"] for m in request["messages"] if m["role"] == "user"]
    return fake.text(f"heard {len(said)}: {said[-1]}")


Break = Callable[[Pair, threading.Event, Counter[str]], None]
"""Breaks one thing after the other until the event is set, and counts what it broke."""


def two(folder: Path, postgres: Postgres, turns: int, seed: int, pause_s: float) -> Trial:
    """Turns on both processes, while these are killed, paused and restarted in turn."""

    def breaks(pair: Pair, ended: threading.Event, seen: Counter[str]) -> None:
        _break_processes(pair, ended, pause_s, seen)

    return _broken("11 two processes, one conversation", folder, postgres, turns, seed, breaks)


def database(folder: Path, turns: int, seed: int, pause_s: float) -> Trial:
    """Turns on both processes, while their database is cut off, read-only and restarted."""
    with Postgres() as postgres:

        def breaks(pair: Pair, ended: threading.Event, seen: Counter[str]) -> None:
            _break_database(pair, postgres, ended, pause_s, seen)

        name = "11 two processes, a database that breaks"
        return _broken(name, folder, postgres, turns, seed, breaks)


def _broken(
    name: str, folder: Path, postgres: Postgres, turns: int, seed: int, breaks: Break
) -> Trial:
    """Turns over twenty conversations on both processes, while something breaks."""
    failures: list[str] = []
    seen: Counter[str] = Counter()
    ended = threading.Event()
    with (
        RedisServer() as redis,
        ModelServer(heard) as model,
        Pair(folder, postgres, redis.url, model) as pair,
    ):
        token = pair.servers[0].token("ada")
        breaker = threading.Thread(target=breaks, args=(pair, ended, seen))
        breaker.start()
        begun = time.monotonic()
        with ThreadPoolExecutor(CONVERSATIONS) as pool:
            talks = [
                pool.submit(_talk, pair, token, f"c{n}", turns // CONVERSATIONS, seed + n)
                for n in range(CONVERSATIONS)
            ]
            for talk in talks:
                failures += talk.result()
        took = time.monotonic() - begun
        ended.set()
        breaker.join()
        failures += _judge(pair, token, turns // CONVERSATIONS)
        if len(seen) < 3:
            failures.append(f"not everything was broken that should have been: {dict(seen)}")
    figure = f"{took:.0f} s, {dict(seen)}, fenced out {_fenced(pair)} times"
    return Trial(name, turns, failures, figure, "0")


def _talk(pair: Pair, token: str, name: str, count: int, seed: int) -> list[str]:
    """One message after the other, each to either process until one of them has answered."""
    dice = random.Random(seed)
    failures: list[str] = []
    for n in range(count):
        text, until_ = f"{name} says {n}", time.monotonic() + 120
        answer: str | None = None
        while answer is None:
            if time.monotonic() > until_:
                return [*failures, f"{text} was not answered in two minutes"]
            answer = _ask(dice.choice(pair.servers), token, name, text, f"{name}-{n}")
        match = _HEARD.fullmatch(answer)
        if match is None or match[2] != text:
            failures.append(f"{text} got: {answer[:100]}")
        elif int(match[1]) != n + 1:
            failures.append(f"{text} was answered from {match[1]} messages")
    return failures


def _ask(server: Served, token: str, name: str, text: str, key: str) -> str | None:
    """The answer, or None when it has to be asked again."""
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}
    body = {"text": text, "conversation": name}
    try:
        told = httpx2.post(f"{server.url}/api/turn", json=body, headers=headers, timeout=15)
    except httpx2.HTTPError:
        time.sleep(0.05)
        return None
    if told.status_code != 200:
        time.sleep(0.05)
        return None
    return str(told.json()["answer"])


def _break_database(
    pair: Pair, postgres: Postgres, ended: threading.Event, pause_s: float, seen: Counter[str]
) -> None:
    """Cuts its connections, lets it be read only for a while, ends it and starts it again."""
    url = pair.servers[0].env["DATABASE_URL"]
    for n in range(1_000_000):
        if ended.wait(pause_s):
            return
        if n % 4 == 0:
            seen["cut"] += 1
            postgres.cut(url)
        elif n % 4 == 1:
            seen["read only"] += 1
            postgres.set_read_only(url, True)
            ended.wait(pause_s)
            postgres.set_read_only(url, False)
        else:
            seen["restarts"] += 1
            postgres.restart("fast" if n % 4 == 2 else "immediate")


def _break_processes(
    pair: Pair, ended: threading.Event, pause_s: float, seen: Counter[str]
) -> None:
    """Kills one, pauses the other, ends one and starts it again, and so on."""
    for n in range(1_000_000):
        server = pair.servers[n % 2]
        if ended.wait(pause_s / 4):
            return
        until(server.is_ready, 60, "a server")
        if n % 3 == 0:
            seen["kills"] += 1
            server.kill_worker()
        elif n % 3 == 1:
            seen["pauses"] += 1
            worker = server.worker()
            os.kill(worker, signal.SIGSTOP)
            ended.wait(pause_s)
            os.kill(worker, signal.SIGCONT)
        else:
            seen["restarts"] += 1
            server.terminate()
            server.start()


def _judge(pair: Pair, token: str, count: int) -> list[str]:
    """Every message and its answer once, in the order in which they were accepted."""
    failures = []
    headers = {"Authorization": f"Bearer {token}"}
    for n in range(CONVERSATIONS):
        items: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            params = {"limit": "200", **({"before": cursor} if cursor else {})}
            path = f"/api/conversations/c{n}/messages"
            page = httpx2.get(
                pair.servers[0].url + path, params=params, headers=headers, timeout=30
            )
            items = page.json()["items"] + items
            cursor = page.json()["next"]
            if not cursor:
                break
        wanted = [
            text
            for k in range(count)
            for text in (f"c{n} says {k}", f"heard {k + 1}: c{n} says {k}")
        ]
        if [one["text"] for one in items] != wanted:
            failures.append(f"conversation c{n} is not what was said")
    return failures


def _fenced(pair: Pair) -> int:
    return sum(server.told().count("a turn was taken over or cancelled") for server in pair.servers)
