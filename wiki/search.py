"""The index of the notes: words, titles and links, kept by commit.

A cache in one SQLite file, which may be deleted at any time: it notes for every branch the commit
that it was made from, and before each question the branches that may be read are brought up to
their heads. What it finds is checked against the areas that were asked for. How a text is cut
into words is an argument; the wiki has no rules of its own for that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import apsw

from wiki import note, paths
from wiki.errors import WikiDown
from wiki.paths import Area
from wiki.repository import Repository

log = logging.getLogger(__name__)

FORM = 1
"""Of the tables below; an index of another form is made anew."""
LINE_CHARS = 300
RANKED = 1_000
"""Of more notes that hold a query's words, those are ranked that were changed last."""
LOOK = 64
"""Hits that are looked at for one page."""
BUSY_MS = 5_000
SCHEMA = """
PRAGMA secure_delete = ON;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS heads (branch TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (
    n INTEGER PRIMARY KEY, branch TEXT NOT NULL, path TEXT NOT NULL, blob TEXT NOT NULL,
    title TEXT NOT NULL, updated INTEGER NOT NULL, text TEXT NOT NULL, problem TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS notes_path ON notes (branch, path);
CREATE INDEX IF NOT EXISTS notes_updated ON notes (branch, updated);
CREATE TABLE IF NOT EXISTS links (n INTEGER NOT NULL, name TEXT NOT NULL, target TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS links_n ON links (n);
CREATE INDEX IF NOT EXISTS links_name ON links (name);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    terms, content='', contentless_delete=1,
    tokenize="unicode61 remove_diacritics 0 categories 'L* M* N* S* P* Co Cf Cn'");
"""


