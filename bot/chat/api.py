"""Google Chat's REST API as three calls, and the one that makes sending safe to repeat.

Takes a target, our own id for a message and its text. A message is created under that id as
its messageId and its requestId, so that sending it again is the same message; whatever the
outcome was, `put` leaves at most one message there, and its text is the last one given
(google-chat.md §4). Knows nothing of turns, lanes, or when to try again.

    ChatError
    ├── Unavailable         5xx, a time-out or a cut: nothing is certain, try again later
    ├── Limited             429; `retry_after` in seconds when Google says so
    ├── NotAllowed          403: this space only
    ├── Gone                404 on create: the space or its thread is not there
    ├── Deleted             the message was there and the person deleted it
    ├── Taken               409 on create: the id is used; `put` deals with it
    ├── CredentialsRefused  401 after one refresh, or no token is to be had
    └── Rejected            400 and whatever else will never succeed: a fault of ours
        └── TooLong         the text is longer than Chat takes

The drivers' own errors never leave this module, nor do their texts: they may hold a token.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from bot.chat.events import Target, is_in
from bot.stop import Stop

SCOPE = "https://www.googleapis.com/auth/chat.bot"
API_URL = "https://chat.googleapis.com"
TIMEOUT_S = 20.0
IDLE_CONNECTIONS = 16
MARKUP = "MARKUP_SYNTAX_MARKDOWN"

_MESSAGE_ID = re.compile(r"client-[a-z0-9-]{1,56}")
_MESSAGE = re.compile(r"(spaces/[A-Za-z0-9_-]{1,64})/messages/[A-Za-z0-9_.-]+")
_TOO_LONG = re.compile(
    r"too (?:long|large)|longer than|exceeds? .{0,40}(?:limit|length|size)", re.IGNORECASE
)


class ChatError(Exception):
    """The root of the tree; never raised itself."""


class Unavailable(ChatError):
    """The API is away or its answer was lost; the same call may be made again."""


class Limited(ChatError):
    """Too many writes; `retry_after` is a pause in seconds, or None when none was named."""

    def __init__(self, retry_after: float | None) -> None:
        super().__init__("rate limit")
        self.retry_after = retry_after


class NotAllowed(ChatError):
    """The app may not write in that space."""


class Gone(ChatError):
    """The space or the thread does not exist."""


class Deleted(ChatError):
    """The message existed and was deleted by a person."""


class Taken(ChatError):
    """There is a message under that id already."""


class CredentialsRefused(ChatError):
    """Google does not take our credentials."""


class Rejected(ChatError):
    """The request is wrong and will not be better for being repeated."""


class TooLong(Rejected):
    """The text is longer than Chat takes."""


class _NotFound(ChatError):
    """404; what it means depends on the call, which says so."""


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


class ChatApi:
    """The calls that an app may make with the scope chat.bot. Safe for many threads.

    Nothing is loaded, read or connected before the first call.

    Args:
        url: the API's address, empty for Google's; tokens come from where the credentials say.
        key_file: a service account's key; None for application default credentials.
        timeout_s: seconds that one request may be silent.
        now: seconds since the epoch, for a `Retry-After` that is a date.
    """

    def __init__(
        self,
        url: str = "",
        key_file: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._key_file = key_file
        self._url = (url or API_URL).rstrip("/") + "/"
        self._timeout_s = timeout_s
        self._now = now
        self._lock = threading.Lock()
        self._credentials: Any = None
        self._api: Any = None
        self._idle: deque[Any] = deque()

    def put(self, target: Target, message_id: str, text: str, stop: Stop) -> Sent:
        """Makes the message under that id be there with that text, whatever was there before.

        One try: it does not repeat a write whose outcome is known, and raises what the caller
        has to decide on. Called again with the same id it goes on where it was.

        Raises:
            ChatError: one of its kinds but Taken; after Unavailable nothing is certain.
            Stopped: the work has to end.
        """
        own = f"{target.space}/messages/{message_id}"
        found = self._created_or_found(target, message_id, text, own, stop)
        if found.echo and not found.deleted:
            # A repeated requestId may be answered with our own request instead of the message.
            stop.check()
            found = self._look(own) or found
        if found.deleted:
            raise Deleted("deleted by a person")
        if not _says(found, text):
            stop.check()
            self.patch(own, text)
        return Sent(found.name, found.thread or target.thread)

    def _created_or_found(
        self, target: Target, message_id: str, text: str, own: str, stop: Stop
    ) -> Posted:
        stop.check()
        try:
            return self._create(target, message_id, text)
        except Gone:
            if target.private_to is None or target.thread is None:
                raise
            stop.check()  # a private message opens no thread: it goes to the top level instead
            return self._create(Target(target.space, None, target.private_to), message_id, text)
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
            ChatError: one of its kinds but Deleted.
        """
        made = self._create(target, message_id, text)
        return Sent(made.name, made.thread or target.thread)

    def _create(self, target: Target, message_id: str, text: str) -> Posted:
        if not _MESSAGE_ID.fullmatch(message_id):
            raise Rejected("not an id that Chat takes")
        body: dict[str, Any] = {"text": text, "markupSyntax": MARKUP}
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
            told = self._run(lambda api: api.create(parent=target.space, body=body, **asked))
        except _NotFound as error:
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
            told = self._run(lambda api: api.get(name=name, markupSyntax=MARKUP))
        except _NotFound:
            return None
        return _posted(told, space, name)

    def patch(self, name: str, text: str) -> Sent:
        """Gives a message that is there another text.

        Raises:
            Deleted: a person deleted it; it is not made again.
            ChatError: another of its kinds.
        """
        space = _space_of(name)
        body = {"text": text, "markupSyntax": MARKUP}
        try:
            told = self._run(lambda api: api.patch(name=name, updateMask="text", body=body))
        except _NotFound:
            raise Deleted("deleted by a person") from None
        patched = _posted(told, space, name)
        return Sent(patched.name, patched.thread)

    def _run(self, call: Callable[[Any], Any]) -> Mapping[str, Any]:
        """Makes one request on a connection that nobody else uses and gives what the API told.

        Raises:
            ChatError: a kind that the status decides.
        """
        import httplib2
        from google.auth import exceptions as auth
        from google_auth_httplib2 import AuthorizedHttp
        from googleapiclient.errors import HttpError

        connection, sound = self._connection(), False
        try:
            request = call(self._messages())
            authorized = AuthorizedHttp(
                self._ready(connection), http=connection, max_refresh_attempts=1
            )
            told = request.execute(http=authorized, num_retries=0)
            sound = True
        except HttpError as error:
            sound = True
            raise self._error(error) from None
        except auth.TransportError:
            raise Unavailable("the token endpoint cannot be reached") from None
        except auth.GoogleAuthError as error:
            if getattr(error, "retryable", False):
                raise Unavailable("the token endpoint is away") from None
            raise CredentialsRefused("no token is to be had") from None
        except (OSError, http.client.HTTPException, httplib2.HttpLib2Error) as error:
            raise Unavailable(f"no answer: {type(error).__name__}") from None
        except (ValueError, AttributeError, TypeError, KeyError):
            # What the drivers raise when an answer is no JSON, or not of the expected shape.
            raise Unavailable("an answer that makes no sense") from None
        finally:
            if sound and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(connection)
            else:
                connection.close()
        if not isinstance(told, Mapping):
            raise Unavailable("an answer that is no message")
        return told

    def _connection(self) -> Any:
        """A connection that is kept open and free, or a new one."""
        import httplib2

        try:
            return self._idle.pop()
        except IndexError:
            made = httplib2.Http(timeout=self._timeout_s)
            made.follow_redirects = False  # or the token would go where an answer points
            return made

    def warm(self) -> None:
        """Reads the API's description now, so that the first answer does not wait for it."""
        self._messages()

    def close(self) -> None:
        """Closes the connections that are kept open."""
        while self._idle:
            self._idle.pop().close()

    def _messages(self) -> Any:
        """The API's messages; the description of the API is read once, from the package."""
        with self._lock:
            if self._api is None:
                import httplib2
                from googleapiclient import discovery

                service = discovery.build(
                    "chat",
                    "v1",
                    http=httplib2.Http(timeout=self._timeout_s),
                    static_discovery=True,
                    cache_discovery=False,
                    client_options={"api_endpoint": self._url},
                )
                self._api = service.spaces().messages()
            return self._api

    def _ready(self, connection: Any) -> Any:
        """Credentials with a token; one thread at a time fetches it."""
        from google_auth_httplib2 import Request

        with self._lock:
            if self._credentials is None:
                self._credentials = _credentials(self._key_file)
            if not self._credentials.valid:
                self._credentials.refresh(Request(connection))
            return self._credentials

    def _error(self, error: Any) -> ChatError:
        """The kind of an HTTP error; its text is Google's short reason and no more."""
        status = int(error.resp.status)
        why = f"{status} {error.reason or ''}".strip()[:200]
        if status == 429:
            return Limited(_seconds(error.resp.get("retry-after"), self._now()))
        if status >= 500 or status == 408:
            return Unavailable(why)
        if status == 413 or (status == 400 and _TOO_LONG.search(why)):
            return TooLong(why)
        kinds: dict[int, type[ChatError]] = {
            401: CredentialsRefused,
            403: NotAllowed,
            404: _NotFound,
            409: Taken,
        }
        return kinds.get(status, Rejected)(why)


def _credentials(key_file: Path | None) -> Any:
    if key_file is None:
        import google.auth

        credentials, _project = google.auth.default(scopes=[SCOPE])
        return credentials
    from google.auth.exceptions import MalformedError
    from google.oauth2.service_account import Credentials

    try:
        return Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
            str(key_file), scopes=[SCOPE]
        )
    except (OSError, ValueError, KeyError, TypeError, MalformedError):
        raise CredentialsRefused("the key file cannot be read") from None


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


def _seconds(header: str | None, now: float) -> float | None:
    """A `Retry-After`, seconds or an HTTP date (RFC 9110 §10.2.3); None for anything else."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]{1,6}", header.strip()):
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
