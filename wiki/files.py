"""Files that people may edit at any moment: put in place whole, and never over what they wrote.

A file is exchanged with its new version in one step, and what comes out is looked at; if it is
not what was expected, somebody edited it in between, and it is left beside the file as an
`.aside` for the next merge. A process that dies leaves at most such a file.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wiki.disk import sync_folder, write_new

ASIDE = re.compile(r"\.(?P<name>.+)\.(?P<base>[0-9a-f]{40}|new)\.aside")
LARGEST = 1_000_000
"""Bytes of a file that is looked at; a note has at most 20,000 characters."""

_EXCHANGE, _AT_FDCWD = 2, -100


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was seen.

    Args:
        id: the blob that git would make of it; '' for one that is too large.
        at: when it was changed last, in seconds since the epoch.
    """

    id: str
    at: float


def blob_id(data: bytes) -> str:
    """The id that git gives to a file of these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Files:
    """The files below a folder.

    Args:
        root: the folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, tuple[tuple[int, int, int], str]] = {}

    def scan(self, folder: str) -> tuple[dict[str, Seen], list[str]] | None:
        """Every Markdown file below a folder, and every file that was set aside.

        None where there is no such folder. Links are not followed.
        """
        found: dict[str, Seen] = {}
        asides: list[str] = []
        if not _is_folder(self.root / folder):
            return None
        left = [folder]
        while left:
            at = left.pop()
            try:
                entries = list(os.scandir(self.root / at))
            except FileNotFoundError:
                continue
            for entry in entries:
                path = f"{at}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        left.append(path)
                elif not entry.is_file(follow_symlinks=False):
                    continue
                elif ASIDE.fullmatch(entry.name):
                    asides.append(path)
                elif entry.name.endswith(".md") and not entry.name.startswith("."):
                    with suppress(FileNotFoundError):
                        found[path] = self._seen(path, entry.stat(follow_symlinks=False))
        return found, asides

    def look(self, path: str) -> Seen | None:
        """One file; None when there is none, or it is anything but a file."""
        if self.is_linked(path):
            return None
        try:
            status = os.lstat(self.root / path)
            return self._seen(path, status) if stat.S_ISREG(status.st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _seen(self, path: str, status: os.stat_result) -> Seen:
        mark = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._known.get(path)
        if known is None or known[0] != mark:
            id_ = "" if status.st_size > LARGEST else blob_id((self.root / path).read_bytes())
            known = (mark, id_)
            if status.st_mtime < time.time() - 2:  # a file may change twice within its clock's tick
                self._known[path] = known
        return Seen(known[1], status.st_mtime)

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        return (self.root / path).read_bytes()

    def is_linked(self, path: str) -> bool:
        """Whether a part of the path is a link, or no folder where one has to be."""
        at = self.root
        *folders, name = path.split("/")
        for part in folders:
            at = at / part
            try:
                if not stat.S_ISDIR(os.lstat(at).st_mode):
                    return True
            except FileNotFoundError:
                return False
        return (at / name).is_symlink()

    def put(self, path: str, expected: str | None, data: bytes | None) -> bool:
        """Puts a file in place, or takes it away; False when it is not what was expected.

        Args:
            expected: the blob of what is there now; None for no file.
            data: what shall be there; None for no file.

        Raises:
            OSError: the disk does not take it; the file is as it was.
        """
        target = self.root / path
        if self.is_linked(path):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{expected or 'new'}.aside")
        if data is not None:
            try:
                write_new(aside, data)
            except FileExistsError:
                return False
        if expected is None:
            done = data is None or _placed(aside, target)
        elif data is None:
            done = self._taken_away(target, aside, expected)
        else:
            done = self._exchanged(target, aside, expected)
        sync_folder(target.parent)
        if data is not None and done:
            self._known.pop(path, None)
        return done

    def drop(self, path: str) -> None:
        """Takes away a file that was set aside."""
        with suppress(FileNotFoundError):
            (self.root / path).unlink()

    def prune(self, folder: str) -> None:
        """Takes away a folder that holds nothing any more, and those above it within an area."""
        parts = folder.split("/")
        while len(parts) > (2 if parts[0] == "people" else 1):
            try:
                (self.root / "/".join(parts)).rmdir()
            except OSError:
                return
            parts.pop()

    @staticmethod
    def _exchanged(target: Path, aside: Path, expected: str) -> bool:
        try:
            exchanged = _rename2(aside, target, _EXCHANGE)
        except FileNotFoundError:
            aside.unlink()
            return False
        if not exchanged:
            new = aside.with_name(f"{aside.name}.tmp")
            os.rename(aside, new)
            try:
                os.rename(target, aside)
            except FileNotFoundError:
                new.unlink()
                return False
            placed = _placed(new, target)
            return _dropped_if(aside, expected) and placed
        return _dropped_if(aside, expected)

    @staticmethod
    def _taken_away(target: Path, aside: Path, expected: str) -> bool:
        try:
            os.rename(target, aside)
        except FileNotFoundError:
            return True
        return _dropped_if(aside, expected)


def _dropped_if(aside: Path, expected: str) -> bool:
    """Takes away what came out if it was what was expected; else it waits to be merged."""
    if blob_id(aside.read_bytes()) != expected:
        return False
    aside.unlink()
    return True


def _placed(new: Path, target: Path) -> bool:
    """Gives a new file its name, unless somebody has used that name meanwhile."""
    try:
        os.link(new, target)
    except FileExistsError:
        return False
    finally:
        new.unlink()
    return True


_libc = ctypes.CDLL(None, use_errno=True)


def _rename2(old: Path, new: Path, flags: int) -> bool:
    """Linux's renameat2; False where there is none, or the file system does not know it."""
    call = getattr(_libc, "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags) == 0:
        return True
    error = ctypes.get_errno()
    if error in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(error, os.strerror(error), str(new))


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
