"""What a turn over HTTP costs the serving process in CPU time, with a short and a long history."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.figures import Figure, Sizes, at_most
from benchmarks.load import request
from benchmarks.server import Redis, Server

MICRO = 1e6
SHORT, LONG = 10, 1_000
"""Messages of history at which a turn is measured."""


def measure(sizes: Sizes) -> Iterator[Figure]:
    """A turn against an empty route and a Redis round trip, then a long history against a short."""
    folder = sizes.new_folder("turn")
    with Redis(folder) as redis:
        server = Server(folder, redis=redis)
        token = server.token("ada")
        with server:
            yield from _measure(server, token, redis.said, sizes)


def _measure(server: Server, token: str, redis: str, sizes: Sizes) -> Iterator[Figure]:
    rounds, turns = sizes.of(9, 5), sizes.of(200, 60)
    base = [request("GET", "/bench/redis")] * turns
    server.load([[turn(token, "warm", n) for n in range(50)], base])
    whole, long, texts = [], [], []
    server.load([[turn(token, "long", n) for n in range(LONG // 2)]])
    server.load([[turn(token, "texts", n, 300) for n in range(LONG // 2)]])
    for round_ in range(rounds):
        short = [f"short-{round_}-{n}" for n in range(turns // 5)]
        server.load([[turn(token, name, n) for name in short for n in range(SHORT // 2)]])
        baseline = server.cpu_of([base]) * MICRO
        at_10 = server.cpu_of([[turn(token, name, n) for n in range(5) for name in short]]) * MICRO
        at_1000 = server.cpu_of([[turn(token, "long", n) for n in range(turns // 4)]]) * MICRO
        with_texts = server.cpu_of([[turn(token, "texts", n, 300) for n in range(turns // 4)]])
        whole.append((at_10, baseline))
        long.append((at_1000, at_10))
        texts.append((with_texts * MICRO, at_10))
    yield at_most("turn: CPU to empty route + Redis", whole, 4.0, "µs", redis)
    yield at_most("turn: 1,000 messages to 10", long, 1.2, "µs", "short ones, none compacted")
    yield at_most("turn: 1,000 messages to 10, compacted", texts, 1.2, "µs", "of 300 characters")


def turn(token: str, conversation: str, n: int, chars: int = 30) -> str:
    """A request for a turn whose text has about that many characters."""
    text = f"{n}: where are the crates? " + "The hall is cold and the ship is late. " * 20
    body = json.dumps({"text": text[:chars], "conversation": conversation})
    return request("POST", "/api/turn", body, Authorization=f"Bearer {token}")
