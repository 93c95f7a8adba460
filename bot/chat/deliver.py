"""Takes answers out to Google Chat: the parts of a turn, in order, through their space's lane.

Every part has the id that was derived from the event, so sending it again is the same message.
Knows the outcomes of sending (google-chat.md §4) and what each means for the turn; the API's
own details stay in `bot/chat/api.py`.
"""

from __future__ import annotations

import json
import logging
import random

from bot.chat.api import (
    ChatApi,
    CredentialsRefused,
    Deleted,
    Gone,
    Limited,
    NotAllowed,
    Rejected,
    TooLong,
    Unavailable,
    message_id,
)
from bot.chat.events import Target
from bot.chat.split import split
from bot.engine import Delivered, Later
from bot.stop import Stop
from memory.deliveries import Deliveries
from memory.deliveries import Delivery as PartOut
from memory.turns import Answer, Part, Turn

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
        api: the Chat API.
        deliveries: the parts and lanes in the archive.
    """

    def __init__(self, api: ChatApi, deliveries: Deliveries) -> None:
        self._api = api
        self._deliveries = deliveries

    def warm(self) -> None:
        """Prepares the first delivery, without the network."""
        self._api.warm()

    def close(self) -> None:
        """Closes the connections that are kept open."""
        self._api.close()

    def parts(self, turn: Turn, answer: Answer) -> tuple[Part, ...]:
        """The answer cut into messages, a notice as the last line of the first one."""
        text = inert(answer.text)
        notices = [str(notice["text"]) for notice in answer.extras.get("notices", ())]
        new = [notice for notice in notices if notice not in text]
        pieces = split(text)
        if new and pieces:
            pieces = split(pieces[0] + "\n\n" + "\n".join(f"*{one}*" for one in new)) + pieces[1:]
        first = len(self._deliveries.of(turn.id))
        return tuple(
            Part(message_id(turn.event, n), piece) for n, piece in enumerate(pieces, first)
        )

    def deliver(self, turn: Turn, stop: Stop) -> Delivered | Later:
        """Sends the parts that are not out yet.

        Raises:
            Stopped: the process is ending.
        """
        parts = self._deliveries.of(turn.id)
        target = target_of(turn, parts)
        while part := next((one for one in parts if one.state == "waiting"), None):
            outcome = self._send(part, target, stop)
            if outcome is not None:
                return outcome
            parts = self._deliveries.of(turn.id)
            target = target_of(turn, parts)
        return Delivered()

    def say(self, target: Target, message: str, text: str, stop: Stop) -> None:
        """Sends one short text that belongs to no turn, with a few tries.

        Raises:
            ChatError: it could not be sent.
            Stopped: the time is over.
        """
        for pause in PAUSES_S:
            if not self._enter_lane(target.space, stop):
                return
            try:
                self._api.put(target, message, inert(text), stop)
            except (Unavailable, Limited):
                stop.wait(pause)
            else:
                return

    def _send(self, part: PartOut, target: Target, stop: Stop) -> Delivered | Later | None:
        """Sends one part; None when the next one may go."""
        if not self._enter_lane(target.space, stop):
            return self._drop(part, "removed from the space")
        try:
            sent = self._api.put(target, part.message, part.text, stop)
        except Deleted:
            self._drop(part, "deleted")
            return Delivered()
        except (NotAllowed, Gone) as error:
            return self._drop(part, str(error) or type(error).__name__)
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
        """Cuts a part that Chat finds too long once more, once."""
        pieces = split(part.text, HALF_PART_BYTES)
        if part.tries or len(pieces) < 2:
            return self._drop(part, "too long")
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
    told = json.loads(turn.target)
    thread = next((part.thread for part in parts if part.thread), None)
    return Target(
        told["space"],
        (thread or told["thread"]) if told["thread"] else None,
        told["private_to"],
    )


def inert(text: str) -> str:
    """Text in which nothing that a model wrote can mention anybody (`<users/…>`)."""
    return text.replace("<users/", "<\u200busers/")
