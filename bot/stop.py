"""The one object that ends a piece of work early: a deadline and a cancel in one.

Time here is monotonic and never the archive's. A blocked read is woken by the functions that
were registered with `on_stop`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopped(Exception):
    """The work was stopped; `why` is `cancelled`, `deadline` or `handover`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Stop:
    """A deadline `seconds` from now, which `stop` may bring forward from any thread."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._why: str | None = None
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], None]] = []
        self._stopped = threading.Event()

    @property
    def why(self) -> str | None:
        """Why the work has to end, or None while it may go on."""
        if self._why is None and time.monotonic() >= self._until:
            self.stop("deadline")
        return self._why

    def remaining(self) -> float:
        """Seconds that are left, 0.0 once stopped."""
        return 0.0 if self._why else max(0.0, self._until - time.monotonic())

    def check(self) -> None:
        """Raises Stopped once the work has to end."""
        if why := self.why:
            raise Stopped(why)

    def wait(self, seconds: float) -> None:
        """Sleeps that long.

        Raises:
            Stopped: at once when the work is stopped, or at the deadline.
        """
        left = self.remaining()
        self._stopped.wait(min(seconds, left))
        if seconds >= left or self._why:
            self.check()

    def stop(self, why: str) -> None:
        """Ends the work; the first reason stands, and every waiting read is woken."""
        with self._lock:
            if self._why is not None:
                return
            self._why = why
            self._stopped.set()
            wakers = list(self._wakers)
        for wake in wakers:
            wake()

    @contextmanager
    def on_stop(self, wake: Callable[[], None]) -> Iterator[None]:
        """Calls `wake` (which must not raise) if the work is stopped within the block."""
        with self._lock:
            self._wakers.append(wake)
            stopped = self._why is not None
        if stopped:
            wake()
        try:
            yield
        finally:
            with self._lock:
                self._wakers.remove(wake)
