"""Fixtures that several files use: settings in a folder of their own, and a Mercury over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot import trials
from bot.mercury import Mercury, build
from bot.settings import Settings, load
from tests.clock import HandClock


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The defaults, in a folder of the test's own."""
    return load({"MERCURY_DATA": str(tmp_path / "data")}, None)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def make(settings: Settings, clock: HandClock) -> Iterator[Callable[..., Mercury]]:
    """Builds and starts Mercuries, and ends them."""
    made: list[Mercury] = []

    def make_one(given: Settings | None = None, **parts: Any) -> Mercury:
        parts.setdefault("clock", clock)
        mercury = build(given or settings, **parts)
        made.append(mercury)
        mercury.start()
        return mercury

    yield make_one
    for mercury in made:
        mercury.engine.drain(2.0)
        mercury.close()
    trials.configure("", Path())
