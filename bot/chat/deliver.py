"""Takes answers out to Google Chat: the parts of a turn, in order, through their space's lane.

Every part has the id that was derived from the event, so sending it again is the same message.
Knows the outcomes of sending (google-chat.md §4) and what each means for the turn; the API's
own details stay in `bot/chat/api.py`, what is shown beside answers in `bot/chat/beside.py`.
"""

from __future__ import annotations

import logging
import random
from dataclasses import replace

from bot import words
from bot.chat.api import ChatApi, Sent, card_id, message_id
from bot.chat.beside import Beside
from bot.chat.cards import Cards
from bot.chat.client import Client
from bot.chat.errors import (
    CredentialsRefused,
    Deleted,
    Gone,
    Limited,
    NotAllowed,
    Rejected,
    TooLong,
    Unavailable,
)
from bot.chat.events import Target
from bot.chat.split import split
from bot.chat.texts import messages
from bot.delivery import Delivered, Later
from bot.stop import Stop
from memory.deliveries import Deliveries
from memory.deliveries import Delivery as PartOut
from memory.turn_rows import Answer, Part, Turn, Work

log = logging.getLogger(__name__)

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0)
LONGEST_IN_PLACE_S = 4.0
"""A shorter pause is waited for in the thread; a longer one frees it."""
TRIES = 150
"""About a day of pauses; then the answer is given up for the operator to see."""
HALF_PART_BYTES = 14_000


