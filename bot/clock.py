"""The archive's clock, and the one that trials move."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.settings import Settings
    from memory.clock import Clock


class SystemClock:
    """The system's time."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000


class TrialClock:
    """The system's time, moved by the number of seconds that stands in a file.

    The file is read at each look; while it is missing or holds no number the last good value
    stands, at first 0.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset_ms = 0

    def now(self) -> int:
        """Milliseconds since the epoch, UTC, moved."""
        try:
            seconds = float(self._path.read_text())
            if math.isfinite(seconds) and abs(seconds) < 1e10:
                self._offset_ms = int(seconds * 1000)
        except (OSError, ValueError):
            pass
        return time.time_ns() // 1_000_000 + self._offset_ms


def clock_from(settings: Settings) -> Clock:
    """The clock of these settings."""
    if settings.mercury_test_clock is not None:
        return TrialClock(settings.mercury_test_clock)
    return SystemClock()
