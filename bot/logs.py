"""Logs: JSON lines with Google Cloud's fields, or plain text on a terminal; no secrets in either.

Messages of ours hold no text of people. What a library's exception says may, so of an exception
only its type and its places in the code are written.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from bot.settings import Settings

turn: ContextVar[str] = ContextVar("turn", default="")
"""The turn that this thread works on; stands in each of its lines."""

LONGEST_LINE = 8_192
CLOUD = ("K_SERVICE", "GAE_ENV", "GAE_SERVICE", "GOOGLE_CLOUD_PROJECT", "KUBERNETES_SERVICE_HOST")
QUIET = ("httpx", "httpcore", "openai", "googleapiclient", "google", "urllib3", "werkzeug")
_SECRETS = re.compile(
    r"(?i:bearer)\s+[^\s\"']+|mcy_[\w-]+|eyJ[\w-]+\.[\w-]+\.[\w-]*|ya29\.[\w.-]+|cf_[\w-]+\.[\w-]{22}"
    r"|(?i:confirm|cancel)\s+[A-Za-z0-9]{4}-[A-Za-z0-9]{4}"
)


class Redactor:
    """Takes known secrets, and whatever looks like a token, out of a line."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _SECRETS.sub("***", text)


class TextFormatter(logging.Formatter):
    """`12:00:00 WARNING bot.engine: what happened`, on one line."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line = f"{at:%H:%M:%S} {record.levelname} {record.name}: {_message(record)}"
        if where := _where(record):
            line += f" [{where}]"
        return _one_line(self._redact(line))


class JsonFormatter(logging.Formatter):
    """One JSON object a line (https://cloud.google.com/logging/docs/structured-logging)."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {
            "severity": record.levelname,
            "time": at.replace("+00:00", "Z"),
            "message": _one_line(self._redact(_message(record))),
            "logger": record.name,
        }
        if turn.get():
            fields["turn"] = turn.get()
        if where := _where(record):
            fields["exception"] = _one_line(self._redact(where))
        return json.dumps(fields, ensure_ascii=False)


def configure(settings: Settings, quiet: bool = False, stream: TextIO | None = None) -> None:
    """Sets the root logger up.

    Args:
        settings: level, format and the secrets that never appear.
        quiet: only errors, for a command that talks to a person.
        stream: where lines go; stderr without one.
    """
    stream = stream or sys.stderr
    redact = Redactor(settings.secret_values())
    as_json = settings.log_format == "json" or (
        not settings.log_format
        and (any(name in os.environ for name in CLOUD) or not stream.isatty())
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(redact) if as_json else TextFormatter(redact))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.CRITICAL if quiet else settings.log_level)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return str(record.msg)


def _where(record: logging.LogRecord) -> str:
    """An exception's type and its places in the code; never its text."""
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    kind, _, trace = record.exc_info
    places = [
        f"{os.path.relpath(frame.filename)}:{frame.lineno}:{frame.name}"
        for frame in traceback.extract_tb(trace, limit=-12)
    ]
    return f"{kind.__name__} at {' < '.join(reversed(places))}"


def _one_line(text: str) -> str:
    """A line that nothing in it can end, move or lengthen without limit."""
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[:LONGEST_LINE])
    return shown if len(text) <= LONGEST_LINE else shown + "…"
