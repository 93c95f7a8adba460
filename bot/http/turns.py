"""`/api/turn` and `/api/turns/…`: one turn as JSON or as a stream of events.

A client that goes away does not stop its turn, and one that comes back finds it again. What is
streamed lives in the process; what is answered stands in the archive.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from flask import Blueprint, Request, Response, request
from pydantic import BaseModel, ConfigDict, Field

from bot import words
from bot.confirm import TypedCode, typed_code
from bot.http import views
from bot.http.answers import answer
from bot.http.auth import Authenticate
from bot.http.body import parse, read_json
from bot.http.gate import Gate
from bot.http.problems import Problem, not_found, problem_of
from bot.http.query import allow
from bot.mercury import Mercury
from bot.scope import Scope
from bot.streams import Event, Live
from memory.errors import Conflict, Mismatch, NotFound, StoreDown
from memory.records import Message
from memory.text import mend
from memory.turn_rows import Accepted, Incoming, Turn

HEARTBEAT_S = 15.0
POLL_S = 0.5
RETRY_AFTER = {"Retry-After": "2"}
ENDED = ("done", "cancelled", "set_aside")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_PLACE = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})")


class TurnBody(BaseModel):
    """The body of `POST /api/turn`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str
    conversation: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,64}$")


def blueprint(mercury: Mercury, authenticate: Authenticate, gate: Gate) -> Blueprint:
    """The routes of turns."""
    routes = Blueprint("turns", __name__)
    turns = _Turns(mercury, gate)

    @routes.post("/api/turn")
    def post_turn() -> Response:
        scope = authenticate(request)
        allow()
        return turns.post(scope, request)

    @routes.get("/api/turns/<turn>")
    def get_turn(turn: str) -> Response:
        scope = authenticate(request)
        allow()
        return turns.get(scope, turn)

    @routes.get("/api/turns/<turn>/events")
    def get_events(turn: str) -> Response:
        scope = authenticate(request)
        allow()
        return turns.events(scope, turn, request.headers.get("Last-Event-ID"))

    @routes.delete("/api/turns/<turn>")
    def delete_turn(turn: str) -> Response:
        scope = authenticate(request)
        allow()
        return turns.cancel(scope, turn)

    return routes


