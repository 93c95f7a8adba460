"""Several processes over one PostgreSQL and one Redis: what a turn costs, and what faults cost."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2

from benchmarks.figures import Figure, Sizes, at_least, at_most, bounded
from benchmarks.load import request
from benchmarks.server import Redis, Server
from benchmarks.turn import turn
from tests.postgres import Postgres
from tests.redis_server import RedisServer

MICRO, MILLI = 1e6, 1e3
SECRET = "a-secret-of-the-benchmarks-that-is-long-enough"
SLOW_S = 3.0


def measure(sizes: Sizes) -> Iterator[Figure]:
    """CPU time of a turn, a paused Redis, a dead process's turns, two processes beside one."""
    with Postgres() as postgres, RedisServer() as redis:
        env = {"REDIS_URL": redis.url, "MERCURY_SECRET": SECRET}
        yield _cost(sizes, {**env, "DATABASE_URL": postgres.url()})
        yield from _paused(sizes, {**env, "DATABASE_URL": postgres.url()}, redis)
        yield _takeover(sizes, {**env, "DATABASE_URL": postgres.url()})
        yield _two(sizes, {**env, "DATABASE_URL": postgres.url()})


def _cost(sizes: Sizes, env: dict[str, str]) -> Figure:
    folder = sizes.new_folder("shared-cost")
    rounds, turns = sizes.of(7, 3), sizes.of(150, 50)
    with Redis(folder) as baseline:
        server = Server(folder, env, redis=baseline)
        token = server.token("ada")
        with server:
            base = [request("GET", "/bench/redis")] * turns
            server.load([[turn(token, "warm", n) for n in range(50)], base])
            pairs = []
            for round_ in range(rounds):
                empty = server.cpu_of([base]) * MICRO
                whole = server.cpu_of([[turn(token, f"c{round_}", n) for n in range(turns)]])
                pairs.append((whole * MICRO, empty))
    return at_most("PostgreSQL and Redis: CPU of a turn", pairs, 6.0, "µs")


def _paused(sizes: Sizes, env: dict[str, str], redis: RedisServer) -> Iterator[Figure]:
    folder = sizes.new_folder("shared-paused")
    server = Server(folder, env)
    token = server.token("ada")
    with server:
        _say(server, token, 0)
        usual = statistics.median(_say(server, token, n) for n in range(1, 20))
        redis.pause()
        paused = [_say(server, token, n) - usual for n in range(20, 50)]
        redis.wake()
    longest = max(paused)
    paused.remove(longest)
    yield bounded("a paused Redis adds, once", longest * MILLI, 1_000, "ms")
    yield bounded("a paused Redis adds, then", max(paused) * MILLI, 50, "ms", "the worst of 29")


def _say(server: Server, token: str, n: int) -> float:
    begun = time.perf_counter()
    told = httpx2.post(
        f"http://127.0.0.1:{server.port}/api/turn", json={"text": f"{n}", "conversation": "c"},
        headers={"Authorization": f"Bearer {token}"}, timeout=60,
    )  # fmt: skip
    if told.status_code != 200:
        raise RuntimeError(f"a turn was answered with {told.status_code}")
    return time.perf_counter() - begun


def _takeover(sizes: Sizes, env: dict[str, str]) -> Figure:
    folder = sizes.new_folder("shared-takeover")
    slow = Server(folder / "slow", {**env, "BENCH_WAIT_S": "60"})
    quick = Server(folder / "quick", env)
    token = slow.token("ada")
    key = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k"}
    body = {"text": "hello", "conversation": "c"}
    with slow, quick:

        def ask() -> None:
            try:
                httpx2.post(
                    f"http://127.0.0.1:{slow.port}/api/turn", json=body, headers=key, timeout=60
                )
            except httpx2.HTTPError:
                return

        asked = threading.Thread(target=ask, daemon=True)
        asked.start()
        time.sleep(1.0)
        slow.kill()
        begun = time.perf_counter()
        told = httpx2.post(
            f"http://127.0.0.1:{quick.port}/api/turn", json=body, headers=key, timeout=60
        )
        took = time.perf_counter() - begun
    if told.status_code != 200:
        raise RuntimeError(f"the turn was answered with {told.status_code}")
    return bounded("a dead process's turn is answered after", took, 12, "s", "dead after 10 s")


def _two(sizes: Sizes, env: dict[str, str]) -> Figure:
    folder = sizes.new_folder("shared-two")
    servers = [Server(folder / name, env) for name in ("one", "two")]
    token = servers[0].token("ada")
    rounds, count = sizes.of(5, 2), sizes.of(60, 20)
    pairs = []
    with servers[0], servers[1], ThreadPoolExecutor(2) as pool:
        for round_ in range(rounds):
            lanes = [
                [
                    [turn(token, f"{round_}-{which}-{lane}", n) for n in range(count)]
                    for lane in range(16)
                ]
                for which in range(3)
            ]
            alone = servers[0].load(lanes[0])
            begun = time.perf_counter()
            list(pool.map(lambda n, lanes=lanes: servers[n].load(lanes[n + 1]), range(2)))
            both = time.perf_counter() - begun
            pairs.append((32 * count / both, 16 * count / alone.seconds))
    cores = os.cpu_count() or 1
    return at_least(
        "turns a second, two processes to one", pairs, 1.5, "/s",
        f"{cores} cores for both, their load and the database",
    )  # fmt: skip
