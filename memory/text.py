"""Text at the door and on its way to the model. Pure.

What people type is kept as it is; only what no store can hold is mended. The model gets less:
characters that nobody sees but a model reads are taken out.
"""

from __future__ import annotations

import re

import regex

_VARIANTS = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_JOINING = (
    r"[[\p{L}\p{M}]--[\p{Latin}\p{Greek}\p{Cyrillic}\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}"
    rf"\u0300-\u036f{_VARIANTS}]]"
)
"""Letters and marks of the scripts that join or stack, where a joiner changes what is seen."""

_UNSTORABLE = regex.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = regex.compile(r"[\ud800-\udfff]")

# A flag is U+1F3F4, a CLDR subdivision (such as `gbsct`) in tag characters, U+E007F:
# https://unicode.org/reports/tr51/#valid-emoji-tag-sequences. Every other alternative is taken
# out. One joiner or variation selector stays where its script or an emoji needs it; a second in
# a row, or one after a letter that has no use for it, shows nothing and can carry bits.
_HIDDEN = regex.compile(
    r"(?P<flag>\U0001f3f4"
    r"(?:[\U000e0061-\U000e007a]{2}|[\U000e0030-\U000e0039]{3})"
    r"[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,4}\U000e007f)"
    rf"|(?<!{_JOINING}|[\p{{Extended_Pictographic}}\p{{Emoji_Modifier}}\ufe0f\U000e007f])[\u200c\u200d]"
    r"|(?<![\p{Emoji}])[\ufe0e\ufe0f]"
    rf"|(?<!{_JOINING}|[\p{{Han}}\p{{Sm}}\p{{P}}0])[\ufe00-\ufe06]"
    r"|[\ufe07-\ufe0d]"
    r"|(?<!\p{Han})[\U000e0100-\U000e01ef]"
    r"|(?<!\p{Mongolian})\u180e"
    r"|[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]",
    regex.V1,
)

_SUSPECT = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Every character that `_HIDDEN` takes out anywhere; a text without one is let through quickly."""

# Of the format characters, the signs that stand before Arabic, Syriac and Kaithi numbers show.
_VISIBLE = regex.compile(
    r"[^[\p{Z}\p{Cc}\p{Cs}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2800]"
    r"[\p{Cf}--[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd]]]",
    regex.V1,
)


def mend(text: str) -> str:
    """The text as it is stored: lone surrogates become U+FFFD, control characters go.

    Tab and newline stay; everything else stays word for word. Two surrogates that make a pair
    become the character that they stand for.
    """
    if text.isascii() and text.isprintable():
        return text
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    mended: str = _UNSTORABLE.sub("", text)
    return mended


def clean_for_model(text: str) -> str:
    """The text without characters that smuggle: tags, bidi controls, invisible format marks.

    Joiners and variation selectors stay where scripts and emoji need them, and so do well-formed
    flags made of tag characters.
    """
    if text.isascii() or not _SUSPECT.search(text):
        return text
    cleaned: str = _HIDDEN.sub(lambda match: match["flag"] or "", text)
    return cleaned


def is_blank(text: str) -> bool:
    """Whether nothing in the text can be seen."""
    return _VISIBLE.search(text) is None
