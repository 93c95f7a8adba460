"""What a person attached to a message, as the model gets it: a text, an image, or why neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bot.stop import Stop
from memory.turn_rows import Turn


@dataclass(frozen=True, slots=True)
class Material:
    """One attached file.

    `image_url` is a `data:` URL; `why` says in a few words why there is neither text nor image.
    """

    name: str
    text: str = ""
    image_url: str = ""
    why: str = ""


Materials = Callable[[Turn, Stop], list[Material]]
"""Fetches what is attached to a turn's message; what cannot be had is said, never raised."""
