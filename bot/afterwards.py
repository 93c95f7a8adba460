"""What is done when nobody waits for it: compaction, summaries, idle conversations.

Two threads, and one piece of work a conversation at a time. Whatever is dropped here is found
again: the archive says what is not summarised, and a long history asks anew after each turn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from memory.archive import Archive
from memory.errors import StoreDown
from memory.histories import Histories
from memory.summarising import Summarising

log = logging.getLogger(__name__)

THREADS = 2


class Afterwards:
    """The work behind the turns.

    Args:
        idle_ms: how long a conversation may be silent before it counts as idle.
    """

    def __init__(
        self, archive: Archive, histories: Histories, summarising: Summarising, idle_ms: int
    ) -> None:
        self._archive = archive
        self._histories = histories
        self._summarising = summarising
        self._idle_ms = idle_ms
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="afterwards")
        self._lock = threading.Lock()
        self._at: set[str] = set()
        self._ended = False

    def run(self, work: Callable[[], None]) -> None:
        """Runs something small."""
        with self._lock:
            if not self._ended:
                self._pool.submit(self._guarded, work)

    def compact(self, conversation: str) -> None:
        """Has a long history compacted soon."""
        self._once(conversation, lambda: self._summarising.compact(conversation))

    def sweep(self) -> None:
        """Ends idle conversations, frees idle histories, describes what waits for it.

        Raises:
            StoreDown: the archive cannot be reached.
        """
        self._archive.end_idle(self._idle_ms)
        self._histories.free_idle(self._idle_ms)
        for conversation in self._summarising.due(self._idle_ms):
            self._once(
                conversation,
                lambda id_=conversation: self._summarising.describe(id_, closing=True),  # type: ignore[misc]
            )

    def void_claims(self) -> None:
        """Voids what an earlier process was at; for a process that knows that it is alone."""
        self._summarising.void_claims()

    def close(self) -> None:
        """Takes nothing more."""
        with self._lock:
            self._ended = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _once(self, conversation: str, work: Callable[[], object]) -> None:
        def run() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._at.discard(conversation)

        with self._lock:
            if self._ended or conversation in self._at:
                return
            self._at.add(conversation)
            self._pool.submit(self._guarded, run)

    @staticmethod
    def _guarded(work: Callable[[], None]) -> None:
        """The edge of this pool."""
        try:
            work()
        except StoreDown as error:
            log.error("work behind the turns waits: %s", error)
        except Exception:
            log.exception("work behind the turns failed")
