"""Files and names that are on the disk when a call returns."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_new(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Writes a file that is not there yet, down to the disk.

    Raises:
        FileExistsError: something has that name.
        OSError: the disk does not take it; nothing has that name then.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Puts the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
