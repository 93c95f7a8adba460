"""How quickly the command answers and the server is there."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, Sizes, bounded
from benchmarks.load import ROOT
from benchmarks.server import Server

PROGRAM = Path(sys.executable).with_name("mfw")


class Mfw(Server):
    """`mfw serve` as an operator starts it."""

    def command(self) -> list[str]:
        return [str(PROGRAM), "serve"]


def measure(sizes: Sizes) -> Iterator[Figure]:
    """`mfw --help`, and `mfw serve` up to the first 200 of `/readyz`."""
    helps = [_help_s() for _ in range(sizes.of(15, 7))]
    yield bounded("mfw --help", statistics.median(helps) * 1e3, 100, "ms")
    starts = []
    for n in range(sizes.of(5, 3)):
        with Mfw(sizes.new_folder(f"start-{n}")) as server:
            starts.append(server.ready_after_s)
    yield bounded("mfw serve until ready", statistics.median(starts), 1.5, "s")


def _help_s() -> float:
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    begun = time.perf_counter()
    subprocess.run([str(PROGRAM), "--help"], check=True, capture_output=True, env=env, cwd=ROOT)
    return time.perf_counter() - begun
