"""`/api/wiki/…`: the notes as a person sees them.

Everywhere a path is `curated/…` or `mine/…`, and `mine/…` when it names neither; nobody else's
notes are there. What is read is shaped here, what is changed goes to `wiki_changes`.
"""

from __future__ import annotations

import re
from typing import Any

from flask import Blueprint, Response, request
from pydantic import BaseModel, ConfigDict, Field

from bot.http.answers import answer, nothing
from bot.http.auth import Authenticate
from bot.http.body import parse, read_json
from bot.http.paging import page
from bot.http.preconditions import etag, is_known
from bot.http.problems import Problem
from bot.http.query import allow, limit, sought
from bot.http.wiki_changes import WikiChanges
from bot.http.wiki_refusals import place_of, refused
from bot.mercury import Mercury
from bot.notes import Notes, access_of
from bot.tools import rfc3339
from wiki import note, paths
from wiki.paths import CURATED, MINE, Access, Place
from wiki.repository import Version
from wiki.search import Hit, Listed
from wiki.vault import LOOK_BACK

COMMIT = r"^[0-9A-Fa-f]{7,40}$"
_OTHERS = re.compile(r"people/[^/\n]+/[^\n]+?\.md(?= to | by |\n|\Z)")
"""A note of somebody's in a commit's message, as when an operator moved it."""


class TextBody(BaseModel):
    """The body of `PUT /api/wiki/notes/{path}`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str


class RestoreBody(BaseModel):
    """The body of `POST /api/wiki/restore`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    path: str
    commit: str = Field(pattern=COMMIT)


class PromoteBody(BaseModel):
    """The body of `POST /api/wiki/promote`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    path: str
    to: str


def blueprint(mercury: Mercury, authenticate: Authenticate) -> Blueprint:
    """The routes of the wiki."""
    routes = Blueprint("wiki", __name__, url_prefix="/api/wiki")
    notes, vault = mercury.notes, mercury.notes.vault
    changes = WikiChanges(mercury)

    @routes.get("/notes")
    def list_notes() -> Response:
        access = access_of(authenticate(request))
        allow("limit", "cursor", "area")
        area = asked_area()
        with refused("/area"):
            notes.catch_up(access.person)
            found = vault.notes(access, area)
        items, following = page(found, lambda one: (-one.updated, one.path), int, str)
        return answer({"items": [listed(one) for one in items], "next": following})

    @routes.get("/notes/<path:path>")
    def read(path: str) -> Response:
        access = access_of(authenticate(request))
        allow()
        return whole_note(notes, access, place_of(access, path))

    @routes.put("/notes/<path:path>")
    def put(path: str) -> Response:
        scope = authenticate(request)
        allow()
        body = parse(TextBody, read_json(request))
        return changes.put(scope, path, body.text)

    @routes.delete("/notes/<path:path>")
    def delete(path: str) -> Response:
        scope = authenticate(request)
        allow()
        return changes.delete(scope, path)

    @routes.get("/search")
    def search() -> Response:
        access = access_of(authenticate(request))
        allow("q", "limit")
        query, size = sought(), limit()
        with refused():
            notes.catch_up(access.person)
            hits = vault.search(access, query, size)
        return answer({"items": [hit(one) for one in hits], "next": None})

    @routes.get("/history")
    def history() -> Response:
        access = access_of(authenticate(request))
        allow("path", "limit", "cursor")
        at = place_of(access, asked("path"))
        with refused():
            notes.catch_up(access.person)
            found = vault.history(access, paths.shown(access, at), LOOK_BACK)
        # Counted from the oldest on, a version keeps its number while newer ones come.
        numbered = [(n - len(found), one) for n, one in enumerate(found)]
        items, following = page(numbered, lambda one: (one[0],), int)
        return answer({"items": [version(access, one) for _, one in items], "next": following})

    @routes.get("/diff")
    def diff() -> Response:
        access = access_of(authenticate(request))
        allow("path", "from", "to")
        at = place_of(access, asked("path"))
        path, old = paths.shown(access, at), asked_commit("from")
        new = asked_commit("to") if "to" in request.args else ""
        with refused():
            notes.catch_up(access.person)
            return answer({"path": path, "diff": vault.diff(access, path, old, new)})

    @routes.post("/restore")
    def restore() -> Response:
        scope = authenticate(request)
        allow()
        body = parse(RestoreBody, read_json(request))
        return changes.restore(scope, body.path, body.commit)

    @routes.post("/promote")
    def promote() -> Response:
        scope = authenticate(request)
        allow()
        body = parse(PromoteBody, read_json(request))
        return changes.promote(scope, body.path, body.to)

    return routes


# -- what is asked for ------------------------------------------------------------------------


def asked(name: str) -> str:
    """A parameter that has to be there."""
    if name not in request.args:
        raise Problem(422, "invalid_field", f"{name} is missing", f"/{name}")
    return request.args[name]


def asked_area() -> str:
    """The `area` of a list; '' for both."""
    area = request.args.get("area")
    if area not in (None, CURATED, MINE):
        raise Problem(422, "invalid_field", "area is curated or mine", "/area")
    return area or ""


def asked_commit(name: str) -> str:
    """The id of a commit, whole or its first digits."""
    commit = asked(name)
    if not re.fullmatch(COMMIT, commit):
        raise Problem(
            422, "invalid_field", f"{name} is a commit's id, from 7 digits on", f"/{name}"
        )
    return commit


# -- what is given ----------------------------------------------------------------------------


def whole_note(notes: Notes, access: Access, at: Place) -> Response:
    """`{path, title, text, base, updated?, backlinks}`, or 304 for a version that is notes."""
    path, area = paths.shown(access, at), CURATED if at.is_common else MINE
    vault = notes.vault
    with refused():
        notes.catch_up(access.person)
        found = vault.read(access, path)
        if is_known(found.base):
            return nothing(304, etag(found.base))
        backlinks = vault.backlinks(access, path)
        changed = [one.updated for one in vault.notes(access, area) if one.path == found.path]
    told: dict[str, Any] = {
        "path": found.path,
        "title": note.title_of(found.text, found.path),
        "text": found.text,
        "base": found.base,
        "backlinks": backlinks,
    }
    if changed:
        told["updated"] = when(changed[0])
    return answer(told, 200, etag(found.base))


def listed(one: Listed) -> dict[str, Any]:
    """`{path, title, updated, base}`."""
    return {
        "path": one.path, "title": one.title, "updated": when(one.updated), "base": one.blob,
    }  # fmt: skip


def hit(one: Hit) -> dict[str, Any]:
    """`{path, title, line, text, updated}`."""
    return {
        "path": one.path, "title": one.title, "line": one.line, "text": one.text,
        "updated": when(one.updated),
    }  # fmt: skip


def version(access: Access, one: Version) -> dict[str, Any]:
    """`{commit, at, author, message}`; a message names no paths of other people's."""
    message = one.message
    if access.own is not None:
        message = message.replace(f"{access.own.folder}/", f"{MINE}/")
    message = _OTHERS.sub("a note", message)
    return {"commit": one.id, "at": when(one.at), "author": one.author, "message": message}


def when(seconds: int) -> str:
    """Seconds since the epoch as RFC 3339."""
    return rfc3339(seconds * 1000)
