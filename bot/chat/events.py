"""What Google Chat sent, as one of three values: a message, a removal, or nothing for us.

Takes the decoded body of a verified event in the classic or the add-on form (google-chat.md
§1 and §5); no body raises. Here alone a Chat person gets a scope and a conversation its key.
Knows nothing of HTTP, tokens, stores or sending. Nothing but what is named here leaves a body:
live tokens and capabilities that Google puts into it go no further.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from bot.scope import Scope

Form = Literal["addon", "classic"]

_SPACE = re.compile(r"spaces/[A-Za-z0-9_-]{1,64}")
_USER = re.compile(r"users/[0-9]{1,32}")
_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_KEY = re.compile(r"[A-Za-z0-9_]{1,64}")
_KEYS_SHOWN = 20
_ATTACHMENTS = 50

_Value = TypeVar("_Value", str, dict[str, Any])


@dataclass(frozen=True, slots=True)
class Target:
    """Where an answer goes.

    `thread` is the thread of that very event when the answer belongs into it; `private_to` is
    the one person who may see the answer in a space, else None.
    """

    space: str
    thread: str | None = None
    private_to: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for a name that could lead a request elsewhere."""
        if not _SPACE.fullmatch(self.space):
            raise ValueError("not a space")
        if self.thread is not None and not is_in(self.thread, self.space, "threads"):
            raise ValueError("not a thread of that space")
        if self.private_to is not None and not _USER.fullmatch(self.private_to):
            raise ValueError("not a user")


@dataclass(frozen=True, slots=True)
class Message:
    """A person's message that wants an answer."""

    id: str
    """`spaces/S/messages/M`: the same for every delivery of this message."""
    scope: Scope
    key: str
    """The conversation key: `spaces/S/threads/T` in a threaded space, else `spaces/S`."""
    author_name: str
    """The display name at that time; data, never a key."""
    text: str
    """As typed, without mentions of apps; may be empty."""
    target: Target
    quoted: str | None
    """The text of the message that is quoted. Anybody may have written it: never trusted."""
    attachments: tuple[str, ...]
    """What is attached, each in a few words; the content is not here."""


@dataclass(frozen=True, slots=True)
class Removed:
    """The app was taken out of a space or DM; nothing can be sent there any more."""

    space: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing to answer; `keys` are names of the body's keys that may be logged, sorted."""

    why: str
    keys: tuple[str, ...] = ()


class _NotOurs(Exception):
    """Ends the reading of a body; the text is the `why` of an Ignored."""


def parse(body: object, form: Form, domains: frozenset[str]) -> Message | Removed | Ignored:
    """What a verified event asks for.

    Args:
        body: the decoded JSON, whatever it is.
        form: the form that is configured; never guessed from the body.
        domains: e-mail domains whose people are answered; empty for all.
    """
    try:
        return _parse(body, form, domains)
    except _NotOurs as why:
        return Ignored(str(why), _key_names(body))


def is_in(name: str, space: str, kind: Literal["threads", "messages"]) -> bool:
    """Whether `name` is a well-formed thread or message name of that space."""
    prefix = f"{space}/{kind}/"
    last = name.removeprefix(prefix)
    return name.startswith(prefix) and bool(_ID.fullmatch(last)) and last not in (".", "..")


@dataclass(frozen=True, slots=True)
class _Event:
    """The parts of a body that both forms have."""

    kind: Literal["message", "removed"]
    user: dict[str, Any] | None
    space: dict[str, Any]
    message: dict[str, Any]


def _parse(body: object, form: Form, domains: frozenset[str]) -> Message | Removed:
    if not isinstance(body, dict):
        raise _NotOurs("not an object")
    event = _classic(body) if form == "classic" else _addon(body)
    space = _string(event.space, "name")
    if space is None or not _SPACE.fullmatch(space):
        raise _NotOurs("malformed space name")
    if event.kind == "removed":
        return Removed(space)
    return _message(event, space, domains)


def _classic(body: dict[str, Any]) -> _Event:
    kind = _string(body, "type")
    message = _object(body, "message")
    if kind == "REMOVED_FROM_SPACE":
        return _Event("removed", None, _object(body, "space") or {}, {})
    # Added by a mention, the classic form sends the one event, and the message lies in it.
    if message is None or kind not in ("MESSAGE", "ADDED_TO_SPACE"):
        raise _NotOurs("no message" if kind == "MESSAGE" else "another kind of event")
    if message.get("slashCommand") is not None:
        raise _NotOurs("a command")
    space = _object(body, "space") or _object(message, "space")
    return _Event("message", _object(body, "user"), space or {}, message)


def _addon(body: dict[str, Any]) -> _Event:
    chat = _object(body, "chat")
    if chat is None:
        raise _NotOurs("not from Chat")
    payloads = [key for key in chat if key.endswith("Payload") and chat[key] is not None]
    if len(payloads) != 1:
        raise _NotOurs("not one payload")
    payload = _object(chat, payloads[0]) or {}
    space = _object(payload, "space") or _object(chat, "space")
    if payloads[0] == "removedFromSpacePayload":
        return _Event("removed", None, space or {}, {})
    if payloads[0] != "messagePayload":
        raise _NotOurs("another kind of event")
    message = _object(payload, "message")
    if message is None:
        raise _NotOurs("no message")
    if message.get("slashCommand") is not None:
        raise _NotOurs("a command")
    space = space or _object(message, "space")
    return _Event("message", _object(chat, "user"), space or {}, message)


