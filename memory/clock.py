"""The archive's time, as an argument."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Says what time it is for everything that the archive stores or compares."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC."""
