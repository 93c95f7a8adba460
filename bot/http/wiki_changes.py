"""What changes notes over HTTP: a person's own at once, the common area by a confirmation.

The request of an authenticated person is their word for their own notes; what everybody reads is
staged, and done when the person confirms what they were shown.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from flask import Response

from bot.http import views
from bot.http.answers import answer, nothing
from bot.http.preconditions import (
    etag,
    must_be_current,
    must_not_be_known,
    names_a_version,
)
from bot.http.problems import Problem, not_found
from bot.http.wiki_refusals import place_of, refused
from bot.mercury import Mercury
from bot.notes import access_of
from bot.scope import Scope
from bot.tools import Staged
from memory.text import mend
from wiki import paths
from wiki.errors import NotThere
from wiki.paths import Access, Place
from wiki.vault import By, Found, Saved


class WikiChanges:
    """The changes that the routes of the wiki ask for."""

    def __init__(self, mercury: Mercury) -> None:
        self._notes = mercury.notes
        self._vault = mercury.notes.vault
        self._confirmations = mercury.stores.confirmations
        self._settling = mercury.settling

    def put(self, scope: Scope, path: str, text: str) -> Response:
        """Writes a note: 201 a new one, 200 a changed one or one that says so already, 202."""
        _, at = self._entered(scope, path)
        return self._write(scope, at, mended(text), 201, "/text")

    def delete(self, scope: Scope, path: str) -> Response:
        """Takes a note away: 204, or 202."""
        access, at = self._entered(scope, path)
        now = self._now(access, at)
        if now is None:
            raise not_found()
        must_not_be_known(now)
        if names_a_version():
            must_be_current(now)
        if at.is_common:
            with refused():
                staged = self._notes.change(scope, at.path, None, now.base)
            return self._asked(scope, staged)
        base = now.base if names_a_version() else None
        with refused():
            self._vault.delete(access, now.path, base, By(scope.person))
        return nothing(204)

    def restore(self, scope: Scope, path: str, commit: str) -> Response:
        """Writes a note as it was at a commit: 200, or 202."""
        access, at = self._entered(scope, path)
        with refused():
            text = self._vault.version(access, paths.shown(access, at), commit)
        if text is None:
            raise not_found()
        return self._write(scope, at, text, 200, "/commit")

    def promote(self, scope: Scope, path: str, to: str) -> Response:
        """Asks for moving a note of the person's to the common area: 202."""
        access, at = self._entered(scope, path)
        if at.is_common:
            raise Problem(422, "invalid_path", "the note is in the common area already", "/path")
        place_of(access, to, "/to")
        with refused("/to"):
            staged = self._notes.promotion(scope, paths.shown(access, at), to)
        return self._asked(scope, staged)

    # -- below --------------------------------------------------------------------------------

    def _entered(self, scope: Scope, path: str) -> tuple[Access, Place]:
        """What the person may see, brought up to what they wrote elsewhere, and a place in it."""
        access = access_of(scope)
        at = place_of(access, path)
        with refused():
            self._notes.catch_up(scope.person)
        return access, at

    def _write(self, scope: Scope, at: Place, text: str, created: int, field: str) -> Response:
        """Writes a text that came in a field, or stages it; `created` is a new note's status."""
        access = access_of(scope)
        path, now = paths.shown(access, at), self._now(access, at)
        must_not_be_known(now)
        if now is not None and now.text == text:
            return saved(Saved(path, now.base, ""), 200)
        must_be_current(now)
        base = None if now is None else now.base
        if at.is_common:
            with refused(text=field):
                staged = self._notes.change(scope, path, text, base)
            return self._asked(scope, staged)
        with refused(text=field):
            done = self._notes.write(access, path, text, base, By(scope.person))
        return saved(done, created if now is None else 200)

    def _now(self, access: Access, at: Place) -> Found | None:
        with refused(), suppress(NotThere):
            return self._vault.read(access, paths.shown(access, at))
        return None

    def _asked(self, scope: Scope, staged: Staged) -> Response:
        """Stages a change, and shows its person what they are asked to confirm."""
        # Of the form that the keys of the person's conversations over HTTP have, but with no
        # name, which no conversation can have: a code that is typed in a conversation neither
        # settles this nor costs it a try. Its token settles it.
        key = f"{scope.person}/"
        kept = self._confirmations.stage(
            scope.person, key, "", "", staged.action, staged.content
        )  # fmt: skip
        shown = views.confirmation(self._settling.shown(kept, with_token=True))
        return answer({"confirmation": shown}, 202)


def saved(done: Saved, status: int) -> Response:
    """`{path, base, commit}`, without a commit for a note that said so already.

    With `unsaved` what was written is kept, but not yet where every machine has it.
    """
    told: dict[str, Any] = {"path": done.path, "base": done.base}
    if done.commit:
        told["commit"] = done.commit
    if not done.is_shared:
        told["unsaved"] = True
    return answer(told, status, etag(done.base))


def mended(text: str) -> str:
    """A note's text as it is kept: only what no store can hold is mended, its line ends stay."""
    return "\r\n".join(mend(line) for line in text.split("\r\n"))
