"""What becomes of a note that changed in two places. Pure.

One rule for hand edits in the folder, pushes and remotes: by S, the version that both started
from, H, the one at the head of the branch, and F, the other one. Lines are merged; where both
changed the same lines, H stays at its path and F is kept beside it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from merge3 import Merge3

_UPDATED = re.compile(rb"\A(---[ \t]*\r?\n(?:(?!---)[^\n]*\n)*?)(updated:[^\n]*)", re.M)
_CLOSE = re.compile(r"\.conflict-[0-9a-f]{8}\.md$")


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
    base, theirs = _same_day(base or b"", ours), _same_day(theirs, ours)
    if theirs == ours:
        return Merged(ours)
    if b"\0" in ours + theirs:
        return Merged(ours, theirs)
    regions = list(
        Merge3(base.splitlines(True), ours.splitlines(True), theirs.splitlines(True)).merge_groups()
    )
    if any(region[0] == "conflict" for region in regions):
        return Merged(ours, theirs)
    return Merged(b"".join(line for region in regions for line in region[1]))


def conflict_path(path: str, theirs: bytes) -> str:
    """Where the other version of a note is kept: the same version always at the same path."""
    digest = hashlib.sha256(theirs).hexdigest()[:8]
    stem = _CLOSE.sub("", path) if _CLOSE.search(path) else path.removesuffix(".md")
    return f"{stem}.conflict-{digest}.md"


def is_conflict(path: str) -> bool:
    """Whether a path is that of another version of a note."""
    return _CLOSE.search(path) is not None


def _same_day(text: bytes, ours: bytes) -> bytes:
    """The text with our `updated`: it alone is no reason for a conflict."""
    here, there = _UPDATED.search(ours), _UPDATED.search(text)
    if here is None or there is None:
        return text
    return text[: there.start(2)] + here[2] + text[there.end(2) :]
