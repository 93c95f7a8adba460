"""Text at the door and on its way to the model. Pure.

What people type is kept as it is; only what no store can hold is mended. The model gets less:
characters that nobody sees but a model reads are taken out.
"""

from __future__ import annotations

import regex

_UNSTORABLE = regex.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_FLAG = regex.compile("(\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{1,12}\U000e007f)")
_HIDDEN = regex.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_VISIBLE = regex.compile(r"[^\p{Z}\p{C}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f]")


def mend(text: str) -> str:
    """The text as it is stored: lone surrogates become U+FFFD, control characters go.

    Tab and newline stay; everything else stays word for word.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSTORABLE.sub(lambda m: "\ufffd" if m[0] >= "\ud800" else "", text)


def clean_for_model(text: str) -> str:
    """The text without characters that smuggle: tags, bidi controls, invisible format marks.

    Joiners and variation selectors, which scripts and emoji need, and well-formed flags made of
    tag characters (Unicode TS #51, annex C) stay.
    """
    if text.isascii() or not _HIDDEN.search(text):
        return text
    pieces = _FLAG.split(text)
    pieces[::2] = [_HIDDEN.sub("", piece) for piece in pieces[::2]]
    return "".join(pieces)


def is_blank(text: str) -> bool:
    """Whether nothing in the text can be seen."""
    return _VISIBLE.search(text) is None
