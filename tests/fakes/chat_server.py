"""A stand-in for Google, over real HTTP: the Chat API, its token endpoint and its certificates.

It keeps what the real one promises (an id is one message, whatever happens to the answers),
holds every request against the API's description, and fails when it is told to.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from google.auth import jwt

from tests.fakes import google_keys
from tests.fakes.chat_schema import violations
from tests.fakes.google_keys import Signer

__all__ = ["ChatServer", "Fault", "Posted", "Request", "Signer"]

Call = Literal["create", "get", "patch", "token", "certs", "download"]
How = Literal["error", "cut", "cut_after", "stall", "stall_after", "error_after", "no_json"]

GOOGLE_TOKEN_URL = "https://oauth2.googleapis.com/token"
"""Who the client library's signed word is always for, wherever it is sent."""
LIMIT_BYTES = 32_000
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SCOPE = "https://www.googleapis.com/auth/chat.bot"
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
_NAME = re.compile(r"/v1/(spaces/[^/]+)/messages(?:/([^/]+))?")


@dataclass(slots=True)
class Posted:
    """A message as it stands in a space now."""

    space: str
    id: str
    """The id that the client chose."""
    name: str
    thread: str
    text: str
    markup: str
    private_to: str | None
    request_id: str | None
    body: dict[str, Any]
    """The body that it was created with."""
    edits: int = 0
    deleted: bool = False
    cards: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """Every text that it has had, the newest last."""

    def buttons(self) -> list[dict[str, Any]]:
        """The buttons of its cards."""
        return [
            button
            for card in self.cards
            for section in card["card"]["sections"]
            for widget in section["widgets"]
            for button in widget.get("buttonList", {}).get("buttons", ())
        ]

    def card_text(self) -> str:
        """The texts of its cards, as they are written: HTML."""
        return "\n".join(
            widget["textParagraph"]["text"]
            for card in self.cards
            for section in card["card"]["sections"]
            for widget in section["widgets"]
            if "textParagraph" in widget
        )


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as it came, and what it was answered (0 for nothing)."""

    at: float
    """Monotonic seconds."""
    call: str
    method: str
    path: str
    query: Mapping[str, list[str]]
    body: Any
    status: int


@dataclass(slots=True)
class Fault:
    """What goes wrong, and how often still; see `ChatServer.fail`."""

    call: Call
    left: int
    how: How
    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


class _Refusal(Exception):
    """Ends a call with an error of the API."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.answer = _Answer(status, _error(status, message))


