"""From the bytes of a chat completion to the pieces of an answer. Pure.

Takes the body of a response as it comes (server-sent events, or one JSON object from a server
that does not stream) and gives text and whole tool calls; knows nothing of sockets and tries.
Servers differ in what they leave out of a chunk, so nothing is taken for granted, and nothing
that a server may send without end is kept without limit.

Source of the format: https://platform.openai.com/docs/api-reference/chat-streaming and the
HTML standard, section 9.2.6 (server-sent events).
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.model import Call, ContextTooLong, Cut, ModelAway, ModelRefused, Piece, Text
from memory.text import is_blank, mend

ANSWER_CHARS = 100_000
"""The longest text of an answer; what comes after it is not read."""
EVENT_BYTES = 2_000_000
"""The longest event: an answer of the longest text in one event, all of it escaped, fits."""
CALL_CHARS = 200_000
"""All arguments of one answer together; a note of the longest kind fits many times."""
CALLS = 64
ID_CHARS = 64

_CONTENT = re.compile(r'"content"\s*:\s*"((?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*)')
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|ContextWindowExceeded|input token count"
    r"|maximum (?:context|model) length|(?:max_|max )context length|max_model_len"
    r"|(?:prompt|input|request|tokens?|messages?)\b.{0,80}\b(?:exceeds?|longer than|larger than"
    r"|greater than|too long for)\b.{0,60}\b(?:context|maximum number of tokens|token limit)"
    r"|context (?:size|length|window).{0,20}exceeded|exceed(?:s|ed)?.{0,20} context"
    r"|prompt is too long|prompt too long|inputs?.{0,20}tokens?.{0,40}must be <=",
    re.IGNORECASE | re.DOTALL,
)
"""How OpenAI, vLLM, llama.cpp, Ollama, Gemini, TGI and LiteLLM say that a prompt does not fit."""


class Broken(ModelAway):
    """One try came to nothing, and another may succeed; `pause` is what the server asked for."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


class Withheld(ModelRefused):
    """The server held the answer back (`content_filter`)."""


class _TooLongEvent(Exception):
    """An event passed EVENT_BYTES; `begin` is what came of it."""

    def __init__(self, begin: bytes) -> None:
        super().__init__()
        self.begin = begin


def read(
    body: Iterable[bytes],
    content_type: str,
    may_be_empty: bool,
    on_finish: Callable[[bool], None] = lambda ended: None,
) -> Iterator[Piece]:
    """The pieces of an answer, as they come; calls come last, and only whole ones.

    Args:
        body: the response's bytes; raises Broken where they break off.
        content_type: the response's, which tells a stream from a single object.
        may_be_empty: whether nothing is an answer too.
        on_finish: called once the answer is known to be whole, though more may come; with True
            once the server has said that nothing will. The body is still read to its end then,
            as only such a connection can be used again.

    Raises:
        Broken: no whole answer, nothing in it, or something else altogether.
        Withheld: the server held the answer back.
        ContextTooLong: the server says within the body that the prompt does not fit.
    """
    if "html" in content_type:
        raise Broken("a web page instead of an answer")
    answer = _Answer()
    events = _whole(body) if "json" in content_type else _events(body)
    try:
        for event in events:
            if answer.done:
                break
            if event == "[DONE]":
                answer.done = True
                on_finish(True)
                continue
            finished = bool(answer.finish)
            yield from answer.add(_parsed(event))
            if answer.chars >= ANSWER_CHARS:
                yield Cut("length")
                return
            if answer.finish and not finished:
                on_finish(False)
    except _TooLongEvent as event:
        yield from answer.salvage(event.begin)
        yield Cut("length")
        return
    except Broken:
        if not (answer.finish or answer.done):
            raise
    yield from answer.end(may_be_empty)


def does_not_fit(error: object) -> bool:
    """Whether an error of a server says that the prompt is longer than the model takes."""
    return _TOO_LONG.search(str(error)[:4_000]) is not None


# -- events ---------------------------------------------------------------------------------


def _events(body: Iterable[bytes]) -> Iterator[str]:
    """The data of each server-sent event."""
    rest, data, size = b"", [], 0
    pending: list[bytes] = []
    for chunk in body:
        pending.append(chunk)
        size += len(chunk)
        if b"\n" in chunk:
            *lines, rest = b"".join(pending).split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    data.append(line[5:].strip())
                elif not line.strip() and data:
                    yield _decoded(data)
                    data = []
            pending, size = [rest], len(rest) + sum(map(len, data))
        if size > EVENT_BYTES:
            raise _TooLongEvent(b"".join([*data, *pending]))
    if rest.startswith(b"data:"):
        data.append(rest[5:].strip())
    if data:
        yield _decoded(data)


def _whole(body: Iterable[bytes]) -> Iterator[str]:
    """The body of a server that does not stream, as one event, and the end of it."""
    parts: list[bytes] = []
    size = 0
    for chunk in body:
        parts.append(chunk)
        size += len(chunk)
        if size > EVENT_BYTES:
            raise _TooLongEvent(b"".join(parts))
    yield _decoded(parts, b"")
    yield "[DONE]"


