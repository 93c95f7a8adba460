"""The trial's clock, and the trial's end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot import trials
from bot.clock import SystemClock, TrialClock, clock_from
from bot.settings import load

DAY_MS = 86_400_000


def offset(clock: TrialClock) -> int:
    """How far the clock is from the system's, to a second."""
    return round((clock.now() - time.time() * 1000) / 1000)


def test_the_system_clock_counts_milliseconds() -> None:
    assert abs(SystemClock().now() - time.time() * 1000) < 1_000


def test_the_trial_clock_is_moved_by_what_the_file_says_now(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    clock = TrialClock(file)
    assert offset(clock) == 0
    file.write_text("3600\n")
    assert offset(clock) == 3600
    file.write_text("-86400.5")
    assert clock.now() < time.time() * 1000 - DAY_MS


@pytest.mark.parametrize("broken", [b"", b"soon", b"nan", b"inf", b"1e300", b"\xff\xfe", b"1 2"])
def test_a_broken_file_means_the_last_good_value(tmp_path: Path, broken: bytes) -> None:
    file = tmp_path / "clock"
    clock = TrialClock(file)
    file.write_bytes(broken)
    assert offset(clock) == 0
    file.write_text("60")
    assert offset(clock) == 60
    file.write_bytes(broken)
    assert offset(clock) == 60
    file.unlink()
    assert offset(clock) == 60


def test_settings_choose_the_clock(tmp_path: Path) -> None:
    assert isinstance(clock_from(load({}, None)), SystemClock)
    trial = load({"MERCURY_TEST_CLOCK": str(tmp_path / "clock")}, None)
    assert isinstance(clock_from(trial), TrialClock)


# -- MERCURY_TEST_STOP_AT ---------------------------------------------------------------------

ARRIVE = """
import sys
from pathlib import Path
from bot import trials

trials.configure(sys.argv[1], Path(sys.argv[2]))
for step in sys.argv[3:]:
    print(step, flush=True)
    trials.stop_at(step)
print("end")
"""


def arrive(spec: str, folder: Path, *steps: str) -> tuple[int, list[str]]:
    """How a process ended that came by these steps, and how far it came."""
    done = subprocess.run(
        [sys.executable, "-c", ARRIVE, spec, str(folder), *steps],
        capture_output=True, text=True, timeout=60, cwd=Path(__file__).parent.parent, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.split()


def test_the_process_dies_at_the_step_and_only_once(tmp_path: Path) -> None:
    died = arrive("answered", tmp_path, "leased", "answered", "delivered")
    assert died == (-signal.SIGKILL, ["leased", "answered"])
    assert (tmp_path / "stopped.answered").exists()
    again = arrive("answered", tmp_path, "leased", "answered", "delivered")
    assert again == (0, ["leased", "answered", "delivered", "end"])


def test_the_process_dies_at_the_nth_arrival(tmp_path: Path) -> None:
    died = arrive("leased:3", tmp_path, "leased", "leased", "prompted", "leased", "leased")
    assert died == (-signal.SIGKILL, ["leased", "leased", "prompted", "leased"])
    assert arrive("accepted:2", tmp_path, "accepted") == (0, ["accepted", "end"])
    assert not (tmp_path / "stopped.accepted").exists()


def test_nothing_stops_where_no_step_is_configured(tmp_path: Path) -> None:
    assert arrive("", tmp_path, *trials.STEPS) == (0, [*trials.STEPS, "end"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("spec", "parsed"), [("accepted", ("accepted", 1)), ("erasing:12", ("erasing", 12))]
)
def test_a_step_is_named_with_or_without_a_count(spec: str, parsed: tuple[str, int]) -> None:
    assert trials.parse(spec) == parsed


@pytest.mark.parametrize(
    "spec",
    ["", "nowhere", "accepted:", "accepted:0", "accepted:-1", "accepted:x", "accepted:1:2",
     "Accepted", "accepted:" + "9" * 5000],
)  # fmt: skip
def test_what_names_no_step_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="expected <step>"):
        trials.parse(spec)
