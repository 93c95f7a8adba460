"""`make bench`: measures the figures that are named, or all of them, and prints one table.

    python -m benchmarks [--quick] [NAME ...]        JSON=1 prints for programs

Every figure is measured beside a baseline of the same run, so that the table says the same on a
slow machine and a fast one. Ends with 1 when a mark is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from benchmarks.figures import Figure, Measure, Sizes, as_json, table

NAMES = ("start", "turn", "many", "text", "chat", "shared", "memory", "search", "wiki")


def main() -> int:
    """Measures; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")
    asked = parser.parse_args()
    for name in asked.names:
        if name not in NAMES:
            parser.error(f"there is no figure {name}: {', '.join(NAMES)}")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="mercury-bench-") as folder:
        for name in asked.names or NAMES:
            figures += _measured(name, Sizes(Path(folder), asked.quick), _say)
    print(as_json(figures) if os.environ.get("JSON") else table(figures))
    return 0 if all(figure.holds for figure in figures) else 1


def _measured(name: str, sizes: Sizes, say: Callable[[str], None]) -> list[Figure]:
    measure: Measure = import_module(f"benchmarks.{name}").measure
    say(f"{name} …")
    begun = time.monotonic()
    found = []
    for figure in measure(sizes):
        found.append(figure)
        say(table([figure]).splitlines()[1])
    say(f"{name} took {time.monotonic() - begun:.0f} s\n")
    return found


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
