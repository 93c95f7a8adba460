"""The plain HTTP routes beside turns: conversations, confirmations, search, health."""

from __future__ import annotations

import logging
from typing import Any, Literal

from flask import Blueprint, Response, request
from pydantic import BaseModel, ConfigDict, Field

from bot.http import views
from bot.http.answers import answer
from bot.http.auth import Authenticate
from bot.http.body import parse, read_bytes, read_json
from bot.http.problems import Problem, not_found
from bot.http.query import allow, bad_cursor, limit, order, sought
from bot.http.turns import RETRY_AFTER
from bot.mercury import Mercury
from bot.settling import Expired
from memory.errors import Conflict, NotFound
from memory.text import mend

log = logging.getLogger(__name__)


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
            log.warning("not ready: %s", why)  # anybody may ask; where the files are is not theirs
            told = why if why in ("starting", "ending") else "the archive cannot be used now"
            raise Problem(503, "not_ready", told, headers=RETRY_AFTER)
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
            raise bad_cursor(error, "after" if after else "before") from None
        return answer({"items": [views.message(m, name) for m in page.items], "next": page.next})

    @routes.post("/api/conversations/<name>/open")
    def open_conversation(name: str) -> Response:
        scope = authenticate(request)
        allow()
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
        allow()
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
        allow()
        items = [views.confirmation(one) for one in mercury.settling.waiting(scope.person)]
        return answer({"items": items, "next": None})

    @routes.post("/api/confirmations/<token>")
    def settle(token: str) -> Response:
        scope = authenticate(request)
        allow()
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
        query = sought()
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
