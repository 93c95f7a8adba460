"""A PostgreSQL server as a database: the same promises as the file's, for many processes.

Statements are written once for both; `?` becomes the driver's placeholder here. A writing
transaction reads what others have committed, and locks the rows that it decides on (`locked`);
one that loses a race it could not see (a deadlock, the same row inserted twice) is run again.
Whatever says that the server cannot serve now becomes StoreDown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout
from psycopg_pool import TooManyRequests as PoolFull

from memory.database import Dialect, Row, Tx, Value
from memory.errors import StoreDown

T = TypeVar("T")

CONNECTIONS = 20
"""Turns hold one only while they read or write; 20 serve some thousand turns a second."""
WAIT_S = 10.0
CONNECT_S = 5
STATEMENT_MS = 30_000
IDLE_IN_TRANSACTION_MS = 30_000
"""A paused process gives its locks up after that; its work is then taken over."""
TRIES = 8
CLOCK_S = 10.0
"""How long the server's clock is believed to be known."""
_LOST_RACES = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)
_SCHEMA_LOCK = 0x4D657263757279
"""`Mercury` in ASCII: the advisory lock under which the schema is changed."""


class PostgresDatabase:
    """The archive on a PostgreSQL server.

    Args:
        url: `postgresql://…` or a connection string of libpq.
        connections: the most that are open at once.
    """

    def __init__(self, url: str, connections: int = CONNECTIONS) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            raise StoreDown("DATABASE_URL is no connection string of PostgreSQL") from error
        given.setdefault("connect_timeout", CONNECT_S)
        given.setdefault("application_name", "mercury")
        options = f"-c statement_timeout={STATEMENT_MS}"
        options += f" -c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_MS}"
        given["options"] = f"{given.get('options', '')} {options}".strip()
        self._conninfo = make_conninfo(**given)  # type: ignore[arg-type]
        self._connections = connections
        self._lock = threading.Lock()
        self._pool: ConnectionPool[psycopg.Connection[Row]] | None = None
        self._clock = _ServerClock()

    def write(self, work: Callable[[Tx], T]) -> T:
        for left in range(TRIES - 1, -1, -1):
            try:
                with self._transaction("READ COMMITTED", read_only=False) as tx:
                    return work(tx)
            except _LOST_RACES as error:
                if not left:
                    raise StoreDown(f"the archive: {type(error).__name__}") from error
        raise AssertionError("the last try returns or raises")

    def read(self, work: Callable[[Tx], T]) -> T:
        with self._transaction("REPEATABLE READ", read_only=True) as tx:
            return work(tx)

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(timeout=2.0)

    @contextmanager
    def _transaction(self, level: str, read_only: bool) -> Iterator[Tx]:
        mode = "READ ONLY" if read_only else "READ WRITE"
        begin = f"BEGIN ISOLATION LEVEL {level} {mode}".encode()
        with self._translated(), self._begun(begin) as connection:
            try:
                yield _PostgresTx(connection, self._clock)
                connection.execute("COMMIT")
            except BaseException:
                if not connection.closed:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _begun(self, begin: bytes) -> Iterator[psycopg.Connection[Row]]:
        """A connection in a new transaction; one that was cut while it waited is replaced."""
        pool = self._opened()
        for left in range(self._connections, -1, -1):
            connection = pool.getconn()
            try:
                connection.execute(begin)
            except psycopg.OperationalError:
                pool.putconn(connection)
                if not left or not connection.closed:
                    raise
            else:
                break
        try:
            yield connection
        finally:
            pool.putconn(connection)

    def _opened(self) -> ConnectionPool[psycopg.Connection[Row]]:
        with self._lock:
            if self._pool is None:
                # Each transaction is begun in words, so that its level costs no statement more.
                self._pool = ConnectionPool(
                    self._conninfo, min_size=1, max_size=self._connections, open=True,
                    timeout=WAIT_S, kwargs={"autocommit": True},
                    name="archive",
                )  # fmt: skip
            return self._pool

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (PoolTimeout, PoolClosed, PoolFull) as error:
            raise StoreDown("the archive's server cannot be reached") from error
        except _LOST_RACES:
            raise
        except errors.UndefinedTable as error:
            raise StoreDown("the database holds no archive of this version") from error
        except (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege) as error:
            raise StoreDown(f"the archive cannot be written: {type(error).__name__}") from error
        except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError) as error:
            raise StoreDown(f"the archive's server is away: {type(error).__name__}") from error


class _ServerClock:
    """The server's clock, asked now and then; in between the process's own steady one goes on."""

    def __init__(self) -> None:
        self._asked_at = -CLOCK_S
        self._offset_ms = 0.0

    def now(self, ask: Callable[[], int]) -> int:
        """Milliseconds since the epoch by the server's clock."""
        steady = time.monotonic()
        if steady - self._asked_at >= CLOCK_S:
            self._offset_ms = ask() - time.monotonic() * 1000
            self._asked_at = steady
        return int(self._offset_ms + time.monotonic() * 1000)


class _PostgresTx:
    __slots__ = ("_clock", "_connection")
    dialect: Dialect = "postgresql"

    def __init__(self, connection: psycopg.Connection[Row], clock: _ServerClock) -> None:
        self._connection = connection
        self._clock = clock

    def rows(self, sql: str, *values: Value) -> list[Row]:
        return self._execute(sql, values).fetchall()

    def row(self, sql: str, *values: Value) -> Row | None:
        return self._execute(sql, values).fetchone()

    def locked(self, sql: str, *values: Value) -> Row | None:
        return self._execute(f"{sql} FOR UPDATE", values).fetchone()

    def run(self, sql: str, *values: Value) -> int:
        return self._execute(sql, values).rowcount

    def now(self) -> int:
        return self._clock.now(self._ask_clock)

    def _ask_clock(self) -> int:
        row = self.row("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)")
        assert row is not None
        return int(str(row[0]))

    def alone(self) -> None:
        self._execute("SELECT pg_advisory_xact_lock(?)", (_SCHEMA_LOCK,))

    def has_table(self, name: str) -> bool:
        return self.row("SELECT to_regclass(?)", name) != (None,)

    def _execute(self, sql: str, values: tuple[Value, ...]) -> psycopg.Cursor[Row]:
        return self._connection.execute(_placed(sql), [_storable(value) for value in values])


@lru_cache(maxsize=1_000)
def _placed(sql: str) -> bytes:
    """A statement with the driver's placeholders; no literal of ours holds a question mark."""
    return sql.replace("%", "%%").replace("?", "%s").encode()


def _storable(value: Value) -> Any:
    """A value as the server takes it: its texts cannot hold the character NUL."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value
