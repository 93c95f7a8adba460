"""A clock that tests move by hand."""

from __future__ import annotations


class HandClock:
    """Stands at 2026-11-20 09:00 UTC until it is moved."""

    def __init__(self, at: int = 1_795_165_200_000) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def move(self, seconds: float) -> None:
        self.at += int(seconds * 1000)
