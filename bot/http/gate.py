"""How many turns and streams may be open at once, so that events and health always get through."""

from __future__ import annotations

import threading

OPEN = 224


class Gate:
    """A count with a limit; whoever does not fit is told to come back."""

    def __init__(self, limit: int = OPEN) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self.open = 0

    def enter(self) -> bool:
        """Takes a place; False when there is none. A place that was taken is left by `leave`."""
        with self._lock:
            if self.open >= self._limit:
                return False
            self.open += 1
            return True

    def leave(self) -> None:
        """Gives a place back."""
        with self._lock:
            self.open -= 1
