"""What is shown in Chat beside answers: that one is being made, and how a card was settled.

A placeholder stands under the answer's own first id, and the archive says so before it is sent:
whatever happens then, the answer is put in its place. A card that was settled is shown without
its buttons; the archive says which still have them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bot import words
from bot.chat.api import ChatApi, message_id
from bot.chat.cards import Cards
from bot.chat.errors import ChatError, Limited, Unavailable
from bot.chat.events import Target
from memory.clock import Clock
from memory.deliveries import Card, Deliveries
from memory.errors import StoreDown
from memory.turn_rows import Work

log = logging.getLogger(__name__)

THREADS = 8
CARDS_A_SWEEP = 50
PAUSE_S = 5.0
"""After a card could not be settled."""
TRIES = 200


class Beside:
    """Placeholders and settled cards, in threads of their own.

    Args:
        api: the Chat API.
        deliveries: the parts and lanes in the archive.
        cards: what asks for confirmations.
        clock: the archive's time.
    """

    def __init__(self, api: ChatApi, deliveries: Deliveries, cards: Cards, clock: Clock) -> None:
        self._api = api
        self._deliveries = deliveries
        self._cards = cards
        self._clock = clock
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="beside")
        self._lock = threading.Lock()
        self._at: dict[str, float] = {}
        """What is being shown (for ever), was shown, or waits until then (monotonic seconds)."""

    def takes_long(self, work: Work) -> None:
        """Shows a placeholder for an answer that is being made, once; returns at once."""
        self._once(work.turn.id, lambda: self._place(work))

    def forget(self, turn: str) -> None:
        """The turn is answered; nothing is shown for it any more."""
        with self._lock:
            self._at.pop(turn, None)

    def sweep(self) -> None:
        """Settles the cards whose confirmations are settled; returns at once.

        Raises:
            StoreDown: the archive cannot be reached.
        """
        for card in self._deliveries.cards_to_settle(self._clock.now(), CARDS_A_SWEEP):
            self._once(card.delivery.message, lambda card=card: self._settle(card))  # type: ignore[misc]

    def close(self) -> None:
        """Takes nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _once(self, name: str, work: Callable[[], float]) -> None:
        """Runs work that gives the seconds until it is to be run again (for ever: never)."""

        def run() -> None:
            pause = PAUSE_S
            try:
                pause = work()
            except StoreDown as error:
                log.error("what is shown in Chat waits: %s", error)
            except Exception:  # the edge of this pool
                log.exception("something could not be shown in Chat")
            with self._lock:
                if name in self._at:
                    self._at[name] = time.monotonic() + pause

        with self._lock:
            if time.monotonic() < self._at.get(name, 0.0):
                return
            self._at[name] = float("inf")
        try:
            self._pool.submit(run)
        except RuntimeError:
            log.debug("the process is ending")

    def _place(self, work: Work) -> float:
        target = Target.of(work.turn.target)
        wait = self._deliveries.slot(target.space)
        if wait is None:
            return float("inf")
        if wait:
            return wait  # answers go first; there may be none to wait for by then
        id_ = message_id(work.turn.event, self._deliveries.taken(work.turn.id))
        placed = self._deliveries.place(work.turn.id, work.turn.key, work.fence, id_)
        if placed is None:
            return float("inf")
        try:
            sent = self._api.create(target, id_, words.WORKING)
        except ChatError as error:
            # It may be there or not: the answer is put under its id in either case.
            log.warning("a placeholder is uncertain: %s", type(error).__name__)
        else:
            self._deliveries.placed(placed, sent.name, sent.thread or "")
        return float("inf")

    def _settle(self, card: Card) -> float:
        delivery, target = card.delivery, Target.of(card.target)
        wait = self._deliveries.slot(target.space)
        if wait:
            return wait
        if wait is not None:
            try:
                content = self._cards.settled(delivery.card)
                self._api.patch_card(f"{target.space}/messages/{delivery.message}", content)
            except (Unavailable, Limited) as error:
                if self._deliveries.count_try(delivery) < TRIES:
                    return getattr(error, "retry_after", None) or PAUSE_S
                log.error("a card keeps its buttons: %s", type(error).__name__)
            except ChatError as error:
                log.warning("a card keeps its buttons: %s", type(error).__name__)
        self._deliveries.mark(delivery, "settled", delivery.name, delivery.thread)
        self.forget(delivery.message)
        return float("inf")
