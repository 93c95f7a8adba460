"""What is shown while an answer is made: nothing that would have to be taken back, if it can be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.links import LinkRule
from bot.outgoing import Outgoing


class Watcher:
    """Somebody who watches: what they see now, and how often it was taken back."""

    def __init__(self, secret: str = "sk-secret-value") -> None:
        self.rule = LinkRule([], lambda host: [])
        self.secret = secret
        self.seen = ""
        self.ever = ""
        self.resets = 0
        self.outgoing = Outgoing(self._clean, self._take)

    def _clean(self, text: str) -> str:
        return self.rule.clean(text.replace(self.secret, "•••"))

    def _take(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "reset":
            self.seen = ""
            self.resets += 1
        else:
            self.seen += data["delta"]
            self.ever += data["delta"]

    def watch(self, *pieces: str) -> str:
        for piece in pieces:
            self.outgoing.add(piece)
        return self.outgoing.finish("".join(pieces))


def test_words_are_shown_as_they_come() -> None:
    watcher = Watcher()
    watcher.outgoing.add("one tw")
    assert watcher.seen == "one "
    watcher.outgoing.add("o 会議")
    assert watcher.seen == "one two 会議"
    assert watcher.outgoing.finish("one two 会議の") == "one two 会議の"
    assert (watcher.seen, watcher.resets) == ("one two 会議の", 0)


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_secret_is_never_shown_however_it_is_cut(size: int) -> None:
    text = "my key is sk-secret-value and so on\nand again sk-secret-value."
    watcher = Watcher()
    pieces = [text[n : n + size] for n in range(0, len(text), size)]
    assert watcher.watch(*pieces) == text.replace("sk-secret-value", "•••")
    assert "secret" not in watcher.ever


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_forbidden_link_is_never_shown_however_it_is_cut(size: int) -> None:
    text = "Look:\n\n[the docs](https://evil.example/CANARY) or https://evil.example/CANARY\nend."
    watcher = Watcher()
    pieces = [text[n : n + size] for n in range(0, len(text), size)]
    assert watcher.watch(*pieces) == "Look:\n\nthe docs (evil.example) or evil.example\nend."
    assert "CANARY" not in watcher.ever
    assert watcher.seen == "Look:\n\nthe docs (evil.example) or evil.example\nend."


def test_a_definition_that_comes_later_takes_back_what_it_would_have_made_a_link() -> None:
    watcher = Watcher()
    watcher.watch("See [docs][1] now.\n", "\n", "[1]: https://evil.example/CANARY\n")
    assert watcher.seen.startswith("See docs (evil.example) now.")
    assert "CANARY" not in watcher.ever


def test_beginning_again_takes_everything_back() -> None:
    watcher = Watcher()
    watcher.outgoing.add("half an ")
    watcher.outgoing.begin_again("so far\n\n")
    assert watcher.outgoing.finish("so far\n\nwhole") == "so far\n\nwhole"
    assert (watcher.seen, watcher.resets) == ("so far\n\nwhole", 1)


TEXTS = st.lists(
    st.sampled_from(
        ["word ", "two\n", "https://evil.example/CANARY ", "[x](https://evil.example/CANARY)",
         "\n\n", "[a][1]", "[1]: https://evil.example/CANARY\n", "sk-secret-value",
         "`code`", "```\n", "é",
         "- item\n", "**b**", "www.", "//", "evil.dev/CANARY", "&#58;", "\\"]
    ),
    max_size=30,
)  # fmt: skip


@given(TEXTS, st.integers(1, 9))
@settings(max_examples=500, deadline=None)
def test_what_is_seen_in_the_end_is_what_is_stored(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    watcher = Watcher()
    stored = watcher.watch(*[text[n : n + size] for n in range(0, len(text), size)])
    assert watcher.seen == stored == watcher._clean(text)
