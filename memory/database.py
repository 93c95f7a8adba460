"""A SQLite file as a database: transactions in, rows out, and no idea of what the rows mean.

Every connection is opened by one function, so that the server and `mfw` beside it keep the same
rules: WAL, `synchronous=FULL`, `secure_delete`, a busy timeout, and BEGIN IMMEDIATE for whatever
writes. Writers of one process that arrive together share one commit, and so one fsync: whoever
gets the connection runs what the others have queued. Where one of them fails they are run anew,
each within a savepoint of its own.

SQLite 3.7.0 to 3.51.2 can corrupt a WAL database that several connections use
(https://sqlite.org/wal.html, "The WAL-Reset Bug"); such a library is refused.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

import apsw

from memory.errors import Damaged, StoreDown

T = TypeVar("T")
Value = str | int | float | bytes | None
Row = tuple[Value, ...]
Dialect = Literal["sqlite", "postgresql"]

FIRST_SOUND_SQLITE = 3_051_003
BUSY_TIMEOUT_MS = 5_000
READERS = 8
BATCH = 64
"""The most transactions that share one commit; bounds how long the first of them waits."""

_DAMAGE = (apsw.CorruptError, apsw.NotADBError)
_AWAY = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.IOError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.PermissionsError,
)


class Tx(Protocol):
    """One transaction, given to the function that works in it."""

    def rows(self, sql: str, *values: Value) -> list[Row]:
        """Every row of a statement with `?` placeholders."""

    def row(self, sql: str, *values: Value) -> Row | None:
        """The first row, or None."""

    @property
    def dialect(self) -> Dialect:
        """Which database it is, for the few statements that differ."""

    def locked(self, sql: str, *values: Value) -> Row | None:
        """The row that a SELECT finds, which no other transaction changes until this one ends.

        Whatever a writing transaction decides on is read so; SQLite has one writer anyway.
        """

    def run(self, sql: str, *values: Value) -> int:
        """Runs a statement without rows; returns how many rows it changed."""

    def now(self) -> int:
        """The database's own clock in milliseconds: for leases and heartbeats only."""

    def alone(self) -> None:
        """Waits until no other transaction that has called this is open: for the schema."""

    def has_table(self, name: str) -> bool:
        """Whether there is a table of that name."""


