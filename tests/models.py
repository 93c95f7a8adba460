"""Scripted models for tests in the process: a list of answers, given one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bot.model import Call, Piece, Prompt, Text, ToolSpec
from bot.stop import Stop

Step = str | list[Piece] | Exception | Callable[[Prompt, Stop], list[Piece] | str]


class Scripted:
    """Gives the next answer of its script, and the last one for ever.

    A step is a text, a list of pieces, an error to raise, or a function of the prompt.
    `prompts` keeps what it was asked.
    """

    name = "scripted"

    def __init__(self, *script: Step) -> None:
        self._script = list(script) or ["ok"]
        self._lock = threading.Lock()
        self.prompts: list[list[dict[str, Any]]] = []

    def stream(self, prompt: Prompt, tools: Sequence[ToolSpec], stop: Stop) -> Iterator[Piece]:
        with self._lock:
            self.prompts.append([dict(message) for message in prompt])
            step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if callable(step):
            step = step(prompt, stop)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            step = [Text(step)]
        yield from step


def calls(name: str, arguments: str, id_: str = "c1") -> list[Piece]:
    """One tool call and nothing else."""
    return [Call(id_, name, arguments)]


class Echo:
    """Answers `You said: <the last message>`."""

    name = "echo"

    def stream(self, prompt: Prompt, tools: Sequence[ToolSpec], stop: Stop) -> Iterator[Piece]:
        yield Text("You said: ")
        yield Text(str(prompt[-1]["content"]))
