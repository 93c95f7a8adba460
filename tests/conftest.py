"""Fixtures that several files use: settings in a folder of their own, and a Mercury over them."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot import logs, trials
from bot.mercury import Mercury, build
from bot.settings import Settings, load
from tests.clock import HandClock
from tests.postgres import Postgres


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """Whatever a test does to the loggers ends with it."""
    root = logging.getLogger()
    before = list(root.handlers), root.level, sys.excepthook, threading.excepthook
    levels = {name: logging.getLogger(name).level for name in logs.QUIET}
    yield
    root.handlers[:], root.level = before[0], before[1]
    sys.excepthook, threading.excepthook = before[2], before[3]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of this session; skipped loudly where there is none, but not in CI."""
    server = Postgres()
    try:
        server.__enter__()
    except Exception as error:  # whatever keeps it from being had
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NO POSTGRESQL SERVER IS TO BE HAD HERE: {error}")
    yield server
    server.__exit__()


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
