"""A scripted OpenAI-compatible model server: real sockets, every answer and every failure.

    python -m tests.fakes.model_server [--port N] [--script FILE] [--slow SECONDS]

serves until it is ended, and prints its base URL as the first line. Without a script it echoes.
FILE is a JSON list of answers, given in order, the last one for ever:

    "echo" · "unknown_tool" · "malformed_arguments" · "context_length_exceeded" · "html" ·
    "empty" · "malformed" · "endless_calls" · "never" · {"text": "…", "pieces": 3,
    "cut_after": 1} · {"call": "archive_search", "arguments": {…}} · {"status": 503,
    "headers": {…}} · {"huge": 50000000}
"""

from __future__ import annotations

import argparse
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Chunk = dict[str, Any]
HANG_S = 60.0
"""How long a held answer hangs at most, so that a forgotten event ends no test run."""


@dataclass
class Reply:
    """One answer of the script.

    `chunks` are streamed one by one; `raw` are events' texts in their place; `cut_after` closes
    the connection after that many. `pace` gives one permit a chunk; `hold` is waited for before
    the last. `silent` takes the request and never answers. `end=False` leaves the stream open
    after the last chunk. `body`, or a `status` other than 200, is sent instead of a stream.
    """

    chunks: list[Chunk] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    cut_after: int | None = None
    hold: threading.Event | None = None
    pace: threading.Semaphore | None = None
    silent: bool = False
    raw: Iterable[str] | None = None
    end: bool = True
    seconds: float = 0.0


Rule = Callable[[dict[str, Any]], Reply]
Script = list[Reply | Rule] | Rule


# -- answers --------------------------------------------------------------------------------


def text(words: str, pieces: int = 3, finish: str | None = "stop") -> Reply:
    """A text in a few pieces."""
    return Reply([*[delta(content=piece) for piece in _cut(words, pieces)], delta(finish=finish)])


def call(name: str, arguments: str, id_: str | None = "call_1", pieces: int = 2) -> Reply:
    """A tool call whose arguments come in pieces."""
    first = {"index": 0, "id": id_, "type": "function", "function": {"name": name, "arguments": ""}}
    rest = [{"index": 0, "function": {"arguments": piece}} for piece in _cut(arguments, pieces)]
    chunks = [delta(tool_calls=[piece]) for piece in [first, *rest]]
    return Reply([*chunks, delta(finish="tool_calls")])


def status(
    code: int,
    message: str = "scripted",
    headers: dict[str, str] | None = None,
    error_code: str | None = None,
) -> Reply:
    """An error of the server."""
    body = {"error": {"message": message, "type": "scripted", "code": error_code}}
    return Reply(status=code, body=json.dumps(body), headers=headers or {})


def context_length_exceeded() -> Reply:
    """The refusal of a prompt that does not fit."""
    said = "This model's maximum context length is 8192 tokens. Please reduce the length."
    return status(400, said, error_code="context_length_exceeded")


def html() -> Reply:
    """A web page with status 200, as a captive portal or a wrong URL gives it."""
    return Reply(body="<html><body>Welcome</body></html>", headers={"Content-Type": "text/html"})


def empty() -> Reply:
    """A well-formed stream that says nothing."""
    return Reply([delta(finish="stop")])


def malformed() -> Reply:
    """A stream with an event that is no JSON."""
    return Reply(raw=[json.dumps(delta(content="half")), '{"choices": [{"delta"'])


def never() -> Reply:
    """The request is taken and never answered."""
    return Reply(silent=True)


