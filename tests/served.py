"""A real `mfw serve` in a process of its own, with everything that it talks to."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2

from bot.scope import Scope
from memory.archive import Archive
from memory.database import SqliteDatabase
from memory.ids import random_id
from memory.records import Message
from tests.clock import HandClock

ROOT = Path(__file__).parent.parent
READY_S = 20.0
STEP_S = 0.02


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def until(holds: Callable[[], object], seconds: float = READY_S, what: str = "it") -> None:
    """Looks again and again until something holds.

    Raises:
        AssertionError: it did not within that time.
    """
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(STEP_S)


class Served:
    """`mfw serve` on a free port, with a data folder of its own; use it in a `with`.

    Args:
        data: the data folder, which outlives the server.
        env: further settings.
    """

    def __init__(self, data: Path, env: Mapping[str, str] | None = None) -> None:
        self.data = data
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(data.parent), "MERCURY_DATA": str(data),
            "PORT": str(self.port), "LANG": "C.UTF-8", "LOG_FORMAT": "json", **(env or {}),
        }  # fmt: skip
        self.command: tuple[str, ...] = ("cli", "serve")
        self.log = data.parent / f"{data.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Served:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, wait: bool = True, **env: str) -> None:
        """Starts the server; with `wait` until it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self.command], env={**self.env, **env},
                stdout=log, stderr=log, cwd=ROOT,
            )  # fmt: skip
        if wait:
            until(self.is_ready, what=f"a ready server; its log says: {self.told()[-2000:]}")

    def is_ready(self) -> bool:
        """Whether the server takes traffic."""
        try:
            return httpx2.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except httpx2.HTTPError:
            return False

    def worker(self) -> int:
        """The worker's process id, as it says itself."""
        told = json.loads((self.data / "serve.json").read_text())
        return int(told["pid"])

    def kill_worker(self) -> None:
        """SIGKILL to the worker; gunicorn's master starts another."""
        os.kill(self.worker(), signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM to the server; returns its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(20)

    def stop(self) -> None:
        """Ends the server, whatever it takes."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)

    def kill(self) -> None:
        """SIGKILL to the server and its worker at once."""
        assert self.process is not None
        worker = self.worker()
        self.process.kill()
        self.process.wait(5)
        try:
            os.kill(worker, signal.SIGKILL)
        except ProcessLookupError:
            return
        until(lambda: not alive(worker), what="the worker's end")

    def told(self) -> str:
        """What the server has printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def token(self, user: str) -> str:
        """A bearer token of `http:<user>`."""
        done = subprocess.run(
            [sys.executable, "-m", "cli", "token", "new", "--user", user], env=self.env,
            capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        return done.stdout.strip().splitlines()[-1]

    def mfw(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Runs an `mfw` command beside the server."""
        return subprocess.run(
            [sys.executable, "-m", "cli", *args], env=self.env, capture_output=True, text=True,
            check=False, cwd=ROOT, timeout=60,
        )  # fmt: skip

    def client(self, token: str) -> httpx2.Client:
        """An HTTP client with that token."""
        return httpx2.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=60
        )

    def messages(self, scope: Scope) -> list[Message]:
        """Every message of a memory, conversation by conversation, the oldest first."""
        database = SqliteDatabase(self.data / "archive.db", create=False)
        archive = Archive(database, HandClock(), random_id, 60_000)
        try:
            found: list[Message] = []
            for one in reversed(archive.conversations(scope.owner, 200).items):
                found += archive.messages(None, one.id, limit=200).items
            return found
        finally:
            database.close()

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of the archive."""
        database = SqliteDatabase(self.data / "archive.db", create=False)
        try:
            return database.read(lambda tx: list(tx.rows(sql, *values)))
        finally:
            database.close()


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
