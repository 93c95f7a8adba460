"""Where verified Chat events become stored turns: the door between the channel and the archive.

A message takes its place in the order, and so do most commands; `/help`, `/stop`, clicks and
typed codes are dealt with at once. Whatever is answered at the door goes out like any answer:
stored first, then delivered under ids that come from its event.
"""

from __future__ import annotations

import json
from dataclasses import replace

from flask import Blueprint

from bot import words
from bot.chat.api import message_id
from bot.chat.events import Added, Click, Event, Message, Removed, Target
from bot.chat.route import blueprint
from bot.chat.texts import messages
from bot.chat.verify import Certificates, Verifier, certificates_url
from bot.commands import AT_THE_DOOR, Command, command_of
from bot.confirm import TypedCode, typed_code
from bot.mercury import Mercury
from bot.scope import Scope
from bot.trials import stop_at
from memory.errors import Conflict, NotFound
from memory.text import mend
from memory.turn_rows import Incoming, Part


class Door:
    """Takes the parsed events of the Chat channel.

    Args:
        mercury: what they are for.
    """

    def __init__(self, mercury: Mercury) -> None:
        self._mercury = mercury
        self._stores = mercury.stores

    def accept(self, event: Event) -> None:
        """Stores what there is to do; returns when it is on disk.

        Raises:
            StoreDown: nothing was stored.
        """
        if isinstance(event, Removed):
            self._stores.deliveries.close_lane(event.space, "removed from the space")
            return
        self._stores.deliveries.open_lane(event.target.space)
        if isinstance(event, Added):
            self._say(event.id, event.scope, event.target, words.WELCOME)
            if event.message is not None:
                self._spoken(event.message)
        elif isinstance(event, Click):
            self._click(event)
        else:
            self._spoken(event)

    def _spoken(self, event: Message) -> None:
        text = mend(event.text)
        if typed := typed_code(text):
            self._typed_code(event, typed)
        elif command := command_of(text):
            self._command(event, command)
        else:
            self._accept(self._incoming(event, text))

    def _accept(self, incoming: Incoming) -> None:
        accepted = self._stores.accepting.accept(incoming)
        if accepted.new:
            stop_at("accepted")
            self._mercury.engine.notify(accepted.key, chat=True)

    def _incoming(self, event: Message, text: str) -> Incoming:
        target = event.target.told()
        if event.quoted:
            target["quoted"] = mend(event.quoted)
        if event.attachments:
            target["attachments"] = [
                {"name": mend(one.name), "mime": one.mime, "resource": one.resource, "why": one.why}
                for one in event.attachments
            ]
        return Incoming(
            event=event.id, channel="chat", person=event.scope.person, owner=event.scope.owner,
            kind=event.scope.kind, space=event.scope.space, name=mend(event.author_name),
            text=text, key=event.key, target=json.dumps(target),
        )  # fmt: skip

    # -- commands and codes ------------------------------------------------------------------

    def _command(self, event: Message, command: Command) -> None:
        """In a space a command is its person's own matter, and so is the answer."""
        event = replace(event, target=_privately(event), quoted=None, attachments=())
        if command.name in AT_THE_DOOR:
            reply = words.HELP if command.name == "help" else self._stop(event)
            self._say(event.id, event.scope, event.target, reply)
        else:
            self._accept(replace(self._incoming(event, ""), command=command.line))

    def _stop(self, event: Message) -> str:
        """Stops what runs; that it was stopped then stands in the place of its answer."""
        if self._stores.accepting.noted(event.id):
            return ""
        turn = self._stores.turns.unfinished(event.key, event.scope.person)
        try:
            if turn is not None:
                self._mercury.engine.cancel(turn.id, turn.owner)
        except (Conflict, NotFound):
            turn = None  # it has just been answered
        return words.NOTHING_TO_STOP if turn is None else ""

    def _typed_code(self, event: Message, typed: TypedCode) -> None:
        if self._stores.accepting.noted(event.id):
            return
        reply = self._mercury.settling.by_code(event.scope.person, event.key, typed)
        self._say(event.id, event.scope, _privately(event), reply)
        self._mercury.engine.look()

    def _click(self, event: Click) -> None:
        """Decides before the click is acknowledged; what it begins is done after that."""
        later = self._mercury.settling.by_click(
            event.scope.person, event.target.space, event.ref, event.decision
        )
        self._stores.accepting.note_event(event.id, "chat", "click")

        def settle() -> None:
            later()
            self._mercury.engine.look()

        self._mercury.engine.afterwards.run(settle)

    def _say(self, event: str, scope: Scope, target: Target, text: str) -> None:
        """Replies at once, outside of any order."""
        parts = tuple(Part(message_id(event, n), one) for n, one in enumerate(messages(text)))
        said = self._stores.accepting.say(
            Incoming(
                event=event, channel="chat", person=scope.person, owner=scope.owner,
                kind=scope.kind, space=scope.space, name="", text="",
                target=json.dumps(target.told()),
            ),
            parts,
        )  # fmt: skip
        if said.new:
            stop_at("accepted")
            self._mercury.engine.notify(said.key, chat=True)


def _privately(event: Message) -> Target:
    """The same place, seen by nobody but the person who wrote."""
    if event.scope.space is None:
        return event.target
    return replace(event.target, private_to=event.scope.person.partition(":")[2])


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
