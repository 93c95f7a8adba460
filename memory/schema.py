"""The archive's tables, and the steps from every released schema to the newest.

Plain SQL that SQLite and PostgreSQL both take; `{serial}` is the only word that differs. Times
are BIGINT milliseconds, truth values are 0 or 1, lists and objects are JSON text. A step is
never edited once it was released: a change is a new step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memory.database import Database, Dialect, Tx
from memory.errors import WrongSchema

TABLES_1 = """
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE TABLE keys (
    key TEXT PRIMARY KEY,
    turn_seq BIGINT NOT NULL,
    conversation TEXT,
    holder TEXT,
    fence BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX keys_held ON keys (holder) WHERE holder IS NOT NULL;
CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    channel TEXT NOT NULL,
    owner TEXT NOT NULL,
    title TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    ended_at BIGINT,
    previous TEXT,
    stamp TEXT NOT NULL,
    last_seq BIGINT NOT NULL DEFAULT 0,
    compacted_through BIGINT NOT NULL DEFAULT 0,
    segmented_through BIGINT NOT NULL DEFAULT 0,
    recap TEXT,
    claim TEXT,
    claim_until BIGINT NOT NULL DEFAULT 0,
    summary_due BIGINT NOT NULL DEFAULT 0,
    summary_tries INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX conversations_of_owner ON conversations (owner, last_at, id);
CREATE INDEX conversations_of_key ON conversations (key, started_at);
CREATE INDEX conversations_open ON conversations (last_at)
    WHERE ended_at IS NULL AND channel = 'chat';
CREATE INDEX conversations_to_summarise ON conversations (last_at)
    WHERE segmented_through < last_seq;
CREATE TABLE messages (
    n {serial},
    id TEXT NOT NULL UNIQUE,
    conversation TEXT NOT NULL,
    turn TEXT NOT NULL,
    seq BIGINT NOT NULL,
    part INTEGER NOT NULL,
    role TEXT NOT NULL,
    author TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    at BIGINT NOT NULL,
    text TEXT NOT NULL
);
CREATE UNIQUE INDEX messages_in_order ON messages (conversation, seq, part);
CREATE TABLE tool_calls (
    turn TEXT NOT NULL,
    n INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reads INTEGER NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (turn, n)
);
CREATE TABLE segments (
    id TEXT PRIMARY KEY,
    conversation TEXT NOT NULL,
    owner TEXT NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    at BIGINT NOT NULL
);
CREATE UNIQUE INDEX segments_in_order ON segments (conversation, last_seq);
CREATE TABLE lines (
    id TEXT PRIMARY KEY,
    segment TEXT NOT NULL,
    conversation TEXT NOT NULL,
    owner TEXT NOT NULL,
    seq BIGINT NOT NULL,
    n INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    messages TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE UNIQUE INDEX lines_in_order ON lines (conversation, seq, n);
CREATE TABLE events (
    id TEXT PRIMARY KEY,
    channel TEXT NOT NULL,
    kind TEXT NOT NULL,
    at BIGINT NOT NULL,
    turn TEXT,
    hash TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE TABLE turns (
    id TEXT PRIMARY KEY,
    event TEXT NOT NULL,
    key TEXT NOT NULL,
    seq BIGINT NOT NULL,
    conversation TEXT NOT NULL,
    channel TEXT NOT NULL,
    person TEXT NOT NULL,
    kind TEXT NOT NULL,
    space TEXT,
    target TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    deaths INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    answered INTEGER NOT NULL DEFAULT 0,
    final TEXT NOT NULL DEFAULT 'done',
    extras TEXT NOT NULL DEFAULT '{}',
    reason TEXT NOT NULL DEFAULT '',
    accepted_at BIGINT NOT NULL,
    due_at BIGINT NOT NULL DEFAULT 0,
    ended_at BIGINT
);
CREATE UNIQUE INDEX turns_in_order ON turns (key, seq);
CREATE INDEX turns_to_do ON turns (state, due_at) WHERE state IN ('waiting', 'running');
CREATE INDEX turns_of_key_to_do ON turns (key, seq) WHERE state IN ('waiting', 'running');
CREATE INDEX turns_set_aside ON turns (ended_at) WHERE state = 'set_aside';
CREATE TABLE deliveries (
    turn TEXT NOT NULL,
    part INTEGER NOT NULL,
    message TEXT NOT NULL,
    text TEXT NOT NULL,
    state TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    thread TEXT NOT NULL DEFAULT '',
    tries INTEGER NOT NULL DEFAULT 0,
    at BIGINT NOT NULL,
    PRIMARY KEY (turn, part)
);
CREATE TABLE lanes (
    space TEXT PRIMARY KEY,
    free_at BIGINT NOT NULL,
    closed TEXT NOT NULL DEFAULT ''
);
CREATE TABLE confirmations (
    id TEXT PRIMARY KEY,
    person TEXT NOT NULL,
    key TEXT NOT NULL,
    conversation TEXT NOT NULL,
    turn TEXT NOT NULL,
    action TEXT NOT NULL,
    content TEXT NOT NULL,
    state TEXT NOT NULL,
    tries INTEGER NOT NULL,
    decision TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    settled_at BIGINT
);
CREATE INDEX confirmations_of_person ON confirmations (person, state, created_at);
CREATE INDEX confirmations_of_turn ON confirmations (turn);
CREATE INDEX confirmations_running ON confirmations (settled_at) WHERE state = 'running';
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    person TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    revoked_at BIGINT
);
CREATE TABLE processes (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    heartbeat_at BIGINT NOT NULL
);
"""

SERIAL: Mapping[Dialect, str] = {
    "sqlite": "INTEGER PRIMARY KEY",
    "postgresql": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
}
SEARCH_POSTGRESQL_1 = """
CREATE TABLE message_terms (n BIGINT PRIMARY KEY, terms TSVECTOR NOT NULL);
CREATE INDEX message_terms_found ON message_terms USING GIN (terms)
"""
SEARCH_SQLITE_1 = """
CREATE VIRTUAL TABLE message_terms USING fts5 (
    terms, content='', contentless_delete=1, columnsize=1,
    tokenize="unicode61 remove_diacritics 0 categories 'L* M* N* S* P* Co Cf Cn'"
);
"""

COMMANDS_2 = """
ALTER TABLE turns ADD COLUMN command TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN owner TEXT NOT NULL DEFAULT '';
UPDATE turns SET owner = coalesce(
    (SELECT c.owner FROM conversations c WHERE c.id = turns.conversation), '');
ALTER TABLE conversations ADD COLUMN told TEXT NOT NULL DEFAULT '[]';
ALTER TABLE deliveries ADD COLUMN card TEXT NOT NULL DEFAULT '';
CREATE INDEX deliveries_of_cards ON deliveries (card) WHERE card <> '' AND state = 'sent';
CREATE INDEX deliveries_waiting ON deliveries (at) WHERE state IN ('waiting', 'placeholder');
"""

PRIVATE_3 = """
ALTER TABLE deliveries ADD COLUMN private INTEGER NOT NULL DEFAULT 0;
CREATE TABLE notes_waiting (
    id TEXT PRIMARY KEY,
    person TEXT NOT NULL,
    path TEXT NOT NULL,
    base TEXT NOT NULL,
    text TEXT NOT NULL,
    trailers TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX notes_waiting_of ON notes_waiting (person);
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What makes schema `version` of the one before it."""

    version: int
    why: str
    sql: str
    sqlite: str = ""
    postgresql: str = ""
    """What differs: the index of terms."""


STEPS = (
    Step(
        1,
        "the first schema",
        TABLES_1,
        sqlite=SEARCH_SQLITE_1,
        postgresql=SEARCH_POSTGRESQL_1,
    ),
    Step(2, "commands and replies beside messages, cards, notices told once", COMMANDS_2),
    Step(3, "parts of an answer that only its person sees, notes that wait", PRIVATE_3),
)
NEWEST = STEPS[-1].version


def version_of(tx: Tx) -> int:
    """The schema version stored in the archive, 0 for an empty one."""
    if not tx.has_table("meta"):
        return 0
    row = tx.row("SELECT value FROM meta WHERE name = 'schema'")
    return int(str(row[0])) if row else 0


def pending(database: Database) -> list[Step]:
    """The steps that the archive still needs, in order.

    Raises:
        WrongSchema: the archive was written by a newer version than this one.
    """
    version = database.read(version_of)
    if version > NEWEST:
        raise WrongSchema(
            f"the archive has schema {version}, this version of Mercury knows up to {NEWEST}: "
            "run the newer version"
        )
    return [step for step in STEPS if step.version > version]


def migrate(database: Database) -> list[Step]:
    """Brings the archive to the newest schema, each step in one transaction; returns the steps.

    Raises:
        WrongSchema: the archive was written by a newer version than this one.
        StoreDown: the archive cannot be written.
    """
    return [
        step
        for step in pending(database)
        if database.write(lambda tx, step=step: _apply(tx, step))  # type: ignore[misc]
    ]


def _apply(tx: Tx, step: Step) -> bool:
    tx.alone()
    if version_of(tx) >= step.version:  # another process was quicker
        return False
    whole = step.sql.replace("{serial}", SERIAL[tx.dialect])
    whole += step.sqlite if tx.dialect == "sqlite" else step.postgresql
    for statement in whole.split(";"):
        if statement.strip():
            tx.run(statement)
    tx.run("DELETE FROM meta WHERE name = 'schema'")
    tx.run("INSERT INTO meta (name, value) VALUES ('schema', ?)", str(step.version))
    return True
