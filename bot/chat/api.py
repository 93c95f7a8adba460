"""Google Chat's REST API as a few calls, and the one that makes sending safe to repeat.

Takes a target, our own id for a message and its content. A message is created under that id as
its messageId and its requestId, so that sending it again is the same message; whatever the
outcome was, `put` leaves at most one message there, and its text is the last one given
(google-chat.md §4). Knows nothing of turns, lanes, or when to try again; what can go wrong is
drawn in `bot/chat/errors.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.chat.client import Client
from bot.chat.errors import Deleted, Gone, NotThere, Rejected, Taken, Unavailable
from bot.chat.events import Target, is_in
from bot.stop import Stop

MARKUP = "MARKUP_SYNTAX_MARKDOWN"

_MESSAGE_ID = re.compile(r"client-[a-z0-9-]{1,56}")
_MESSAGE = re.compile(r"(spaces/[A-Za-z0-9_-]{1,64})/messages/[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that is there: its resource name, and the thread that it is in."""

    name: str
    thread: str | None


@dataclass(frozen=True, slots=True)
class Posted(Sent):
    """A message as the API tells it; `echo` when it only repeats what was asked for."""

    text: str
    formatted: str
    deleted: bool
    echo: bool


def message_id(event_id: str, part: int) -> str:
    """Our own id for a part of the answer to an event: always the same, and Chat's form.

    Format: `client-` and at most 56 lower-case letters, digits and hyphens (chat v1,
    `messageId`); this one leaves room for a suffix of 16 characters.
    """
    return "client-" + hashlib.sha256(f"{event_id}\n{part}".encode()).hexdigest()[:40]


def card_id(confirmation: str) -> str:
    """Our own id for the card that asks for a confirmation; see `message_id`."""
    return message_id(f"card {confirmation}", 0)


