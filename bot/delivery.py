"""How answers leave: what a channel does for the engine, and how it says that it went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bot.stop import Stop
from memory.turn_rows import Answer, Part, Turn, Work


@dataclass(frozen=True, slots=True)
class Delivered:
    """All parts of an answer are out, or will never be."""

    lost: str = ""
    """Why some never will be; the turn is then set aside for the operator to see."""


@dataclass(frozen=True, slots=True)
class Later:
    """The channel could not take everything now."""

    seconds: float
    why: str


class Delivery(Protocol):
    """How a channel takes an answer out."""

    def warm(self) -> None:
        """Prepares the first delivery, without the network."""

    def close(self) -> None:
        """Closes the connections that are kept open."""

    def parts(self, turn: Turn, answer: Answer) -> tuple[Part, ...]:
        """The parts in which the answer leaves."""

    def takes_long(self, work: Work) -> None:
        """Shows that an answer is being made; returns at once, and may be called again."""

    def sweep(self) -> None:
        """Begins with what else the archive says is to be done; returns at once."""

    def deliver(self, turn: Turn, stop: Stop) -> Delivered | Later:
        """Sends whatever is not out yet; sending a part again is harmless.

        Raises:
            Stopped: the process is ending.
        """


class Commands(Protocol):
    """What is answered to commands, in their place in the order."""

    def answer(self, work: Work) -> str:
        """The answer to a command.

        Raises:
            StoreDown: the archive cannot be reached.
        """
