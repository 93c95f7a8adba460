"""The threads that work on keys: one thread a key, and a place for what is new at any time.

Chat may fill three quarters of the pool. What was found waiting, after a restart above all,
begins with a few keys at a time and doubles every quarter of a second: a process that soon dies
again then takes few turns with it, and what people send now does not stand behind old work.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from memory.turn_rows import Work

POOL = 256
CHAT_SHARE = POOL * 3 // 4
FOUND_SHARE = POOL // 2
FIRST_FOUND = 2
DOUBLES_EVERY_S = 0.25


class KeyPool:
    """Runs `work` for keys.

    Args:
        work: works off what waits under a key, and first what was taken of it already; handles
            its own errors.
        more: called when there is room again for what was found waiting.
    """

    def __init__(self, work: Callable[[str, Work | None], None], more: Callable[[], None]) -> None:
        self._work = work
        self._more = more
        self._pool = ThreadPoolExecutor(POOL, thread_name_prefix="turn")
        self._lock = threading.Lock()
        self._keys: dict[str, bool] = {}
        self._found: set[str] = set()
        self._chat_waiting: deque[str] = deque()
        self._chat_running = 0
        self._began = time.monotonic()
        self._ending = False

    def notify(self, key: str, chat: bool) -> None:
        """Says that something waits under a key."""
        with self._lock:
            self._take(key, chat)

    def reserve(self, key: str, chat: bool) -> bool:
        """Keeps a thread for a key that nobody works on; `begin` has to follow.

        Returns False when there is none, or the key is being worked on.
        """
        with self._lock:
            full = len(self._keys) >= POOL or (chat and self._chat_running >= CHAT_SHARE)
            if self._ending or full or key in self._keys:
                return False
            self._keys[key] = False
            self._chat_running += chat
            return True

    def begin(self, key: str, chat: bool, taken: Work | None) -> None:
        """Works on a reserved key, of which a first piece may have been taken already."""
        with self._lock:
            if not self._ending:
                self._pool.submit(self._run, key, chat, taken)

    def offer(self, keys: Iterable[tuple[str, bool]]) -> None:
        """Takes as many keys that were found waiting (with whether they are Chat's) as fit."""
        with self._lock:
            for key, chat in keys:
                if len(self._found) >= self._room():
                    return
                if key not in self._keys:
                    self._found.add(key)
                    self._take(key, chat)

    def again(self, key: str) -> None:
        """Has a key that is being worked on looked at once more."""
        with self._lock:
            if key in self._keys:
                self._keys[key] = True

    @property
    def growing(self) -> bool:
        """Whether the share for what was found has not reached its size yet."""
        return self._room() < FOUND_SHARE

    def end(self) -> None:
        """Begins nothing new."""
        with self._lock:
            self._ending = True

    def close(self) -> None:
        """Lets the threads go."""
        self.end()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _room(self) -> int:
        doublings = (time.monotonic() - self._began) / DOUBLES_EVERY_S
        return FOUND_SHARE if doublings > 10 else min(FOUND_SHARE, FIRST_FOUND << int(doublings))

    def _take(self, key: str, chat: bool) -> None:
        if self._ending:
            return
        if key in self._keys:
            self._keys[key] = True
            return
        self._keys[key] = False
        if chat and self._chat_running >= CHAT_SHARE:
            self._chat_waiting.append(key)
            return
        self._chat_running += chat
        self._pool.submit(self._run, key, chat)

    def _run(self, key: str, chat: bool, taken: Work | None = None) -> None:
        goes_on = True
        while goes_on:
            self._work(key, taken)
            taken, goes_on = None, self._goes_on(key, chat)

    def _goes_on(self, key: str, chat: bool) -> bool:
        """Whether somebody spoke of the key meanwhile; else its place goes to the next one."""
        with self._lock:
            if self._keys[key] and not self._ending:
                self._keys[key] = False
                return True
            del self._keys[key]
            was_found = key in self._found
            self._found.discard(key)
            self._chat_running -= chat
            if chat and self._chat_waiting and not self._ending:
                self._chat_running += 1
                self._pool.submit(self._run, self._chat_waiting.popleft(), True)
            has_room = was_found and len(self._found) <= self._room() // 2
        if has_room:
            self._more()
        return False
