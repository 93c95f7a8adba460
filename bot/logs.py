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
import threading
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO
from urllib.parse import quote

if TYPE_CHECKING:
    from bot.settings import Settings

turn: ContextVar[str] = ContextVar("turn", default="")
"""The turn that this thread works on; stands in each of its lines."""
trace: ContextVar[str] = ContextVar("trace", default="")
"""The trace that this request belongs to, as `trace_of` names it."""

LONGEST_LINE = 8_192
"""Bytes of a line, its end included."""
LONGEST_PLACES = 2_000
FRAMES = 12
CAUSES = 4
CLOUD = (
    "K_SERVICE", "CLOUD_RUN_JOB", "GAE_ENV", "GAE_SERVICE", "GOOGLE_CLOUD_PROJECT",
    "KUBERNETES_SERVICE_HOST",
)  # fmt: skip
QUIET = (
    "httpx", "httpx2", "httpcore", "httpcore2", "openai", "googleapiclient", "google",
    "google_auth_httplib2", "urllib3", "requests", "werkzeug", "gunicorn", "qdrant_client",
    "dulwich", "asyncio",
)  # fmt: skip
OURS = ("app", "bot", "cli", "memory", "wiki")
_ROOT = f"{Path(__file__).resolve().parent.parent}{os.sep}"
_SEVERITIES = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

# Each is linear in the line: what is repeated is possessive or begins where a token begins.
_TOKENS = re.compile(
    r"Bearer\s++[^\s\"',;]++"
    r"|(?i:bearer)\s++(?=[^\s\d]*+\d|\S{16})[^\s\"',;]++"
    r"|mcy_[\w-]++"
    r"|ya29\.[\w.-]++"
    r"|(?<![\w-])cf_[\w-]++\.[\w-]++"
    r"|(?i:confirm|cancel)\s++[A-Za-z0-9]{4}-[A-Za-z0-9]{4}(?![\w-])"
    r"|(?<![\w/-])[A-HJKMNP-TV-Z2-9]{4}-[A-HJKMNP-TV-Z2-9]{4}(?![\w-])"
)
_DOTTED = re.compile(r"(?<![\w-])[\w-]{8,}+\.[\w-]{2,}+(?:\.[\w-]*+)++")
"""What a JWT looks like; one holds `eyJ`, the base64 of `{"`."""
_USERINFO = re.compile(r"(?<=://)[^\s/@]*+@")
_QUERY = re.compile(r"(?<=[?&])(k|key|api_key|code|token|access_token)=[^\s&\"']++")
_TRACE = re.compile(r"(?:00-)?([0-9a-f]{32})(?:[-/;].*)?", re.IGNORECASE)


class Redactor:
    """Takes known secrets, and whatever looks like a token, out of a text.

    Args:
        secrets: values that never appear; such as are shorter than 8 characters are left in, for
            they would tear up ordinary words.
    """

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        self.add(*secrets)

    def add(self, *secrets: str) -> None:
        """Registers secrets that became known later, such as the one the first start made."""
        known = {secret for secret in secrets if len(secret) >= 8}
        known |= {quote(secret, safe="") for secret in known} | set(self._secrets)
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def __call__(self, text: str) -> str:
        """The text with `***` in their places."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = _USERINFO.sub("***@", text)
        text = _QUERY.sub(r"\1=***", text)
        text = _DOTTED.sub(lambda match: "***" if "eyJ" in match[0] else match[0], text)
        return _TOKENS.sub("***", text)


redact = Redactor()
"""The one that every line passes through."""


class TextFormatter(logging.Formatter):
    """`12:00:00 WARNING bot.engine: what happened`, on one line, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        at = datetime.fromtimestamp(record.created, UTC)
        about = f" [{turn.get()}]" if turn.get() else ""
        places = f" [{_one_line(_places(record))[:LONGEST_PLACES]}]" if record.exc_info else ""
        line = f"{at:%H:%M:%S} {record.levelname} {record.name}{about}: "
        room = LONGEST_LINE - 1 - len((line + places).encode())
        return f"{line}{_cut(_one_line(redact(_message(record))), room)}{places}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line (https://cloud.google.com/logging/docs/structured-logging).

    Args:
        project: the Google Cloud project that traces belong to; '' writes none.
    """

    def __init__(self, project: str = "") -> None:
        super().__init__()
        self._project = project

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {
            "severity": record.levelname if record.levelname in _SEVERITIES else "DEFAULT",
            "time": at.replace("+00:00", "Z"),
            "message": "",
            "logger": record.name,
        }
        if turn.get():
            fields["turn"] = turn.get()
        if trace.get() and self._project:
            path = f"projects/{self._project}/traces/{trace.get()}"
            fields["logging.googleapis.com/trace"] = path
        if record.exc_info:
            fields["exception"] = _one_line(_places(record))[:LONGEST_PLACES]
        room = LONGEST_LINE - 1 - len(_json(fields).encode())
        message = _one_line(redact(_message(record)))
        fields["message"] = _cut(message, room, escaped=True)
        return _json(fields)


class Handler(logging.StreamHandler[TextIO]):
    """Writes lines; one that cannot be written is lost without a word about what was in it."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Does not print the record and its arguments, as logging itself would."""


