"""Settles confirmations: the one door through which what was staged is done or dropped.

Channels come here with a token or a typed code; what the action is stands in the archive, and
the function that does it is registered under the action's name. A process that dies in between
leaves the confirmation `running`, and the sweep finishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot import words
from bot.confirm import (
    TypedCode,
    code_of,
    id_of_token,
    is_code,
    is_page_key,
    page_key_of,
    token_of,
)
from memory.clock import Clock
from memory.confirmations import (
    Confirmation,
    Confirmations,
    ConfirmationState,
    Decision,
)
from memory.errors import Conflict, NotFound, StoreDown

log = logging.getLogger(__name__)

STILL_RUNNING_MS = 30_000
"""A confirmation that has been running for longer has lost its process."""
CHANGED = "changed"
"""Why an action fails whose target is not any more what the person was shown."""

Later = Callable[[], object]
Action = Callable[[Confirmation], str]
"""Does what was staged and says what came of it. It may be called again after a crash, so it
looks first whether it has been done; it raises ActionFailed to say why it can't be, and StoreDown
to be called again later."""


class ActionFailed(Exception):
    """The action cannot be done; the text says why, such as CHANGED."""


class Expired(Exception):
    """The confirmation's time or tries are over."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How a confirmation stands after a decision; `already` when it stood so before."""

    confirmation: Confirmation
    already: bool


