"""The errors of the wiki package, drawn once.

    WikiFault
    ├── WikiDown     the repository cannot be read or written now; nothing of the call was kept
    ├── NotAPath     the path can never be a note's; the text says why
    ├── NotAllowed   only an operator may, or a person who confirms it
    ├── NotThere     there is no such note or version, or it is somebody else's
    ├── TooLong      the note has too many characters
    ├── Exists       there is a note at that path, and the caller did not say which version it read
    └── Stale        the note has changed since it was read; `text` and `base` are the current ones

dulwich's own errors never leave `wiki/repository.py`.
"""

from __future__ import annotations


class WikiFault(Exception):
    """The root of the tree; never raised itself."""


class WikiDown(WikiFault):
    """The repository is away, full, read-only or damaged."""


class NotAPath(WikiFault):
    """No note can have that path."""


class NotAllowed(WikiFault):
    """The change needs a confirmation."""


class NotThere(WikiFault):
    """Nothing under that path in that access."""


class TooLong(WikiFault):
    """The note is longer than notes may be."""


class Exists(WikiFault):
    """A note is there already."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Stale(WikiFault):
    """Another version is there than the one that the change was made from.

    Args:
        text: what is there now; None for nothing.
        base: its version; '' for nothing.
    """

    def __init__(self, text: str | None, base: str) -> None:
        super().__init__("changed")
        self.text = text
        self.base = base
