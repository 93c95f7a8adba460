"""Who is asking, and where the answer will be seen.

A scope is made only where a request has been authenticated; every call that reads or writes
memory takes one. This module knows the forms of ids, and nothing of stores or channels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["dm", "space", "http", "cli"]

_PERSON = re.compile(
    r"google-chat:users/[0-9]{1,32}|http:[A-Za-z0-9._@-]{1,128}|cli:[A-Za-z0-9._@-]{1,128}"
)
_SPACE = re.compile(r"spaces/[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Scope:
    """One authenticated person in one place.

    `kind` says where the answer is seen; `space` is the Chat space (`spaces/S`) when it is one
    that others read too, else None.

    Raises:
        ValueError: the person or the space does not have the form of an id.
    """

    person: str
    kind: Kind
    space: str | None = None

    def __post_init__(self) -> None:
        if not _PERSON.fullmatch(self.person):
            raise ValueError(f"not a person's id: {self.person!r}")
        if (self.kind == "space") != (self.space is not None):
            raise ValueError("a space scope names its space, and no other does")
        if self.space is not None and not _SPACE.fullmatch(self.space):
            raise ValueError(f"not a space: {self.space!r}")

    @property
    def owner(self) -> str:
        """Whose memory is read and written: the space's in a space, else the person's own."""
        return f"space:{self.space}" if self.space is not None else f"person:{self.person}"


def is_person(text: str) -> bool:
    """Whether `text` has the form of a person's id."""
    return _PERSON.fullmatch(text) is not None
