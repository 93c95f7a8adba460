"""The conversation as the model gets it: a pure fold of what the archive holds.

History = recap + the lines of what was compacted + every later message with its tool records.
The messages stand here in the shape of OpenAI's chat completions, prepared once, and a turn
only appends to them. Two histories are equal, byte for byte, when `canonical` is.

Knows nothing of stores, caches or models.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import regex

from memory.records import Line, Message, ToolCall
from memory.text import clean_for_model

MESSAGE_CHARS = 8_000
"""A longer message reaches the model cut, head and tail."""
ARGUMENT_CHARS = 300
"""The longest string value that is kept of a tool call's arguments."""
NAME_CHARS = 64
GRAPHEME_WINDOW = 64
LINES_SHARE = 6
"""All lines together take at most a sixth of the history's limit."""
RULE_CHARS = 1_000
"""What standing wishes may take beside that."""
DAY_MS = 86_400_000


class History:
    """An active conversation, ready to be given to a model.

    Args:
        conversation: its id.
        stamp: the archive's stamp of the state that was folded.
        recap: the recap of the conversation before it, or ''.
        lines: the lines of what was compacted, oldest first.
        shared: whether several people write in it, so that each message names its speaker.

    `messages` is the prepared list, and `rules` and `described` are the lines of standing wishes
    and the others as the prompt quotes them; `size` counts the code points of all texts, `weight`
    estimates the bytes of memory.
    """

    __slots__ = ("conversation", "described", "last_seq", "lines", "messages", "recap", "rules",
                 "shared", "size", "stamp", "weight")  # fmt: skip

    def __init__(
        self, conversation: str, stamp: str, recap: str, lines: Sequence[Line], shared: bool
    ) -> None:
        self.conversation = conversation
        self.stamp = stamp
        self.recap = recap
        self.lines = tuple(lines)
        self.rules = quoted_lines(line for line in lines if line.kind == "rule")
        self.described = quoted_lines(line for line in lines if line.kind != "rule")
        self.shared = shared
        self.messages: list[dict[str, Any]] = []
        self.last_seq = 0
        self.size = len(recap) + sum(len(line.text) for line in self.lines)
        self.weight = 1_000 + 8 * self.size

    def append(self, message: Message) -> None:
        """Adds a message that comes after all others."""
        self.restore(prepare(message, self.shared), message.seq)

    def restore(self, prepared: Sequence[dict[str, Any]], last_seq: int) -> None:
        """Adds messages that were prepared before; `last_seq` is the place of the last one."""
        for one in prepared:
            self.messages.append(one)
            size = size_of(one)
            self.size += size
            self.weight += 300 + (size if (one["content"] or "").isascii() else 3 * size)
        self.last_seq = last_seq

    def canonical(self) -> str:
        """The history as canonical JSON (sorted keys, no spaces)."""
        whole = {
            "recap": self.recap,
            "lines": [{"kind": line.kind, "text": line.text, "at": line.at} for line in self.lines],
            "messages": self.messages,
        }
        return json.dumps(whole, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def fold(
    conversation: str,
    stamp: str,
    recap: str,
    lines: Iterable[Line],
    messages: Iterable[Message],
    limit: int,
    shared: bool,
) -> History:
    """The history that the archive's rows give.

    Args:
        recap: the stored recap, or ''.
        lines: every line up to `compacted_through`, oldest first.
        messages: every message after it whose turn has ended, in order.
        limit: `HISTORY_MAX_CHARS`.
        shared: whether the conversation is a space's.
    """
    history = History(conversation, stamp, recap, shown_lines(list(lines), limit), shared)
    for message in messages:
        history.append(message)
    return history


def shown_lines(lines: Sequence[Line], limit: int) -> list[Line]:
    """The lines that stay in sight, oldest first: rules always, of the others the newest."""
    room = {"rule": RULE_CHARS, "other": limit // LINES_SHARE}
    shown = []
    for line in reversed(lines):
        share = "rule" if line.kind == "rule" else "other"
        if len(line.text) <= room[share]:
            room[share] -= len(line.text)
            shown.append(line)
        else:
            room[share] = 0
    return shown[::-1]


def quoted_lines(lines: Iterable[Line]) -> str:
    """Lines as a Markdown quotation, each with its day and kind."""
    return "\n".join(
        f"> {_day(line.at // DAY_MS)} {line.kind}: {' '.join(clean_for_model(line.text).split())}"
        for line in lines
    )


@lru_cache(maxsize=1_000)
def _day(number: int) -> str:
    """The date of a day since the epoch; lines of one day are many, and dates are slow to write."""
    return f"{datetime.fromtimestamp(number * DAY_MS / 1000, UTC):%Y-%m-%d}"


def prepare(message: Message, shared: bool) -> list[dict[str, Any]]:
    """A message in the model's shape: one entry, or three for an answer with tool calls."""
    text = cut(clean_for_model(message.text))
    if message.role == "person":
        return [{"role": "user", "content": f"{speaker(message)}: {text}" if shared else text}]
    if message.role == "settled":
        return [{"role": "user", "content": f"[Mercury's record] {text}"}]
    entries = calls_as_messages(f"{message.seq}", message.tools) if message.tools else []
    entries.append({"role": "assistant", "content": text})
    return entries


def calls_as_messages(prefix: str, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Tool calls as native messages in which the outcome stands in the place of the result.

    `prefix` makes the call ids unique within a prompt.
    """
    ids = [f"call_{prefix}_{call.n}" for call in calls]
    asked = [
        {"id": id_, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for id_, c in zip(ids, calls, strict=True)
    ]
    entries: list[dict[str, Any]] = [{"role": "assistant", "content": None, "tool_calls": asked}]
    entries += [
        {"role": "tool", "tool_call_id": id_, "content": call.outcome}
        for id_, call in zip(ids, calls, strict=True)
    ]
    return entries


def size_of(prepared: dict[str, Any]) -> int:
    """The code points of the texts in one prepared message."""
    size = len(prepared["content"] or "")
    for call in prepared.get("tool_calls", ()):
        size += len(call["function"]["name"]) + len(call["function"]["arguments"])
    return size


def cut(text: str) -> str:
    """A text as long as the model gets one: head and tail, and a note on what is left out."""
    if len(text) <= MESSAGE_CHARS:
        return text
    note = f"\n[… {len(text) - MESSAGE_CHARS} characters left out here; the archive has them …]\n"
    half = (MESSAGE_CHARS - len(note)) // 2
    return _head(text, half) + note + _tail(text, half)


def _head(text: str, size: int) -> str:
    """At most that many characters, ending with a whole grapheme if one is near."""
    window = text[max(0, size - GRAPHEME_WINDOW) : size + GRAPHEME_WINDOW]
    begin = max(0, size - GRAPHEME_WINDOW)
    ends = [begin + match.end() for match in regex.finditer(r"\X", window)]
    return text[: max((end for end in ends if end <= size), default=size)]


def _tail(text: str, size: int) -> str:
    """At most the last that many characters, beginning with a whole grapheme if one is near."""
    place = len(text) - size
    begin = place - GRAPHEME_WINDOW
    window = text[begin : place + GRAPHEME_WINDOW]
    starts = [begin + match.start() for match in regex.finditer(r"\X", window)]
    return text[min((start for start in starts if start >= place), default=place) :]


def cut_arguments(arguments: Any) -> str:
    """A call's arguments as they are remembered: valid JSON, string values cut."""
    return json.dumps(_cut_value(arguments), ensure_ascii=False, separators=(",", ":"))


def _cut_value(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= ARGUMENT_CHARS else value[: ARGUMENT_CHARS - 1] + "…"
    if isinstance(value, list):
        return [_cut_value(one) for one in value[:20]]
    if isinstance(value, dict):
        return {str(key)[:NAME_CHARS]: _cut_value(one) for key, one in list(value.items())[:20]}
    return value


def speaker(message: Message) -> str:
    """A display name as data: one short line without the marks that could end it."""
    name = " ".join(clean_for_model(message.name).replace(":", " ").split())[:NAME_CHARS]
    return name or message.author
