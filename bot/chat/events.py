"""What Google Chat sent, as one value: a message, a click, added, removed, or nothing for us.

Takes the decoded body of a verified event in the classic or the add-on form (google-chat.md
§1, §5 and §6); no body raises. A command, slash or quick, is a message that says `/name and the
rest`, as if it had been typed. Here alone a Chat person gets a scope and a conversation its key.
Knows nothing of HTTP, tokens, stores or sending. Nothing but what is named here leaves a body:
live tokens and capabilities that Google puts into it go no further.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from bot.commands import COMMAND_IDS, NAMES
from bot.scope import Scope
from memory.confirmations import Decision

Form = Literal["addon", "classic"]

_SPACE = re.compile(r"spaces/[A-Za-z0-9_-]{1,64}")
_USER = re.compile(r"users/[0-9]{1,32}")
_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_KEY = re.compile(r"[A-Za-z0-9_]{1,64}")
_RESOURCE = re.compile(r"[A-Za-z0-9_=/.+-]{1,2000}")
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

    def told(self) -> dict[str, Any]:
        """The target as it is stored with a turn."""
        return {"space": self.space, "thread": self.thread, "private_to": self.private_to}

    @staticmethod
    def of(stored: str) -> Target:
        """The target that was stored with a turn, as JSON that may say more."""
        told = json.loads(stored)
        return Target(told["space"], told["thread"], told["private_to"])


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of a message; its content is not here.

    `resource` is what `media.download` takes, or '' for what cannot be had that way, with `why`.
    """

    name: str
    mime: str
    resource: str
    why: Literal["", "drive", "gif", "unknown"] = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A person's message that wants an answer."""

    id: str
    """`spaces/S/messages/M`: the same for every delivery of this message. A quick command,
    which is no message, has an id made of what Google tells of it."""
    scope: Scope
    key: str
    """The conversation key: `spaces/S/threads/T` in a threaded space, else `spaces/S`."""
    author_name: str
    """The display name at that time; data, never a key."""
    text: str
    """As typed, without mentions of apps; may be empty."""
    target: Target
    quoted: str | None
    """The text of the message that is quoted or forwarded. Anybody may have written it: never
    trusted."""
    attachments: tuple[Attachment, ...]
    """What is attached."""


@dataclass(frozen=True, slots=True)
class Added:
    """The app was added to a space or DM; `message` is what was said with it, if anything was."""

    id: str
    scope: Scope
    target: Target
    message: Message | None


@dataclass(frozen=True, slots=True)
class Removed:
    """The app was taken out of a space or DM; nothing can be sent there any more."""

    space: str


@dataclass(frozen=True, slots=True)
class Click:
    """A person pressed a button of a card of ours; the action is named in its parameters."""

    id: str
    scope: Scope
    target: Target
    action: str
    decision: Decision
    ref: str
    """Opaque; what the button was made for."""


Event = Message | Added | Removed | Click


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing to answer; `keys` are names of the body's keys that may be logged, sorted."""

    why: str
    keys: tuple[str, ...] = ()


class _NotOurs(Exception):
    """Ends the reading of a body; the text is the `why` of an Ignored."""


