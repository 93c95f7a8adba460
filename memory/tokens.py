"""Bearer tokens of the HTTP channel: shown once, stored only as a hash."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

from memory.clock import Clock
from memory.database import Database, Tx
from memory.errors import NotFound
from memory.ids import Ids

PREFIX = "mcy_"
LAST_USE_GRAIN_MS = 60_000
"""The last use is written at most once a minute, so that reading stays cheap."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token; never the token itself."""

    id: str
    person: str
    name: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None


class Tokens:
    """The tokens in the archive."""

    def __init__(self, database: Database, clock: Clock, ids: Ids) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids

    def new(self, person: str, name: str, lives_ms: int | None) -> tuple[Token, str]:
        """Makes a token for a person; the second value is the token, which nothing keeps."""
        secret = PREFIX + secrets.token_urlsafe(32)
        now = self._clock.now()
        expires = None if lives_ms is None else now + lives_ms
        token = Token(self._ids("tok_"), person, name, now, expires, None, None)
        self._database.write(
            lambda tx: tx.run(
                "INSERT INTO tokens (id, hash, person, name, created_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                token.id, _hash(secret), person, name, now, expires,
            )
        )  # fmt: skip
        return token, secret

    def person_of(self, secret: str) -> str | None:
        """Whose token this is, or None for an unknown, expired or revoked one."""
        if not secret.startswith(PREFIX) or len(secret) > 128:
            return None
        row = self._database.read(
            lambda tx: tx.row(
                "SELECT id, person, expires_at, last_used_at FROM tokens"
                " WHERE hash = ? AND revoked_at IS NULL",
                _hash(secret),
            )
        )
        if row is None:
            return None
        values: list[Any] = list(row)
        now = self._clock.now()
        if values[2] is not None and values[2] <= now:
            return None
        if values[3] is None or now - values[3] >= LAST_USE_GRAIN_MS:
            self._used(values[0], now)
        return str(values[1])

    def _used(self, token: str, now: int) -> None:
        self._database.write(
            lambda tx: tx.run("UPDATE tokens SET last_used_at = ? WHERE id = ?", now, token)
        )

    def all(self, person: str | None = None) -> list[Token]:
        """Every token, of one person or of all, the youngest first."""
        rows: list[Any] = self._database.read(
            lambda tx: tx.rows(
                "SELECT id, person, name, created_at, expires_at, last_used_at, revoked_at"
                " FROM tokens WHERE CAST(? AS TEXT) IS NULL OR person = ?"
                " ORDER BY created_at DESC, id",
                person, person,
            )
        )  # fmt: skip
        return [Token(*row) for row in rows]

    def revoke(self, token: str) -> None:
        """Ends a token at once, in every process.

        Raises:
            NotFound: there is no such token.
        """

        def run(tx: Tx) -> None:
            if tx.row("SELECT 1 FROM tokens WHERE id = ?", token) is None:
                raise NotFound(token)
            tx.run(
                "UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL",
                self._clock.now(), token,
            )  # fmt: skip

        self._database.write(run)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