class _Turns:
    def __init__(self, mercury: Mercury, gate: Gate) -> None:
        self._mercury = mercury
        self._engine = mercury.engine
        self._streams = mercury.streams
        self._turns = mercury.stores.turns
        self._accepting = mercury.stores.accepting
        self._gate = gate

    # -- requests ---------------------------------------------------------------------------

    def post(self, scope: Scope, given: Request) -> Response:
        body = parse(TurnBody, read_json(given))
        streaming = wants_stream(given)
        text = mend(body.text)
        event = self._event(scope, given)
        if typed := typed_code(text):
            told = self._once(event, lambda: self._typed_code(scope, body.conversation, typed))
            return _streamed([sse("0.1", "answer", told)]) if streaming else answer(told)
        incoming = Incoming(
            event=event, channel=scope.kind,  # type: ignore[arg-type]
            person=scope.person, owner=scope.owner, kind=scope.kind, space=None,
            name=scope.person.partition(":")[2], text=text, conversation=body.conversation,
            hash=hash_of(body),
        )  # fmt: skip
        with self._place() as place:
            accepted = self._accept(incoming)
            if streaming:
                return self._stream(scope, accepted, None, place.pop_all())
            return self._json(scope, accepted)

    def get(self, scope: Scope, turn_id: str) -> Response:
        turn = self._own(scope, turn_id)
        return answer(self._state(scope, turn))

    def events(self, scope: Scope, turn_id: str, last: str | None) -> Response:
        after = None
        if last is not None:
            match = _PLACE.fullmatch(last)
            if match is None:
                raise Problem(400, "bad_event_id", "Last-Event-ID is none that this stream gave")
            after = (int(match[1]), int(match[2]))
        turn = self._own(scope, turn_id)
        with self._place() as place:
            return self._stream(scope, self._accepting.accepted(turn.id), after, place.pop_all())

    def cancel(self, scope: Scope, turn_id: str) -> Response:
        try:
            turn = self._engine.cancel(turn_id, scope.owner)
        except NotFound:
            raise not_found() from None
        except Conflict as conflict:
            raise Problem(409, "already_ended", f"the turn is {conflict.state}") from None
        return answer({"turn": turn.id, "state": "cancelled"}, 202)

    # -- accepting --------------------------------------------------------------------------

    def _place(self) -> ExitStack:
        """A place at the gate, which is left when the stack is closed."""
        if self._engine.ending or not self._gate.enter():
            raise Problem(503, "busy", "too many turns are open now", headers=RETRY_AFTER)
        place = ExitStack()
        place.callback(self._gate.leave)
        return place

    def _event(self, scope: Scope, given: Request) -> str:
        key = given.headers.get("Idempotency-Key")
        if key is None:
            return f"http:{scope.person}::{secrets.token_urlsafe(12)}"
        if not _KEY.fullmatch(key):
            raise Problem(
                400, "bad_idempotency_key", "Idempotency-Key has 1 to 255 visible ASCII characters"
            )
        return f"http:{scope.person}:{key}"

    def _accept(self, incoming: Incoming) -> Accepted:
        try:
            return self._engine.accept(incoming)
        except Mismatch:
            raise mismatch() from None
        except NotFound:
            raise not_found() from None
        except Conflict:
            raise read_only() from None
        except StoreDown:
            raise Problem(
                503, "not_stored", "the message could not be stored", headers=RETRY_AFTER
            ) from None

    def _once(self, event: str, settle: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What came of a typed code, which the same request again is told without another try."""
        known = self._accepting.noted(event)
        if known is not None and known[0] != "code":
            raise mismatch()
        if known is not None:
            return known[1]
        told = settle()
        self._accepting.note_event(event, "http", "code", json.dumps(told))
        return told

    def _typed_code(
        self, scope: Scope, conversation: str | None, typed: TypedCode
    ) -> dict[str, Any]:
        reply, name = words.NOTHING_TO_CONFIRM, conversation or ""
        try:
            if conversation is not None:
                found = self._mercury.stores.archive.conversation(scope, conversation)
                if not found.writable:
                    raise read_only()
                name = found.name
                reply = self._mercury.settling.by_code(scope.person, found.key, typed)
        except NotFound:
            if name.startswith("cv_"):
                raise not_found() from None
        shown = views.turn("", name, "", None, False, {}, [])
        return {**shown, "turn": None, "message": None, "conversation": conversation and name,
                "answer": reply}  # fmt: skip

    # -- the outcome ------------------------------------------------------------------------

    def _json(self, scope: Scope, accepted: Accepted) -> Response:
        if self._wait(accepted, self._mercury.settings.turn_timeout_s):
            return answer(self._result(scope, accepted))
        return answer(
            {"turn": accepted.turn, "conversation": accepted.conversation,
             "state": self._own(scope, accepted.turn).state},
            202, {"Location": f"/api/turns/{accepted.turn}"},
        )  # fmt: skip

    def _wait(self, accepted: Accepted, seconds: float) -> bool:
        """Waits for the end of the turn, here or in another process."""
        if not accepted.new and self._turns.get(accepted.turn).state in ENDED:
            return True
        live = self._streams.open(accepted.turn)
        left = seconds
        while left > 0 and not self._engine.drained:
            pause = min(POLL_S, left)
            if live.wait_end(pause):
                return True
            left -= pause
            if self._turns.get(accepted.turn).state in ENDED:
                self._streams.close(accepted.turn)
                return True
        return live.ended

    def _result(self, scope: Scope, accepted: Accepted) -> dict[str, Any]:
        live = self._streams.find(accepted.turn)
        answer: Message | None
        if live is not None and live.outcome is not None:
            answer, extras, cancelled = live.outcome.answer, live.outcome.extras, False
        else:
            turn, answer = self._turns.result(accepted.turn)
            extras, cancelled = turn.extras, turn.state == "cancelled"
        confirmations = (
            self._mercury.settling.of_turn(accepted.turn) if extras.get("confirmations") else []
        )
        return views.turn(
            accepted.turn, accepted.conversation, accepted.message, answer, cancelled, extras,
            confirmations,
        )  # fmt: skip

    def _own(self, scope: Scope, turn_id: str) -> Turn:
        try:
            return self._turns.get(turn_id, scope.owner)
        except NotFound:
            raise not_found() from None

    def _state(self, scope: Scope, turn: Turn) -> dict[str, Any]:
        accepted = self._accepting.accepted(turn.id)
        state = {"turn": turn.id, "conversation": accepted.conversation, "state": turn.state}
        return {**self._result(scope, accepted), **state} if turn.state in ENDED else state

    # -- the stream -------------------------------------------------------------------------

    def _stream(
        self, scope: Scope, accepted: Accepted, after: tuple[int, int] | None, place: ExitStack
    ) -> Response:
        response = _streamed(self._bytes(scope, accepted, after))
        response.call_on_close(place.close)
        return response

    def _bytes(
        self, scope: Scope, accepted: Accepted, after: tuple[int, int] | None
    ) -> Iterator[bytes]:
        """The edge of a stream: what goes wrong once it has begun is its last event."""
        last = f"{after[0]}.{after[1]}" if after else "0.0"
        try:
            for event in self._events(scope, accepted, after):
                if event is None:
                    yield b": still here\n\n"
                    continue
                last = event[0]
                yield sse(*event)
        except Exception as error:  # noqa: BLE001  # the status has been sent
            yield sse(last, "error", problem_of(error).body())

    def _events(
        self, scope: Scope, accepted: Accepted, after: tuple[int, int] | None
    ) -> Iterator[tuple[str, str, dict[str, Any]] | None]:
        """Id, kind and data of each event; None where only a sign of life is due."""
        place = after or (0, 0)
        if after is None:
            yield "0.0", "accepted", {
                "turn": accepted.turn, "conversation": accepted.conversation,
                "message": accepted.message,
            }  # fmt: skip
        if self._turns.get(accepted.turn).state in ENDED and not self._streams.find(accepted.turn):
            yield from self._told_again(scope, accepted, place)
            return
        live = self._streams.open(accepted.turn)
        self._streams.relay.follow(live)
        try:
            yield from self._watched(scope, accepted, live, place)
        finally:
            self._streams.relay.leave(live)

    def _watched(
        self, scope: Scope, accepted: Accepted, live: Live, place: tuple[int, int]
    ) -> Iterator[tuple[str, str, dict[str, Any]] | None]:
        """The events of a turn while it runs, here or elsewhere."""
        silent = 0.0
        while True:
            events, lost, ended = live.after(place, POLL_S)
            if lost and not (events and events[0].kind == "reset"):
                yield f"{events[0].attempt}.0" if events else "0.0", "reset", {}
            for event in events:
                yield event.id, event.kind, self._data(scope, event)
                place = (event.attempt, event.n)
            silent = 0.0 if events else silent + POLL_S
            if ended:
                yield f"{place[0]}.{place[1] + 1}", "answer", self._result(scope, accepted)
                return
            if self._engine.drained:
                return
            if not events and self._turns.get(accepted.turn).state in ENDED:
                self._streams.close(accepted.turn)
                yield from self._told_again(scope, accepted, place)
                return
            if silent >= HEARTBEAT_S:
                silent = 0.0
                yield None

    def _told_again(
        self, scope: Scope, accepted: Accepted, place: tuple[int, int]
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """The events of a turn whose own are gone: the whole answer at once."""
        result = self._result(scope, accepted)
        attempt = place[0] + 1
        if place != (0, 0):
            yield f"{attempt}.0", "reset", {}
        if result["answer"]:
            yield f"{attempt}.1", "text", {"delta": result["answer"]}
        yield f"{attempt}.2", "answer", result

    def _data(self, scope: Scope, event: Event) -> dict[str, Any]:
        if event.kind != "confirmation":
            return event.data
        found = self._mercury.stores.confirmations.get(event.data["id"], scope.person)
        return views.confirmation(self._mercury.settling.shown(found, with_token=True))


def wants_stream(given: Request) -> bool:
    """Whether the client asks for `text/event-stream`.

    Raises:
        Problem: 406, it accepts neither that nor JSON.
    """
    accept = given.accept_mimetypes
    best = accept.best_match(["application/json", "text/event-stream"])
    if accept and best is None:
        raise Problem(406, "not_acceptable", "JSON and text/event-stream can be had")
    return best == "text/event-stream"


def hash_of(body: TurnBody) -> str:
    """What tells two bodies under one Idempotency-Key apart."""
    whole = json.dumps([body.text, body.conversation])
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def sse(id_: str, kind: str, data: dict[str, Any]) -> bytes:
    """One event of a stream (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""
    return f"id: {id_}\nevent: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def mismatch() -> Problem:
    """An Idempotency-Key stands for one body."""
    return Problem(
        422, "idempotency_mismatch", "this Idempotency-Key came with another body before"
    )


def read_only() -> Problem:
    """A conversation of Google Chat is written to in Google Chat."""
    return Problem(409, "read_only_here", "this conversation is read only here")


def _streamed(events: Iterable[bytes]) -> Response:
    response = Response(events, content_type="text/event-stream; charset=utf-8")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response
