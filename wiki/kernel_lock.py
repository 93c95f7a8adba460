"""The one lock of all that write a wiki on this machine; the kernel frees it when they die."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import portalocker

from wiki.errors import WikiDown

WAIT_S = 20.0
"""How long a write waits for the others before it."""
LOOK_S = 0.002


class KernelLock:
    """A lock on a file.

    Args:
        path: the file; made when it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = threading.local()

    @contextmanager
    def holding(self, wait_s: float = WAIT_S) -> Iterator[None]:
        """The lock, for a while; a thread may hold it twice.

        Raises:
            WikiDown: another has it for too long, or it cannot be taken here.
        """
        if getattr(self._held, "depth", 0):
            self._held.depth += 1
            try:
                yield
            finally:
                self._held.depth -= 1
            return
        lock = portalocker.Lock(
            str(self._path), mode="a", timeout=wait_s, check_interval=LOOK_S,
            flags=portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING,
        )  # fmt: skip
        try:
            lock.acquire()
        except portalocker.exceptions.LockException as error:
            raise WikiDown("another process has held the wiki for too long") from error
        except OSError as error:
            raise WikiDown(f"the wiki cannot be written: {error.strerror}") from error
        self._held.depth = 1
        try:
            yield
        finally:
            self._held.depth = 0
            lock.release()
