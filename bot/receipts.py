"""Receipts: the line under an answer that says what was written, and where. Pure.

A receipt (`bot.words.receipt`) is made from what the wiki gave back after it had read the note
again; a line of the model's that looks like one is taken out, so that there is none without a
write.
"""

from __future__ import annotations

import re

_RECEIPT = re.compile(
    r"^[ \t>*_-]*Saved:[^\n]*\([0-9a-fA-F]{7,40}\)[*_.` \t]*\r?$\n?", re.MULTILINE
)


def without_forged(text: str) -> str:
    """A model's text without lines that look like receipts."""
    return _RECEIPT.sub("", text) if "Saved:" in text else text
