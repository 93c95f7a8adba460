"""What becomes of a note that changed in two places. Pure.

One rule for hand edits in the folder, pushes and remotes: by S, the version that both started
from, H, the one at the head of the branch, and F, the other one. Lines are merged; where both
changed the same lines, H stays at its path and F is kept beside it.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from merge3 import Merge3

from wiki.paths import CONFLICT

LARGEST = 1_000_000
"""Bytes that are merged by line; a note has at most 20,000 characters."""
ROUNDS = 32
"""How often the lines between lines that stand once are looked at for more of them."""
SMALL = 64
"""Lines that are compared each with each."""

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
    if b"\0" in ours + new or max(len(ours), len(new)) > LARGEST:
        return Merged(ours, theirs)
    lines, our_lines, new_lines = (text.splitlines(True) for text in (old, ours, new))
    regions = list(Merge3(lines, our_lines, new_lines, sequence_matcher=_Common).merge_groups())
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


class _Common:
    """The lines that two texts have in common, in the form in which difflib gives them.

    By patience, as Bram Cohen's diff: lines that stand once in each text belong together where
    they are in the same order, then those that stand once between these, and so on. difflib
    alone takes quadratic time where every other line was changed.
    """

    def __init__(self, isjunk: object, a: Sequence[bytes], b: Sequence[bytes]) -> None:
        self._a = a
        self._b = b

    def get_matching_blocks(self) -> list[tuple[int, int, int]]:
        """Where equal lines begin in each text, and how many; the last is empty."""
        blocks: list[tuple[int, int, int]] = []
        for at, other in sorted(self._pairs()):
            start, start_b, size = blocks[-1] if blocks else (0, 0, 0)
            if blocks and (at, other) == (start + size, start_b + size):
                blocks[-1] = (start, start_b, size + 1)
            else:
                blocks.append((at, other, 1))
        return [*blocks, (len(self._a), len(self._b), 0)]

    def _pairs(self) -> Iterator[tuple[int, int]]:
        left = [(0, len(self._a), 0, len(self._b), 0)]
        while left:
            start, end, start_b, end_b, n = left.pop()
            while start < end and start_b < end_b and self._a[start] == self._b[start_b]:
                yield start, start_b
                start, start_b = start + 1, start_b + 1
            while start < end and start_b < end_b and self._a[end - 1] == self._b[end_b - 1]:
                end, end_b = end - 1, end_b - 1
                yield end, end_b
            if start == end or start_b == end_b:
                continue
            if end - start <= SMALL and end_b - start_b <= SMALL:
                small = SequenceMatcher(None, self._a[start:end], self._b[start_b:end_b])
                for at, other, size in small.get_matching_blocks():
                    yield from ((start + at + m, start_b + other + m) for m in range(size))
            elif n < ROUNDS and (single := self._single(start, end, start_b, end_b)):
                yield from single
                edges = [(start - 1, start_b - 1), *single, (end, end_b)]
                left += [(x + 1, y, x_b + 1, y_b, n + 1) for (x, x_b), (y, y_b) in pairwise(edges)]

    def _single(self, start: int, end: int, start_b: int, end_b: int) -> list[tuple[int, int]]:
        """Lines that stand once in each of two pieces: the most that are in the same order."""
        lines, lines_b = self._a[start:end], self._b[start_b:end_b]
        counts, counts_b = Counter(lines), Counter(lines_b)
        single = {line for line, n in counts.items() if n == 1 == counts_b[line]}
        places = {line: at for at, line in enumerate(lines_b, start_b) if line in single}
        pairs = [(at, places[line]) for at, line in enumerate(lines, start) if line in single]
        return _rising(pairs)


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs whose second numbers rise, as the first ones do."""
    lowest: list[int] = []  # the lowest last number of a run of each length
    lasts: list[int] = []  # which pair that is
    before: list[int] = []  # the pair before each pair in its run
    for n, (_, at) in enumerate(pairs):
        length = bisect_left(lowest, at)
        before.append(lasts[length - 1] if length else -1)
        lowest[length : length + 1] = [at]
        lasts[length : length + 1] = [n]
    run: list[tuple[int, int]] = []
    n = lasts[-1] if lasts else -1
    while n >= 0:
        run.append(pairs[n])
        n = before[n]
    return run[::-1]
