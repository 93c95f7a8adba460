"""The Flask application: `create_app(settings=None)`.

It builds and starts nothing: files open when they are first used, and the threads that work on
turns start with `Mercury.start`, which `mfw serve` calls once its worker has taken its place.
"""

from __future__ import annotations

from flask import Flask

from bot.http.app import flask_app
from bot.mercury import build
from bot.settings import Settings, load


def create_app(settings: Settings | None = None) -> Flask:
    """The application of these settings, or of the environment's and `.env`'s.

    Raises:
        bot.settings.SettingsError: a setting is wrong.
    """
    return flask_app(build(settings or load()))
