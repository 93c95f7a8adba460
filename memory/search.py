"""Full-text search over the archive's messages, in the index of whichever database it is.

Each indexed term begins with the key of the memory that it belongs to, so that a search costs
what that one memory holds, ranks by that memory's own frequencies, and cannot see another's
words. The owner is checked again on every hit. `memory/terms.py` says what a term is.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Literal

from memory import search_postgres, search_sqlite, terms
from memory.database import Row, Tx

Order = Literal["best", "newest"]

MESSAGE = "m.id, m.conversation, m.turn, m.seq, m.part, m.role, m.author, m.name, m.at, m.text"
"""The columns of a message, in the order of `memory.records.Message`; the text comes last."""

CHUNK = 64
"""How many index hits are looked at in one go; quotes and times are checked on the rows."""
LAST = 1 << 62
LONGEST_LOOK = 1_024
"""The most index hits looked at for one page."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for; see `memory.archive.Archive.search`."""

    owner: str
    query: str
    limit: int
    order: Order
    since: int | None
    until: int | None
    place: tuple[int, int] | None
    without_turn: str


def index(tx: Tx, n: int, owner: str, text: str) -> None:
    """Indexes the message whose row number is `n`."""
    scoped = terms.scoped(terms.tokens(text), terms.scope_key(owner))
    if scoped:
        _engine(tx).index(tx, n, scoped)


def _engine(tx: Tx) -> ModuleType:
    return search_sqlite if tx.dialect == "sqlite" else search_postgres


def find(tx: Tx, search: Search) -> tuple[list[Row], tuple[int, int] | None]:
    """Rows of messages (columns MESSAGE) that match, and the place at which to go on.

    All words and quotes are wanted first; where no message holds them all, any of the words
    will do (quotes still must stand there).
    """
    query = terms.parse_query(search.query)
    key = terms.scope_key(search.owner)
    ways = (terms.all_of(query, key), terms.any_of(query, key))
    mode, place = search.place if search.place else (0, 0)
    for at, clauses in enumerate(ways):
        if at < mode or not clauses:
            continue
        rows, following = _page(tx, search, query, clauses, place)
        if rows or following is not None or at == mode == 1:
            return rows, None if following is None else (at, following)
    return [], None


def _page(
    tx: Tx, search: Search, query: terms.Query, clauses: terms.Clauses, place: int
) -> tuple[list[Row], int | None]:
    kept: list[Row] = []
    looked = 0
    while looked < LONGEST_LOOK:
        hits = _hits(tx, search.order, clauses, place)
        rows = _rows(tx, search, hits)
        for hit in hits:
            looked += 1
            place = hit if search.order == "newest" else place + 1
            row = rows.get(hit)
            if row is not None and all(terms.holds_quote(str(row[-1]), q) for q in query.quotes):
                kept.append(row)
                if len(kept) == search.limit:
                    return kept, place
        if len(hits) < CHUNK:
            return kept, None
    return kept, place


def _hits(tx: Tx, order: Order, clauses: terms.Clauses, place: int) -> list[int]:
    engine = _engine(tx)
    if order == "best":
        found: list[int] = engine.best(tx, clauses, place, CHUNK)
    else:
        found = engine.newest(tx, clauses, place or LAST, CHUNK)
    return found


def _rows(tx: Tx, search: Search, hits: list[int]) -> dict[int, Row]:
    if not hits:
        return {}
    marks = ", ".join("?" for _ in hits)
    bounds = (
        -LAST if search.since is None else search.since,
        LAST if search.until is None else search.until,
    )
    rows = tx.rows(
        f"SELECT m.n, {MESSAGE} FROM messages m WHERE m.n IN ({marks}) AND m.owner = ?"
        " AND m.turn <> ? AND m.at >= ? AND m.at < ?",
        *hits, search.owner, search.without_turn, *bounds,
    )  # fmt: skip
    return {int(str(row[0])): row[1:] for row in rows}
