"""What a language model is to Mercury: messages and tools in, a stream of text and calls out.

This file holds the interface and its errors; `bot/openai_model.py` speaks to a server and
`bot/extractive.py` answers without one.

    ModelError
    ├── ModelAway      nothing usable came within the tries; the turn gets one plain sentence
    ├── ModelRefused   the server refuses us (credentials, model name, request)
    └── ContextTooLong the prompt does not fit; the caller shortens it and asks once more
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from bot.stop import Stop

Prompt = Sequence[Mapping[str, Any]]
"""Messages in the shape of OpenAI's chat completions (`role`, `content`, `tool_calls` …)."""


class ModelError(Exception):
    """The model gave no usable answer; the text is for the log, never for the person."""


class ModelAway(ModelError):
    """No answer within the tries, or a stream that kept breaking."""


class ModelRefused(ModelError):
    """The server refused the request itself; trying again would not help."""


class ContextTooLong(ModelError):
    """The prompt is longer than the model takes."""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    delta: str


@dataclass(frozen=True, slots=True)
class Call:
    """A whole tool call; `arguments` is the JSON text as the model wrote it, perhaps malformed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reset:
    """What was streamed of this answer is void: it begins again."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The answer ended unfinished; `why` is `length` (the model's own limit or ours)."""

    why: str


Piece = Text | Call | Reset | Cut


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Model(Protocol):
    """Something that answers."""

    @property
    def name(self) -> str:
        """What answers, for people: the model's name, or `extractive`."""

    def stream(self, prompt: Prompt, tools: Sequence[ToolSpec], stop: Stop) -> Iterator[Piece]:
        """Yields the answer as it comes; ends when it is whole, or after a Cut.

        Raises:
            ModelError: as drawn above; what was yielded before is then void.
            Stopped: `stop` ended the work.
        """


@runtime_checkable
class RemoteModel(Model, Protocol):
    """A model behind a connection, which also writes plain texts without tools."""

    def complete(self, prompt: Prompt, stop: Stop) -> str:
        """The whole text of an answer; '' is an answer too.

        Raises:
            ModelError, Stopped: as `stream`.
        """

    def warm(self) -> None:
        """Prepares the first request, without the network."""

    def close(self) -> None:
        """Closes the connections that are kept open."""