class ChatDelivery:
    """The delivery of answers to Chat spaces.

    Args:
        client: of the Chat API.
        deliveries: the parts and lanes in the archive.
        cards: what asks for confirmations.
        beside: placeholders, and cards that are settled.
    """

    def __init__(
        self, client: Client, deliveries: Deliveries, cards: Cards, beside: Beside
    ) -> None:
        self._client = client
        self._api = ChatApi(client)
        self._deliveries = deliveries
        self._cards = cards
        self._beside = beside

    def warm(self) -> None:
        """Prepares the first delivery, without the network."""
        self._client.warm()

    def close(self) -> None:
        """Closes the connections that are kept open."""
        self._beside.close()
        self._client.close()

    def takes_long(self, work: Work) -> None:
        """Has a placeholder shown; see `Beside.takes_long`."""
        self._beside.takes_long(work)

    def sweep(self) -> None:
        """Has cards settled whose confirmations are."""
        self._beside.sweep()

    def parts(self, turn: Turn, answer: Answer) -> tuple[Part, ...]:
        """The answer cut into messages, its notices at the end of the first, then what is
        private and its cards."""
        told = [str(notice["text"]) for notice in answer.extras.get("notices", ())]
        pieces = messages(
            answer.text or words.NOTHING_TO_SHOW, [one for one in told if one not in answer.text]
        )
        before = self._deliveries.taken(turn.id)
        return (
            *(Part(message_id(turn.event, n), piece) for n, piece in enumerate(pieces, before)),
            *self._receipts(turn, answer),
            *(Part(card_id(id_), "", id_) for id_ in answer.extras.get("confirmations", ())),
        )

    @staticmethod
    def _receipts(turn: Turn, answer: Answer) -> list[Part]:
        """What was written for the person, told to nobody else."""
        receipts = answer.extras.get("receipts")
        if not receipts:
            return []
        id_ = message_id(f"receipts {turn.event}", 0)
        return [Part(id_, "\n".join(receipts), private=True)]

    def deliver(self, turn: Turn, stop: Stop) -> Delivered | Later:
        """Sends the parts that are not out yet.

        Raises:
            Stopped: the process is ending.
        """
        self._beside.forget(turn.id)
        outcome: Delivered | Later | None = None
        while outcome is None:
            parts = self._deliveries.of(turn.id)
            part = next((one for one in parts if one.state == "waiting"), None)
            if part is None:
                return Delivered()
            outcome = self._send(turn, part, target_of(turn, parts), stop)
        return outcome

    def _send(
        self, turn: Turn, part: PartOut, target: Target, stop: Stop
    ) -> Delivered | Later | None:
        """Sends one part; None when the next one may go."""
        if not self._enter_lane(target.space, stop):
            return self._drop(part, "removed from the space")
        try:
            sent = self._shown(turn, part, target, stop)
        except Deleted:
            self._drop(part, "deleted")
            return Delivered()
        except NotAllowed as error:
            self._deliveries.close_lane(target.space, "not allowed")
            return self._drop(part, str(error) or "not allowed")
        except Gone as error:
            return self._drop(part, str(error) or "gone")
        except TooLong:
            return self._shorter(part)
        except Rejected as error:
            log.error("Chat rejects a part of an answer: %s", error)
            return self._drop(part, "rejected")
        except Limited as limited:
            return self._later(part, target, limited.retry_after, "rate limit", stop)
        except CredentialsRefused:
            log.critical("Google refuses our credentials: answers wait until they are mended")
            return self._later(part, target, 60.0, "credentials refused", stop)
        except Unavailable as error:
            return self._later(part, target, None, str(error) or "unavailable", stop)
        self._deliveries.mark(part, "sent", sent.name, sent.thread or "")
        return None

    def _shown(self, turn: Turn, part: PartOut, target: Target, stop: Stop) -> Sent:
        """Makes the part be there: a text, a text where a placeholder stands, or a card."""
        alone = Target(target.space, target.thread, turn.person.partition(":")[2])
        if part.card:
            content = self._cards.asking(turn.person, part.card)
            return self._api.put_card(alone if turn.space else target, part.message, content, stop)
        if part.private:
            return self._api.put(alone, part.message, part.text, stop)
        if part.name:
            stop.check()
            return self._api.patch(f"{target.space}/messages/{part.message}", part.text)
        try:
            return self._api.put(target, part.message, part.text, stop)
        except TooLong:
            raise
        except Rejected as error:
            if turn.space or target.thread is None or "thread" not in str(error).lower():
                raise
            log.error("Chat rejects a direct message's thread: %s", error)
            return self._api.put(Target(target.space), part.message, part.text, stop)

    def _enter_lane(self, space: str, stop: Stop) -> bool:
        """Waits for the space's next slot and takes it; False for a closed lane."""
        while wait := self._deliveries.slot(space):
            stop.wait(wait)
        return wait is not None

    def _later(
        self, part: PartOut, target: Target, seconds: float | None, why: str, stop: Stop
    ) -> Delivered | Later | None:
        tries = self._deliveries.count_try(part)
        if tries >= TRIES:
            return self._drop(part, f"given up after {tries} tries: {why}")
        if seconds is None:
            pause = PAUSES_S[min(tries - 1, len(PAUSES_S) - 1)]
            seconds = pause * random.uniform(0.8, 1.2)  # noqa: S311  # jitter, no secret
        if why == "rate limit":
            self._deliveries.hold_lane(target.space, seconds)
        if seconds > LONGEST_IN_PLACE_S:
            return Later(seconds, why)
        stop.wait(seconds)
        return None

    def _shorter(self, part: PartOut) -> Delivered | None:
        """Cuts a part that Chat finds too long once more; after that a word stands in its place."""
        pieces = [] if part.tries else split(part.text, HALF_PART_BYTES)
        if len(pieces) < 2:
            if part.text == words.TOO_LONG_TO_SHOW:
                return self._drop(part, "too long")
            pieces = [words.TOO_LONG_TO_SHOW]
        ids = [part.message] + [f"{part.message}-{n}"[:63] for n in range(1, len(pieces))]
        self._deliveries.resplit(part, pieces, ids)
        self._deliveries.count_try(part)
        return None

    def _drop(self, part: PartOut, why: str) -> Delivered:
        """Gives up what is not out yet of a turn."""
        for one in self._deliveries.of(part.turn):
            if one.state == "waiting":
                self._deliveries.mark(one, "dropped", "", "")
        if why != "deleted":
            log.error("an answer could not be delivered: %s", why)
        return Delivered("" if why == "deleted" else why)


def target_of(turn: Turn, parts: list[PartOut]) -> Target:
    """Where the next part goes: the event's own place, in the thread that the first part got."""
    target = Target.of(turn.target)
    thread = next((part.thread for part in parts if part.thread), None)
    return replace(target, thread=thread) if thread and target.thread else target
