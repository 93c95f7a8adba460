"""`make chaos`: the long trials of what Mercury promises, with real servers.

    python -m benchmarks.chaos [--quick] [--seed N] [NAME …]

prints a table (promise, trials, failures, figure, mark) and ends with 1 when a mark is missed;
`JSON=1` prints one JSON object a line instead.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tests import chaos
from tests import chaos_events as events
from tests import chaos_processes as processes
from tests import chaos_promotions as promotions
from tests import chaos_wiki as wiki
from tests.chaos import Trial
from tests.postgres import Postgres

SEED = 20_261_201

Run = Callable[[Path, int, bool], list[Trial]]

TRIALS: dict[str, Run] = {
    "kills": lambda folder, seed, quick: chaos.kills(folder, 20 if quick else 1_000, seed),
    "terms": lambda folder, seed, quick: [chaos.terms(folder, 2 if quick else 100, seed)],
    "poison": lambda folder, seed, quick: [chaos.poison(folder, 1 if quick else 20, seed)],
    "idle": lambda folder, seed, quick: [chaos.idle_races(folder, 40 if quick else 200, seed)],
    "clock": lambda folder, seed, quick: [chaos.clock_jumps(folder, seed)],
    "events": lambda folder, seed, quick: [
        events.fuzz(folder / form, 400 if quick else 10_000, seed, form)
        for form in ("addon", "classic")
    ],
    "burst": lambda folder, seed, quick: [events.burst(folder, 10 if quick else 200)],
    "processes": lambda folder, seed, quick: _processes(folder, seed, quick),
    "wiki": lambda folder, seed, quick: [
        wiki.trial(folder, 50 if quick else 500, 20 if quick else 500, seed)
    ],
    "promotions": lambda folder, seed, quick: [
        promotions.trial(folder, 20 if quick else 1_000, seed)
    ],
    "history": lambda folder, seed, quick: [chaos.histories(20 if quick else 500, seed)],
}


def _processes(folder: Path, seed: int, quick: bool) -> list[Trial]:
    with Postgres() as postgres:
        two = processes.two(folder, postgres, 1_000 if quick else 10_000, seed, 20.0)
    return [two, processes.database(folder / "database", 400 if quick else 2_000, seed, 2.0)]


def main() -> None:
    """Runs the trials that were named, or all."""
    parser = argparse.ArgumentParser(description="Breaks Mercury in many ways and counts.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TRIALS)}")
    parser.add_argument("--quick", action="store_true", help="a short version")
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in TRIALS]
    if unknown:
        parser.error(f"there is no trial {unknown[0]}; there are {', '.join(TRIALS)}")
    missed = False
    for name in given.names or TRIALS:
        begun = time.monotonic()
        with chaos.scratch() as folder:
            for trial in TRIALS[name](Path(folder), given.seed, given.quick):
                missed = missed or not trial.passed
                show(trial, given.seed, time.monotonic() - begun)
    sys.exit(1 if missed else 0)


def show(trial: Trial, seed: int, seconds: float) -> None:
    """One line of the table."""
    if os.environ.get("JSON") == "1":
        told = {**asdict(trial), "passed": trial.passed, "seed": seed, "seconds": round(seconds, 1)}
        print(json.dumps(told), flush=True)
        return
    verdict = "ok  " if trial.passed else "MISS"
    print(
        f"{verdict} {trial.promise:48} {trial.trials:6} trials {len(trial.failures):4} failures  "
        f"{trial.figure} (mark: {trial.mark}; {seconds:.0f} s)",
        flush=True,
    )
    for failure in trial.failures[:10]:
        print(f"       {failure}", flush=True)


if __name__ == "__main__":
    main()