def huge(chars: int, piece: int = 10_000) -> Reply:
    """A text of that many characters, never whole in memory here."""
    event = json.dumps(delta(content="x" * piece))
    return Reply(raw=(event for _ in range(chars // piece)))


def unknown_tool() -> Reply:
    """A call of a tool that nobody offered."""
    return call("no_such_tool", "{}")


def malformed_arguments(name: str = "archive_search") -> Reply:
    """A call whose arguments break off."""
    return call(name, '{"query": "x')


def endless_calls(name: str = "archive_search", arguments: str = '{"query": "x"}') -> Rule:
    """Another tool call on every request."""

    def rule(request: dict[str, Any]) -> Reply:
        return call(name, arguments, f"call_{len(request['messages'])}")

    return rule


def echo(request: dict[str, Any]) -> Reply:
    """`You said: <the last message of a person>`."""
    said = [m["content"] for m in request.get("messages", []) if m.get("role") == "user"]
    return text(f"You said: {said[-1] if said else ''}")


def delta(content: str | None = None, tool_calls: Any = None, finish: str | None = None) -> Chunk:
    """One chunk of a stream."""
    inner: dict[str, Any] = {}
    if content is not None:
        inner["content"] = content
    if tool_calls is not None:
        inner["tool_calls"] = tool_calls
    choice = {"index": 0, "delta": inner, "finish_reason": finish}
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    return {**head, "choices": [choice]}


def read_script(written: list[Any]) -> list[Reply | Rule]:
    """The script of a JSON file; see the module.

    Raises:
        ValueError: an entry is none of the known ones.
    """
    return [_entry(entry) for entry in written]


def _entry(entry: Any) -> Reply | Rule:
    named: dict[str, Callable[[], Reply | Rule]] = {
        "echo": lambda: echo,
        "unknown_tool": unknown_tool,
        "malformed_arguments": malformed_arguments,
        "context_length_exceeded": context_length_exceeded,
        "html": html,
        "empty": empty,
        "malformed": malformed,
        "endless_calls": endless_calls,
        "never": never,
    }
    if isinstance(entry, str) and entry in named:
        return named[entry]()
    if isinstance(entry, dict) and "text" in entry:
        reply = text(entry["text"], entry.get("pieces", 3))
        reply.cut_after = entry.get("cut_after")
        return reply
    if isinstance(entry, dict) and "call" in entry:
        return call(entry["call"], json.dumps(entry.get("arguments", {})))
    if isinstance(entry, dict) and "status" in entry:
        return status(entry["status"], headers=entry.get("headers"), error_code=entry.get("code"))
    if isinstance(entry, dict) and "huge" in entry:
        return huge(entry["huge"])
    raise ValueError(f"not an answer: {entry!r}")


def _cut(words: str, pieces: int) -> list[str]:
    size = max(1, -(-len(words) // pieces))
    return [words[at : at + size] for at in range(0, len(words), size)] or [""]


# -- the server -----------------------------------------------------------------------------


class ModelServer:
    """The server; use it in a `with`.

    `requests` are the parsed bodies, `headers` theirs (names in lower case), `violations` what
    was wrong with them, `connections` how many were opened.

    Args:
        script: answers in order, the last one for ever; or a function of the request.
        port: 0 takes a free one.
    """

    def __init__(self, script: Script = echo, port: int = 0) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.violations: list[str] = []
        self.connections = 0
        self.ending = threading.Event()
        self.open: set[socket.socket] = set()
        self._changed = threading.Condition()
        outer = self

        class Handler(_Handler):
            server_of = outer

        self._http = _Server(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL for `MODEL_URL`."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self._http.shutdown()
        with self._changed:
            for connection in self.open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()
        self._thread.join()

    def wait_for(self, count: int, seconds: float = 20.0) -> None:
        """Waits until that many requests have come.

        Raises:
            TimeoutError: they have not, in that time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, seconds):
                raise TimeoutError(f"{len(self.requests)} requests, wanted {count}")

    def opened(self, connection: socket.socket) -> None:
        """Notes a new connection."""
        with self._changed:
            self.connections += 1
            self.open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        """Notes that a connection has ended."""
        with self._changed:
            self.open.discard(connection)
            self._changed.notify_all()

    def reply_to(self, request: dict[str, Any], headers: dict[str, str]) -> Reply:
        """The reply for a request, which is recorded and checked."""
        with self._changed:
            self.requests.append(request)
            self.headers.append(headers)
            self.violations += check(request)
            self._changed.notify_all()
            step: Reply | Rule
            if callable(self.script):
                step = self.script
            else:
                step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return step(request) if callable(step) else step


def check(request: dict[str, Any]) -> list[str]:
    """What is wrong with a request by OpenAI's rules for chat messages."""
    found = [] if request.get("stream") is True else ["no stream"]
    open_calls: set[str] = set()
    for message in request.get("messages", []):
        role = message.get("role")
        if role not in ("system", "user", "assistant", "tool"):
            found.append(f"role {role!r}")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                found.append("a tool message without its call")
            open_calls.discard(message.get("tool_call_id"))
        elif open_calls:
            found.append("a call without its tool message")
            open_calls = set()
        for one in message.get("tool_calls") or ():
            open_calls.add(one["id"])
            try:
                json.loads(one["function"]["arguments"])
            except ValueError:
                found.append("arguments that are no JSON")
        if role in ("system", "user") and not isinstance(message.get("content"), str):
            found.append(f"{role} without text")
    if open_calls:
        found.append("a call without its tool message")
    return found


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: clients that go away are a part of the trials."""


class _Handler(BaseHTTPRequestHandler):
    server_of: ModelServer
    protocol_version = "HTTP/1.1"
    timeout = HANG_S
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server_of.opened(self.connection)

    def finish(self) -> None:
        self.server_of.closed(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "fake", "object": "model"}]}
        self._send_body(200, json.dumps(models), {})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server_of.reply_to(request, headers)
        try:
            self._send(reply, request.get("stream") is True)
        except OSError:
            self.close_connection = True

    def _send(self, reply: Reply, stream: bool) -> None:
        if reply.seconds:
            time.sleep(reply.seconds)
        if reply.silent:
            self._wait(reply.hold or threading.Event())
            self._drop()
        elif reply.status != 200 or reply.body:
            self._send_body(reply.status, reply.body, reply.headers)
        elif not stream:
            self._send_body(200, json.dumps(whole(reply.chunks)), reply.headers)
        else:
            self._stream(reply)

    def _send_body(self, code: int, body: str, headers: dict[str, str]) -> None:
        data = body.encode()
        sent = {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}
        self.send_response(code)
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, reply: Reply) -> None:
        sent = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
        self.send_response(200)
        for name, value in {**sent, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        events = reply.raw if reply.raw is not None else [json.dumps(c) for c in reply.chunks]
        last = len(reply.chunks) - 1
        for n, event in enumerate(events):
            if reply.cut_after is not None and n >= reply.cut_after:
                self._drop()
                return
            if reply.pace is not None:
                self._wait_for_permit(reply.pace)
            if reply.hold is not None and n == last:
                self._wait(reply.hold)
            self._chunk(f"data: {event}\n\n".encode())
        if not reply.end:
            self._wait(threading.Event())
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _wait(self, event: threading.Event) -> None:
        until = time.monotonic() + HANG_S
        while not (event.wait(0.02) or self.server_of.ending.is_set()):
            if time.monotonic() > until:
                return

    def _wait_for_permit(self, pace: threading.Semaphore) -> None:
        until = time.monotonic() + HANG_S
        while not (pace.acquire(timeout=0.02) or self.server_of.ending.is_set()):
            if time.monotonic() > until:
                return

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def whole(chunks: list[Chunk]) -> dict[str, Any]:
    """The completion that a stream's chunks make, for a request that does not stream."""
    content, finish = "", None
    calls: list[dict[str, Any]] = []
    for chunk in chunks:
        choice = chunk["choices"][0]
        content += choice["delta"].get("content") or ""
        finish = choice["finish_reason"] or finish
        for piece in choice["delta"].get("tool_calls") or ():
            if piece.get("id") or not calls:
                calls.append({"id": piece.get("id"), "type": "function",
                              "function": {"name": "", "arguments": ""}})  # fmt: skip
            calls[-1]["function"]["name"] += piece["function"].get("name") or ""
            calls[-1]["function"]["arguments"] += piece["function"].get("arguments") or ""
    message: dict[str, Any] = {"role": "assistant", "content": content or None}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": finish}
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "fake"}
    return {**head, "choices": [choice]}


def main() -> None:
    """Serves a script until it is ended."""
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible model server.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--script", type=Path, help="a JSON list of answers; echoes without one")
    parser.add_argument("--slow", type=float, default=0.0, help="seconds before each answer")
    given = parser.parse_args()
    script: Script = echo
    if given.script:
        script = read_script(json.loads(given.script.read_text(encoding="utf-8")))
    with ModelServer(script, given.port) as server:
        if given.slow:
            server.script = _slowly(server, script, given.slow)
        print(server.url, flush=True)
        threading.Event().wait()


def _slowly(server: ModelServer, script: Script, seconds: float) -> Script:
    """The script, each answer of which waits first."""

    def slowed(step: Reply | Rule) -> Rule:
        def rule(request: dict[str, Any]) -> Reply:
            server.ending.wait(seconds)
            return step(request) if callable(step) else step

        return rule

    return slowed(script) if callable(script) else [slowed(step) for step in script]


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
