"""Many conversations at once, over real HTTP against a real gunicorn server."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.figures import Figure, Sizes, at_least, bounded
from benchmarks.load import request
from benchmarks.server import Server
from benchmarks.turn import turn

SLOW_S = 5.0
OPEN = 200


def measure(sizes: Sizes) -> Iterator[Figure]:
    """Turns a second beside the empty route's, then 200 slow turns open at once."""
    folder = sizes.new_folder("many")
    server = Server(folder)
    token = server.token("ada")
    with server:
        for lanes in (8, 64):
            yield _throughput(server, token, lanes, sizes)
    yield _open_at_once(sizes)


def _throughput(server: Server, token: str, lanes: int, sizes: Sizes) -> Figure:
    rounds, count = sizes.of(7, 3), sizes.of(1_600, 512) // lanes
    base = [[request("GET", "/bench/empty")] * (2 * count)] * lanes
    server.load([[turn(token, f"warm-{n}", 0)] for n in range(lanes)])
    pairs, cpu = [], []
    for round_ in range(rounds):
        begun = server.cpu_s()
        empty = server.load(base)
        between = server.cpu_s()
        turns = server.load(
            [
                [turn(token, f"many-{lanes}-{round_}-{lane}", n) for n in range(count)]
                for lane in range(lanes)
            ]
        )
        cpu.append((server.cpu_s() - between) / max(between - begun, 1e-9) * 2)
        pairs.append((lanes * count / turns.seconds, 2 * lanes * count / empty.seconds))
    return at_least(
        f"turns a second, {lanes} at once", pairs, 0.35, "/s",
        f"no error; CPU of a turn {statistics.median(cpu):.1f} × the empty route's",
    )  # fmt: skip


def _open_at_once(sizes: Sizes) -> Figure:
    folder = sizes.new_folder("slow")
    server = Server(folder, {"BENCH_WAIT_S": str(SLOW_S)})
    token = server.token("ada")
    with server:
        result = server.load([[turn(token, f"slow-{n}", 0)] for n in range(OPEN)])
    return bounded(
        f"{OPEN} turns of {SLOW_S:g} s open at once: the last", result.seconds, 2 * SLOW_S, "s",
        f"{len(result.latencies_s)} answered, {result.bad} failed",
    )  # fmt: skip
