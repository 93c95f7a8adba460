"""Large archives, built quickly: the repository's own schema and search terms, in bulk.

1,000 people who wrote in their conversations over years: words follow Zipf's law, a few messages
are Chinese or Japanese, some hold the words and quotes that are looked for. The same for the
same size, whatever else is random.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import apsw

from memory import terms
from memory.database import SqliteDatabase
from memory.schema import migrate

PEOPLE = 1_000
CONVERSATION = 200
"""Messages of a conversation, half of them answers."""
AT_ONCE = 50
"""Conversations that go on at the same time, so that their messages lie between each other's."""
WORDS = 20_000
TOOLS = 10
"""Every so many turns one called a tool."""
START = 1_700_000_000_000
MINUTE = 60_000

RARE = "quetzalcoatlus"
"""Stands in one message of each person."""
APART = ("marigold", "zeppelin")
"""Both are common, and never stand in one message."""
QUOTE = "the quiet harbour at dawn"
CHINESE = "我们明天在港口见面，箱子已经准备好了"
JAPANESE = "箱は月曜日の朝に届きます"

_CHUNK = 20_000


@dataclass(frozen=True, slots=True)
class Words:
    """The vocabulary, the commonest word first, and how often each is said."""

    all: list[str]
    weights: list[float]

    def sentence(self, dice: random.Random, count: int) -> str:
        """So many words, drawn by their frequency."""
        return " ".join(dice.choices(self.all, cum_weights=self.weights, k=count))


def words() -> Words:
    """20,000 words made of syllables, with Zipf's frequencies."""
    ends = ("a", "e", "i", "o", "u", "an", "er", "il", "on", "us")
    syllables = [start + end for start in "bdfgklmnprstvw" for end in ends]
    made = [syllables[n % 140] + syllables[(n // 140 + 7 * n) % 140] + (
        syllables[(n * 31) % 140] if n >= 1_000 else "") for n in range(2 * WORDS)]  # fmt: skip
    vocabulary = list(dict.fromkeys(made))[:WORDS]
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(vocabulary))))
    return Words(vocabulary, weights)


def person(number: int) -> str:
    """The id of a person of such an archive."""
    return f"http:p{number}"


def make(path: Path, messages: int) -> list[str]:
    """Builds an archive; returns the ids of its conversations.

    Args:
        path: the file, which is not there yet.
        messages: how many, in whole conversations.
    """
    database = SqliteDatabase(path)
    migrate(database)
    database.close()
    connection = apsw.Connection(str(path))
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-400000"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    names = [f"cv_{n:06d}" for n in range(messages // CONVERSATION)]
    connection.execute("BEGIN")
    _conversations(connection, names)
    chunk: list[_Row] = []
    for row in _rows(names):
        chunk.append(row)
        if len(chunk) == _CHUNK:
            _insert(connection, chunk)
            chunk.clear()
    _insert(connection, chunk)
    connection.execute("COMMIT")
    connection.execute("ANALYZE sqlite_master")
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.close()
    return names


@dataclass(frozen=True, slots=True)
class _Row:
    """One message, as it is about to be stored."""

    n: int
    conversation: int
    seq: int
    part: int
    text: str

    @property
    def owner(self) -> str:
        return f"person:{person(self.conversation % PEOPLE)}"

    @property
    def turn(self) -> str:
        return f"t_{self.conversation:06d}_{self.seq}"


def _rows(names: list[str]) -> Iterator[_Row]:
    dice, vocabulary = random.Random(7), words()
    n = 0
    for first in range(0, len(names), AT_ONCE):
        together = range(first, min(first + AT_ONCE, len(names)))
        for seq in range(1, CONVERSATION // 2 + 1):
            for conversation in together:
                for part in (0, 1):
                    n += 1
                    text = vocabulary.sentence(dice, dice.randint(8, 28))
                    yield _Row(n, conversation, seq, part, text + _special(conversation, seq, part))


def _special(conversation: int, seq: int, part: int) -> str:
    """What is added to a message so that it can be looked for."""
    if part == 1:
        return f" {JAPANESE}" if seq % 40 == 11 else ""
    if seq == 50 and conversation < PEOPLE:
        return f" {RARE}"
    if seq % 10 == 3:
        return f" {APART[seq // 10 % 2]}"
    if seq % 25 == 7:
        return f" {QUOTE}"
    return f" {CHINESE}" if seq % 20 == 9 else ""


def _conversations(connection: apsw.Connection, names: list[str]) -> None:
    last = CONVERSATION // 2
    connection.executemany(
        "INSERT INTO conversations (id, key, name, channel, owner, title, started_at, last_at,"
        " stamp, last_seq, segmented_through) VALUES (?, ?, ?, 'http', ?, '', ?, ?, ?, ?, ?)",
        (
            (name, f"{person(n % PEOPLE)}/{name}", name, f"person:{person(n % PEOPLE)}",
             START + n * MINUTE, START + n * MINUTE, f"s{n}", last, last)
            for n, name in enumerate(names)
        ),
    )  # fmt: skip
    connection.executemany(
        "INSERT INTO keys (key, turn_seq, conversation) VALUES (?, ?, ?)",
        ((f"{person(n % PEOPLE)}/{name}", last, name) for n, name in enumerate(names)),
    )


def _insert(connection: apsw.Connection, rows: list[_Row]) -> None:
    connection.executemany(
        "INSERT INTO messages (n, id, conversation, turn, seq, part, role, author, name, owner, at,"
        " text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (row.n, f"m_{row.n:08d}", f"cv_{row.conversation:06d}", row.turn, row.seq, row.part,
             "assistant" if row.part else "person",
             "mercury" if row.part else person(row.conversation % PEOPLE),
             "Mercury" if row.part else f"p{row.conversation % PEOPLE}", row.owner,
             START + row.n * 1_000, row.text)
            for row in rows
        ),
    )  # fmt: skip
    connection.executemany(
        "INSERT INTO message_terms (rowid, terms) VALUES (?, ?)",
        (
            (row.n, " ".join(terms.scoped(terms.tokens(row.text), terms.scope_key(row.owner))))
            for row in rows
        ),
    )
    questions = [row for row in rows if row.part == 0]
    connection.executemany(
        "INSERT INTO turns (id, event, key, seq, conversation, channel, person, kind, target,"
        " state, attempts, answered, accepted_at, ended_at)"
        " VALUES (?, ?, ?, ?, ?, 'http', ?, 'http', '{}', 'done', 1, 1, ?, ?)",
        (
            (row.turn, f"http:{row.turn}",
             f"{person(row.conversation % PEOPLE)}/cv_{row.conversation:06d}", row.seq,
             f"cv_{row.conversation:06d}", person(row.conversation % PEOPLE),
             START + row.n * 1_000, START + row.n * 1_000)
            for row in questions
        ),
    )  # fmt: skip
    connection.executemany(
        "INSERT INTO tool_calls (turn, n, attempt, name, arguments, outcome, reads, at)"
        " VALUES (?, 1, 1, 'archive_search', '{\"query\":\"crates\"}', 'ok', 1, ?)",
        ((row.turn, START) for row in questions if row.seq % TOOLS == 0),
    )
