"""The short version of what `make chaos` runs long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import chaos
from tests import chaos_events as events
from tests import chaos_promotions as promotions
from tests import chaos_wiki as wiki
from tests.shared import needs_shared

SEED = 20_261_201


def check(*trials: chaos.Trial) -> None:
    for trial in trials:
        assert trial.passed, f"{trial.promise}: {trial.failures[:10]}"


def test_kills_under_load_lose_and_double_nothing(tmp_path: Path) -> None:
    check(*chaos.kills(tmp_path, kills=8, seed=SEED))


def test_restarts_drop_nothing(tmp_path: Path) -> None:
    """The mark of ten seconds is `make chaos`'s; here other tests run beside it."""
    check(chaos.terms(tmp_path, rounds=1, seed=SEED, exit_s=13.0))


def test_poison_hurts_only_itself(tmp_path: Path) -> None:
    check(chaos.poison(tmp_path, rounds=1, seed=SEED))


def test_an_acknowledged_note_is_in_its_branch(tmp_path: Path) -> None:
    check(wiki.trial(tmp_path, writes=20, kills=10, seed=SEED))


def test_nothing_becomes_common_unconfirmed(tmp_path: Path) -> None:
    check(promotions.trial(tmp_path, sequences=15, seed=SEED))


def test_idle_happens_once(tmp_path: Path) -> None:
    check(chaos.idle_races(tmp_path, rounds=40, seed=SEED))


def test_the_clock_may_jump(tmp_path: Path) -> None:
    check(chaos.clock_jumps(tmp_path, seed=SEED))


@needs_shared
@pytest.mark.parametrize("form", ["addon", "classic"])
def test_no_event_is_lost_doubled_or_misplaced(tmp_path: Path, form: str) -> None:
    check(events.fuzz(tmp_path / form, 300, SEED, form, kills=2))


@needs_shared
def test_a_burst_into_one_space_keeps_its_rate_and_order(tmp_path: Path) -> None:
    check(events.burst(tmp_path, 6))
