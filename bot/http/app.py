"""Puts the channels' routes into one Flask application."""

from __future__ import annotations

from flask import Flask, request

from bot import logs
from bot.http import problems, routes, turns, wiki
from bot.http.auth import authenticator
from bot.http.gate import Gate
from bot.mercury import Mercury
from bot.web import confirm

BODY_BYTES = 1_048_576


def flask_app(mercury: Mercury, local_key: str = "") -> Flask:
    """The application over a Mercury.

    Args:
        mercury: built, started or not.
        local_key: lets the owner of the data folder speak as `cli:<user>`; '' lets nobody.
    """
    app = Flask("mercury", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = BODY_BYTES
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False  # its answer says that it is HTML
    app.extensions["mercury"] = mercury
    gate = app.extensions["mercury.gate"] = Gate()
    authenticate = authenticator(mercury.stores.tokens, local_key)
    problems.register(app)

    @app.before_request
    def note_trace() -> None:
        header = request.headers.get("traceparent") or request.headers.get("X-Cloud-Trace-Context")
        logs.trace.set(logs.trace_of(header) if header else "")

    app.register_blueprint(turns.blueprint(mercury, authenticate, gate))
    app.register_blueprint(routes.blueprint(mercury, authenticate))
    app.register_blueprint(wiki.blueprint(mercury, authenticate))
    app.register_blueprint(confirm.blueprint(mercury))
    if mercury.settings.google_chat_format:
        from bot.chat.door import chat_blueprint

        app.register_blueprint(chat_blueprint(mercury))
    return app
