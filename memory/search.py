"""Full-text search over the archive's messages, in SQLite's FTS5.

Each indexed term begins with the key of the memory that it belongs to, so that a search costs
what that one memory holds, ranks by that memory's own frequencies, and cannot see another's
words. The owner is checked again on every hit. `memory/terms.py` says what a term is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from memory import terms
from memory.database import Row, Tx

Order = Literal["best", "newest"]

MESSAGE = "m.id, m.conversation, m.turn, m.seq, m.part, m.role, m.author, m.name, m.at, m.text"
"""The columns of a message, in the order of `memory.records.Message`; the text comes last."""

CHUNK = 64
"""How many index hits are looked at in one go; quotes and times are checked on the rows."""
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
        tx.run("INSERT INTO message_terms (rowid, terms) VALUES (?, ?)", n, scoped)


def find(tx: Tx, search: Search) -> tuple[list[Row], tuple[int, int] | None]:
    """Rows of messages (columns MESSAGE) that match, and the place at which to go on.

    All words and quotes are wanted first; where no message holds them all, any of the words
    will do (quotes still must stand there).
    """
    query = terms.parse_query(search.query)
    key = terms.scope_key(search.owner)
    expressions = (terms.match_expression(query, key), terms.any_expression(query, key))
    mode, place = search.place if search.place else (0, 0)
    for at, expression in enumerate(expressions):
        if at < mode or expression is None:
            continue
        rows, following = _page(tx, search, query, expression, place)
        if rows or following is not None or at == mode == 1:
            return rows, None if following is None else (at, following)
    return [], None


def _page(
    tx: Tx, search: Search, query: terms.Query, expression: str, place: int
) -> tuple[list[Row], int | None]:
    kept: list[Row] = []
    looked = 0
    while looked < LONGEST_LOOK:
        hits = _hits(tx, search.order, expression, place)
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


def _hits(tx: Tx, order: Order, expression: str, place: int) -> list[int]:
    if order == "best":
        rows = tx.rows(
            "SELECT rowid FROM message_terms WHERE message_terms MATCH ?"
            " ORDER BY rank LIMIT ? OFFSET ?",
            expression, CHUNK, place,
        )  # fmt: skip
    else:
        rows = tx.rows(
            "SELECT rowid FROM message_terms WHERE message_terms MATCH ? AND rowid < ?"
            " ORDER BY rowid DESC LIMIT ?",
            expression, place or 1 << 62, CHUNK,
        )  # fmt: skip
    return [int(str(n)) for (n,) in rows]


def _rows(tx: Tx, search: Search, hits: list[int]) -> dict[int, Row]:
    if not hits:
        return {}
    marks = ", ".join("?" for _ in hits)
    bounds: list[Any] = [search.since, search.since, search.until, search.until]
    rows = tx.rows(
        f"SELECT m.n, {MESSAGE} FROM messages m WHERE m.n IN ({marks}) AND m.owner = ?"
        " AND m.turn <> ? AND (? IS NULL OR m.at >= ?) AND (? IS NULL OR m.at < ?)",
        *hits, search.owner, search.without_turn, *bounds,
    )  # fmt: skip
    return {int(str(row[0])): row[1:] for row in rows}
