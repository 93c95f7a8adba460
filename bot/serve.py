"""`mfw serve`: gunicorn with one threaded worker, which holds the kernel lock of the data folder.

Embedded stores mean exactly one serving process. The worker takes `$MERCURY_DATA/serve.lock`
after the fork (the descriptor is never inherited), waits for a predecessor that is just ending,
and only then starts its threads.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import portalocker
from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger as GunicornLogger
from gunicorn.workers.gthread import ThreadWorker

from bot.engine import DRAIN_S
from bot.mercury import Mercury
from bot.settings import Settings, SettingsError
from memory.errors import StoreDown, WrongSchema

log = logging.getLogger(__name__)

THREADS = 320
LOCK_WAIT_S = 12.0
GRACE_S = 9
QUICK_DRAIN_S = 1.0
"""What turns get at Ctrl-C; the rest is handed over all the same."""
REOPEN_S = 2.0
LAST_BYTES_S = 1.0
"""How long answers that are made may still be on their way when the process ends."""
EXIT_MISCONFIGURED = 4

Build = Callable[[], tuple[Flask, Mercury]]


class ServeLock:
    """The kernel lock that makes one process of many the serving one.

    Args:
        path: `$MERCURY_DATA/serve.lock`.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = portalocker.Lock(
            str(path), mode="a", timeout=LOCK_WAIT_S, check_interval=0.1,
            flags=portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING,
        )  # fmt: skip

    def take(self, wait_s: float = LOCK_WAIT_S) -> bool:
        """Takes the lock within that time; False when another process keeps it."""
        try:
            self._lock.acquire(timeout=wait_s)
        except portalocker.exceptions.LockException:
            return False
        return True

    def release(self) -> None:
        """Lets the lock go; the kernel does so too when the process dies."""
        self._lock.release()


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """A threaded worker that drains its turns when it is told to end."""

    def init_process(self) -> None:
        self.app.take_place()
        super().init_process()

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._end(DRAIN_S)
        super().handle_exit(sig, frame)

    def handle_quit(self, sig: int, frame: Any) -> None:
        self._end(QUICK_DRAIN_S)
        super().handle_exit(sig, frame)

    def _end(self, seconds: float) -> None:
        """A signal's handler only starts the end; the drain may take its time."""
        threading.Thread(target=self.app.drain, args=(seconds,), name="drain", daemon=True).start()


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Mercury under gunicorn.

    Args:
        settings: where to listen and which folder to hold.
        build: makes the application and its Mercury, in the worker.
        say: prints a line for the operator.
    """

    def __init__(
        self,
        settings: Settings,
        build: Build,
        say: Callable[[str], None],
        host: str,
        key: str,
        workers: int,
    ) -> None:
        self._workers = workers
        self._settings = settings
        self._build = build
        self._say = say
        self._host = host
        self._key = key
        self._mercury: Mercury | None = None
        self._app: Flask | None = None
        self._lock = ServeLock(settings.serve_lock_path)
        super().__init__()

    def load_config(self) -> None:
        options = {
            "bind": f"{self._host}:{self._settings.port}",
            "worker_class": "bot.serve.Worker",
            "workers": self._workers,
            "threads": THREADS,
            "worker_connections": 1_000,
            "timeout": 60,
            "graceful_timeout": GRACE_S,
            "keepalive": 75,
            "control_socket_disable": True,
            "limit_request_line": 8_190,
            "limit_request_field_size": 8_190,
            "accesslog": None,
            "errorlog": "-",
            "loglevel": "warning",
            "logger_class": "bot.serve.Logger",
            "preload_app": False,
            "worker_exit": lambda arbiter, worker: self._leave(),
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        assert self._app is not None
        return self._app

    def take_place(self) -> None:
        """In the worker: takes the lock, builds, and begins to work."""
        if not self._settings.is_shared and not self._lock.take():
            self._say(
                f"another Mercury serves from {self._settings.mercury_data}: stop it, or give "
                "this one a MERCURY_DATA of its own"
            )
            os._exit(EXIT_MISCONFIGURED)
        try:
            self._app, self._mercury = self._build()
            self._mercury.warm()
            self._write_address()
            self._mercury.start()
        except (SettingsError, WrongSchema) as error:
            self._say(str(error))
            os._exit(EXIT_MISCONFIGURED)
        except StoreDown as error:
            log.critical("the archive cannot be used: %s", error)
            threading.Thread(target=self._start_later, name="start", daemon=True).start()

    def _start_later(self) -> None:
        """Tries again until the archive can be used; meanwhile new messages get 503."""
        assert self._mercury is not None
        while not self._mercury.engine.ending:
            time.sleep(REOPEN_S)
            try:
                self._mercury.start()
            except (StoreDown, WrongSchema, SettingsError) as error:
                log.critical("the archive still cannot be used: %s", error)
            else:
                return

    def drain(self, seconds: float) -> None:
        """In the worker, at a signal: ends the turns in order, within that time."""
        if self._mercury is None:
            return
        self._mercury.stop(seconds)
        until = time.monotonic() + LAST_BYTES_S
        while self._open_requests() and time.monotonic() < until:
            time.sleep(0.02)
        self._leave()

    def _open_requests(self) -> int:
        gate = self._app.extensions["mercury.gate"] if self._app is not None else None
        return gate.open if gate is not None else 0

    def _leave(self) -> None:
        """In the worker, at its very end: threads that still hang must not hold the exit."""
        if self._mercury is None:
            return
        self._mercury.stop()
        self._mercury.stores.database.close()
        self._forget_address()
        logging.shutdown()
        os._exit(0)

    def _forget_address(self) -> None:
        """Another worker may have written its own meanwhile."""
        path = self._settings.serve_json_path
        try:
            mine = json.loads(path.read_text())["pid"] == os.getpid()
        except (OSError, ValueError, KeyError):
            return
        if mine:
            path.unlink(missing_ok=True)

    def _write_address(self) -> None:
        """Says in `serve.json` where this server listens, for `mfw chat`; mode 600."""
        path = self._settings.serve_json_path
        draft = path.with_name(path.name + ".new")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        host = "127.0.0.1" if self._host in ("0.0.0.0", "::", "") else self._host  # noqa: S104
        told = {"url": f"http://{host}:{self._settings.port}", "pid": os.getpid(), "key": self._key}
        with os.fdopen(descriptor, "w") as file:
            json.dump(told, file)
        os.replace(draft, path)


class Logger(GunicornLogger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's messages, written by the root logger like everything else."""

    def setup(self, cfg: Any) -> None:
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)
        self.error_log.handlers = []
        self.access_log.handlers = []


def serve(
    settings: Settings,
    build: Build,
    say: Callable[[str], None],
    host: str,
    key: str,
    workers: int = 1,
) -> None:
    """Serves until it is told to end; does not return.

    Args:
        settings: the configuration.
        build: makes the application and its Mercury, in the worker.
        say: prints a line for the operator.
        host: the address to listen on.
        key: what lets the owner of the data folder speak as `cli:<user>`.
        workers: how many processes serve; more than one needs shared stores.
    """
    Server(settings, build, say, host, key, workers).run()