def _message(event: _Event, space: str, domains: frozenset[str]) -> Message:
    message = event.message
    name = _string(message, "name")
    if name is None or not is_in(name, space, "messages"):
        raise _NotOurs("malformed message name")
    inner = _string(_object(message, "space") or {}, "name")
    if inner is not None and inner != space:
        raise _NotOurs("a message of another space")
    author, user = _author(event, domains)
    kind = _kind(event.space)
    thread = _thread(message, space)
    private = message.get("privateMessageViewer") is not None and kind == "space"
    if kind == "dm":
        key, thread = space, thread if message.get("threadReply") is True else None
    elif _is_threaded(event.space) and thread is not None:
        key = thread
    else:
        key, thread = space, None
    return Message(
        id=name,
        scope=Scope(f"google-chat:{author}", kind, space if kind == "space" else None),
        key=key,
        author_name=_string(user, "displayName") or "",
        text=_text(message),
        # A message that only one person may see is answered to that person, who asked.
        target=Target(space, thread, author if private else None),
        quoted=_quoted(message),
        attachments=_attachments(message),
    )


def _author(event: _Event, domains: frozenset[str]) -> tuple[str, dict[str, Any]]:
    """The id and the profile of the person who asks.

    Whom Google names as the event's user is the one who acted, in both forms and for every
    kind of event; the message's sender stands in only where no user is named. Should the two
    differ, memory is thus the acting person's, and never that of somebody who is quoted or
    whose message is only shown; but where either is a bot, a bot wrote the words.
    """
    sender = _object(event.message, "sender")
    user = event.user if event.user is not None else sender
    if user is None:
        raise _NotOurs("no user")
    if "BOT" in (user.get("type"), (sender or {}).get("type")):
        raise _NotOurs("sent by a bot")
    author = _string(user, "name")
    if author is None or not _USER.fullmatch(author):
        raise _NotOurs("malformed user name")
    if domains:
        _, at, domain = (_string(user, "email") or "").rpartition("@")
        if not at or domain.casefold() not in {one.casefold() for one in domains}:
            raise _NotOurs("another domain")
    return author, user


def _kind(space: Mapping[str, Any]) -> Literal["dm", "space"]:
    """A DM where Google says so; whatever is unknown is taken for a place that others read."""
    if space.get("spaceType") is not None:
        return "dm" if space["spaceType"] == "DIRECT_MESSAGE" else "space"
    old = space.get("type")
    alone = space.get("singleUserBotDm") is True and old in (None, "DM")
    return "dm" if old == "DM" or alone else "space"


def _is_threaded(space: Mapping[str, Any]) -> bool:
    return (
        space.get("spaceType") != "GROUP_CHAT"
        and space.get("spaceThreadingState") != "UNTHREADED_MESSAGES"
    )


def _thread(message: dict[str, Any], space: str) -> str | None:
    thread = _string(_object(message, "thread") or {}, "name")
    if thread is not None and not is_in(thread, space, "threads"):
        raise _NotOurs("malformed thread name")
    return thread


def _text(message: dict[str, Any]) -> str:
    """What was typed to us: mentions of apps are gone, and the one blank that stood after them.

    Annotations are not used to cut anything: the unit of their indexes is not documented.
    """
    text = _string(message, "text")
    argument = _string(message, "argumentText")
    return (text or "") if argument is None else argument.removeprefix(" ")


def _quoted(message: dict[str, Any]) -> str | None:
    metadata = _object(message, "quotedMessageMetadata") or {}
    snapshot = _object(metadata, "quotedMessageSnapshot") or {}
    return _string(snapshot, "text") or None


def _attachments(message: dict[str, Any]) -> tuple[str, ...]:
    """What is attached, in words; addresses among it are never fetched and so not kept."""
    found = [_attachment(one) for one in _list(message, "attachment")]
    found += ["a GIF" for _ in _list(message, "attachedGifs")]
    return tuple(found[:_ATTACHMENTS])


def _attachment(one: object) -> str:
    if not isinstance(one, dict):
        return "a file"
    name, kind = one.get("contentName"), one.get("contentType")
    words = " ".join(name.split())[:200] if isinstance(name, str) else ""
    if one.get("source") == "DRIVE_FILE":
        return f"{words or 'a file'} (in Google Drive, which an app cannot read)"
    if isinstance(kind, str) and re.fullmatch(r"[\w.+-]{1,100}/[\w.+-]{1,100}", kind):
        return f"{words or 'a file'} ({kind})"
    return words or "a file"


def _get(holder: Mapping[str, Any], key: str, kind: type[_Value]) -> _Value | None:
    """A field that may be missing or null; of any other type than it should be, we stop."""
    value = holder.get(key)
    if value is not None and not isinstance(value, kind):
        raise _NotOurs(f"malformed {key}")
    return value


def _string(holder: Mapping[str, Any], key: str) -> str | None:
    return _get(holder, key, str)


def _object(holder: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    return _get(holder, key, dict)


def _list(holder: Mapping[str, Any], key: str) -> list[Any]:
    value = holder.get(key)
    return value if isinstance(value, list) else []


def _key_names(body: object) -> tuple[str, ...]:
    """The names of the keys at the top and below `chat`; what looks like no name is left out."""
    if not isinstance(body, dict):
        return ()
    names = [key for key in body if _is_key(key)]
    chat = body.get("chat")
    if isinstance(chat, dict):
        names += [f"chat.{key}" for key in chat if _is_key(key)]
    return tuple(sorted(names)[:_KEYS_SHOWN])


def _is_key(key: object) -> bool:
    return isinstance(key, str) and _KEY.fullmatch(key) is not None
