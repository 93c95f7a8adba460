"""Texts made to take time: what the tests put through, and `make bench` measures.

The tests hold that each is taken at all, whole and right; one that took quadratic time would
not end before the time that pytest gives every test. How long it takes is measured by
`python -m benchmarks text`.
"""

from __future__ import annotations

MEBIBYTE = 1_048_576


def repeated(unit: str, chars: int = MEBIBYTE) -> str:
    """`unit` over and over, at most `chars` long."""
    return unit * (chars // len(unit))


SPLIT = {
    "one word": "x" * 1_000_000,
    "words": "word " * 200_000,
    "no spaces": "漢" * 333_000,
    "one grapheme": "e" + "\u0301" * 500_000,
    "links never finished": "[a](b " * 160_000,
    "nested labels": "[a" + "[y]" * 333_000,
    "a fence never closed": "```\n" + "x y\n" * 250_000,
    "fences": "```\nx\n```\n" * 100_000,
    "emoji": "👩‍💻" * 90_000,
    "backticks": "`" * 1_000_000,
    "blanks": "a" + "\n \n" * 330_000 + "b",
}
"""Megabytes for the splitter."""

MARKDOWN = (
    "[", "*a ", "`", "> ", "- ", "<b", "![", "](", "|", "\\", "&lt;", "a\n", "[a](", "~~",
)  # fmt: skip
"""What the normaliser sees over and over, for `MARKDOWN_CHARS`."""

MARKDOWN_CHARS = 40_000

JSON = (
    b"[" * 1_000_000,
    b'{"a":' * 200_000,
    b"[]" * 40 + b'"' + b'\\"' * 500_000,
    b"[]" * 40 + b'"' * 1_000_000,
    b"[]" * 40 + b"\\" * 1_000_000,
    b"[" + b"[]," * 300_000,
    b"]" * 500_000 + b"[" * 500_000,
)
"""Bodies that no strict reader takes."""

SECRETS = (
    "eyJ", "eyJaaaaa.", "Bearer ", "bearer" + " " * 50, "mcy_", "cf_", "://", "a=b&k=", "A-", ".",
)  # fmt: skip
"""What looks like the beginning of a secret."""

INVISIBLE = ("\u200d", "\ufe0f", "\U0001f3f4", "\U000e0061", "می\u200c", "\ud800")
"""What a text is cleaned of, or must not be."""

TERMS = ("a", "é", "会", "ก", "\u0301", "\u0301\u0323", "👩", "\u200d", " ", "€", "क", "𝕏")
"""What a text is cut into terms from, after an e."""
