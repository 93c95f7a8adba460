"""Markdown as Chat gets it: every vector, and nothing that a model writes mentions anybody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.chat.split import LIMIT_BYTES, split
from bot.markdown import aligned, escaped, parser, to_chat
from tests import floods
from tests.shared import cases, needs_shared

VECTORS: list[Any] = cases("google-chat/markdown_vectors.json", "vectors")


@needs_shared
@pytest.mark.parametrize("vector", VECTORS)
def test_vector(vector: dict[str, Any]) -> None:
    assert to_chat(vector["markdown"]) == vector["native"]


@pytest.mark.parametrize(
    ("markdown", "chat"),
    [
        ("- [ ] open\n- [x] done\n- [y] text", "- ☐ open\n- ☑ done\n- [y] text"),
        ("a\n\n---\n\nb", "a\n\nb"),
        ("a\n***\nb", "a\n\nb"),
        ("![](https://a.example/c.png)", "[image](https://a.example/c.png)"),
        ("see <https://a.example|the docs>", "see [the docs](https://a.example)"),
        ("# A **b** `c`", "**A b `c`**"),
        ("#", ""),
        ("1) a\n2) b", "1. a\n2. b"),
        ("- a\n\n  b\n\n- c", "- a\n\n  b\n\n- c"),
        ("- a\n  ```\n  x\n  ```\n- b", "- a\n  ```\n  x\n  ```\n- b"),
        ("> - a\n> - b", "> - a\n> - b"),
        ("> a\n>\n> b", "> a\n>\n> b"),
        ("a\n    # b", "a\n\\# b"),
        ("a<br/>b", "a\nb"),
        ("<!-- hidden -->seen", "seen"),
        ("<div>\n[x](https://a.example)\n</div>", "[x](https://a.example)"),
        ("~~~ py`\nx\n~~~", "```py\nx\n```"),
        ("    indented, not code", "indented, not code"),
        ("[a](https://a.example 'title')", "[a](https://a.example)"),
        ("[a]()", "a"),
        ("[x](data:text/html;base64,AA)", "x"),
        ("<ada@example.test>", "ada@example.test"),
        ("[w](mailto:ada@example.test)", "[w](mailto:ada@example.test)"),
        ("[![a](https://a.example/i.png)](https://a.example)", "[a](https://a.example)"),
        ("| a |\n|---|\n| `<users/all>` |", "```\na\n‹users/all›\n```"),
        ("`<users/all>` and <us<b></b>ers/all>", "`‹users/all›` and ‹users/all›"),
        ("<customEmojis/abc> <users/123>", "‹customEmojis/abc› ‹users/123›"),
        ("&lt;b&gt;", "<b>"),
        ("&ast;not&ast;", "\\*not\\*"),
    ],
)
def test_other_forms(markdown: str, chat: str) -> None:
    assert to_chat(markdown) == chat


def test_columns_stand_one_under_the_other_whatever_the_script() -> None:
    rows = [["名", "n"], ["東京", "1"], ["é", "10"]]
    assert aligned(rows, [False, True]) == ["名     n", "東京   1", "é     10"]


@pytest.mark.parametrize(
    "text", ["*a*", "_a_", "`a`", "[a](b)", "<users/1>", "a\\*b", "~~x~~", "**", "1 < 2"]
)
def test_escaped_text_is_read_as_itself(text: str) -> None:
    (paragraph,) = [t for t in parser().parse(escaped(text)) if t.type == "inline"]
    assert "".join(token.content for token in paragraph.children or ()) == text


MARKS = st.sampled_from(
    ["*", "_", "`", "```", "~~", "~~~", "[", "](", ")", "<", ">", "users/all", "<users/all>", "|",
     "\n", "\n\n", "- ", "1. ", "# ", "> ", "    ", "https://a.example/x", "<b>", "</b>", "&lt;",
     "&#60;", "\\", "a", "é", "東", "!", "---", "\n|---|\n", "<chat-citation>", "\ud800", "\0"]
)  # fmt: skip


@given(st.lists(MARKS, max_size=40))
@settings(max_examples=1_500, deadline=None)
def test_whatever_a_model_writes_goes_out_and_mentions_nobody(pieces: list[str]) -> None:
    shown = to_chat("".join(pieces))
    for piece in split(shown, 200):
        piece.encode()
        assert "<users/" not in piece
        assert "<chat-citation" not in piece.lower()
    again = to_chat(shown)
    assert "<users/" not in again


@pytest.mark.parametrize("unit", floods.MARKDOWN)
def test_hostile_repetition_goes_out_too(unit: str) -> None:
    chunks = split(to_chat(floods.repeated(unit, floods.MARKDOWN_CHARS)))
    assert all(0 < len(chunk.encode()) <= LIMIT_BYTES for chunk in chunks)