class Words(Protocol):
    """How texts and queries are cut into words."""

    def indexed(self, text: str, owner: str) -> list[str]:
        """The terms of a text that belongs to an owner."""

    def expressions(self, query: str, owners: Sequence[str]) -> list[str]:
        """FTS5 expressions for a query within these owners' texts, the strictest first."""

    def holds(self, text: str, query: str) -> bool:
        """Whether a text holds the query's exact quotes."""

    def has_quotes(self, query: str) -> bool:
        """Whether a query has exact quotes."""

    def wanted(self, query: str) -> frozenset[str]:
        """The words of a query."""

    def of(self, line: str) -> list[str]:
        """The words of a line."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A note in a list; `updated` in seconds since the epoch."""

    path: str
    blob: str
    title: str
    updated: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that was found; lines are counted from 1."""

    path: str
    title: str
    line: int
    text: str
    updated: int


class Index:
    """The index in one file.

    Args:
        path: the file; made when it is first used.
        words: how texts are cut.
    """

    def __init__(self, path: Path, repository: Repository, words: Words) -> None:
        self._path = path
        self._repository = repository
        self._words = words
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._writer: apsw.Connection | None = None
        self._reader: apsw.Connection | None = None

    # -- questions ----------------------------------------------------------------------------

    def search(self, areas: Sequence[Area], query: str, limit: int) -> list[Hit]:
        """The best notes for a query, each with its best line.

        Raises:
            WikiDown: the index cannot be used.
        """
        self.refresh(areas)
        wanted, quotes = self._words.wanted(query), self._words.has_quotes(query)
        branches = [area.branch for area in areas]
        for expression in self._words.expressions(query, branches):
            found = [
                one for one in self._matching(expression, branches)
                if not quotes or self._words.holds(one[2], query)
            ]  # fmt: skip
            if found:
                return [self._hit(*one, wanted, quotes, query) for one in found[:limit]]
        return []

    def _matching(self, expression: str, branches: list[str]) -> list[tuple[str, str, str, int]]:
        marks = ", ".join("?" for _ in branches)
        rows = self._rows(
            "WITH newest AS MATERIALIZED (SELECT rowid AS n, rank AS place FROM words"
            f" WHERE words MATCH ? ORDER BY rowid DESC LIMIT {RANKED})"
            " SELECT path, title, text, updated FROM"
            f" (SELECT n, place FROM newest ORDER BY place LIMIT {LOOK}) JOIN notes USING (n)"
            f" WHERE branch IN ({marks}) ORDER BY place",
            expression, *branches,
        )  # fmt: skip
        return [(str(p), str(t), str(x), int(str(u))) for p, t, x, u in rows]

    def _hit(
        self, path: str, title: str, text: str, updated: int, wanted: frozenset[str],
        quotes: bool, query: str,
    ) -> Hit:  # fmt: skip
        """The line with most of the words, those with a quote first; else the title's."""
        best, at, shown = (0, 0), 1, title
        for n, line in enumerate(text.splitlines(), 1):
            words = len(wanted.intersection(self._words.of(line)))
            score = (words, int(quotes and words > 0 and self._words.holds(line, query)))
            if score[::-1] > best[::-1]:
                best, at, shown = score, n, line
        return Hit(path, title, at, " ".join(shown.split())[:LINE_CHARS], updated)

    def notes(self, areas: Sequence[Area], limit: int | None = None) -> list[Listed]:
        """The notes of these areas, those first that were changed last."""
        self.refresh(areas)
        marks = ", ".join("?" for _ in areas)
        rows = self._rows(
            f"SELECT path, blob, title, updated FROM notes WHERE branch IN ({marks})"
            " ORDER BY updated DESC, path LIMIT ?",
            *(area.branch for area in areas), -1 if limit is None else limit,
        )  # fmt: skip
        return [Listed(str(p), str(b), str(t), int(str(u))) for p, b, t, u in rows]

    def count(self, areas: Sequence[Area]) -> int:
        """How many notes there are."""
        self.refresh(areas)
        marks = ", ".join("?" for _ in areas)
        (row,) = self._rows(
            f"SELECT count(*) FROM notes WHERE branch IN ({marks})", *(a.branch for a in areas)
        )
        return int(str(row[0]))

    def problems(self, areas: Sequence[Area]) -> dict[str, str]:
        """The notes of these areas whose front matter or length is wrong, by path."""
        self.refresh(areas)
        marks = ", ".join("?" for _ in areas)
        rows = self._rows(
            f"SELECT path, problem FROM notes WHERE problem <> '' AND branch IN ({marks})"
            " ORDER BY path",
            *(area.branch for area in areas),
        )  # fmt: skip
        return {str(path): str(problem) for path, problem in rows}

    def linking(self, areas: Sequence[Area], path: str) -> list[tuple[Area, str, str]]:
        """The notes of these areas whose links could name a path: area, path, the link's target."""
        self.refresh(areas)
        known = {area.branch: area for area in areas}
        marks = ", ".join("?" for _ in areas)
        rows = self._rows(
            "SELECT DISTINCT branch, path, target FROM links JOIN notes USING (n)"
            f" WHERE name = ? AND branch IN ({marks}) ORDER BY path",
            note.key_of(note.name_of(path)), *known,
        )  # fmt: skip
        return [(known[str(branch)], str(at), str(target)) for branch, at, target in rows]

    def named(self, areas: Sequence[Area], name: str) -> list[str]:
        """The paths of these areas whose file has that name, however it is written."""
        wanted = note.key_of(note.name_of(name))
        return [
            one.path
            for one in self.notes(areas)
            if note.key_of(note.name_of(one.path)) == wanted
        ]  # fmt: skip

    # -- keeping up -----------------------------------------------------------------------------

    def heads(self) -> dict[str, str]:
        """The commits that the index was made from, by branch; asking does not make the file."""
        if not self._path.exists():
            return {}
        return {str(branch): str(id_) for branch, id_ in self._rows("SELECT branch, id FROM heads")}

    def refresh(self, areas: Sequence[Area]) -> None:
        """Brings the index up to the heads of these areas' branches.

        Raises:
            WikiDown: the repository or the index cannot be used.
        """
        known = self.heads()
        behind = [
            area for area in areas if self._repository.head(area.branch) != known.get(area.branch)
        ]
        if not behind:
            return
        with self._writing, self._used():
            for area in behind:
                with self._open_writer() as connection:
                    self._follow(connection, area)

    def _follow(self, connection: apsw.Connection, area: Area) -> None:
        row = connection.execute("SELECT id FROM heads WHERE branch = ?", (area.branch,)).fetchone()
        old = None if row is None else str(row[0])
        head = self._repository.head(area.branch)
        if old == head:
            return
        try:
            changed = self._repository.changed(old, head, area.folder)
        except WikiDown:  # what it was made from is not there any more
            old = None
            connection.execute("DELETE FROM notes WHERE branch = ?", (area.branch,))
            changed = self._repository.changed(None, head, area.folder)
        times = self._times(area, head, changed, old is None)
        for path, blob in changed.items():
            self._forget(connection, area, path)
            if blob is not None and paths.is_note(area, path):
                self._add(connection, area, path, blob, times(path))
        if head is None:
            connection.execute("DELETE FROM heads WHERE branch = ?", (area.branch,))
        else:
            connection.execute(
                "INSERT INTO heads (branch, id) VALUES (?, ?)"
                " ON CONFLICT (branch) DO UPDATE SET id = excluded.id",
                (area.branch, head),
            )

    def _add(
        self, connection: apsw.Connection, area: Area, path: str, blob: str,
        at: int,
    ) -> None:  # fmt: skip
        text = self._repository.blob(blob).decode("utf-8", "replace")
        parsed = note.parse(text)
        title = note.title_of(text, path)
        problem = parsed.problem
        if len(text) > note.LONGEST:
            problem = f"a note has at most {note.LONGEST:,} characters, this one has {len(text):,}"
        connection.execute(
            "INSERT INTO notes (branch, path, blob, title, updated, text, problem)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (area.branch, path, blob, title, seconds(parsed.updated) or at, text, problem),
        )
        n = connection.last_insert_rowid()
        name = note.name_of(path)
        terms = self._words.indexed(f"{name}\n{title}\n{text}", area.branch)
        connection.execute("INSERT INTO words (rowid, terms) VALUES (?, ?)", (n, " ".join(terms)))
        for target in {link.target for link in note.links(text)}:
            connection.execute(
                "INSERT INTO links (n, name, target) VALUES (?, ?, ?)",
                (n, note.key_of(note.name_of(note.key_of(target))), target),
            )

    @staticmethod
    def _forget(connection: apsw.Connection, area: Area, path: str) -> None:
        found = "SELECT n FROM notes WHERE branch = ? AND path = ?"
        for (n,) in connection.execute(found, (area.branch, path)).fetchall():
            connection.execute("DELETE FROM words WHERE rowid = ?", (n,))
            connection.execute("DELETE FROM links WHERE n = ?", (n,))
            connection.execute("DELETE FROM notes WHERE n = ?", (n,))

    def _times(
        self, area: Area, head: str | None, changed: dict[str, str | None], all_of_it: bool
    ) -> Callable[[str], int]:
        """When a path was changed last, by the commits; in one walk for a whole branch."""
        if head is None:
            return lambda path: 0
        latest = self._repository.version(head).at
        if not all_of_it:
            return lambda path: latest
        found: dict[str, int] = {}
        wanted = {path for path, id_ in changed.items() if id_ is not None}
        newer: str | None = None
        for commit in self._repository.lineage(head):
            if newer is not None:
                at = self._repository.version(newer).at
                for path in self._repository.changed(commit, newer, area.folder):
                    if path in wanted:
                        found.setdefault(path, at)
            if len(found) == len(wanted):
                break
            newer = commit
        return lambda path: found.get(path, latest)

    # -- the file -------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the file."""
        with self._writing, self._reading:
            for connection in (self._writer, self._reader):
                if connection is not None:
                    connection.close()
            self._writer = self._reader = None

    def _rows(self, sql: str, *values: str | int) -> list[tuple[object, ...]]:
        with self._reading, self._used():
            if self._reader is None:
                with self._open_writer():
                    pass
                self._reader = self._connect()
            return list(self._reader.execute(sql, values))

    @contextmanager
    def _open_writer(self) -> Iterator[apsw.Connection]:
        """The connection that writes, in one transaction."""
        if self._writer is None:
            self._writer = self._connect()
            form = self._writer.execute("PRAGMA user_version").fetchone()
            if form is not None and form[0] not in (0, FORM):
                self._writer.close()
                self._writer = None
                self._delete()
                self._writer = self._connect()
            with suppress(apsw.Error):
                self._writer.execute("PRAGMA journal_mode = WAL").fetchall()
            self._writer.execute(SCHEMA).fetchall()
            self._writer.execute("INSERT INTO words (words, rank) VALUES ('secure-delete', 1)")
            self._writer.execute(f"PRAGMA user_version = {FORM}")
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield self._writer
        except BaseException:
            self._writer.execute("ROLLBACK")
            raise
        self._writer.execute("COMMIT")

    def _connect(self) -> apsw.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = apsw.Connection(str(self._path))
        connection.set_busy_timeout(BUSY_MS)
        return connection

    def _delete(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Turns what SQLite raises into WikiDown; a damaged index is thrown away."""
        try:
            yield
        except (apsw.CorruptError, apsw.NotADBError) as error:
            log.error("the index of the notes is damaged and is made anew")
            self._writer = self._reader = None
            self._delete()
            raise WikiDown("the index of the notes is being made anew") from error
        except (apsw.Error, OSError) as error:
            raise WikiDown(f"the index of the notes cannot be used: {error}") from error


def seconds(text: str) -> int:
    """A date of front matter in seconds since the epoch; 0 for none."""
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return int((at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0
