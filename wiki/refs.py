"""Branches and other refs as files, moved by compare-and-set under git's own protocol.

Real git may move the same refs at any moment: who makes `<ref>.lock` first may, and the other
waits. Our lock is a second name of a file of ours, so that the lock of a killed writer is known
for what it is and stands in nobody's way.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from wiki.damage import told
from wiki.disk import sync_folder, write_new
from wiki.errors import WikiDown
from wiki.kernel_lock import KernelLock

log = logging.getLogger(__name__)

DRAFT = "mercury-moves-"
"""How a ref's next value is called before it has its name; the ref's own name follows."""
WAIT_S = 2.0
"""How long a ref's lock of somebody else is waited for: a push may hold it."""
STALE_S = 5.0
"""The age at which a ref's lock has lost its process."""
OURS = "refs/mercury/"
"""Refs that no other program moves and that may be older than the rest after a crash."""


class Refs:
    """The refs of a repository.

    Args:
        path: of the repository.
        lock: of all that write it on this machine.
        packed: gives what a ref is that is packed, by its name.
    """

    def __init__(
        self, path: Path, lock: KernelLock, packed: Callable[[bytes], bytes | None]
    ) -> None:
        self._path = path
        self._lock = lock
        self._packed = packed

    def read(self, name: str) -> bytes | None:
        """What a ref holds, whatever that is; None where there is none.

        Raises:
            WikiDown: it cannot be read.
        """
        with told("is damaged"):
            try:
                return (self._path / name).read_bytes().split(b"\n", 1)[0].strip()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return self._packed(name.encode())

    def drop(self, name: str) -> None:
        """Takes away a ref that was torn."""
        with self._lock.holding(), told("cannot be written"):
            (self._path / name).unlink(missing_ok=True)

    def move(self, name: str, old: str | None, new: str) -> bool:
        """Moves a ref from one commit to another; False when it was elsewhere.

        Args:
            old: None for a ref that is not there yet.

        Raises:
            WikiDown: the ref is locked by another program for too long.
        """
        path = self._path / name
        lock = path.with_name(f"{path.name}.lock")
        draft = self._path / f"{DRAFT}{quote(name, safe='')}"
        with self._lock.holding(), told("cannot be written"):
            self._free_locks()
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                write_new(draft, new.encode() + b"\n", 0o644)
                self._lock_ref(name, draft, lock)
                try:
                    if self.read(name) != (None if old is None else old.encode()):
                        return False
                    os.replace(lock, path)
                finally:
                    if draft.exists() and lock.exists() and draft.samefile(lock):
                        lock.unlink()
            finally:
                draft.unlink(missing_ok=True)
            if not name.startswith(OURS):  # ours alone: an older one costs a look
                sync_folder(path.parent)
        return True

    def _free_locks(self) -> None:
        """Takes away what a killed writer left of a ref's move; we hold its kernel lock now."""
        for draft in self._path.glob(f"{DRAFT}*"):
            lock = self._path / f"{unquote(draft.name.removeprefix(DRAFT))}.lock"
            if lock.exists() and lock.samefile(draft):
                lock.unlink()
            draft.unlink()

    def _lock_ref(self, name: str, draft: Path, lock: Path) -> None:
        waiting = Retrying(
            retry=retry_if_exception_type(FileExistsError), stop=stop_after_delay(WAIT_S),
            wait=wait_random(0.005, 0.05), reraise=True,
        )  # fmt: skip
        try:
            waiting(os.link, draft, lock)
        except FileExistsError as taken:
            if not _removed_if_stale(lock):
                raise WikiDown(f"{name} is locked by another program") from taken
            os.link(draft, lock)


def _removed_if_stale(lock: Path) -> bool:
    try:
        if time.time() - lock.stat().st_mtime < STALE_S:
            return False
        lock.unlink()
    except FileNotFoundError:
        return True
    log.warning("a lock that a killed program left in the wiki was removed")
    return True