def configure(settings: Settings, quiet: bool = False, stream: TextIO | None = None) -> None:
    """Sets the root logger up as the settings say, and keeps their secrets out of it.

    Args:
        settings: level, format and the secrets that never appear.
        quiet: only what ends the process, for a command that talks to a person.
        stream: where lines go; stderr without one.
    """
    redact.add(*settings.secret_values())
    write_to(stream or sys.stderr, "CRITICAL" if quiet else settings.log_level, settings.log_format)


def write_to(stream: TextIO, level: str, fmt: str = "") -> None:
    """Sets the root logger up, and how uncaught exceptions are told.

    Args:
        stream: where lines go.
        level: the lowest level of ours that is written; libraries begin at WARNING.
        fmt: `json`, `text`, or '' for json in a cloud and where the stream is no terminal.
    """
    as_json = fmt == "json" or (not fmt and (in_cloud() or not stream.isatty()))
    handler = Handler(stream)
    project = os.environ.get("GOOGLE_CLOUD_PROJECT", "")
    handler.setFormatter(JsonFormatter(project) if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def in_cloud() -> bool:
    """Whether the environment is that of a cloud that collects JSON lines."""
    return any(os.environ.get(name) for name in CLOUD)


def trace_of(header: str) -> str:
    """The trace id in a `traceparent` or `X-Cloud-Trace-Context` header, or ''."""
    match = _TRACE.fullmatch(header.strip())
    return match[1].lower() if match else ""


def where(error: BaseException) -> str:
    """An exception's type and its places in the code, innermost first, with its causes.

    Never its text, and never a line of source.
    """
    told = [_one_place(error.__traceback__, type(error)) for error in _chain(error)]
    return ", after ".join(told)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what it came from, as Python would show it."""
    found: BaseException | None = error
    for _ in range(CAUSES):
        if found is None:
            return
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _one_place(tb: TracebackType | None, kind: type[BaseException]) -> str:
    frames = [
        f"{_short(frame.f_code.co_filename)}:{line}:{frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(tb)
    ][-FRAMES:]
    name = kind.__qualname__ if kind.__module__ == "builtins" else _full_name(kind)
    return f"{name} at {' < '.join(reversed(frames))}" if frames else name


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _short(filename: str) -> str:
    """A file's name from the folder of the code, or of the installed packages, on."""
    _, mark, package = filename.rpartition(f"site-packages{os.sep}")
    return package if mark else filename.removeprefix(_ROOT)


def _places(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return where(error) if error is not None else ""


def _message(record: logging.LogRecord) -> str:
    """The record's words; an exception of a library among its arguments is told by its type."""
    args = record.args
    if isinstance(args, tuple):
        args = tuple(map(_untold, args))
    try:
        message = record.msg if isinstance(record.msg, str) else str(_untold(record.msg))
        return message % args if args else message
    except Exception:  # noqa: BLE001 (whatever an argument's `__str__` raises)
        return f"a message of {record.name} could not be put together"


def _untold(value: object) -> object:
    if isinstance(value, BaseException) and type(value).__module__.split(".")[0] not in OURS:
        return _full_name(type(value)).removeprefix("builtins.")
    return value


def _one_line(text: str) -> str:
    """Text that can neither end its line nor move a cursor."""
    text = text[: LONGEST_LINE + 1]
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    number = ord(char)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def _cut(text: str, room: int, escaped: bool = False) -> str:
    """As much of a text as fits in that many bytes.

    Args:
        text: printable.
        room: how many bytes there are.
        escaped: whether it is written as JSON, where quotes and backslashes take two of them.
    """
    written = (_json(text)[1:-1] if escaped else text).encode()
    if len(written) <= room:
        return text
    kept = written[: max(0, room - len("…".encode()))].decode(errors="ignore")
    if escaped:
        dangling = (len(kept) - len(kept.rstrip("\\"))) % 2
        kept = str(json.loads(f'"{kept[: len(kept) - dangling]}"'))
    return f"{kept}…"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _uncaught(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, tb)
    else:
        logging.getLogger(__name__).critical("ended by %s", where(error))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
        name = args.thread.name if args.thread else "?"
        logging.getLogger(__name__).critical("thread %s ended by %s", name, where(args.exc_value))