class ChatServer:
    """The server; use it in a `with`.

    `messages` are those that are or were there, in the order they were made; `log` holds every
    request; `violations` what was wrong with any of them. `echo`: a repeated requestId is
    answered with the request itself instead of the message, which Google's description allows.
    `plain`: texts are told without their marks, the Markdown only as `formattedText`.
    """

    def __init__(self) -> None:
        self.messages: list[Posted] = []
        self.log: list[Request] = []
        self.violations: list[str] = []
        self.echo = False
        self.plain = False
        self.certificates = {
            "addon": {"k1": google_keys.certificate(google_keys.ADDON)},
            "classic": {"k1": google_keys.certificate(google_keys.CLASSIC)},
        }
        self.max_age = 3_600
        self.media: dict[str, bytes] = {}
        """Attachments by their resource names."""
        self.removed_from: set[str] = set()
        self.gone: set[str] = set()
        """Spaces and threads that do not exist any more."""
        self._by_id: dict[tuple[str, str], Posted] = {}
        self._tokens: set[str] = set()
        self._faults: list[Fault] = []
        self._lock = threading.RLock()
        self._ending = threading.Event()
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The API's address: `GOOGLE_CHAT_API_URL`."""
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def token_url(self) -> str:
        """What a key file's `token_uri` has to be."""
        return f"{self.url}/token"

    @property
    def certs_url(self) -> str:
        """The keys of add-on events: `GOOGLE_CHAT_CERTS_URL`."""
        return f"{self.url}/certs"

    @property
    def classic_certs_url(self) -> str:
        """The keys of classic events."""
        return f"{self.url}/certs/classic"

    @property
    def shown(self) -> list[Posted]:
        """The messages that people see now."""
        return [message for message in self.messages if not message.deleted]

    def write_key_file(self, path: Path) -> Path:
        """Writes the key file of an account that this server knows."""
        return google_keys.write_key_file(path, self.token_url)

    def fail(
        self,
        call: Call,
        times: int = 1,
        how: How = "error",
        status: int = 503,
        retry_after: str | None = None,
        response: Mapping[str, Any] | None = None,
    ) -> None:
        """Lets the next requests of a kind fail.

        Args:
            call: which.
            times: how many of them.
            how: answered with an error, without effect (`error`) or after it (`error_after`);
                cut off before or after the effect; silent likewise; a 200 that is no JSON,
                after the effect.
            status: of the error.
            retry_after: its `Retry-After`.
            response: the whole answer instead: `{http, headers, body}`.
        """
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        body: Any = _error(status, "trouble on demand")
        if response is not None:
            status, headers, body = response["http"], response["headers"], response["body"]
        with self._lock:
            self._faults.append(Fault(call, times, how, status, headers, body))

    def delete(self, id_: str) -> None:
        """A person deletes the message of that id."""
        with self._lock:
            self._find(None, id_).deleted = True

    def revoke_tokens(self) -> None:
        """No access token that was given out is good any more."""
        with self._lock:
            self._tokens.clear()

    def calls(self, call: str) -> list[Request]:
        """The requests of one kind, in order."""
        with self._lock:
            return [request for request in self.log if request.call == call]

    # -- one request ----------------------------------------------------------------------

    def handle(self, handler: _Handler, body: bytes) -> _Answer | None:
        """The answer to a request; None to cut it off."""
        url = urllib.parse.urlsplit(handler.path)
        query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
        call = _call(handler.command, url.path)
        fault = self._fault(call)
        if fault is not None and fault.how in ("error", "cut", "stall"):
            answer = None
        else:
            answer = self._answer(handler, call, url.path, query, body)
        answer = self._spoilt(fault, answer)
        told = _decoded(body)
        with self._lock:
            self.log.append(
                Request(
                    time.monotonic(),
                    call,
                    handler.command,
                    url.path,
                    query,
                    told,
                    0 if answer is None else answer.status,
                )
            )
        return answer

    def _fault(self, call: str) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.call == call and fault.left > 0:
                    fault.left -= 1
                    return fault
        return None

    def _spoilt(self, fault: Fault | None, answer: _Answer | None) -> _Answer | None:
        if fault is None:
            return answer
        if fault.how in ("error", "error_after"):
            return _Answer(fault.status, fault.body, fault.headers)
        if fault.how == "no_json":
            return _Answer(200, b"<html>")
        if fault.how.startswith("stall"):
            self._ending.wait(30.0)
        return None

    def _answer(
        self,
        handler: _Handler,
        call: str,
        path: str,
        query: Mapping[str, list[str]],
        body: bytes,
    ) -> _Answer:
        try:
            if call == "token":
                return self._token(body)
            if call == "certs":
                form = "classic" if path.endswith("/classic") else "addon"
                age = {"Cache-Control": f"public, max-age={self.max_age}, must-revalidate"}
                return _Answer(200, self.certificates[form], age)
            bearer = handler.headers.get("Authorization", "")
            if call == "download":
                return self._download(bearer, path, query)
            return self._api(bearer, call, path, query, body)
        except _Refusal as refusal:
            return refusal.answer

    def _token(self, body: bytes) -> _Answer:
        """An access token for a service account's signed word (RFC 7523)."""
        form = urllib.parse.parse_qs(body.decode())
        try:
            if form["grant_type"] != [GRANT]:
                raise ValueError("another grant")
            certificate = google_keys.certificate(google_keys.ACCOUNT)
            claims = jwt.decode(  # type: ignore[no-untyped-call]
                form["assertion"][0], certs=certificate, audience=[GOOGLE_TOKEN_URL, self.token_url]
            )
            if claims["iss"] != google_keys.ACCOUNT_EMAIL or claims["scope"].split() != [SCOPE]:
                raise ValueError("another account or scope")
        except (KeyError, ValueError) as error:
            with self._lock:
                self.violations.append(f"token: {type(error).__name__}")
            return _Answer(400, {"error": "invalid_grant"})
        with self._lock:
            token = f"access-{len(self.log)}-{len(self._tokens)}"
            self._tokens.add(token)
        return _Answer(200, {"access_token": token, "expires_in": 3_599, "token_type": "Bearer"})

    def _api(
        self, bearer: str, call: str, path: str, query: Mapping[str, list[str]], body: bytes
    ) -> _Answer:
        found = _NAME.fullmatch(urllib.parse.unquote(path))
        with self._lock:
            if found is None or call not in ("create", "get", "patch"):
                self.violations.append(f"no such call: {call} {path}")
                raise _Refusal(404, "no such call")
            if bearer.removeprefix("Bearer ") not in self._tokens:
                raise _Refusal(401, "Request had invalid authentication credentials.")
            told = _decoded(body)
            name = path.removeprefix("/v1/")
            wrong = violations(call, name.removesuffix("/messages"), query, told)
            self.violations += [f"{call}: {one}" for one in wrong]
            if wrong:
                raise _Refusal(400, "; ".join(wrong))
            space, id_ = found[1], found[2]
            if space in self.removed_from:
                raise _Refusal(403, "not a member")
            if space in self.gone:
                raise _Refusal(404, "no such space")
            if call == "create":
                return self._create(space, query, told)
            message = self._find(space, id_)
            if call == "patch":
                _check_size(told)
                mask = query["updateMask"][0].split(",")
                if "text" in mask:
                    message.text, message.markup = told["text"], told.get("markupSyntax", "")
                    message.texts.append(message.text)
                if "cardsV2" in mask:
                    message.cards = told["cardsV2"]
                message.edits += 1
            return _Answer(200, self._told(message))

    def _download(self, bearer: str, path: str, query: Mapping[str, list[str]]) -> _Answer:
        resource = urllib.parse.unquote(path.removeprefix("/v1/media/"))
        with self._lock:
            wrong = violations("download", resource, query, None)
            self.violations += [f"download: {one}" for one in wrong]
            if bearer.removeprefix("Bearer ") not in self._tokens:
                raise _Refusal(401, "Request had invalid authentication credentials.")
            if resource not in self.media:
                raise _Refusal(404, "no such media")
            return _Answer(200, self.media[resource])

    def _create(self, space: str, query: Mapping[str, list[str]], body: dict[str, Any]) -> _Answer:
        _check_size(body)
        number = len(self.messages) + 1
        request_id = query.get("requestId", [None])[0]
        id_ = query.get("messageId", [f"m{number}"])[0]
        before = self._by_id.get((space, id_))
        if before is not None and request_id and before.request_id == request_id:
            return _Answer(200, self._echo(before, body) if self.echo else self._told(before))
        if before is not None:
            raise _Refusal(409, "Message already exists")
        thread = body.get("thread", {}).get("name")
        if thread in self.gone:
            if query["messageReplyOption"] == ["REPLY_MESSAGE_OR_FAIL"]:
                raise _Refusal(404, "no such thread")
            thread = None
        posted = Posted(
            space,
            id_,
            f"{space}/messages/t{number}.t{number}",
            thread or f"{space}/threads/t{number}",
            body.get("text", ""),
            body.get("markupSyntax", ""),
            body.get("privateMessageViewer", {}).get("name"),
            request_id,
            body,
            cards=body.get("cardsV2", []),
            texts=[body.get("text", "")],
        )
        self.messages.append(posted)
        self._by_id[space, id_] = posted
        return _Answer(200, self._told(posted))

    def _find(self, space: str | None, id_: str) -> Posted:
        known = self._by_id.get((space or "", id_))
        for message in self.messages if known is None else [known]:
            own = id_ == message.id or message.name.endswith(f"/{id_}")
            if own and space in (None, message.space) and not message.deleted:
                return message
        raise _Refusal(404, "no such message")

    def _told(self, message: Posted) -> dict[str, Any]:
        text = re.sub(r"[*_`#]", "", message.text) if self.plain else message.text
        return {
            "name": message.name,
            "sender": {"name": "users/200000000000000000777", "type": "BOT"},
            "createTime": "2026-11-20T09:00:01.123456Z",
            "text": text,
            "formattedText": message.text,
            "thread": {"name": message.thread},
            "space": {"name": message.space},
            "clientAssignedMessageId": message.id,
        }

    def _echo(self, message: Posted, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "name": message.name}


