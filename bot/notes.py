"""The wiki as the agent and the channels use it: scopes become accesses, changes of the common
area become confirmations, and the wiki's errors become the memories' own.

Knows the vault and the confirmations; the tools, the routes and the commands stand on it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from bot.scope import Scope
from bot.settling import CHANGED, ActionFailed
from bot.tools import Staged
from memory.confirmations import Confirmation
from memory.errors import StoreDown
from memory.waiting_notes import WaitingNote, WaitingNotes
from wiki.errors import Exists, NotAPath, NotThere, Stale, WikiDown, WikiFault
from wiki.folder import Report
from wiki.paths import Access
from wiki.remote import Remote, RemoteDown
from wiki.search import Listed
from wiki.vault import By, Offer, Saved, Stamps, Vault

log = logging.getLogger(__name__)

PROMOTE, WRITE, DELETE = "wiki.promote", "wiki.write", "wiki.delete"
SWEEP_S, TRIAL_SWEEP_S = 5.0, 2.0
LOOK_S = 30.0
"""Between two looks at the remote when nothing is to be pushed."""
LONGEST_PAUSE_S = 300.0
TITLES = 60
TITLES_CHARS = 2_500
"""What the list of notes may take of a prompt."""


class Notes:
    """The notes of one Mercury.

    Args:
        vault: where they are.
        remote: whom they are shared with, if anybody.
        waiting: where notes wait that the remote does not have yet; None on a single machine,
            where they are safe in the folder.
        trial: whether sweeps are quicker, for a moved clock.
    """

    def __init__(
        self, vault: Vault, remote: Remote | None = None, waiting: WaitingNotes | None = None,
        trial: bool = False,
    ) -> None:  # fmt: skip
        self.vault = vault
        self.remote = remote
        self._waiting = waiting if remote is not None else None
        self._pause = TRIAL_SWEEP_S if trial else SWEEP_S
        self._next_look = 0.0
        self._failures = 0
        self._taken_over: set[str] = set()
        self._sharing = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._lines = lru_cache(maxsize=1_000)(self._list_titles)

    # -- what the agent is told ---------------------------------------------------------------

    def titles(self, scope: Scope) -> str:
        """The newest notes that a scope may read, as lines of path and title; '' for none.

        Raises:
            StoreDown: the wiki cannot be read.
        """
        with told():
            access = access_of(scope)
            self.catch_up(scope.person)
            heads = tuple(
                self.vault.repository.head(area.branch) if self.vault.is_there() else None
                for area in access.readable()
            )
            return self._lines(access, heads)

    def _list_titles(self, access: Access, heads: tuple[str | None, ...]) -> str:
        if not any(heads):
            return ""
        return shortened(self.vault.notes(access, limit=TITLES), self.vault.count(access))

    # -- a person's own notes -------------------------------------------------------------------

    def write(
        self, access: Access, path: str, text: str, base: str | None, by: By,
        stamps: Stamps | None = None, is_new: bool = False,
    ) -> Saved:  # fmt: skip
        """Writes a note of the person's; see `Vault.write`.

        On several machines it is at the remote when this returns, or waits in the archive, where
        all of them see it; `is_shared` says which.
        """
        self.catch_up(access.person)
        saved = self.vault.write(access, path, text, base, by, stamps, is_new)
        if self._waiting is None or not saved.commit or self._is_at_remote():
            return saved
        written = self.vault.read(Access(access.person), saved.path).text
        self._waiting.add(access.person, saved.path, base or "", written, by.trailers)
        return replace(saved, is_shared=False)

    def catch_up(self, person: str) -> None:
        """Takes over what another machine could not share: it is there as soon as it was told."""
        if self._waiting is not None:
            self._take_over(self._waiting.of(person))

    def _take_over(self, rows: Sequence[WaitingNote]) -> None:
        for row in rows:
            if row.id not in self._taken_over:
                by = By(row.person, (*row.trailers, f"Waiting: {row.id}"))
                self.vault.merge_in(row.person, row.path, row.base, row.text, by)
                self._taken_over.add(row.id)

    def _is_at_remote(self) -> bool:
        """Whether the remote has everything that is here; many writers share one push."""
        with self._sharing:
            is_there = self.remote is None or not self.remote.unpushed()
            return is_there or self._shared()

    def _shared(self) -> bool:
        """Whether both sides are the same now; a remote that was away just now is not asked."""
        if self._failures and time.monotonic() < self._next_look:
            return False
        self._next_look = 0.0
        self.share()
        return not self._failures

    # -- changes of the common area ---------------------------------------------------------------

    def promotion(self, scope: Scope, path: str, to: str) -> Staged:
        """Stages moving a person's note to the common area.

        Raises:
            NotThere, NotAPath: there is no such note, or no such place.
            StoreDown: the wiki cannot be read.
        """
        with told():
            offer = self.vault.offer(Access(scope.person), path, to)
        return Staged(PROMOTE, content_of(offer))

    def change(self, scope: Scope, to: str, text: str | None, base: str | None) -> Staged:
        """Stages writing a note of the common area, or with no text taking it away.

        Raises:
            Stale: another version is there than `base`.
            NotThere, NotAPath, TooLong: as `promotion`.
            StoreDown: the wiki cannot be read.
        """
        with told():
            offer = self.vault.offer_text(Access(scope.person), to, text, base)
        return Staged(DELETE if text is None else WRITE, content_of(offer))

    def actions(self) -> Mapping[str, Callable[[Confirmation], str]]:
        """What is done with confirmed changes, by their names."""
        return dict.fromkeys((PROMOTE, WRITE, DELETE), self._settle)

    def _settle(self, confirmation: Confirmation) -> str:
        """Does a confirmed change; called again after a crash, it finds what it did."""
        offer = offer_of(confirmation.content)
        try:
            with told():
                self._must_be_shared()
                saved = self.vault.settle(
                    offer, confirmation.id, confirmation.created_at // 1000,
                    By(confirmation.person),
                )  # fmt: skip
                self._must_be_shared()
        except (Stale, Exists):
            raise ActionFailed(CHANGED) from None
        except (NotThere, NotAPath) as error:
            raise ActionFailed(str(error)) from error
        return f"{offer.to} ({saved.commit[:7]})" if saved.commit else offer.to

    def _must_be_shared(self) -> None:
        """On several machines the common area changes at the remote, or not yet.

        Raises:
            WikiDown: the remote is away; the confirmed change is done when it is back.
        """
        if self._waiting is not None and not self._shared():
            raise WikiDown("the wiki's remote cannot be reached")

    # -- keeping the folder up ------------------------------------------------------------------

    def start(self) -> None:
        """Starts looking at the folder every few seconds."""
        self._ended.clear()
        self._thread = threading.Thread(target=self._sweep_on, name="wiki-sweep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the sweep and frees what is open."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.vault.close()

    def share(self) -> None:
        """Pushes what is not at the remote, and looks now and then what has come there.

        One that is away is tried again with growing pauses; the notes are safe here meanwhile.
        """
        remote = self.remote
        if remote is None:
            return
        is_due = time.monotonic() >= self._next_look
        if not is_due and (self._failures or not remote.unpushed()):
            return
        self.vault.ready()
        waiting = [] if self._waiting is None else self._waiting.all()
        self._take_over(waiting)
        try:
            remote.sync()
            if self._waiting is not None and waiting:
                self._waiting.drop([row.id for row in waiting])
        except RemoteDown as error:
            pause = min(self._pause * 2**self._failures, LONGEST_PAUSE_S)
            self._failures += 1
            log.error("the wiki's remote: %s", str(error))
        else:
            self._failures, pause = 0, LOOK_S
        self._next_look = time.monotonic() + pause

    def _sweep_on(self) -> None:
        """The edge of that thread."""
        known: dict[str, str] = {}
        while not self._ended.wait(self._pause):
            try:
                known = tell_new(self.vault.sweep(), known)
                self.share()
            except WikiFault as error:
                known = tell_new(Report(problems={"the wiki": str(error)}), known)
            except Exception:
                log.exception("the wiki's folder could not be looked at")


def access_of(scope: Scope) -> Access:
    """What a scope may see of the notes."""
    return Access(scope.person, in_space=scope.kind == "space")


def shortened(notes: list[Listed], total: int) -> str:
    """Notes as lines of path and title, as many as fit, and how many are left out."""
    lines, size = [], 0
    for one in notes:
        line = f"{one.path}: {' '.join(one.title.split())}"
        size += len(line) + 1
        if size > TITLES_CHARS:
            break
        lines.append(line)
    left_out = total - len(lines)
    return "\n".join([*lines, f"({left_out} more)"] if left_out > 0 else lines)


def content_of(offer: Offer) -> dict[str, Any]:
    """An offer as a confirmation keeps it: what is shown, and what is needed to do it."""
    content: dict[str, Any] = {"to": offer.to, "blob": offer.blob, "base": offer.base}
    if offer.path:
        content |= {"path": offer.path, "source": offer.source}
    if offer.base:
        return {**content, "diff": offer.diff, "body": offer.data}
    return {**content, "text": offer.text}


def offer_of(content: Mapping[str, Any]) -> Offer:
    """The offer that a confirmation keeps."""
    data = content["body"] if "body" in content else content["text"]
    return Offer(
        str(content.get("path", "")), str(content["to"]), data, str(content["blob"]),
        str(content["base"]), str(content.get("text", "")), str(content.get("diff", "")),
        str(content.get("source", "")),
    )  # fmt: skip


def tell_new(report: Report, known: dict[str, str]) -> dict[str, str]:
    """Logs the problems that were not there at the last look; returns those that are now."""
    for place, problem in report.problems.items():
        if known.get(place) != problem:
            log.error("the wiki: %s: %s", place, problem)
    return dict(report.problems)


@contextmanager
def told() -> Iterator[None]:
    """A wiki that is away is a store that is down, like any other."""
    try:
        yield
    except WikiDown as error:
        log.error("the wiki: %s", str(error))
        raise StoreDown(str(error)) from error
