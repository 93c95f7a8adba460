"""Files that people may edit at any moment: put in place whole, and never over what they wrote.

A file is exchanged with its new version in one step, and what comes out is looked at; if it is
not what was expected, somebody edited it in between, and it is left beside the file as an
`.aside` for the next merge. A process that dies leaves at most such a file, or a draft that is
not whole yet and never had a name that is looked at.
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
DRAFT = ".mercury-draft"
"""How a file's name ends as long as it is being written."""
DRAFT_STALE_S = 60.0
"""The age at which a draft has lost its process."""
LARGEST = 1_000_000
"""Bytes of a file that is looked at; a note has at most 20,000 characters."""

_NO_REPLACE, _EXCHANGE, _AT_FDCWD = 1, 2, -100


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was seen.

    Args:
        id: the blob that git would make of it; '' for one that is too large, or not to be read.
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
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}

    def scan(self, folder: str) -> tuple[dict[str, Seen], list[str]] | None:
        """Every Markdown file below a folder, and every file that was set aside.

        None where there is no such folder. Links are not followed.
        """
        found: dict[str, Seen] = {}
        asides: list[str] = []
        if self.is_linked(folder) or not _is_folder(self.root / folder):
            return None
        left = [folder]
        while left:
            at = left.pop()
            try:
                entries = list(os.scandir(self.root / at))
            except (FileNotFoundError, NotADirectoryError):
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
                elif entry.name.startswith(".") and entry.name.endswith(DRAFT):
                    self._drop_stale(path)
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
        mark = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        known = self._known.get(path)
        if known is not None and known[0] == mark:
            return Seen(known[1], status.st_mtime)
        try:
            id_ = "" if status.st_size > LARGEST else blob_id(self.read(path))
        except FileNotFoundError:
            raise
        except OSError:  # whoever reads it is told why
            return Seen("", status.st_mtime)
        if status.st_ctime < time.time() - 2:  # a file may change twice within its clock's tick
            self._known[path] = (mark, id_)
        return Seen(id_, status.st_mtime)

    def _drop_stale(self, path: str) -> None:
        with suppress(OSError):
            if os.lstat(self.root / path).st_ctime < time.time() - DRAFT_STALE_S:
                self.drop(path)

    def read(self, path: str) -> bytes:
        """The bytes of a file.

        Raises:
            OSError: it cannot be read, is no file, or has more than `LARGEST` bytes.
        """
        return _bytes(self.root / path)

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
            except NotADirectoryError:
                return True
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
        if self.is_linked(path) or _is_no_file(target):
            return False
        aside = target.with_name(f".{target.name}.{expected or 'new'}.aside")
        if data is None:
            if not os.path.lexists(target):
                return True
            if expected is None or os.path.lexists(aside):
                return False
            done = _taken_away(target, aside, expected)
        else:
            _make_folder(target.parent)
            draft = _drafted(target, data)
            if expected is None:
                done = _placed(draft, target)
            else:
                done = _placed(draft, aside) and _exchanged(target, aside, expected)
        sync_folder(target.parent)
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


def _drafted(target: Path, data: bytes) -> Path:
    """A file that is whole and on the disk before it has any name that somebody looks at."""
    draft = target.with_name(f".{target.name}{DRAFT}")
    draft.unlink(missing_ok=True)
    write_new(draft, data)
    with suppress(FileNotFoundError):
        os.chmod(draft, stat.S_IMODE(os.lstat(target).st_mode))
    return draft


def _exchanged(target: Path, aside: Path, expected: str) -> bool:
    """Exchanges a file with its new version, which lies aside."""
    try:
        is_exchanged = _rename2(aside, target, _EXCHANGE)
    except FileNotFoundError:
        aside.unlink()
        return False
    except OSError:
        aside.unlink()
        raise
    if is_exchanged:
        return _dropped_if(aside, expected)
    return _exchanged_by_names(target, aside, expected)


def _exchanged_by_names(target: Path, aside: Path, expected: str) -> bool:
    """The same in two steps: for a moment there is no file."""
    new = target.with_name(f".{target.name}.new.aside")
    os.replace(aside, new)
    try:
        os.rename(target, aside)
    except FileNotFoundError:
        new.unlink()
        return False
    except OSError:
        new.unlink()
        raise
    try:
        placed = _placed(new, target)
    except OSError:
        with suppress(FileExistsError):
            _rename_new(aside, target)
        raise
    return _dropped_if(aside, expected) and placed


def _taken_away(target: Path, aside: Path, expected: str) -> bool:
    try:
        os.rename(target, aside)
    except FileNotFoundError:
        return True
    return _dropped_if(aside, expected)


def _dropped_if(aside: Path, expected: str) -> bool:
    """Takes away what came out if it was what was expected; else it waits to be merged."""
    try:
        if blob_id(_bytes(aside)) != expected:
            return False
    except OSError:
        return False
    aside.unlink()
    return True


def _placed(new: Path, target: Path) -> bool:
    """Gives a new file its name, unless somebody has used that name meanwhile."""
    try:
        _rename_new(new, target)
    except FileExistsError:
        new.unlink()
        return False
    except OSError:
        new.unlink()
        raise
    return True


def _rename_new(old: Path, new: Path) -> None:
    """Gives a file of ours another name, unless something has that name.

    Raises:
        FileExistsError: it has.
    """
    if not _rename2(old, new, _NO_REPLACE):
        os.link(old, new)
        old.unlink()


def _bytes(path: Path) -> bytes:
    """The bytes of a file of a size that is looked at."""
    with open(path, "rb", opener=_opened) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


def _opened(path: str, flags: int) -> int:
    """Opens no link, and does not wait for somebody who writes into a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _make_folder(folder: Path) -> None:
    """Makes a folder and those above it, down to the disk: one that is lost takes notes along."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


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


def _is_no_file(path: Path) -> bool:
    """Whether something stands there that is no file."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
