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

NOTES = {
    "headings": "# \n" * 150_000,
    "a heading of blanks": "# a" + " " * 250_000 + "b",
    "a heading of blanks and hashes": "# a" + " #" * 150_000 + "b",
    "headings in code": "`# a\n" * 100_000,
    "hardly underlined": "a\n" + "=" * 250_000 + "x",
    "lines of hashes": ("#" * 50 + "\n") * 7_000,
    "links never closed": "[[a" * 150_000,
    "links with a heading never closed": "[[a#b" * 75_000,
    "links with another name never closed": "[[a|" + "x" * 250_000,
    "opening brackets": "[" * 250_000,
    "links beside code": "[[a]] `b` " * 30_000,
    "links in one span": "`" + "[[a]]\n" * 50_000 + "`",
    "backticks": "[[a]]" + "`" * 250_000,
    "backticks of many lengths": "[[a]] " + " ".join("`" * n for n in range(1, 900)),
    "backticks one by one": "[[a]] `x\\` " * 30_000,
    "backslashes": "[[a]] `" + "\\" * 250_000,
    "blank lines": "[[a]] `" + "\n \n" * 100_000,
    "a fence never closed": "```\n" + "[[a]]\n" * 50_000,
    "fences": "```\n[[a]]\n```\n" * 20_000,
    "fences in lists": "- " * 125_000 + "```\n[[a]]",
    "fences in quotations": "> " * 125_000 + "```\n[[a]]",
    "numbers": "1. " * 75_000 + "```\n[[a]]",
    "blanks before a fence": " " * 250_000 + "```\n[[a]]",
    "front matter never closed": "---\n" + "a: b\n" * 50_000,
    "front matter of rules": "---\n" * 50_000,
    "front matter of blanks": "---\n" + " \n" * 125_000 + "---\n",
    "front matter of comments": "---\n" + "#\n" * 125_000 + "---\n",
    "rules and blanks": "---\nx\n" + "---   x\n" * 40_000,
    "a rule of blanks": "---" + " " * 250_000 + "x",
    "lists in lists": "---\na: " + "[" * 3_900 + "\n---\n",
    "lists in lists, closed": "---\na: " + "[" * 1_900 + "]" * 1_900 + "\n---\n",
    "maps in lists": "---\na: " + "[{" * 1_900 + "\n---\n",
    "lists under lists": "---\na:\n " + "- " * 1_900 + "x\n---\n",
    "questions": "---\n" + "? " * 1_900 + "x\n---\n",
    "comments after a key": "---\ntitle: x\n" + "#\n" * 1_900 + "a: b\n---\n",
    "laughs": "---\na0: &a0 [lol]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    + "title: *a39\ntags: *a39\n---\n",
    "aliases": "---\na: &x [b]\n" + "b: *x\n" * 600 + "---\n",
}
"""Notes longer than notes may be, such as a push can bring, and front matter that nests."""

LINES = {
    "every other line": [
        [f"{v}{n}\n" if n % 2 else f"{n}\n" for n in range(40_000)] for v in "abc"
    ],
    "the same few lines": [[f"{n * step % 101}\n" for n in range(40_000)] for step in (1, 7, 13)],
    "pairs": [[f"{(n + k) // 2}\n" for n in range(40_000)] for k in range(3)],
    "each line again further on": [
        [f"{n // 2 if n % 2 else n // 2 + 2}{v if n % 50 == 0 else ''}\n" for n in range(40_000)]
        for v in "abc"
    ],
    "blank lines": [["x\n"] * at + ["y\n"] + ["\n"] * 60_000 for at in range(3)],
    "backwards": [[f"{n}\n" for n in range(40_000)][::step] for step in (1, -1, 2)],
}
"""Three versions of a note each, made to be merged slowly."""