def parse(body: object, form: Form, domains: frozenset[str]) -> Event | Ignored:
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

    kind: Literal["message", "command", "added", "removed", "click"]
    user: dict[str, Any] | None
    space: dict[str, Any]
    message: dict[str, Any]
    time: str = ""
    command: object = None
    """The id that the console gave to a slash or quick command, of whatever type."""
    thread: dict[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    function: str = ""


def _parse(body: object, form: Form, domains: frozenset[str]) -> Event:
    if not isinstance(body, dict):
        raise _NotOurs("not an object")
    event = _classic(body) if form == "classic" else _addon(body)
    space = _string(event.space, "name")
    if space is None or not _SPACE.fullmatch(space):
        raise _NotOurs("malformed space name")
    if event.kind == "removed":
        return Removed(space)
    if event.kind == "click":
        return _click(event, space, domains)
    if event.kind == "added":
        return _added(event, space, domains)
    return _message(event, space, domains)


def _classic(body: dict[str, Any]) -> _Event:
    kind = _string(body, "type")
    message = _object(body, "message")
    user, space = _object(body, "user"), _object(body, "space") or {}
    time = _string(body, "eventTime") or ""
    if kind == "REMOVED_FROM_SPACE":
        return _Event("removed", None, space, {})
    if kind == "ADDED_TO_SPACE":
        # Added by a mention, the classic form sends the one event, and the message lies in it.
        return _Event("added", user, space, message or {}, time)
    if kind == "CARD_CLICKED":
        if body.get("isDialogEvent") is True or body.get("dialogEventType") is not None:
            raise _NotOurs("a dialog")
        action, common = _object(body, "action") or {}, _object(body, "common") or {}
        function = _string(action, "actionMethodName") or _string(common, "invokedFunction") or ""
        parameters = _pairs(action) or _object(common, "parameters")
        return _Event("click", user, space, message or {}, time, None, None, parameters, function)
    if kind == "APP_COMMAND":
        metadata = _object(body, "appCommandMetadata") or {}
        return _command(metadata, user, space, message, time, _object(body, "thread"))
    if message is None or kind != "MESSAGE":
        raise _NotOurs("no message" if kind == "MESSAGE" else "another kind of event")
    space = space or _object(message, "space") or {}
    slash = _object(message, "slashCommand")
    if slash is not None:
        return _Event("command", user, space, message, time, slash.get("commandId"))
    return _Event("message", user, space, message, time)


def _addon(body: dict[str, Any]) -> _Event:
    chat = _object(body, "chat")
    if chat is None:
        raise _NotOurs("not from Chat")
    payloads = [key for key in chat if key.endswith("Payload") and chat[key] is not None]
    if len(payloads) != 1:
        raise _NotOurs("not one payload")
    payload = _object(chat, payloads[0]) or {}
    message = _object(payload, "message")
    space = _object(payload, "space") or _object(chat, "space") or {}
    user, time = _object(chat, "user"), _string(chat, "eventTime") or ""
    if payloads[0] == "removedFromSpacePayload":
        return _Event("removed", None, space, {})
    if payloads[0] == "addedToSpacePayload":
        # Added by a mention, the add-on form sends the message as an event of its own.
        return _Event("added", user, space, {}, time)
    space = space or _object(message or {}, "space") or {}
    if payloads[0] == "buttonClickedPayload":
        if payload.get("isDialogEvent") is True or payload.get("dialogEventType") is not None:
            raise _NotOurs("a dialog")
        common = _object(body, "commonEventObject") or {}
        function = _string(common, "invokedFunction") or ""
        parameters = _object(common, "parameters")
        return _Event("click", user, space, message or {}, time, None, None, parameters, function)
    if payloads[0] == "appCommandPayload":
        metadata = _object(payload, "appCommandMetadata") or {}
        return _command(metadata, user, space, message, time, _object(payload, "thread"))
    if payloads[0] != "messagePayload":
        raise _NotOurs("another kind of event")
    if message is None:
        raise _NotOurs("no message")
    slash = _object(message, "slashCommand")
    if slash is not None:
        return _Event("command", user, space, message, time, slash.get("commandId"))
    return _Event("message", user, space, message, time)


def _command(
    metadata: dict[str, Any],
    user: dict[str, Any] | None,
    space: dict[str, Any],
    message: dict[str, Any] | None,
    time: str,
    thread: dict[str, Any] | None,
) -> _Event:
    kind = _string(metadata, "appCommandType")
    if kind not in ("SLASH_COMMAND", "QUICK_COMMAND"):
        raise _NotOurs("another kind of command")
    return _Event("command", user, space, message or {}, time, metadata.get("appCommandId"), thread)


def _message(event: _Event, space: str, domains: frozenset[str]) -> Message:
    message = event.message
    name = _string(message, "name")
    if (name is not None or event.kind != "command") and not is_in(name or "", space, "messages"):
        raise _NotOurs("malformed message name")
    inner = _string(_object(message, "space") or {}, "name")
    if inner is not None and inner != space:
        raise _NotOurs("a message of another space")
    author, user = _author(event, domains)
    kind = _kind(event.space)
    thread = _thread(message if "thread" in message else {"thread": event.thread}, space)
    if kind == "dm":
        key, thread = space, thread if message.get("threadReply") is True else None
    elif _is_threaded(event.space) and thread is not None:
        key = thread
    else:
        key, thread = space, None
    private = message.get("privateMessageViewer") is not None and kind == "space"
    return Message(
        id=name or _id("command", space, author, event.time, str(event.command)),
        scope=Scope(f"google-chat:{author}", kind, space if kind == "space" else None),
        key=key,
        author_name=_string(user, "displayName") or "",
        text=_command_text(event) if event.kind == "command" else _text(message),
        # A message that only one person may see is answered to that person, who asked.
        target=Target(space, thread, author if private else None),
        quoted=_quoted(message),
        attachments=_attachments(message),
    )


def _added(event: _Event, space: str, domains: frozenset[str]) -> Added:
    if event.space.get("adminInstalled") is True and not event.message:
        raise _NotOurs("installed by an administrator")
    author, _ = _author(event, domains)
    kind = _kind(event.space)
    message = _message(event, space, domains) if event.message else None
    return Added(
        _id("added", space, event.time, ""),
        Scope(f"google-chat:{author}", kind, space if kind == "space" else None),
        Target(space),
        message,
    )


def _click(event: _Event, space: str, domains: frozenset[str]) -> Click:
    author, _ = _author(event, domains)
    kind = _kind(event.space)
    parameters = event.parameters or {}
    # A card from before the app's conversion to an add-on tells its function's name so.
    action = parameters.get("action") or parameters.get("__action_method_name__") or event.function
    decision, ref = parameters.get("decision"), parameters.get("ref")
    if decision not in ("confirm", "cancel") or not isinstance(ref, str) or not action:
        raise _NotOurs("a click on no button of ours")
    if not isinstance(action, str) or len(ref) > 200:
        raise _NotOurs("malformed parameters")
    message = _string(event.message, "name") or ""
    return Click(
        _id("click", space, message, author, event.time, ref),
        Scope(f"google-chat:{author}", kind, space if kind == "space" else None),
        Target(space, None, author if kind == "space" else None),
        action,
        decision,
        ref,
    )


def _id(kind: str, *parts: str) -> str:
    """An event id for what Google gives none: the same for every delivery of that event."""
    whole = "\n".join(parts).encode("utf-8", "surrogatepass")
    return f"{kind}:{hashlib.sha256(whole).hexdigest()[:40]}"


def _author(event: _Event, domains: frozenset[str]) -> tuple[str, dict[str, Any]]:
    """The id and the profile of the person who asks.

    Whom Google names as the event's user is the one who acted, in both forms and for every
    kind of event; the message's sender stands in only where no user is named. Should the two
    differ, memory is thus the acting person's, and never that of somebody who is quoted or
    whose message is only shown; but where either is a bot, a bot wrote the words.
    """
    # On a click the message is the card, which the app itself has sent.
    sender = None if event.kind == "click" else _object(event.message, "sender")
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


def _command_text(event: _Event) -> str:
    """A command as if it were typed; one that is none of ours asks for help.

    The name stands in the annotation only, and quick commands have not even that: then the id
    decides, which the console was given.
    """
    name = ""
    for annotation in _list(event.message, "annotations"):
        slash = annotation.get("slashCommand") if isinstance(annotation, dict) else None
        told = slash.get("commandName") if isinstance(slash, dict) else None
        if isinstance(told, str):
            name = told.removeprefix("/").lower()
    if not name:
        try:
            name = COMMAND_IDS.get(int(float(str(event.command))), "")
        except (ValueError, OverflowError):
            name = ""
    rest = (_string(event.message, "argumentText") or "").strip()
    return f"/{name} {rest}".rstrip() if name in NAMES else "/help"


def _pairs(action: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a classic click: a list of keys and values."""
    return {
        one["key"]: one.get("value")
        for one in _list(action, "parameters")
        if isinstance(one, dict) and isinstance(one.get("key"), str)
    }


def _quoted(message: dict[str, Any]) -> str | None:
    metadata = _object(message, "quotedMessageMetadata") or {}
    snapshot = _object(metadata, "quotedMessageSnapshot") or {}
    return _string(snapshot, "text") or None


def _attachments(message: dict[str, Any]) -> tuple[Attachment, ...]:
    """What is attached; addresses among it are never fetched and so not kept."""
    found = [_attachment(one) for one in _list(message, "attachment")]
    found += [Attachment("a GIF", "image/gif", "", "gif") for _ in _list(message, "attachedGifs")]
    return tuple(found[:_ATTACHMENTS])


def _attachment(one: object) -> Attachment:
    if not isinstance(one, dict):
        return Attachment("a file", "", "", "unknown")
    name, mime = one.get("contentName"), one.get("contentType")
    words = " ".join(name.split())[:200] if isinstance(name, str) else ""
    if not isinstance(mime, str) or not re.fullmatch(r"[\w.+-]{1,100}/[\w.+-]{1,100}", mime):
        mime = ""
    if one.get("source") == "DRIVE_FILE":
        return Attachment(words or "a file", mime, "", "drive")
    reference = one.get("attachmentDataRef")
    resource = reference.get("resourceName") if isinstance(reference, dict) else None
    if isinstance(resource, str) and _RESOURCE.fullmatch(resource) and ".." not in resource:
        return Attachment(words or "a file", mime, resource)
    return Attachment(words or "a file", mime, "", "unknown")


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
