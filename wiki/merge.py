"""What becomes of a note that changed in two places. Pure.

One rule for hand edits in the folder, pushes and remotes: by S, the version that both started
from, H, the one at the head of the branch, and F, the other one. Lines are merged; where both
changed the same lines, H stays at its path and F is kept beside it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from merge3 import Merge3

from wiki.paths import CONFLICT

LARGEST = 80_000
"""Bytes that are merged by line: what is longer is no note, which has 20,000 characters."""
PAIRS = 200_000
"""Equal lines that are compared with each other; where there are more, difflib takes long."""

_FRONT = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?P<raw>.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.M | re.S
)
_UPDATED = re.compile(rb"^updated:[^\r\n]*(?=\r?\n(?![ \t]))", re.M)
"""The key where its value stands on one line."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What to keep: `ours` at the path, and `theirs` beside it when there was a conflict.

    None means that there is no such file.
    """

    ours: bytes | None
    theirs: bytes | None = None


def merge(base: bytes | None, ours: bytes | None, theirs: bytes | None) -> Merged:
    """Merges one note.

    A deletion against a change keeps the change; two that differ only in when they say they were
    updated are one.
    """
    if theirs in (ours, base):
        return Merged(ours)
    if ours == base or ours is None:
        return Merged(theirs)
    if theirs is None:
        return Merged(ours)
    old, new = _same_day(base or b"", ours), _same_day(theirs, ours)
    if new in (old, ours):
        return Merged(ours)
    versions = [text.splitlines(True) for text in (old, ours, new)]
    if b"\0" in ours + new or max(len(ours), len(new)) > LARGEST or _takes_long(*versions):
        return Merged(ours, theirs)
    regions = list(Merge3(*versions).merge_groups())
    if any(region[0] == "conflict" for region in regions):
        return Merged(ours, theirs)
    return Merged(b"".join(line for region in regions for line in region[1]))


def conflict_path(path: str, theirs: bytes) -> str:
    """Where the other version of a note is kept: the same version always at the same path."""
    digest = hashlib.sha256(theirs).hexdigest()[:8]
    return f"{CONFLICT.sub('', path).removesuffix('.md')}.conflict-{digest}.md"


def is_conflict(path: str) -> bool:
    """Whether a path is that of another version of a note."""
    return CONFLICT.search(path) is not None


def _same_day(text: bytes, ours: bytes) -> bytes:
    """The text with our `updated`: it alone is no reason for a conflict."""
    here, there = _updated(ours), _updated(text)
    if here is None or there is None:
        return text
    return text[: there.start()] + here[0] + text[there.end() :]


def _updated(text: bytes) -> re.Match[bytes] | None:
    front = _FRONT.match(text)
    return None if front is None else _UPDATED.search(text, *front.span("raw"))


def _takes_long(base: Sequence[bytes], ours: Sequence[bytes], theirs: Sequence[bytes]) -> bool:
    """Whether there are too many equal lines to find out which of them belong together."""
    counts = Counter(base)
    return any(
        sum(counts[line] * n for line, n in Counter(other).items()) > PAIRS
        for other in (ours, theirs)
    )