class Database(Protocol):
    """Where the archive's rows live.

    After an error nothing of the transaction is kept. Both methods raise StoreDown when the
    database cannot serve, and let the errors of `work` itself through.
    """

    def write(self, work: Callable[[Tx], T]) -> T:
        """Runs `work` in a transaction that is on disk when this returns. `work` may run again
        or in another thread, so it only touches the transaction and its own values."""

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs `work` on one consistent state."""

    def close(self) -> None:
        """Closes every connection; the database opens again when it is next used."""


class _SqliteTx:
    __slots__ = ("_connection",)
    dialect: Dialect = "sqlite"

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, *values: Value) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Value) -> Row | None:
        found = self._connection.execute(sql, values).fetchall()
        return found[0] if found else None

    locked = row

    def run(self, sql: str, *values: Value) -> int:
        self._connection.execute(sql, values)
        return self._connection.changes()

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def alone(self) -> None:
        """Every writing transaction is."""

    def has_table(self, name: str) -> bool:
        found = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return self.row(found, name) is not None


class _Job(Generic[T]):
    """What a thread wants written; `wake` is let go when it is done, or is the next to lead."""

    __slots__ = ("done", "error", "result", "wake", "work")

    def __init__(self, work: Callable[[Tx], T]) -> None:
        self.work = work
        self.wake = threading.Lock()
        self.wake.acquire()
        self.done = False
        self.result: T | None = None
        self.error: BaseException | None = None


class SqliteDatabase:
    """The embedded database; opens its file when it is first used.

    Args:
        path: the file; its folder must exist.
        create: whether a missing file is made. A write-ahead log without its database is
            damage, never a reason to begin an empty one.

    Once damage was seen every call raises Damaged, and the file is not touched again.
    """

    def __init__(self, path: Path, create: bool = True) -> None:
        if apsw.SQLITE_VERSION_NUMBER < FIRST_SOUND_SQLITE:
            raise StoreDown(
                f"SQLite {apsw.sqlite_lib_version()} can corrupt a database in WAL mode; "
                "3.51.3 or newer is needed"
            )
        self.path = path
        self._create = create
        self._damage: str | None = None
        self._writer: apsw.Connection | None = None
        self._turnstile = threading.Lock()
        self._queue = threading.Lock()
        self._jobs: deque[_Job[object]] = deque()
        self._led = False
        self._readers: deque[apsw.Connection] = deque()
        self._reader_slots = threading.BoundedSemaphore(READERS)

    # -- public ---------------------------------------------------------------------------

    def write(self, work: Callable[[Tx], T]) -> T:
        job: _Job[T] = _Job(work)
        with self._queue:
            self._jobs.append(job)  # type: ignore[arg-type]  # a queue of jobs of any result
            leads, self._led = not self._led, True
        if not leads:
            job.wake.acquire()
        if not job.done:
            self._lead()
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[return-value]  # set whenever there is no error

    def read(self, work: Callable[[Tx], T]) -> T:
        with self._translated(), self._reader() as connection:
            connection.execute("BEGIN")
            try:
                return work(_SqliteTx(connection))
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def check(self) -> str | None:
        """Looks through the whole file; returns what is wrong with it, or None.

        Raises:
            StoreDown: the file cannot be read.
        """
        try:
            found = self.read(lambda tx: tx.row("PRAGMA quick_check(1)"))
        except Damaged as damage:
            return str(damage)
        if found is None or found[0] == "ok":
            return None
        self._damage = f"{self.path} is damaged: {found[0]!s}"
        return self._damage

    def close(self) -> None:
        with self._turnstile:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            while self._readers:
                self._readers.pop().close()

    # -- writing --------------------------------------------------------------------------

    def _lead(self) -> None:
        """Runs the first of the queue, this thread's own among them; then another leads."""
        with self._queue:
            batch = [self._jobs.popleft() for _ in range(min(BATCH, len(self._jobs)))]
        try:
            with self._turnstile:
                self._run_batch(batch)
        finally:
            with self._queue:
                self._led = bool(self._jobs)
                following = [self._jobs[0]] if self._jobs else []
            for job in (*following, *batch):
                job.wake.release()

    def _run_batch(self, batch: list[_Job[object]]) -> None:
        try:
            with self._translated():
                connection = self._open_writer()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    kept = self._run_jobs(connection, batch)
                    connection.execute("COMMIT" if kept else "ROLLBACK")
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        except BaseException as error:  # noqa: BLE001  # handed to the threads it belongs to
            for job in batch:
                job.error = error
        finally:
            for job in batch:
                job.done = True

    def _run_jobs(self, connection: apsw.Connection, batch: list[_Job[object]]) -> bool:
        """Runs a batch in the open transaction; returns whether anything of it is to be kept."""
        tx = _SqliteTx(connection)
        try:
            for job in batch:
                job.result = job.work(tx)
        except (*_DAMAGE, *_AWAY):
            raise
        except BaseException as error:  # noqa: BLE001  # handed to the thread it belongs to
            if len(batch) == 1:
                batch[0].error = error
                return False
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            return self._run_apart(connection, batch)
        return True

    @staticmethod
    def _run_apart(connection: apsw.Connection, batch: list[_Job[object]]) -> bool:
        """Runs a batch anew, of which some fail, so that the others are kept."""
        tx = _SqliteTx(connection)
        kept = False
        for job in batch:
            connection.execute("SAVEPOINT job")
            try:
                job.result = job.work(tx)
            except (*_DAMAGE, *_AWAY):
                raise
            except BaseException as error:  # noqa: BLE001  # handed to the thread it belongs to
                job.error = error
                connection.execute("ROLLBACK TO job")
            else:
                kept = True
            connection.execute("RELEASE job")
        return kept

    def _open_writer(self) -> apsw.Connection:
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    # -- connections ----------------------------------------------------------------------

    @contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        with self._reader_slots:
            try:
                connection = self._readers.pop()
            except IndexError:
                connection = self._open()
            try:
                yield connection
            finally:
                self._readers.append(connection)

    def _open(self) -> apsw.Connection:
        exists = self.path.exists()
        if not exists and self.path.with_name(self.path.name + "-wal").exists():
            raise Damaged(f"{self.path} is missing, but its write-ahead log is there")
        flags = apsw.SQLITE_OPEN_READWRITE
        if self._create:
            flags |= apsw.SQLITE_OPEN_CREATE
        elif not exists:
            raise StoreDown(f"{self.path} does not exist")
        connection = apsw.Connection(str(self.path), flags=flags)
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            # Else a statement on a table with a partial index is compiled anew for each value.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            for pragma in (
                "journal_mode=WAL",
                "synchronous=FULL",
                "secure_delete=ON",
                "temp_store=MEMORY",
                "cache_size=-16000",
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if self._damage is not None:
            raise Damaged(self._damage)
        try:
            yield
        except _DAMAGE as error:
            self._damage = f"{self.path} is damaged: {error}"
            raise Damaged(self._damage) from error
        except _AWAY as error:
            raise StoreDown(f"{self.path}: {error}") from error
        except apsw.SQLError as error:
            if "no such table" not in str(error):
                raise
            raise StoreDown(f"{self.path} holds no archive of this version: {error}") from error
