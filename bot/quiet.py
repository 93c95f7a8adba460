"""Lets work run together, or one piece of it alone while all other waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Quiet:
    """A gate with two doors: `together` for most, `alone` for what may take the process down."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._together = 0
        self._alone = False
        self._waiting_alone = 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Beside others, but not while one is alone or waits to be."""
        with self._condition:
            self._condition.wait_for(lambda: not self._alone and not self._waiting_alone)
            self._together += 1
        try:
            yield
        finally:
            with self._condition:
                self._together -= 1
                self._condition.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """With nobody else, once all who are at it have ended."""
        with self._condition:
            self._waiting_alone += 1
            try:
                self._condition.wait_for(lambda: not self._alone and self._together == 0)
            finally:
                self._waiting_alone -= 1
            self._alone = True
        try:
            yield
        finally:
            with self._condition:
                self._alone = False
                self._condition.notify_all()