def _decoded(parts: list[bytes], between: bytes = b"\n") -> str:
    return between.join(parts).decode("utf-8", "replace")


def _parsed(event: str) -> dict[str, Any]:
    try:
        parsed = json.loads(event)
    except (ValueError, RecursionError):
        raise Broken("malformed JSON") from None
    if not isinstance(parsed, dict):
        raise Broken("JSON of another shape")
    return parsed


# -- the answer -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    """A tool call as far as it has come."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    def is_whole(self) -> bool:
        """Whether its arguments are a JSON object, so that no further piece can belong to it."""
        if not self.arguments.rstrip().endswith("}"):
            return False
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False


class _Answer:
    """What has come of one answer."""

    def __init__(self) -> None:
        self.chars = 0
        self.finish = ""
        self.done = False
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._call_chars = 0
        self._half = ""

    def add(self, chunk: Mapping[str, Any]) -> Iterator[Piece]:
        """Takes one chunk, and gives its text."""
        if error := chunk.get("error"):
            if does_not_fit(error):
                raise ContextTooLong("said within the stream")
            raise Broken("an error within the stream")
        choices = chunk.get("choices") or []
        if not isinstance(choices, list) or not all(isinstance(one, dict) for one in choices):
            raise Broken("JSON of another shape")
        if not choices:
            return
        choice = choices[0]
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, dict):
            raise Broken("JSON of another shape")
        for name in ("content", "refusal"):
            if text := self._text(delta.get(name)):
                yield Text(text)
        self._collect(delta.get("tool_calls") or [])
        self.finish = str(choice.get("finish_reason") or self.finish)
        if self.finish == "content_filter":
            raise Withheld("content filter")

    def end(self, may_be_empty: bool) -> Iterator[Piece]:
        """The calls, once all has come.

        A reason to finish may be missing or wrong; that there is one, or the stream's own end
        mark, tells a whole answer from one that was cut.
        """
        if not self.finish and not self.done:
            raise Broken("cut before the end")
        calls = [call for call in self._calls if call.name]
        if self.finish == "length":
            calls = [call for call in calls if call.is_whole()]
        if not self.chars and not calls and not (may_be_empty and self.finish != "length"):
            raise Broken("an empty answer")
        given: set[str] = set()
        for call in calls:
            known = bool(call.id) and call.id not in given and len(call.id) <= ID_CHARS
            id_ = call.id if known else f"call_{secrets.token_hex(8)}"
            given.add(id_)
            yield Call(id_, call.name, _joined(call.arguments))
        if self.finish == "length":
            yield Cut("length")

    def salvage(self, begin: bytes) -> Iterator[Piece]:
        """The text of an event that was too long to be read to its end."""
        found = _CONTENT.search(begin.decode("utf-8", "replace"))
        text = self._text(_parsed('{"content": "' + found[1] + '"}')["content"]) if found else ""
        if not text:
            raise Broken("an event without end")
        yield Text(text)

    def _text(self, delta: object) -> str:
        """The text of a delta that is to be shown: blanks before the first word are none."""
        if not delta:
            return ""
        if not isinstance(delta, str):
            raise Broken("JSON of another shape")
        delta = self._half + delta
        self._half = delta[-1] if "\ud800" <= delta[-1] <= "\udbff" else ""
        text = _joined(delta.removesuffix(self._half))
        if not self.chars and is_blank(text):
            return ""
        text = text[: ANSWER_CHARS - self.chars]
        self.chars += len(text)
        return text

    def _collect(self, deltas: object) -> None:
        if not isinstance(deltas, list):
            raise Broken("JSON of another shape")
        for delta in deltas:
            function = delta.get("function") or {} if isinstance(delta, dict) else None
            if not isinstance(function, dict):
                raise Broken("JSON of another shape")
            arguments = function.get("arguments") or ""
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments)
            self._call_chars += len(arguments)
            if self._call_chars > CALL_CHARS:
                raise Broken("a tool call without end")
            id_, name = str(delta.get("id") or ""), str(function.get("name") or "")
            call = self._call_of(delta.get("index"), id_, name, arguments)
            if call is not None:
                call.id = call.id or id_
                call.name = call.name or name
                call.arguments += arguments

    def _call_of(self, index: object, id_: str, name: str, arguments: str) -> _Call | None:
        """The call that a delta belongs to, None past the most calls.

        Some servers leave the index out, or give every call the index 0: another id, or a name
        after whole arguments, begins another call.
        """
        if isinstance(index, int):
            call = self._by_index.get(index)
        elif id_:
            call = next((call for call in self._calls if call.id == id_), None)
        else:
            call = self._calls[-1] if self._calls and not name else None
        if call is not None:
            another = bool(id_ and call.id and id_ != call.id)
            if not another and not (name and arguments and call.is_whole()):
                return call
        if len(self._calls) >= CALLS:
            return None
        call = _Call()
        self._calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        return call


def _joined(text: str) -> str:
    """Text that every store can hold: halves of a character that came apart are put together."""
    if text.isascii():
        return mend(text)
    return mend(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
