"""How long Google Chat waits for its 200, while answers are made and delivered beside it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from benchmarks.figures import Figure, Sizes, at_most, percentile
from benchmarks.load import Result, request
from benchmarks.server import Server
from tests.fakes.chat_server import ChatServer
from tests.fakes.google_keys import AUDIENCE, PROJECT, Signer
from tests.world import event

PACE_S = 0.02
"""Fifty events a second, for a minute in all; every answer is delivered meanwhile."""
MILLI = 1e3


def measure(sizes: Sizes) -> Iterator[Figure]:
    """The route's p99 beside that of an empty route with one durable row, at the same pace."""
    folder = sizes.new_folder("chat")
    rounds, count = sizes.of(3, 2), sizes.of(1_000, 150)
    with ChatServer() as chat:
        env = {
            "GOOGLE_CHAT_FORMAT": "addon", "GOOGLE_CHAT_PROJECT_NUMBER": PROJECT,
            "GOOGLE_CHAT_AUDIENCE": AUDIENCE, "GOOGLE_CHAT_API_URL": chat.url,
            "GOOGLE_CHAT_CERTS_URL": chat.certs_url,
            "GOOGLE_APPLICATION_CREDENTIALS": str(chat.write_key_file(folder / "account.json")),
        }  # fmt: skip
        with Server(folder, env) as server:
            signer = Signer()
            server.load([[_event(signer, "w", n) for n in range(10)]], 0.1)
            pairs, answered = [], _answered(chat, 10)
            for round_ in range(rounds):
                base = [request("POST", "/bench/insert")] * count
                empty = server.load([base], PACE_S)
                events = [_event(signer, f"r{round_}x", n) for n in range(count)]
                result = server.load([events], PACE_S)
                answered = _answered(chat, 10 + (round_ + 1) * count)
                pairs.append((_p99(result) * MILLI, _p99(empty) * MILLI))
    yield at_most(
        "Chat route: p99 to empty route + insert", pairs, 6.0, "ms",
        f"{1 / PACE_S:g} events/s, {answered} delivered",
    )  # fmt: skip


def _p99(result: Result) -> float:
    return percentile(result.latencies_s, 0.99)


def _event(signer: Signer, name: str, n: int) -> str:
    """A signed event; each person writes once, for a space takes one message a second."""
    told = event("addon", f"{n}: where are the crates?", f"{name}{n}", f"{name}{n}", f"{1_000 + n}")
    return request(
        "POST", "/chat/events", json.dumps(told), Authorization=f"Bearer {signer.addon()}"
    )


def _answered(chat: ChatServer, expected: int) -> int:
    """Waits for the deliveries.

    Raises:
        RuntimeError: they did not all come.
    """
    for _ in range(600):
        if len(chat.shown) >= expected:
            return len(chat.shown)
        time.sleep(0.1)
    raise RuntimeError(f"{len(chat.shown)} of {expected} answers were delivered")
