"""Watches the turns that run here: shows what takes long, stops what is not ours any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bot.delivery import Delivery
from bot.stop import Stop
from memory.turn_rows import Work
from memory.turns import Turns

SILENT_S = 2.0
"""How long nothing is shown of an answer before the person is told that it is being made."""
WATCH_S = 0.25
WATCHES_A_LOOK = 4
"""The archive is asked once a second whether what runs here is still ours."""


@dataclass(frozen=True, slots=True)
class Active:
    """A turn that is worked on here, since when (monotonic seconds), and what stops it."""

    work: Work
    stop: Stop
    since: float


class Watch:
    """Looks at the active turns, four times a second.

    Args:
        turns: the archive's.
        deliveries: how each channel shows that an answer is being made.
        active: gives the turns that run here now.
        guarded: runs a look, so that a failed one is not the last.
    """

    def __init__(
        self,
        turns: Turns,
        deliveries: Mapping[str, Delivery],
        active: Callable[[], list[Active]],
        guarded: Callable[[Callable[[], None]], None],
    ) -> None:
        self._turns = turns
        self._deliveries = deliveries
        self._active = active
        self._guarded = guarded

    def run(self, ending: threading.Event) -> None:
        """Looks until the process ends."""
        looks = 0
        while not ending.wait(WATCH_S):
            looks += 1
            self._guarded(self._show_what_takes_long)
            if looks % WATCHES_A_LOOK == 0:
                self._guarded(self._stop_what_was_taken)

    def _show_what_takes_long(self) -> None:
        now = time.monotonic()
        for one in self._active():
            turn = one.work.turn
            delivery = self._deliveries.get(turn.channel)
            if delivery and not turn.answered and not turn.command and now - one.since >= SILENT_S:
                delivery.takes_long(one.work)

    def _stop_what_was_taken(self) -> None:
        """Stops what another process has taken over or cancelled, as the archive says."""
        active = {one.work.turn.id: one for one in self._active()}
        fences = {turn: one.work.fence for turn, one in active.items()}
        for turn in self._turns.overtaken(fences):
            active[turn].stop.stop("cancelled")
