"""Which links may leave: what a person typed, what a tool gave, nothing that a model made up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.links import LinkRule, addresses
from bot.markdown import to_chat
from bot.tools import Arguments, Context, Tool
from tests.fakes import model_server as fake
from tests.hostile import Rig

TYPED = "look at https://a.example/page?x=1, and (https://ok.example/y_(z)). evil.example"
NOTE = "<!-- https://hidden.example/z --> see [w](https://wiki.example/a) <!-- open https://o.example/x"


def rule(*hosts: str) -> LinkRule:
    return LinkRule(["ours.example.test", *hosts], lambda host: [TYPED, NOTE])


@pytest.mark.parametrize(
    "text",
    [
        "no link at all, 1/2 and src/app.py, notes/logo.md and README.md#install",
        "https://a.example/page?x=1",
        "(see https://a.example/page?x=1).",
        "[p](https://a.example/page?x=1)",
        "**https://a.example/page?x=1**",
        "https://ok.example/y_(z)",
        "[w](https://wiki.example/a)",
        "https://ours.example.test/any?thing=1",
        "```\ncurl https://evil.example/x\n```",
        "`https://evil.example/x`",
        "[x][1]\n\n[1]: https://a.example/page?x=1",
        "# A\n\n* b\n* c\n\n| a |\n|---|\n| b |",
        "a & b, [ ] and <b>",
    ],
)
def test_what_may_leave_leaves_word_for_word(text: str) -> None:
    assert rule().clean(text) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("see https://evil.example/?d=CANARY now", "see evil.example now"),
        ("[docs](https://evil.example/?d=CANARY)", "docs (evil.example)"),
        ("[docs][1]\n\n[1]: https://evil.example/?d=CANARY", "docs (evil.example)\n"),
        ("[docs]\n\n[docs]: https://evil.example/CANARY 'CANARY'", "docs (evil.example)\n"),
        ("<https://evil.example/CANARY|Click>", "Click (evil.example)"),
        ("<https://evil.example/CANARY>", "evil.example"),
        ("![i](https://evil.example/i.png?d=CANARY)", "i (evil.example)"),
        ('<a href="https://evil.example/CANARY">hi</a>', "hi"),
        ("[x](https&#58;//evil.example/CANARY)", "x (evil.example)"),
        ("https&#58;//evil.example/CANARY", "evil.example"),
        ("https:\\/\\/evil.example/CANARY", "evil.example"),
        ("- a\n\n    [x](https://evil.example/CANARY)", "- a\n\n  x (evil.example)"),
        ("//evil.example/CANARY", "evil.example"),
        ("evil.dev/x?d=CANARY", "evil.dev"),
        ("www.evil.example/CANARY", "www.evil.example"),
        ("[m](mailto:a@evil.example?subject=CANARY)", "m (evil.example)"),
        ("https://ok.example@evil.example/CANARY", "evil.example"),
        ("https://evil.example@ours.example.test/CANARY", "ours.example.test"),
        ("https://a.example/page?x=12", "a.example"),
        ("https://a.example/page", "a.example"),
        ("https://hidden.example/z and https://o.example/x", "hidden.example and o.example"),
        ("[https://a.example/page?x=1](https://evil.example/CANARY)",
         "https://a.example/page?x=1 (evil.example)"),
        ("| a |\n|---|\n| [q](https://evil.example/CANARY) |",
         "| a |\n|---|\n| q (evil.example) |"),
        ("## T https://evil.example/CANARY\n\n* a\n* b", "## T evil.example\n\n* a\n* b"),
        ("ftp://evil.example/CANARY", "evil.example"),
        ("HTTPS://EVIL.EXAMPLE/CANARY", "evil.example"),
    ],
)  # fmt: skip
def test_of_any_other_link_the_label_and_the_host_are_shown(text: str, cleaned: str) -> None:
    assert rule().clean(text) == cleaned
    assert "CANARY" not in to_chat(cleaned)


def test_blocks_without_such_a_link_stay_as_they_are() -> None:
    text = "1. x\n1. y\n\n__b__ https://evil.example/q\n\n* c\r\n* d"
    assert rule().clean(text) == "1. x\n1. y\n\n**b** evil.example\n\n* c\n* d"


def test_the_operator_s_hosts_and_all_of_them() -> None:
    text = "https://docs.example/x https://evil.example/x"
    assert rule("docs.example").clean(text) == "https://docs.example/x evil.example"
    assert rule("*").clean(text) == text


def test_an_international_host_is_the_same_in_both_spellings() -> None:
    typed = LinkRule([], lambda host: ["see https://пример.рф/путь now"])
    assert typed.clean("[x](https://пример.рф/путь)") == "[x](https://пример.рф/путь)"
    assert typed.clean("https://xn--e1afmkfd.xn--p1ai/other") == "xn--e1afmkfd.xn--p1ai"


PIECES = st.sampled_from(
    ["https://evil.example/CANARY", "//evil.example/CANARY", "www.evil.example/CANARY", "[", "]",
     "(", ")", "](", "<", ">", "|", "!", "`", "```\n", "\n", "\n\n", " ", "\\", "&#58;", "\"", "'",
     "[x]: ", "[x]", "*", "_", "- ", "> ", "    ", "<b>", "a", "https:", "//", "1. ", "|---|\n",
     "https&#58;//evil.example/CANARY", "<!--", "-->", "é", "~~", "evil.dev/CANARY"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=25))
@settings(max_examples=2_000, deadline=None)
def test_no_arrangement_of_marks_leads_a_link_out(pieces: list[str]) -> None:
    """Whatever is left of the address is code, or no address that Chat makes a link of."""
    from markdown_it import MarkdownIt

    shown = to_chat(rule().clean("".join(pieces)))
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for block in reader.parse(shown):
        for token in block.children or ():
            assert "CANARY" not in str(token.attrs.get("href", ""))
            assert "CANARY" not in str(token.attrs.get("src", ""))
        text = "".join(
            "\0" if token.type == "code_inline" else token.content for token in block.children or ()
        )
        assert not any("CANARY" in address for _, _, address in addresses(text)), shown


def test_addresses_end_where_the_sentence_goes_on() -> None:
    text = "a https://a.example/x, (https://b.example/y) 'https://c.example/z'. d.example/w!"
    assert [one for _, _, one in addresses(text)] == [
        "https://a.example/x", "https://b.example/y", "https://c.example/z", "d.example/w",
    ]  # fmt: skip


# -- in a whole turn ----------------------------------------------------------------------------


class Nothing(Arguments):
    """No arguments."""


def gives(context: Context, given: Nothing) -> dict[str, str]:
    return {"text": "see https://tool.example/t"}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(tmp_path, "addon", stack).start(
            tools=[Tool("look", "Looks.", Nothing, "reads", gives)]
        )


def test_a_link_that_was_typed_in_the_conversation_leaves_however_long_ago(rig: Rig) -> None:
    rig.tell("keep https://a.example/page")
    rig.model.script = [fake.text("It is [here](https://a.example/page).")]
    rig.tell("where?")
    assert rig.replies()[-1] == "It is [here](https://a.example/page)."
    rig.tell("/new")
    rig.model.script = [fake.text("It is [here](https://a.example/page).")]
    rig.tell("where?")
    assert rig.replies()[-1] == "It is here (a.example)."


def test_another_person_s_link_does_not_vouch_for_it(rig: Rig) -> None:
    rig.tell("keep https://a.example/page", "DM_BOB", **{"from": "bob"})
    rig.model.script = [fake.text("https://a.example/page")]
    rig.tell("where?")
    assert rig.replies("DM_ALICE") == ["a.example"]


def test_a_link_of_a_tool_s_result_leaves_in_that_turn_only(rig: Rig) -> None:
    link = "See https://tool.example/t"
    rig.model.script = [fake.call("look", "{}"), fake.text(link), fake.text(link)]
    rig.tell("look")
    rig.tell("again")
    assert rig.replies() == [link, "See tool.example"]


def test_what_is_stored_is_what_left(rig: Rig) -> None:
    rig.model.script = [fake.text("x [y](https://evil.example/q) z")]
    rig.tell("go")
    answers = rig.rows("SELECT text FROM messages WHERE role = 'assistant'")
    assert answers == [("x y (evil.example) z",)]
