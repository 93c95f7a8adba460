"""The plain HTTP routes beside turns: conversations, confirmations, search, health."""

from __future__ import annotations

import json
from typing import Any, Literal

from flask import Blueprint, Response, request
from pydantic import BaseModel, ConfigDict, Field

from bot.http import views
from bot.http.auth import Authenticate
from bot.http.body import parse, read_bytes, read_json
from bot.http.problems import Problem
from bot.http.turns import RETRY_AFTER, not_found
from bot.mercury import Mercury
from bot.settling import Expired
from memory.errors import Conflict, NotFound
from memory.search import Order
from memory.text import mend


class TitleBody(BaseModel):
    """The body of `PATCH /api/conversations/{id}`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: str = Field(min_length=1, max_length=200)


class DecisionBody(BaseModel):
    """The body of `POST /api/confirmations/{token}`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    decision: Literal["confirm", "cancel"]


def blueprint(mercury: Mercury, authenticate: Authenticate) -> Blueprint:
    """Every route that is not a turn's."""
    routes = Blueprint("api", __name__)
    archive = mercury.stores.archive

    @routes.get("/healthz")
    def healthz() -> Response:
        return answer({"status": "alive"})

    @routes.get("/readyz")
    def readyz() -> Response:
        why = mercury.not_ready()
        if why:
            raise Problem(503, "not_ready", why, headers=RETRY_AFTER)
        return answer({"status": "ready"})

    @routes.get("/api/conversations")
    def conversations() -> Response:
        scope = authenticate(request)
        allow("limit", "cursor")
        try:
            page = archive.conversations(scope.owner, limit(), request.args.get("cursor"))
        except ValueError as error:
            raise bad_cursor(error) from None
        return answer({"items": [views.conversation(c) for c in page.items], "next": page.next})

    @routes.get("/api/conversations/<name>/messages")
    def messages(name: str) -> Response:
        scope = authenticate(request)
        allow("limit", "before", "after")
        before, after = request.args.get("before"), request.args.get("after")
        try:
            page = archive.messages(scope, name, before, after, limit())
        except NotFound:
            raise not_found() from None
        except ValueError as error:
            raise bad_cursor(error) from None
        return answer({"items": [views.message(m, name) for m in page.items], "next": page.next})

    @routes.post("/api/conversations/<name>/open")
    def open_conversation(name: str) -> Response:
        scope = authenticate(request)
        if request.content_length != 0 and read_bytes(request) and read_json(request) != {}:
            raise Problem(422, "unknown_field", "history comes from the archive only", "")
        try:
            found = archive.conversation(scope, name)
        except NotFound:
            raise not_found() from None
        history = mercury.histories.rebuild(found)
        page = archive.messages(scope, found.id)
        return answer(
            {
                "conversation": views.conversation(found),
                "items": [views.message(m, found.name) for m in page.items],
                "next": page.next,
                "history_chars": history.size,
            }
        )

    @routes.patch("/api/conversations/<name>")
    def rename(name: str) -> Response:
        scope = authenticate(request)
        body = parse(TitleBody, read_json(request))
        title = " ".join(mend(body.title).split())
        if not title:
            raise Problem(422, "invalid_field", "a title has visible characters", "/title")
        try:
            return answer(views.conversation(archive.rename(scope, name, title)))
        except NotFound:
            raise not_found() from None

    @routes.get("/api/confirmations")
    def confirmations() -> Response:
        scope = authenticate(request)
        items = [views.confirmation(one) for one in mercury.settling.waiting(scope.person)]
        return answer({"items": items, "next": None})

    @routes.post("/api/confirmations/<token>")
    def settle(token: str) -> Response:
        scope = authenticate(request)
        body = parse(DecisionBody, read_json(request))
        try:
            settled = mercury.settling.by_token(scope.person, token, body.decision)
        except NotFound:
            raise not_found() from None
        except Expired:
            raise Problem(410, "expired", "this confirmation is over") from None
        except Conflict as conflict:
            raise Problem(409, conflict.state, "it stands otherwise now") from None
        found = settled.confirmation
        told: dict[str, Any] = {"id": found.id, "state": found.state, "outcome": found.outcome}
        return answer({**told, "already": True} if settled.already else told)

    @routes.get("/api/archive/search")
    def search() -> Response:
        scope = authenticate(request)
        allow("q", "limit", "cursor", "order")
        query = request.args.get("q", "")
        if not query.strip() or len(query) > 1_000:
            raise Problem(422, "invalid_field", "q holds 1 to 1,000 characters", "/q")
        try:
            page = archive.search(scope, query, limit(), order(), cursor=request.args.get("cursor"))
        except ValueError as error:
            raise bad_cursor(error) from None
        names = {m.conversation: m.conversation for m in page.items}
        for id_ in names:
            names[id_] = archive.conversation(scope, id_).name
        items = [views.message(m, names[m.conversation]) for m in page.items]
        return answer({"items": items, "next": page.next})

    return routes


def allow(*names: str) -> None:
    """Refuses query parameters that the route does not know, and doubled ones."""
    for name in request.args:
        if name not in names:
            raise Problem(
                422, "unknown_field", f"there is no parameter {name[:64]!r}", f"/{name[:64]}"
            )
        if len(request.args.getlist(name)) > 1:
            raise Problem(422, "invalid_field", f"{name} was given twice", f"/{name}")


def limit() -> int:
    """The `limit` of a list, 1 to 200, 50 without one."""
    text = request.args.get("limit", "50")
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:4]) <= 200:
        raise Problem(422, "invalid_field", "limit is a number from 1 to 200", "/limit")
    return int(text)


def order() -> Order:
    """The `order` of a search."""
    text = request.args.get("order", "best")
    if text not in ("best", "newest"):
        raise Problem(422, "invalid_field", "order is best or newest", "/order")
    return "best" if text == "best" else "newest"


def bad_cursor(error: ValueError) -> Problem:
    """A cursor that the list did not give out."""
    return Problem(422, "invalid_field", str(error), "/cursor")


def answer(value: dict[str, Any]) -> Response:
    """A JSON answer."""
    return Response(json.dumps(value, ensure_ascii=False), content_type="application/json")