def _check_size(body: dict[str, Any]) -> None:
    told = {key: body[key] for key in ("text", "cardsV2", "fallbackText") if key in body}
    if len(json.dumps(told, ensure_ascii=False).encode()) > LIMIT_BYTES + 64:
        raise _Refusal(400, f"Message is longer than the limit of {LIMIT_BYTES} bytes")
    if len(body.get("text", "").encode()) > LIMIT_BYTES:
        raise _Refusal(400, f"Message is longer than the limit of {LIMIT_BYTES} bytes")


def _call(method: str, path: str) -> str:
    if path.startswith("/certs"):
        return "certs"
    if path == "/token":
        return "token"
    if path.startswith("/v1/media/") and method == "GET":
        return "download"
    return {"POST": "create", "GET": "get", "PATCH": "patch"}.get(method, method)


def _error(status: int, message: str) -> dict[str, Any]:
    error = {"code": status, "status": _STATUS.get(status, "UNKNOWN"), "message": message}
    return {"error": error}


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, chat: ChatServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.chat = chat

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nothing to tell of."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def _handle(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size)
        if len(body) < size:  # its sender died in the middle of it
            self.close_connection = True
            return
        answer = self.server.chat.handle(self, body)
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        told = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _handle

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed; the requests stand in `ChatServer.log`."""
