"""Answers cut into messages: the vectors, and what holds for any text and limit."""

from __future__ import annotations

import re
from typing import Any

import pytest
import regex  # type: ignore[import-untyped,unused-ignore]
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.chat.split import LIMIT_BYTES, split
from tests import floods
from tests.shared import cases, needs_shared

VECTORS = [
    vector
    for vector in cases("google-chat/split_vectors.json", "vectors")
    if vector.values[0]["text"] is not None  # the one without is tried on any text below
]
FENCE_LINE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^`\n]*$", re.MULTILINE)

WORDS = [
    *("word", "a", " ", "  ", "\n", "\n\n", "\t", "é", "漢字", "👩‍💻", "🇮🇹", "e\u0301\u0302"),
    *("[label here](https://a.example/x)", "<https://a.example>", "[", "](", ")", "\r\n"),
    *("- item\n", "> quote\n", "x" * 40, "\u00a0", "`code`", "**b**", "| a | b |\n"),
]
FENCES = ["```\n", "\n```\n", "~~~\n", "\n```py\n", "\n~~~\n", "  ```\n"]
LOOSE = ["\u200d", " \u0301"]
"""Marks that join what stands before them, blanks included."""

PLAIN = st.lists(st.sampled_from(WORDS), max_size=60).map("".join)
TEXTS = st.lists(st.sampled_from(WORDS + FENCES + LOOSE), max_size=60).map("".join)
LIMITS = st.integers(24, 120)


def said(text: str) -> str:
    """What a text says: without the fences and without any blank."""
    return re.sub(r"\s", "", FENCE_LINE.sub("", text))


def graphemes(text: str) -> list[str]:
    """The graphemes of a text that are no blanks."""
    found: list[str] = regex.findall(r"\X", text)
    return [one for one in found if one.strip()]


def open_fence(chunk: str) -> str | None:
    """The marker of the fence that a message leaves open, by the rules of CommonMark."""
    marker: str | None = None
    for line in chunk.split("\n"):
        found = FENCE_LINE.fullmatch(line)
        if found is None:
            continue
        if marker is None:
            marker = found[1]
        elif found[1].startswith(marker) and line.strip() == found[1]:
            marker = None
    return marker


@needs_shared
@pytest.mark.parametrize("vector", VECTORS)
def test_every_vector_is_cut_as_it_says(vector: dict[str, Any]) -> None:
    chunks = split(vector["text"], vector["limit"])
    if vector["chunks"] is not None:
        assert chunks == vector["chunks"]
    assert all(len(chunk.encode()) <= vector["limit"] for chunk in chunks)
    assert all(open_fence(chunk) is None for chunk in chunks)


@given(text=TEXTS, limit=LIMITS)
@settings(max_examples=600, deadline=None)
def test_no_message_is_over_the_limit_or_blank_or_leaves_a_fence_open(
    text: str, limit: int
) -> None:
    for chunk in split(text, limit):
        assert len(chunk.encode()) <= limit
        assert chunk.strip()
        assert open_fence(chunk) is None


@given(text=TEXTS, limit=LIMITS)
@settings(max_examples=600, deadline=None)
def test_nothing_is_lost_added_or_moved(text: str, limit: int) -> None:
    assert said("\n".join(split(text, limit))) == said(text)


@given(text=PLAIN, limit=st.integers(48, 120))
@settings(max_examples=400, deadline=None)
def test_no_grapheme_and_no_link_is_cut(text: str, limit: int) -> None:
    chunks = split(text, limit)
    assert [one for chunk in chunks for one in graphemes(chunk)] == graphemes(text)
    for link in ("[label here](https://a.example/x)", "<https://a.example>"):
        assert sum(chunk.count(link) for chunk in chunks) == text.count(link)


def test_an_empty_or_blank_text_is_no_message() -> None:
    assert split("") == []
    assert split(" \n\t\n") == []


def test_a_grapheme_bigger_than_a_message_is_cut_between_code_points() -> None:
    flood = "e" + "\u0301" * 50
    chunks = split(flood, 11)
    assert "".join(chunks) == flood
    assert all(len(chunk.encode()) <= 11 for chunk in chunks)


def test_a_fence_that_is_opened_again_keeps_its_language() -> None:
    chunks = split("```python\n" + "x = 1\n" * 40 + "```", 100)
    assert len(chunks) > 1
    assert all(chunk.startswith("```python\n") and chunk.endswith("\n```") for chunk in chunks)


def test_code_that_holds_a_fence_is_not_ended_by_a_cut_within_it() -> None:
    text = "````md\n" + "```py\n" * 30 + "````\nafter"
    chunks = split(text, 60)
    assert all(open_fence(chunk) is None for chunk in chunks)
    assert chunks[-1].endswith("\nafter")


@given(text=TEXTS, limit=st.integers(4, 23))
@settings(max_examples=300, deadline=None)
def test_the_smallest_limits_are_kept(text: str, limit: int) -> None:
    assert all(len(chunk.encode()) <= limit and chunk.strip() for chunk in split(text, limit))


def test_a_limit_below_one_character_is_refused() -> None:
    with pytest.raises(ValueError):
        split("x", 3)


def test_a_fence_left_open_by_the_text_is_closed() -> None:
    assert split("see\n```\ncode") == ["see\n```\ncode\n```"]


def test_a_link_longer_than_a_message_does_not_stop_the_cutting() -> None:
    link = "[a](https://a.example/" + "x" * 100 + ")"
    assert "".join(split(link, 30)) == link


def test_text_that_no_store_can_hold_is_cut_all_the_same() -> None:
    assert "".join(split("\ud800" * 20, 10)) == "\ud800" * 20


@pytest.mark.parametrize("name", floods.SPLIT)
def test_a_hostile_megabyte_is_cut_too(name: str) -> None:
    chunks = split(floods.SPLIT[name])
    assert chunks
    assert max(len(chunk.encode()) for chunk in chunks) <= LIMIT_BYTES
