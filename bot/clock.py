"""The archive's clock, and the one that trials move."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from memory.clock import Clock

if TYPE_CHECKING:
    from bot.settings import Settings

__all__ = ["Clock", "SystemClock", "TrialClock", "clock_from"]

FURTHEST_S = 1e10
"""Offsets beyond some 300 years are typing errors, and would leave what a date can hold."""


class SystemClock:
    """The system's time."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000


class TrialClock:
    """The system's time, moved by the number of seconds that stands in a file.

    The file is read at each look; while it is missing or holds no number the last good value
    stands, at first 0.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset_ms = 0

    def now(self) -> int:
        """Milliseconds since the epoch, UTC, moved."""
        try:
            seconds = float(self._path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            seconds = math.nan
        if abs(seconds) < FURTHEST_S:  # false for NaN
            self._offset_ms = round(seconds * 1000)
        return time.time_ns() // 1_000_000 + self._offset_ms


def clock_from(settings: Settings) -> Clock:
    """The clock of these settings."""
    if settings.mercury_test_clock is not None:
        return TrialClock(settings.mercury_test_clock)
    return SystemClock()
