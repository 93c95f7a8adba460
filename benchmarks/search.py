"""What it costs to load a cold conversation and to search, in a small archive and a large one."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import apsw

from benchmarks import archives
from benchmarks.figures import Figure, Sizes, at_most, bounded, percentile
from bot.clock import SystemClock
from bot.scope import Scope
from memory import search_sqlite, terms
from memory.archive import Archive
from memory.database import SqliteDatabase
from memory.ids import random_id
from memory.rows import MESSAGE

MICRO, MILLI = 1e6, 1e3
LIMIT = 10
SMALL = 10_000


def measure(sizes: Sizes) -> Iterator[Figure]:
    """Cold histories against their raw rows, then every kind of query against its raw one."""
    folder = sizes.new_folder("search")
    large = sizes.of(1_000_000, 200_000)
    small = _Opened(folder / "small.db", archives.make(folder / "small.db", SMALL))
    big = _Opened(folder / "large.db", archives.make(folder / "large.db", large))
    try:
        yield from _cold(small, big, large, sizes)
        yield from _searches(big, sizes)
    finally:
        small.close()
        big.close()


class _Opened:
    """An archive as Mercury reads it, and a plain connection beside it."""

    def __init__(self, path: Path, conversations: list[str]) -> None:
        self.conversations = conversations
        self._database = SqliteDatabase(path, create=False)
        self.archive = Archive(self._database, SystemClock(), random_id, 60_000)
        self.raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self.raw.execute("PRAGMA cache_size=-16000").fetchall()

    def close(self) -> None:
        self.raw.close()
        self._database.close()

    def rows(self, conversation: str) -> None:
        """The select that nothing which loads a conversation can do without."""
        self.raw.execute(
            f"SELECT {MESSAGE} FROM messages m WHERE m.conversation = ? ORDER BY m.seq, m.part",
            (conversation,),
        ).fetchall()

    def queries(self, expressions: Sequence[str]) -> None:
        """Full-text queries within one person's memory, up to the first that finds something."""
        for expression in expressions:
            if self.raw.execute(
                f"SELECT {MESSAGE} FROM message_terms JOIN messages m"
                " ON m.n = message_terms.rowid WHERE message_terms MATCH ?"
                f" ORDER BY message_terms.rank LIMIT {LIMIT}",
                (expression,),
            ).fetchall():
                return


# -- a cold conversation ------------------------------------------------------------------------


def _cold(small: _Opened, big: _Opened, large: int, sizes: Sizes) -> Iterator[Figure]:
    """Folds conversations that were not read before; raw and fold take turns in being first."""
    dice = random.Random(3)
    to_rows, to_small = [], []
    for _ in range(sizes.of(9, 5)):
        few = [_fold(small, dice.choice(small.conversations)) for _ in range(20)]
        many = [_fold(big, name) for name in dice.sample(big.conversations, 40)]
        fold = statistics.median(fold for fold, _ in many)
        to_rows.append((fold * MICRO, statistics.median(raw for _, raw in many) * MICRO))
        to_small.append((fold * MICRO, statistics.median(fold for fold, _ in few) * MICRO))
    yield at_most(
        f"cold conversation of {archives.CONVERSATION}: to its raw rows", to_rows, 3.0, "µs"
    )
    yield at_most(f"cold conversation: {large:,} archived to {SMALL:,}", to_small, 1.5, "µs")


def _fold(opened: _Opened, name: str) -> tuple[float, float]:
    conversation = opened.archive.conversation(None, name)
    return _both(
        lambda: opened.archive.history(conversation), lambda: opened.rows(name), hash(name) % 2 == 0
    )


def _both(
    ours: Callable[[], object], raw: Callable[[], object], raw_first: bool
) -> tuple[float, float]:
    """The CPU seconds of both."""
    if raw_first:
        base = _cpu_s(raw)
        return _cpu_s(ours), base
    own = _cpu_s(ours)
    return own, _cpu_s(raw)


def _cpu_s(run: Callable[[], object]) -> float:
    begun = time.thread_time()
    run()
    return time.thread_time() - begun


# -- searching ----------------------------------------------------------------------------------


def _kinds(dice: random.Random, vocabulary: Sequence[str]) -> dict[str, str]:
    """A query of each kind that is promised to be quick."""
    return {
        "rare": archives.RARE,
        "common word": vocabulary[0],
        "two words": f"{dice.choice(vocabulary[20:80])} {dice.choice(vocabulary[20:80])}",
        "quote": f'"{archives.QUOTE}"',
        "quote of common words": f'"{vocabulary[0]} {vocabulary[1]}"',
        "Chinese": archives.CHINESE[2:6],
        "Japanese": archives.JAPANESE[2:5],
        "nothing found": "xyzzyplugh",
        "never together": " ".join(archives.APART),
    }


def _searches(big: _Opened, sizes: Sizes) -> Iterator[Figure]:
    dice, vocabulary = random.Random(5), archives.words().all
    pairs: dict[str, list[tuple[float, float]]] = {}
    walls: dict[str, list[float]] = {}
    for round_ in range(sizes.of(60, 25)):
        number = dice.randrange(archives.PEOPLE)
        for kind, query in _kinds(dice, vocabulary).items():
            scope = Scope(archives.person(number), "http")
            raw = _raw(query, scope.owner)
            begun = time.perf_counter()
            big.archive.search(scope, query, LIMIT)
            walls.setdefault(kind, []).append(time.perf_counter() - begun)
            own, base = _both(
                partial(big.archive.search, scope, query, LIMIT),
                partial(big.queries, raw),
                round_ % 2 == 0,
            )
            pairs.setdefault(kind, []).append((own * MICRO, base * MICRO))
    for kind, found in pairs.items():
        yield at_most(f"search, {kind}: to the raw query", found, 2.0, "µs")
    worst = max(walls, key=lambda kind: statistics.median(walls[kind]))
    yield bounded(
        "search: the slowest kind", statistics.median(walls[worst]) * MILLI, 15, "ms", worst
    )
    worst = max(walls, key=lambda kind: percentile(walls[kind], 0.95))
    yield bounded(
        "search: the slowest kind, p95", percentile(walls[worst], 0.95) * MILLI, 15, "ms", worst
    )


def _raw(query: str, owner: str) -> list[str]:
    """The full-text expressions that answer a query: all words, else any of them."""
    parsed, key = terms.parse_query(query), terms.scope_key(owner)
    ways = (terms.all_of(parsed, key), terms.any_of(parsed, key))
    return [search_sqlite.expression(clauses) for clauses in ways if clauses]
