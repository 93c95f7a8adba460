"""The index of terms in PostgreSQL: a tsvector of scoped terms under GIN.

PostgreSQL has no BM25; its cover density (`ts_rank_cd`, divided by the length of the message)
ranks what the scope's own terms have found.
"""

from __future__ import annotations

from memory import terms
from memory.database import Tx

POSITIONS = 16_383
"""A tsvector's last position; later terms are found, but not as parts of quotes."""
BY_LENGTH = 1
"""`ts_rank_cd` divides by 1 + the logarithm of the message's length."""


def index(tx: Tx, n: int, scoped: list[str]) -> None:
    """Indexes the scoped terms of the message whose row number is `n`."""
    vector = " ".join(
        f"{_quoted(term)}:{min(place, POSITIONS)}" for place, term in enumerate(scoped, 1)
    )
    tx.run("INSERT INTO message_terms (n, terms) VALUES (?, CAST(? AS tsvector))", n, vector)


def best(tx: Tx, clauses: terms.Clauses, skip: int, limit: int) -> list[int]:
    """Row numbers of messages, those first that hold the words more often and closer."""
    query = _expression(clauses)
    rows = tx.rows(
        "SELECT n FROM message_terms WHERE terms @@ CAST(? AS tsquery)"
        " ORDER BY ts_rank_cd(terms, CAST(? AS tsquery), ?) DESC, n DESC LIMIT ? OFFSET ?",
        query, query, BY_LENGTH, limit, skip,
    )  # fmt: skip
    return [int(str(n)) for (n,) in rows]


def newest(tx: Tx, clauses: terms.Clauses, before: int, limit: int) -> list[int]:
    """Row numbers of messages below `before`, the newest first."""
    rows = tx.rows(
        "SELECT n FROM message_terms WHERE terms @@ CAST(? AS tsquery) AND n < ?"
        " ORDER BY n DESC LIMIT ?",
        _expression(clauses), before, limit,
    )  # fmt: skip
    return [int(str(n)) for (n,) in rows]


def _expression(clauses: terms.Clauses) -> str:
    return " & ".join(
        f"({' | '.join('(' + ' <-> '.join(map(_quoted, phrase)) + ')' for phrase in ors)})"
        for ors in clauses
    )


def _quoted(term: str) -> str:
    """A term as tsvector and tsquery read it literally."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"