class Settling:
    """The door.

    Args:
        confirmations: the archive's.
        actions: what can be done, by name.
        secret: the instance's.
        step: called at the points where a trial may stop the process.
    """

    def __init__(
        self,
        confirmations: Confirmations,
        actions: Mapping[str, Action],
        secret: bytes,
        clock: Clock,
        step: Callable[[str], None],
    ) -> None:
        self._confirmations = confirmations
        self._actions = actions
        self._secret = secret
        self._clock = clock
        self._step = step
        self._at: set[str] = set()

    def by_token(self, person: str, token: str, decision: Decision) -> Settled:
        """Settles the confirmation that a token is for.

        Raises:
            NotFound: forged, unknown, or somebody else's.
            Expired: too late, or out of tries.
            Conflict: `already_settled` with another decision, or `changed`.
        """
        id_ = id_of_token(self._secret, token)
        if id_ is None:
            raise NotFound("confirmation")
        return self._unless_changed(self._confirmations.get(id_, person), decision)

    def by_click(self, person: str, space: str, token: str, decision: Decision) -> Later:
        """Takes a click's decision; what it begins is done by calling what is returned.

        A click that fits nothing, or comes after another decision, does nothing: the card is
        shown as it stands in any case.

        Args:
            space: where the click was made; a confirmation is settled where it was asked for.
        """
        id_ = id_of_token(self._secret, token)
        try:
            found = self._confirmations.get(id_ or "", person)
        except NotFound:
            log.warning("a click on a card that is not its person's")
            return _nothing
        if found.key != space and not found.key.startswith(f"{space}/"):
            log.warning("a click in another space than the card's")
            return _nothing
        begun = self._confirmations.begin(found, decision)
        if begun is None:
            return _nothing
        self._step("settling")
        return lambda: self._do(begun)

    def by_page(self, id_: str, key: str, decision: Decision) -> Settled:
        """Settles a confirmation on its page.

        Raises:
            NotFound: the key does not open that page.
            Expired, Conflict: as `by_token`.
        """
        return self._unless_changed(self.on_page(id_, key), decision)

    def on_page(self, id_: str, key: str) -> Confirmation:
        """The confirmation that a page's address is for.

        Raises:
            NotFound: the key does not open that page.
        """
        if not is_page_key(self._secret, id_, key):
            raise NotFound("confirmation")
        return self._confirmations.get(id_, None)

    def by_code(self, person: str, key: str, typed: TypedCode) -> str:
        """Settles the waiting confirmation of a key whose code was typed; returns the reply."""
        waiting = self._confirmations.waiting(person, key)
        if not waiting:
            return words.NOTHING_TO_CONFIRM
        fitting = [one for one in waiting if is_code(self._secret, one.id, typed.code)]
        if not fitting:
            self._confirmations.count_wrong(person, key)
            return words.WRONG_CODE
        try:
            settled = self._settle(fitting[0], typed.decision)
        except (Conflict, Expired):
            return words.NOTHING_TO_CONFIRM
        return reply_to(settled.confirmation)

    def find(self, id_: str, person: str | None = None) -> Confirmation:
        """A confirmation, for a channel that shows it; None asks for whosever it is.

        Raises:
            NotFound: there is none, or it is not that person's.
        """
        return self._confirmations.get(id_, person)

    def token(self, confirmation: Confirmation) -> str:
        """What settles a confirmation; for a place that only its person sees."""
        return token_of(self._secret, confirmation.id)

    def code(self, confirmation: Confirmation) -> str:
        """What its person can type to settle a confirmation."""
        return code_of(self._secret, confirmation.id)

    def page_key(self, confirmation: Confirmation) -> str:
        """What the address of a confirmation's page carries."""
        return page_key_of(self._secret, confirmation.id)

    def guarded(self, person: str) -> list[str]:
        """The tokens, page keys and codes of what waits for a person: no answer may hold them."""
        return [
            secret
            for one in self._confirmations.waiting(person)
            for secret in (self.token(one), self.page_key(one), self.code(one))
        ]

    def shown(self, confirmation: Confirmation, with_token: bool) -> dict[str, Any]:
        """A confirmation as a channel shows it to its person; only a waiting one has a token."""
        shown: dict[str, Any] = {
            "id": confirmation.id,
            "action": confirmation.action,
            "state": confirmation.state,
            "expires_at": confirmation.expires_at,
            **{
                name: confirmation.content[name]
                for name in ("path", "to", "text", "diff")
                if name in confirmation.content
            },
        }
        if with_token and confirmation.state == "waiting":
            shown["token"] = self.token(confirmation)
            shown["code"] = self.code(confirmation)
        return shown

    def of_turn(self, turn: str) -> list[dict[str, Any]]:
        """What a turn staged, as its person sees it."""
        return [self.shown(one, True) for one in self._confirmations.of_turn(turn)]

    def waiting(self, person: str) -> list[dict[str, Any]]:
        """The person's waiting confirmations; a list shows no tokens."""
        return [self.shown(one, False) for one in self._confirmations.waiting(person)]

    def finish_running(self) -> None:
        """Finishes what was confirmed before its process died; for the sweep."""
        for confirmation in self._confirmations.running():
            age = self._clock.now() - (confirmation.settled_at or 0)
            is_lost = not 0 <= age < STILL_RUNNING_MS and confirmation.id not in self._at
            if is_lost and self._confirmations.resume(confirmation):
                self._do(confirmation)

    def _unless_changed(self, confirmation: Confirmation, decision: Decision) -> Settled:
        settled = self._settle(confirmation, decision)
        if settled.confirmation.state == "failed" and settled.confirmation.outcome == CHANGED:
            raise Conflict(CHANGED)
        return settled

    def _settle(self, confirmation: Confirmation, decision: Decision) -> Settled:
        if confirmation.state == "waiting":
            begun = self._confirmations.begin(confirmation, decision)
            if begun is None:
                return self._settled(confirmation, decision)
            self._step("settling")
            return Settled(self._do(begun), False)
        return self._settled(confirmation, decision)

    def _settled(self, confirmation: Confirmation, decision: Decision) -> Settled:
        now = self._confirmations.get(confirmation.id, confirmation.person)
        if now.state in ("expired", "waiting"):
            raise Expired(now.outcome or "expired")
        if now.decision != decision:
            raise Conflict("already_settled")
        return Settled(now, True)

    def _do(self, confirmation: Confirmation) -> Confirmation:
        if confirmation.decision == "cancel":
            self._confirmations.settle(
                confirmation,
                "cancelled",
                "cancelled",
                words.settled(confirmation.action, "cancelled"),
            )
            return self._confirmations.get(confirmation.id, confirmation.person)
        state, outcome = self._act(confirmation)
        text = told(confirmation.action, state, outcome)
        self._confirmations.settle(confirmation, state, outcome, text)
        return self._confirmations.get(confirmation.id, confirmation.person)

    def _act(self, confirmation: Confirmation) -> tuple[ConfirmationState, str]:
        """Runs the action; the edge around it, so that none is tried for ever."""
        action = self._actions.get(confirmation.action)
        if action is None:
            return "failed", "unknown action"
        self._at.add(confirmation.id)
        try:
            return "done", action(confirmation)
        except ActionFailed as error:
            return "failed", str(error)
        except StoreDown:
            raise
        except Exception:
            log.exception("the action %s failed", confirmation.action)
            return "failed", "internal"
        finally:
            self._at.discard(confirmation.id)


def _nothing() -> None:
    """What a click comes to that decides nothing."""


def reply_to(confirmation: Confirmation) -> str:
    """What the person is told after a typed decision."""
    return told(confirmation.action, confirmation.state, confirmation.outcome)


def told(action: str, state: str, outcome: str) -> str:
    """What became of an action, for its person and for the history."""
    return words.settled(action, f"failed: {outcome}" if state == "failed" else outcome or state)
