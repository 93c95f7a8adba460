"""The index of terms in SQLite: FTS5, ranked by BM25."""

from __future__ import annotations

from memory import terms
from memory.database import Tx


def index(tx: Tx, n: int, scoped: list[str]) -> None:
    """Indexes the scoped terms of the message whose row number is `n`."""
    tx.run("INSERT INTO message_terms (rowid, terms) VALUES (?, ?)", n, " ".join(scoped))


def best(tx: Tx, clauses: terms.Clauses, skip: int, limit: int) -> list[int]:
    """Row numbers of messages, those first that hold the rarer words more often."""
    rows = tx.rows(
        "SELECT rowid FROM message_terms WHERE message_terms MATCH ?"
        " ORDER BY rank LIMIT ? OFFSET ?",
        expression(clauses), limit, skip,
    )  # fmt: skip
    return [int(str(n)) for (n,) in rows]


def newest(tx: Tx, clauses: terms.Clauses, before: int, limit: int) -> list[int]:
    """Row numbers of messages below `before`, the newest first."""
    rows = tx.rows(
        "SELECT rowid FROM message_terms WHERE message_terms MATCH ? AND rowid < ?"
        " ORDER BY rowid DESC LIMIT ?",
        expression(clauses), before, limit,
    )  # fmt: skip
    return [int(str(n)) for (n,) in rows]


def expression(clauses: terms.Clauses) -> str:
    """An FTS5 expression; no term holds a double quote, so none can end its string."""
    ands = []
    for ors in clauses:
        phrases = [f'"{" ".join(phrase)}"' for phrase in ors]
        ands.append(phrases[0] if len(phrases) == 1 else f"({' OR '.join(phrases)})")
    return " AND ".join(ands)
