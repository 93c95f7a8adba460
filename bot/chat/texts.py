"""Every text that leaves to Google Chat comes through here: as Chat draws it, in messages."""

from __future__ import annotations

from collections.abc import Sequence

from bot import words
from bot.chat.split import LIMIT_BYTES, split
from bot.markdown import escaped, to_chat

NOTICE_BYTES = 4_000
"""What the notices of an answer may take of its first message."""


def messages(text: str, notices: Sequence[str] = ()) -> list[str]:
    """A text as messages of Chat's native Markdown, in order; at least one, none for no text.

    Args:
        text: Markdown as anybody wrote it.
        notices: plain texts, which stand at the end of the first message, in italics.
    """
    if not text:
        return []
    shown = to_chat(text) or words.NOTHING_TO_SHOW
    said = "\n".join(to_chat(f"*{escaped(one)}*") for one in notices)
    if not said:
        return split(shown)
    said = split(said, NOTICE_BYTES)[0]
    first, *others = split(shown, LIMIT_BYTES - len(said.encode()) - 2)
    return [f"{first}\n\n{said}", *others]
