"""Mercury as it is served, with a model that answers from memory; run as a program of its own.

Built from the repository's own parts and served by `bot.serve`, so that what is measured is what
runs. Beside Mercury's routes it has the baselines: a route that does nothing, one that asks
Redis once, and one that makes one row durable.
"""

from __future__ import annotations

import importlib
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
from flask import Blueprint, Flask, Response

from bot import logs
from bot.http.app import flask_app
from bot.mercury import Mercury, build
from bot.model import Piece, Prompt, Text, ToolSpec
from bot.serve import serve
from bot.settings import Settings, load
from bot.stop import Stop

ANSWER = (
    "The harbour is closed on Sunday, ", "so the crates leave on Monday at seven; ",
    "Ada has the papers, and the driver ", "knows the way to the new hall.",
)  # fmt: skip
"""An answer as a model streams it."""


class Stub:
    """Answers every prompt alike.

    Args:
        wait_s: how long it thinks before the first word.
    """

    name = "stub"

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s

    def stream(self, prompt: Prompt, tools: Sequence[ToolSpec], stop: Stop) -> Iterator[Piece]:
        """Yields the answer."""
        if self._wait_s:
            stop.wait(self._wait_s)
        for delta in ANSWER:
            yield Text(delta)


def baselines(settings: Settings, redis_port: int, redis_client: str) -> Blueprint:
    """The routes that everything else is compared with.

    Args:
        settings: whose folder the durable row goes to, into a file of its own.
        redis_port: on loopback, 0 for none.
        redis_client: the name of the package that speaks to it, or '' for a plain socket.
    """
    routes = Blueprint("baselines", __name__)
    ask = _redis(redis_port, redis_client)
    insert = _insert(settings.mercury_data / "baseline.db")

    @routes.get("/bench/empty")
    def empty() -> Response:
        return Response(b"")

    @routes.get("/bench/redis")
    def redis() -> Response:
        ask()
        return Response(b"")

    @routes.post("/bench/insert")
    def durable() -> Response:
        insert()
        return Response(b"")

    return routes


def _redis(port: int, client: str) -> Callable[[], object]:
    """One round trip: reads a value of 200 bytes (or, without Redis, an echo of a line)."""
    if client:
        connection: Any = importlib.import_module(client).Redis(
            "127.0.0.1", port, socket_timeout=0.25, socket_connect_timeout=0.25
        )
        connection.set("bench", "x" * 200)
        return lambda: connection.get("bench")
    import socket

    wire = socket.create_connection(("127.0.0.1", port)) if port else None
    lock = threading.Lock()

    def ask() -> object:
        if wire is None:
            return None
        with lock:
            wire.sendall(b"GET bench\r\n")
            return wire.recv(4_096)

    return ask


def _insert(path: Path) -> Callable[[], object]:
    """One row, on disk when this returns: as durable as the archive's own."""
    connection: apsw.Connection | None = None
    lock = threading.Lock()

    def insert() -> object:
        nonlocal connection
        with lock:
            if connection is None:
                connection = apsw.Connection(str(path))
                connection.execute("PRAGMA journal_mode=WAL").fetchall()
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("CREATE TABLE rows (id TEXT PRIMARY KEY, text TEXT)")
            return connection.execute(
                "INSERT INTO rows VALUES (?, ?)", (secrets.token_urlsafe(12), "x" * 200)
            ).fetchall()

    return insert


def main() -> None:
    """Serves until it is told to end, as the environment says."""
    settings = load(os.environ, None)
    logs.configure(settings)
    wait_s = float(os.environ.get("BENCH_WAIT_S", "0"))
    redis_port = int(os.environ.get("BENCH_REDIS_PORT", "0"))

    def made() -> tuple[Flask, Mercury]:
        mercury = build(settings, model=Stub(wait_s))
        app = flask_app(mercury, "")
        app.register_blueprint(
            baselines(settings, redis_port, os.environ.get("BENCH_REDIS_CLIENT", ""))
        )
        return app, mercury

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    serve(settings, made, say, "127.0.0.1", secrets.token_urlsafe(32))


if __name__ == "__main__":
    main()
