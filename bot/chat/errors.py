"""What can go wrong between Mercury and the Chat API.

    ChatError
    ├── Unavailable         5xx, a time-out or a cut: nothing is certain, try again later
    ├── Limited             429; `retry_after` in seconds when Google says so
    ├── NotAllowed          403: this space only
    ├── Gone                404 on create: the space or its thread is not there
    ├── Deleted             the message was there and the person deleted it
    ├── Taken               409 on create: the id is used; `put` deals with it
    ├── CredentialsRefused  401 after one refresh, or no token is to be had
    ├── NotThere            404 elsewhere; what it means depends on the call, which says so
    ├── TooBig              an attachment is bigger than is taken
    └── Rejected            400 and whatever else will never succeed: a fault of ours
        └── TooLong         the text is longer than Chat takes

The drivers' own errors never leave the module that calls them, nor do their texts: they may
hold a token.
"""

from __future__ import annotations


class ChatError(Exception):
    """The root of the tree; never raised itself."""


class Unavailable(ChatError):
    """The API is away or its answer was lost; the same call may be made again."""


class Limited(ChatError):
    """Too many writes; `retry_after` is a pause in seconds, or None when none was named."""

    def __init__(self, retry_after: float | None) -> None:
        super().__init__("rate limit")
        self.retry_after = retry_after


class NotAllowed(ChatError):
    """The app may not write in that space."""


class Gone(ChatError):
    """The space or the thread does not exist."""


class Deleted(ChatError):
    """The message existed and was deleted by a person."""


class Taken(ChatError):
    """There is a message under that id already."""


class CredentialsRefused(ChatError):
    """Google does not take our credentials."""


class Rejected(ChatError):
    """The request is wrong and will not be better for being repeated."""


class TooLong(Rejected):
    """The text is longer than Chat takes."""


class NotThere(ChatError):
    """404; what it means depends on the call, which says so."""


class TooBig(ChatError):
    """An attachment is bigger than is taken."""
