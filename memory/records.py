"""The values that the archive holds and the history is made of.

Frozen, without behaviour beyond small derived properties, and without any idea of where they
are stored. Times are milliseconds since the epoch, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Role = Literal["person", "assistant", "settled"]
LineKind = Literal["said", "asked", "decided", "rule"]
LINE_KINDS: tuple[LineKind, ...] = ("said", "asked", "decided", "rule")


class Scope(Protocol):
    """Who is asking and where it will be seen; made by the channel that authenticated it."""

    @property
    def person(self) -> str:
        """The person's id, such as `google-chat:users/1` or `http:alice`."""

    @property
    def owner(self) -> str:
        """Whose memory is used: `person:<person>` in private, `space:<space>` in a space."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call as it is remembered: what was asked for and how it went, never its result."""

    n: int
    name: str
    arguments: str
    """JSON, string values cut; see `memory.conversation.cut_arguments`."""
    outcome: str
    """`ok`, `failed: why`, `waiting for confirmation` or `outcome unknown: look first`."""
    reads: bool
    """Whether the tool returned data of a store, so that the answer rests on it."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, word for word as it was typed, answered or settled."""

    id: str
    conversation: str
    turn: str
    seq: int
    """The turn's place under its conversation key (`turn_seq`)."""
    part: int
    """The place within the turn: 0 the person's message, 1 the answer."""
    role: Role
    author: str
    """A person's id, or `mercury`."""
    name: str
    """The author's display name at that time; data, never a key."""
    at: int
    text: str
    tools: tuple[ToolCall, ...] = ()
    """The calls made for this answer, in order; empty for a person's message."""

    @property
    def rests_on_tools(self) -> bool:
        """Whether the text repeats what a reading tool returned and so is no memory."""
        return any(call.reads for call in self.tools)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a summary, resting on the messages it was made from."""

    kind: LineKind
    text: str
    messages: tuple[str, ...]
    """Ids of the messages that it rests on; never empty."""
    at: int
    """When the last of them was said."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of whole turns of one conversation, and the lines that describe it."""

    id: str
    conversation: str
    first_seq: int
    last_seq: int
    lines: tuple[Line, ...]
