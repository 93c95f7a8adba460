"""The card that asks for a confirmation, and the same card once it is settled. Pure but for one
look at the confirmation.

It shows the whole content of what will be done, or a link to a page that does: nobody confirms
what they were not shown. Texts of a card are HTML to Chat, so everything in them is escaped.
"""

from __future__ import annotations

import html
import json
from typing import Any, Literal
from urllib.parse import urlsplit

from bot import words
from bot.settling import Settling
from memory.confirmations import Confirmation

CARD_BYTES = 20_000
"""Chat takes 32,000 bytes a message in all; escaped and with its buttons this much is sure."""
SHOWN = ("text", "diff")


class Cards:
    """The cards of one app.

    Args:
        settling: knows the confirmations, their tokens and codes.
        form: how the app's buttons call back: by our URL (`addon`) or by a name (`classic`).
        endpoint: our URL for events, `GOOGLE_CHAT_AUDIENCE`.
        public_url: where the page of a confirmation is; empty for the endpoint's host.
    """

    def __init__(
        self, settling: Settling, form: Literal["addon", "classic"], endpoint: str, public_url: str
    ) -> None:
        self._settling = settling
        self._form = form
        self._endpoint = endpoint
        parts = urlsplit(endpoint)
        host = f"{parts.scheme}://{parts.netloc}" if parts.scheme == "https" else ""
        self._public_url = (public_url or host).rstrip("/")

    def asking(self, person: str, confirmation: str) -> dict[str, Any]:
        """The content of a message that asks; of one that waits no more, how it stands.

        Raises:
            NotFound: there is no such confirmation of that person.
        """
        found = self._settling.find(confirmation, person)
        if found.state != "waiting":
            return self.settled(confirmation)
        question = words.question(found.action, found.content)
        whole = self._card(found, question, [*self._shown(found), *self._decide(found)])
        if len(json.dumps(whole, ensure_ascii=False).encode()) <= CARD_BYTES:
            return whole
        return self._card(found, question, self._elsewhere(found))

    def settled(self, confirmation: str) -> dict[str, Any]:
        """The content of the card once nothing can be decided any more."""
        found = self._settling.find(confirmation)
        outcome = words.card_settled(found.action, found.state, found.outcome)
        return {"cardsV2": [_card_of(found, [_paragraph(outcome)])]}

    def _card(
        self, found: Confirmation, question: str, widgets: list[dict[str, Any]]
    ) -> dict[str, Any]:
        return {
            "fallbackText": question,
            "cardsV2": [_card_of(found, [_paragraph(question), *widgets])],
        }

    @staticmethod
    def _shown(found: Confirmation) -> list[dict[str, Any]]:
        return [_paragraph(str(found.content[name])) for name in SHOWN if name in found.content]

    def _decide(self, found: Confirmation) -> list[dict[str, Any]]:
        code = self._settling.code(found)
        buttons = [
            self._button(found, "Confirm", "confirm", "FILLED"),
            self._button(found, "Cancel", "cancel", "OUTLINED"),
        ]
        return [_buttons(buttons), _paragraph(words.or_type(code))]

    def _elsewhere(self, found: Confirmation) -> list[dict[str, Any]]:
        cancel = self._button(found, "Cancel", "cancel", "OUTLINED")
        if not self._public_url:
            return [_paragraph(words.TOO_LONG_FOR_A_CARD), _buttons([cancel])]
        url = f"{self._public_url}/confirm/{found.id}?k={self._settling.page_key(found)}"
        link = {"text": "Read and decide", "onClick": {"openLink": {"url": url}}}
        return [_paragraph(words.ON_A_PAGE), _buttons([link, cancel])]

    def _button(self, found: Confirmation, text: str, decision: str, kind: str) -> dict[str, Any]:
        told = {"decision": decision, "ref": self._settling.token(found)}
        if self._form == "addon":
            told = {"action": found.action, **told}
        action = {
            "function": self._endpoint if self._form == "addon" else found.action,
            "parameters": [{"key": key, "value": value} for key, value in told.items()],
            "loadIndicator": "SPINNER",
        }
        return {"text": text, "type": kind, "onClick": {"action": action}}


def _card_of(found: Confirmation, widgets: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "cardId": f"confirm-{found.id}",
        "card": {
            "header": {"title": words.CARD_TITLE},
            "sections": [{"widgets": widgets}],
        },
    }


def _paragraph(text: str) -> dict[str, Any]:
    return {"textParagraph": {"text": html.escape(text, quote=False)}}


def _buttons(buttons: list[dict[str, Any]]) -> dict[str, Any]:
    return {"buttonList": {"buttons": buttons}}
