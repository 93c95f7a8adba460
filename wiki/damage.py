"""What dulwich and the system raise on a repository that cannot be used, told as WikiDown."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from dulwich.errors import (
    ChecksumMismatch,
    FileFormatException,
    NotGitRepository,
    ObjectFormatException,
)
from dulwich.file import FileLocked

from wiki.errors import WikiDown

_BROKEN = (
    KeyError, ValueError, TypeError, AssertionError, zlib.error, ChecksumMismatch,
    FileFormatException, NotGitRepository, ObjectFormatException,
)  # fmt: skip
"""What dulwich raises on a damaged repository."""


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turns what is raised into WikiDown.

    Args:
        what: what is wrong with the repository when dulwich does not understand it.
    """
    try:
        yield
    except FileLocked:
        raise
    except OSError as error:
        why = "no space is left" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise WikiDown(f"the wiki's repository cannot be used: {why}") from error
    except _BROKEN as error:
        raise WikiDown(f"the wiki's repository {what}: {type(error).__name__} {error}") from error
