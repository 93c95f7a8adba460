"""What is attached to a Chat message, fetched by `media.download` and read.

Texts and the text of PDFs become quoted material, images go to the model as they are. Limited
in number, size and time; whatever cannot be had or read is said in a few words, and the message
itself is answered all the same. Addresses in an event are never fetched.
"""

from __future__ import annotations

import base64
import json
import logging
import time
from pathlib import PurePath
from typing import Any

from bot import pdf
from bot.chat.client import Client
from bot.chat.errors import ChatError, Limited, TooBig, Unavailable
from bot.material import Material
from bot.stop import Stop
from memory.text import mend
from memory.turn_rows import Turn

log = logging.getLogger(__name__)

FILES = 10
FILE_BYTES = 10_000_000
IMAGE_BYTES = 5_000_000
"""OpenAI-compatible servers take at least that much in a request."""
IMAGES = 4
FILE_CHARS = 20_000
ALL_CHARS = 40_000
FETCH_S = 30.0
TRIES = 3
PAUSE_S = 1.0

_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_TEXTS = (
    "application/json", "application/xml", "application/yaml", "application/x-yaml",
    "application/toml", "application/javascript", "application/x-ndjson", "application/sql",
)  # fmt: skip
_SUFFIXES = (
    ".txt", ".md", ".markdown", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".xml",
    ".html", ".log", ".ini", ".toml", ".py", ".js", ".ts", ".sql", ".sh", ".rst", ".tex",
)  # fmt: skip
_WHY = {
    "drive": "it lies in Google Drive, which a Chat app cannot read; please upload it instead",
    "gif": "an animation, which I cannot see",
    "unknown": "Chat does not say where it is",
}
TOO_MANY = f"I read at most {FILES} files of a message"
TOO_MANY_IMAGES = f"I look at at most {IMAGES} images of a message"
TOO_BIG = f"it is bigger than {FILE_BYTES // 1_000_000} MB"
IMAGE_TOO_BIG = f"an image bigger than {IMAGE_BYTES // 1_000_000} MB"
NOT_FETCHED = "it could not be fetched from Chat"
ANOTHER_KIND = "it is of a kind that I cannot read"
NO_TEXT = "there is no text in it"
TOO_MUCH = "the files before it were long enough"


class Attachments:
    """Reads the attachments of a turn's message.

    Args:
        client: of the Chat API.
        pause_s: between two tries to fetch a file, in seconds.
    """

    def __init__(self, client: Client, pause_s: float = PAUSE_S) -> None:
        self._client = client
        self._pause_s = pause_s

    def __call__(self, turn: Turn, stop: Stop) -> list[Material]:
        """What is attached, in order; nothing of it raises.

        Raises:
            Stopped: the turn has to end.
        """
        found: list[Material] = []
        for n, one in enumerate(json.loads(turn.target).get("attachments", ())):
            name = str(one.get("name") or "a file")
            if one.get("why"):
                found.append(Material(name, why=_WHY.get(one["why"], _WHY["unknown"])))
            elif n >= FILES:
                found.append(Material(name, why=TOO_MANY))
            else:
                found.append(self._read(name, one, stop, found))
        return found

    def _read(self, name: str, one: dict[str, Any], stop: Stop, before: list[Material]) -> Material:
        try:
            content = self._fetch(str(one["resource"]), stop)
        except TooBig:
            return Material(name, why=TOO_BIG)
        except ChatError as error:
            log.warning("an attachment was not fetched: %s", type(error).__name__)
            return Material(name, why=NOT_FETCHED)
        read = material(name, str(one.get("mime") or ""), content)
        if read.image_url and sum(bool(other.image_url) for other in before) >= IMAGES:
            return Material(name, why=TOO_MANY_IMAGES)
        room = ALL_CHARS - sum(len(other.text) for other in before)
        if read.text and room <= 0:
            return Material(name, why=TOO_MUCH)
        return Material(name, cut(read.text, room), read.image_url, read.why)

    def _fetch(self, resource: str, stop: Stop) -> bytes:
        until = time.monotonic() + FETCH_S

        def check() -> None:
            stop.check()
            if time.monotonic() > until:
                raise Unavailable("too slow")

        for left in range(TRIES - 1, -1, -1):
            try:
                return self._client.download(resource, FILE_BYTES, check)
            except (Unavailable, Limited):
                if not left or time.monotonic() > until:
                    raise
                stop.wait(self._pause_s)
        raise AssertionError("the last try returns or raises")


def material(name: str, mime: str, content: bytes) -> Material:
    """What a file's content is to the model.

    Args:
        name: the file's, of which only the suffix counts.
        mime: as Chat tells it; an image or PDF is known by its first bytes alone.
    """
    import filetype

    guessed = filetype.guess_mime(content[:8_192]) or ""
    if guessed in _IMAGES:
        if len(content) > IMAGE_BYTES:
            return Material(name, why=IMAGE_TOO_BIG)
        return Material(
            name, image_url=f"data:{guessed};base64,{base64.b64encode(content).decode()}"
        )
    if guessed == "application/pdf":
        text = pdf.text_of(content)
        if text is None:
            return Material(name, why=ANOTHER_KIND)
        return Material(name, mend(text).strip(), why="" if text.strip() else NO_TEXT)
    known = mime.startswith("text/") or mime in _TEXTS or PurePath(name).suffix.lower() in _SUFFIXES
    text = None if guessed else _decoded(content, known)
    if text is None:
        return Material(name, why=ANOTHER_KIND)
    return Material(name, mend(text).strip(), why="" if text.strip() else NO_TEXT)


def _decoded(content: bytes, known: bool) -> str | None:
    """Bytes as text; of a kind that is not known to be text only what is plainly UTF-8."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        if not known:
            return None
        from charset_normalizer import from_bytes

        best = from_bytes(content[:1_000_000]).best()
        return None if best is None else str(best)
    return text if known or "\0" not in text else None


def cut(text: str, room: int) -> str:
    """A text as long as it may be, with a word on what is left out."""
    most = min(FILE_CHARS, room)
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[… {len(text) - most} more characters of the file are left out …]"
