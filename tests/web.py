"""A Mercury behind Flask's test client, the people who have tokens for it, and their streams."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from werkzeug.test import TestResponse

from bot.chat.deliver import ChatDelivery
from bot.http.app import flask_app
from bot.http.gate import Gate
from bot.logs import QUIET
from bot.mercury import Mercury
from bot.model import Piece, Prompt, ToolSpec
from bot.stop import Stop

WAIT_S = 20.0


class Web:
    """The application over a Mercury."""

    def __init__(self, mercury: Mercury, local_key: str = "") -> None:
        self.mercury = mercury
        self.app = flask_app(mercury, local_key)
        self.gate: Gate = self.app.extensions["mercury.gate"]

    def person(self, name: str) -> Person:
        """Somebody with a fresh token: `alice` is `http:alice`, an id stays itself."""
        id_ = name if ":" in name else f"http:{name}"
        return Person(self, id_, self.mercury.stores.tokens.new(id_, "trial", None)[1])

    def request(self, method: str, path: str, **given: Any) -> TestResponse:
        """A request without a token."""
        return self.app.test_client().open(path, method=method, **given)


class Person:
    """One person's requests."""

    def __init__(self, web: Web, id_: str, token: str) -> None:
        self.web = web
        self.id = id_
        self.token = token

    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, **given: Any
    ) -> TestResponse:
        """A request with the person's token."""
        told = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return self.web.request(method, path, headers=told, **given)

    def get(self, path: str, **headers: str) -> TestResponse:
        """GET; header names are written with `_`."""
        return self.request("GET", path, _named(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> TestResponse:
        """POST of a JSON body, or of none."""
        given = {} if body is None else {"json": body}
        return self.request("POST", path, _named(headers), **given)

    def turn(self, text: str, conversation: str | None = "c", **headers: str) -> TestResponse:
        """POST /api/turn."""
        body = {"text": text} | ({} if conversation is None else {"conversation": conversation})
        return self.post("/api/turn", body, **headers)

    def say(self, text: str, conversation: str | None = "c") -> dict[str, Any]:
        """The JSON of a whole turn."""
        response = self.turn(text, conversation)
        assert response.status_code == 200, response.get_data(as_text=True)
        found: dict[str, Any] = response.get_json()
        return found

    def begin(self, text: str, conversation: str | None = "c", **headers: str) -> Stream:
        """A turn as a stream that is read piece by piece."""
        return Stream(self.turn(text, conversation, Accept="text/event-stream", **headers))

    def again(self, turn: str, last: str | None = None) -> Stream:
        """The stream of a turn, from the beginning or after an event's id."""
        headers = {} if last is None else {"Last-Event-ID": last}
        return Stream(self.request("GET", f"/api/turns/{turn}/events", headers))


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream; a comment has the kind `:`."""

    id: str
    kind: str
    data: Any


class Stream:
    """A response that is read event by event."""

    def __init__(self, response: TestResponse) -> None:
        self.response = response
        self._events = read_events(response.iter_encoded())

    def next(self) -> Event:
        """The next event.

        Raises:
            StopIteration: the stream has ended.
        """
        return next(self._events)

    def until(self, kind: str) -> list[Event]:
        """The events up to the first of that kind, which is the last of them."""
        found: list[Event] = []
        while not found or found[-1].kind != kind:
            found.append(self.next())
        return found

    def rest(self) -> list[Event]:
        """Everything that is still to come; the response is closed then."""
        found = list(self._events)
        self.response.close()
        return found

    def leave(self) -> None:
        """The client goes away."""
        self.response.close()


def close_chat(mercury: Mercury) -> None:
    """Closes the connections to Google Chat that a Mercury keeps open."""
    for delivery in mercury.chat.values():
        assert isinstance(delivery, ChatDelivery)
        delivery.close()


def lose_archive(mercury: Mercury) -> None:
    """The archive is as one that was found damaged: every call of it fails from now on."""
    mercury.stores.database.__dict__["_damage"] = f"{mercury.settings.archive_path} is damaged"


@contextmanager
def kept_logging() -> Iterator[None]:
    """Puts logging back as it was, whatever a command sets up in this process."""
    root = logging.getLogger()
    kept = root.level, list(root.handlers), sys.excepthook, threading.excepthook
    levels = {name: logging.getLogger(name).level for name in QUIET}
    try:
        yield
    finally:
        root.level, root.handlers, sys.excepthook, threading.excepthook = kept
        root.setLevel(kept[0])
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def read_events(pieces: Iterable[bytes]) -> Iterator[Event]:
    """The events in a stream's bytes, however they are cut."""
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + piece.decode()).split("\n\n")
        yield from map(_event, whole)
    assert rest == "", f"the stream ends within an event: {rest!r}"


def _event(block: str) -> Event:
    if block.startswith(":"):
        return Event("", ":", block)
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    assert list(fields) == ["id", "event", "data"], block
    return Event(fields["id"], fields["event"], json.loads(fields["data"]))


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


class Paced:
    """A model that gives its pieces one by one, each when it is let.

    Args:
        script: the pieces of each answer; the last answer is given for ever. In the place of a
            piece, `None` waits for a permit and an exception is raised.
    """

    name = "paced"

    def __init__(self, *script: Sequence[Piece | Exception | None]) -> None:
        self._script = list(script)
        self._permits = threading.Semaphore(0)
        self.asked = 0

    def go(self, permits: int = 1) -> None:
        """Lets as many waits end."""
        self._permits.release(permits)

    def stream(self, prompt: Prompt, tools: Sequence[ToolSpec], stop: Stop) -> Iterator[Piece]:
        self.asked += 1
        for piece in self._script.pop(0) if len(self._script) > 1 else self._script[0]:
            if isinstance(piece, Exception):
                raise piece
            if piece is not None:
                yield piece
                continue
            until = time.monotonic() + WAIT_S
            while not self._permits.acquire(timeout=0.01):
                stop.check()
                assert time.monotonic() < until, "no permit came"
