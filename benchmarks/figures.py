"""A figure beside its baseline and its mark, and the table that all of them make."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Args:
        name: what was measured.
        measured: in `unit`.
        baseline: in `unit`, of the same run; None for a mark that stands by itself.
        ratio: measured to baseline, as the median of what each round gave.
        mark: the bound, in words.
        holds: whether the mark is met.
        unit: of both.
        note: what has to be known to read it.
    """

    name: str
    measured: float
    baseline: float | None
    ratio: float | None
    mark: str
    holds: bool
    unit: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a run measures.

    Args:
        folder: for everything that is built; gone afterwards.
        quick: smaller data and fewer rounds, for a first look.
    """

    folder: Path
    quick: bool

    def of(self, whole: int, quick: int) -> int:
        """The size for this run."""
        return quick if self.quick else whole

    def new_folder(self, name: str) -> Path:
        """A folder of a figure's own."""
        made = self.folder / name
        made.mkdir()
        return made


Measure = Callable[[Sizes], Iterator[Figure]]


def at_most(
    name: str, pairs: Sequence[tuple[float, float]], mark: float, unit: str, note: str = ""
) -> Figure:
    """A figure that is at most `mark` times its baseline; a pair of both for each round."""
    ratio = statistics.median(measured / baseline for measured, baseline in pairs)
    return Figure(
        name, statistics.median(m for m, _ in pairs), statistics.median(b for _, b in pairs),
        ratio, f"≤ {mark:g} ×", ratio <= mark, unit, note,
    )  # fmt: skip


def at_least(
    name: str, pairs: Sequence[tuple[float, float]], mark: float, unit: str, note: str = ""
) -> Figure:
    """A figure that is at least `mark` times its baseline; a pair of both for each round."""
    ratio = statistics.median(measured / baseline for measured, baseline in pairs)
    return Figure(
        name, statistics.median(m for m, _ in pairs), statistics.median(b for _, b in pairs),
        ratio, f"≥ {mark:g} ×", ratio >= mark, unit, note,
    )  # fmt: skip


def bounded(name: str, measured: float, mark: float, unit: str, note: str = "") -> Figure:
    """A figure that is at most `mark` by itself."""
    return Figure(name, measured, None, None, f"≤ {mark:g} {unit}", measured <= mark, unit, note)


def table(figures: Sequence[Figure]) -> str:
    """The figures for people."""
    head = ("figure", "measured", "baseline", "ratio", "mark", "")
    rows = [head] + [
        (
            one.name,
            _number(one.measured, one.unit),
            "" if one.baseline is None else _number(one.baseline, one.unit),
            "" if one.ratio is None else f"{one.ratio:.2f}",
            one.mark,
            ("ok" if one.holds else "MISS") + (f"  {one.note}" if one.note else ""),
        )
        for one in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 1)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [row[n].rjust(widths[n]) for n in range(1, len(widths))]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(lines)


def as_json(figures: Sequence[Figure]) -> str:
    """The figures for programs."""
    return json.dumps([asdict(one) for one in figures], ensure_ascii=False, indent=2)


def _number(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of all lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
