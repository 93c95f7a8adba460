"""Active histories in the process: prepared lists that a turn appends to, bounded by bytes.

What is not here is looked for in the mirror, then folded from the archive.

A cached history serves only while its stamp is the archive's, which the caller read after it
had taken the key's lease; so no cache can be stale, only absent. The lease also means that one
turn at a time touches a history, so that only the table itself needs a lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from memory.archive import Archive
from memory.clock import Clock
from memory.conversation import History
from memory.mirror import Mirror, NoMirror
from memory.rows import Conversation
from memory.turn_rows import Stored, Work

CACHE_BYTES = 256 * 1024 * 1024


class Histories:
    """The cache of active histories over the archive.

    Args:
        archive: what a history is folded from.
        clock: the archive's time, by which a history has been idle.
        limit: bytes that all histories may take together; the least recently used leave first.
        mirror: where copies are kept beyond this process.
    """

    def __init__(
        self, archive: Archive, clock: Clock, limit: int = CACHE_BYTES, mirror: Mirror | None = None
    ) -> None:
        self._archive = archive
        self._mirror = mirror or NoMirror()
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[History, int, int]] = OrderedDict()
        self._weight = 0

    def hold(self, work: Work) -> History:
        """The history before the turn's message: from the cache, else folded from the archive."""
        conversation, seq = work.conversation, work.turn.seq
        cached = self._take(conversation.id)
        if cached and cached.stamp == conversation.stamp and cached.last_seq < seq:
            return cached
        shared = conversation.owner.startswith("space:")
        copy = self._mirror.get(conversation.id, conversation.stamp, shared)
        if copy and copy.last_seq < seq:
            return copy
        return self._archive.history(conversation, before=seq)

    def keep(self, work: Work, history: History, stored: Stored) -> None:
        """Appends what the turn added, and keeps the history for the next turn.

        A history that something else changed meanwhile is left to be folded anew.
        """
        if history.stamp != stored.previous_stamp:
            return
        history.append(work.message)
        history.append(stored.message)
        history.stamp = stored.stamp
        self._put(history)
        self._mirror.put(history)

    def rebuild(self, conversation: Conversation) -> History:
        """Folds the history from the archive now, whatever the cache holds."""
        self._take(conversation.id)
        return self._archive.history(conversation)

    def free_idle(self, idle_ms: int) -> int:
        """Lets histories go that nobody has used for that long; returns how many."""
        now = self._clock.now()
        with self._lock:
            idle = [id_ for id_, (_, _, used) in self._held.items() if now - used >= idle_ms]
            for id_ in idle:
                self._drop(id_)
        return len(idle)

    def size(self) -> tuple[int, int]:
        """How many histories are held, and their bytes."""
        with self._lock:
            return len(self._held), self._weight

    def _take(self, conversation: str) -> History | None:
        with self._lock:
            found = self._held.get(conversation)
            if found is None:
                return None
            self._drop(conversation)
            return found[0]

    def _put(self, history: History) -> None:
        with self._lock:
            if history.conversation in self._held:
                self._drop(history.conversation)
            self._held[history.conversation] = (history, history.weight, self._clock.now())
            self._weight += history.weight
            while self._weight > self._limit:
                self._drop(next(iter(self._held)))

    def _drop(self, conversation: str) -> None:
        _, weight, _ = self._held.pop(conversation)
        self._weight -= weight
