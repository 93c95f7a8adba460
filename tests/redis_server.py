"""A real Redis-compatible server for the tests, which can be stopped, killed and filled."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile

import redis

from benchmarks.server import redis_binary
from tests.served import free_port, until


class RedisServer:
    """The server; use it in a `with`.

    Args:
        options: more of its command line, such as `--requirepass x`.
    """

    def __init__(self, *options: str) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._options = options
        self._folder = tempfile.TemporaryDirectory(prefix="mercury-redis-")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._folder.cleanup()

    def start(self) -> None:
        """Starts it, with nothing in it."""
        binary = redis_binary()
        if binary is None:
            raise OSError("no Redis-compatible server is to be had here")
        self._process = subprocess.Popen(
            [str(binary), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--dir", self._folder.name, *self._options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until(self._listens, what="a Redis server")

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self.wake()
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def pause(self) -> None:
        """SIGSTOP."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGCONT)

    def client(self) -> redis.Redis:
        """A client with the driver's own defaults."""
        return redis.Redis(port=self.port)


class LossyProxy:
    """A TCP proxy before a Redis server that loses answers when it is told to."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        self.lossy = False
        self._open: list[socket.socket] = []

    def __enter__(self) -> LossyProxy:
        import threading

        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for one in list(self._open):
            one.close()

    def _accept(self) -> None:
        import threading

        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                client.close()
                continue
            self._open.append(server)
            for one, other, answers in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pump, args=(one, other, answers), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket, answers: bool) -> None:
        try:
            while data := one.recv(65_536):
                if answers and self.lossy:
                    break
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            end.close()
