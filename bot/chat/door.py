"""Where verified Chat events become stored turns: the door between the channel and the archive."""

from __future__ import annotations

import json
import logging

from flask import Blueprint

from bot.chat.api import ChatError, message_id
from bot.chat.deliver import ChatDelivery
from bot.chat.events import Ignored, Message, Removed
from bot.chat.route import blueprint
from bot.chat.verify import Certificates, Verifier, certificates_url
from bot.confirm import TypedCode, typed_code
from bot.mercury import Mercury
from bot.stop import Stop, Stopped
from bot.trials import stop_at
from memory.errors import StoreDown
from memory.text import mend
from memory.turns import Incoming

log = logging.getLogger(__name__)

REPLY_S = 60.0


class Door:
    """Takes the parsed events of the Chat channel.

    Args:
        mercury: what they are for.
    """

    def __init__(self, mercury: Mercury) -> None:
        self._mercury = mercury
        self._stores = mercury.stores

    def accept(self, event: Message | Removed | Ignored) -> None:
        """Stores what there is to do; returns when it is on disk.

        Raises:
            StoreDown: nothing was stored.
        """
        if isinstance(event, Message):
            text = mend(event.text)
            if typed := typed_code(text):
                self._typed_code(event, typed)
            else:
                self._message(event, text)
        elif isinstance(event, Removed):
            self._stores.deliveries.close_lane(event.space, "removed from the space")

    def _message(self, event: Message, text: str) -> None:
        target = {
            "space": event.target.space,
            "thread": event.target.thread,
            "private_to": event.target.private_to,
        }
        if event.quoted:
            target["quoted"] = mend(event.quoted)
        accepted = self._stores.turns.accept(
            Incoming(
                event=event.id, channel="chat", person=event.scope.person,
                owner=event.scope.owner, kind=event.scope.kind, space=event.scope.space,
                name=mend(event.author_name), text=text, key=event.key,
                target=json.dumps(target),
            )
        )  # fmt: skip
        if accepted.new:
            stop_at("accepted")
            self._stores.deliveries.open_lane(event.target.space)
            self._mercury.engine.notify(accepted.key, chat=True)

    def _typed_code(self, event: Message, typed: TypedCode) -> None:
        if not self._stores.turns.note_event(event.id, "chat", "code"):
            return
        reply = self._mercury.settling.by_code(event.scope.person, event.key, typed)
        self._mercury.engine.afterwards.run(lambda: self._reply(event, reply))

    def _reply(self, event: Message, text: str) -> None:
        """Tells what came of a typed code; what was settled stands in the history anyway."""
        delivery = self._mercury.chat["chat"]
        assert isinstance(delivery, ChatDelivery)
        try:
            delivery.say(event.target, message_id(event.id, 0), text, Stop(REPLY_S))
        except (ChatError, Stopped, StoreDown) as error:
            log.warning("the reply to a typed code was not delivered: %s", type(error).__name__)


def chat_blueprint(mercury: Mercury) -> Blueprint:
    """`POST /chat/events` for these settings."""
    settings = mercury.settings
    form = settings.google_chat_format
    assert form in ("addon", "classic")
    certificates = Certificates(settings.google_chat_certs_url or certificates_url(form))
    verifier = Verifier(
        form, settings.google_chat_audience, settings.google_chat_project_number, certificates
    )
    return blueprint(verifier, form, frozenset(settings.google_chat_domains), Door(mercury).accept)
