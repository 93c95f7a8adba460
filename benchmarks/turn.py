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
FEW, MANY = 30, 300
"""Characters of a message: a thousand of the longer ones are compacted, of the shorter none."""


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
    server.load([[turn(token, f"long-{chars}", n, chars) for n in range(LONG // 2)]
                 for chars in (FEW, MANY)])  # fmt: skip
    whole: list[tuple[float, float]] = []
    longer: dict[int, list[tuple[float, float]]] = {FEW: [], MANY: []}
    for round_ in range(rounds):
        baseline = server.cpu_of([base]) * MICRO
        for chars, pairs in longer.items():
            short = [f"short-{chars}-{round_}-{n}" for n in range(turns // 5)]
            server.load(
                [[turn(token, name, n, chars) for name in short for n in range(SHORT // 2)]]
            )
            at_10 = [turn(token, name, n, chars) for n in range(5) for name in short]
            at_1000 = [turn(token, f"long-{chars}", n, chars) for n in range(turns // 4)]
            few, many = server.cpu_of([at_10]) * MICRO, server.cpu_of([at_1000]) * MICRO
            pairs.append((many, few))
            if chars == FEW:
                whole.append((few, baseline))
    yield at_most("turn: CPU to empty route + Redis", whole, 4.0, "µs", redis)
    yield at_most("turn: 1,000 messages to 10", longer[FEW], 1.2, "µs", f"of {FEW} characters")
    yield at_most("the same, compacted", longer[MANY], 1.2, "µs", f"of {MANY} characters")


def turn(token: str, conversation: str, n: int, chars: int = FEW) -> str:
    """A request for a turn whose text has about that many characters."""
    text = f"{n}: where are the crates? " + "The hall is cold and the ship is late. " * 20
    body = json.dumps({"text": text[:chars], "conversation": conversation})
    return request("POST", "/api/turn", body, Authorization=f"Bearer {token}")
