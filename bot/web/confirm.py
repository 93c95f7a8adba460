"""`/confirm/<id>?k=…`: the whole content of what waits for a confirmation, and its two buttons.

The key in the address, which its person alone was shown, opens the page; a look changes nothing,
so that no preview of a link can decide. Works without script, and says all that is needed to
settle and no more.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from flask import Blueprint, Response, render_template, request

from bot import words
from bot.mercury import Mercury
from bot.settling import Expired
from memory.confirmations import Confirmation
from memory.errors import Conflict, NotFound, StoreDown

SHOWN = (("path", "From"), ("to", "To"), ("text", "Text"), ("diff", "Changes"))
GONE = "There is no such page, or its address is not complete."
STORE_DOWN = "Mercury cannot reach its archive just now. Please try again in a while."


def blueprint(mercury: Mercury) -> Blueprint:
    """The page's routes."""
    routes = Blueprint("confirm", __name__, template_folder="templates")
    settling = mercury.settling

    @routes.get("/confirm/<id_>")
    def look(id_: str) -> Response:
        try:
            return _page(settling.on_page(id_, request.args.get("k", "")))
        except NotFound:
            return _said(404, GONE)
        except StoreDown:
            return _said(503, STORE_DOWN)

    @routes.post("/confirm/<id_>")
    def decide(id_: str) -> Response:
        key, decision = request.args.get("k", ""), request.form.get("decision", "")
        try:
            if decision not in ("confirm", "cancel"):
                return _page(settling.on_page(id_, key), 422)
            status = 200
            try:
                settling.by_page(id_, key, "confirm" if decision == "confirm" else "cancel")
            except Conflict:
                status = 409
            except Expired:
                status = 410
            mercury.engine.look()
            return _page(settling.on_page(id_, key), status)
        except NotFound:
            return _said(404, GONE)
        except StoreDown:
            return _said(503, STORE_DOWN)

    return routes


def _page(found: Confirmation, status: int = 200) -> Response:
    waits = found.state == "waiting"
    if found.state == "running":
        outcome = words.BEING_DONE
    else:
        outcome = "" if waits else words.card_settled(found.action, found.state, found.outcome)
    shown = [
        (label, str(found.content[name]))
        for name, label in SHOWN
        if name in found.content and waits
    ]
    until = datetime.fromtimestamp(found.expires_at / 1000, UTC)
    return _rendered(
        status, title=words.question(found.action, found.content), shown=shown, outcome=outcome,
        until=f"{until:%H:%M} UTC" if waits else "",
    )  # fmt: skip


def _said(status: int, text: str) -> Response:
    return _rendered(status, title=text, shown=[], outcome="", until="")


def _rendered(status: int, **values: object) -> Response:
    nonce = secrets.token_urlsafe(16)
    response = Response(render_template("confirm.html", nonce=nonce, **values), status)
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["X-Robots-Tag"] = "noindex"
    return response