class ChatApi:
    """The calls that an app may make with the scope chat.bot. Safe for many threads."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def put(self, target: Target, message_id: str, text: str, stop: Stop) -> Sent:
        """Makes the message under that id be there with that text, whatever was there before.

        One try: it does not repeat a write whose outcome is known, and raises what the caller
        has to decide on. Called again with the same id it goes on where it was.

        Raises:
            ChatError: one of its kinds but Taken and NotThere; after Unavailable nothing is
                certain.
            Stopped: the work has to end.
        """
        own = f"{target.space}/messages/{message_id}"
        found = self._there(target, message_id, {"text": text, "markupSyntax": MARKUP}, stop)
        if not _says(found, text):
            stop.check()
            self.patch(own, text)
        return Sent(found.name, found.thread or target.thread)

    def put_card(
        self, target: Target, message_id: str, content: Mapping[str, Any], stop: Stop
    ) -> Sent:
        """Makes a message with a card be there under that id, unless one is.

        Args:
            content: `cardsV2` and what goes with it.

        Raises as `put`.
        """
        found = self._there(target, message_id, content, stop)
        return Sent(found.name, found.thread or target.thread)

    def _there(
        self, target: Target, message_id: str, content: Mapping[str, Any], stop: Stop
    ) -> Posted:
        """The message of that id, created with that content or found."""
        own = f"{target.space}/messages/{message_id}"
        found = self._created_or_found(target, message_id, content, own, stop)
        if found.echo and not found.deleted:
            # A repeated requestId may be answered with our own request instead of the message.
            stop.check()
            found = self._look(own) or found
        if found.deleted:
            raise Deleted("deleted by a person")
        return found

    def _created_or_found(
        self, target: Target, message_id: str, content: Mapping[str, Any], own: str, stop: Stop
    ) -> Posted:
        stop.check()
        try:
            return self._create(target, message_id, content)
        except Gone:
            if target.private_to is None or target.thread is None:
                raise
            stop.check()  # a private message opens no thread: it goes to the top level instead
            return self._create(Target(target.space, None, target.private_to), message_id, content)
        except Taken:
            stop.check()
            found = self._look(own)
            if found is None:
                raise Deleted("its id is used, and no message is there") from None
            return found
        except Unavailable:
            stop.check()
            found = self._look(own)
            if found is None:
                raise
            return found

    def create(self, target: Target, message_id: str, text: str) -> Sent:
        """Creates a message; the same id again gives the first one, whatever its text is now.

        Raises:
            ChatError: one of its kinds but Deleted and NotThere.
        """
        made = self._create(target, message_id, {"text": text, "markupSyntax": MARKUP})
        return Sent(made.name, made.thread or target.thread)

    def _create(self, target: Target, message_id: str, content: Mapping[str, Any]) -> Posted:
        if not _MESSAGE_ID.fullmatch(message_id):
            raise Rejected("not an id that Chat takes")
        body: dict[str, Any] = dict(content)
        asked: dict[str, Any] = {"messageId": message_id, "requestId": message_id}
        if target.thread is not None:
            body["thread"] = {"name": target.thread}
            asked["messageReplyOption"] = (
                "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"
                if target.private_to is None
                else "REPLY_MESSAGE_OR_FAIL"
            )
        if target.private_to is not None:
            body["privateMessageViewer"] = {"name": target.private_to}
        try:
            told = self._client.run(
                lambda messages: messages.create(parent=target.space, body=body, **asked)
            )
        except NotThere as error:
            raise Gone(str(error)) from None
        return _posted(told, target.space, f"{target.space}/messages/{message_id}")

    def get(self, name: str) -> Posted:
        """The message of that name, which may be our own id for it.

        Raises:
            Gone: there is none.
            ChatError: another of its kinds.
        """
        found = self._look(name)
        if found is None:
            raise Gone("no such message")
        return found

    def _look(self, name: str) -> Posted | None:
        space = _space_of(name)
        try:
            told = self._client.run(lambda messages: messages.get(name=name, markupSyntax=MARKUP))
        except NotThere:
            return None
        return _posted(told, space, name)

    def patch(self, name: str, text: str) -> Sent:
        """Gives a message that is there another text.

        Raises:
            Deleted: a person deleted it; it is not made again.
            ChatError: another of its kinds.
        """
        return self._patched(name, {"text": text, "markupSyntax": MARKUP}, "text")

    def patch_card(self, name: str, content: Mapping[str, Any]) -> Sent:
        """Gives a message that is there another card, `{cardsV2}`; raises as `patch`."""
        return self._patched(name, content, "cardsV2")

    def _patched(self, name: str, body: Mapping[str, Any], mask: str) -> Sent:
        space = _space_of(name)
        try:
            told = self._client.run(
                lambda messages: messages.patch(name=name, updateMask=mask, body=body)
            )
        except NotThere:
            raise Deleted("deleted by a person") from None
        except Taken:
            raise Unavailable("another write came between") from None
        patched = _posted(told, space, name)
        return Sent(patched.name, patched.thread)


def _space_of(name: str) -> str:
    """The space of a message name that is safe to put into a URL; else Rejected."""
    found = _MESSAGE.fullmatch(name)
    if found is None or not is_in(name, found[1], "messages"):
        raise Rejected("not a message name")
    return found[1]


def _posted(told: Mapping[str, Any], space: str, own: str) -> Posted:
    name, thread = told.get("name"), told.get("thread")
    there = thread.get("name") if isinstance(thread, Mapping) else None
    return Posted(
        name=name if isinstance(name, str) and is_in(name, space, "messages") else own,
        thread=there if isinstance(there, str) and is_in(there, space, "threads") else None,
        text=str(told.get("text") or ""),
        formatted=str(told.get("formattedText") or ""),
        deleted=bool(told.get("deleteTime") or told.get("deletionMetadata")),
        echo="createTime" not in told,
    )


def _says(posted: Posted, text: str) -> bool:
    """Whether a message has that text already.

    Chat may tell a Markdown text without its marks. To patch it for that alone would show every
    answer as edited, so marks and blanks are not compared.
    """
    told = [one for one in (posted.text, posted.formatted) if one]
    return text in told or _bare(text) in [_bare(one) for one in told]


def _bare(text: str) -> str:
    return re.sub(r"[\s*_~`#>\[\]()|\\+•-]", "", re.sub(r"\]\([^()\s]*\)", "]", text))
