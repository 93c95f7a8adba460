"""The extractive responder: search words, quotes with their sources, notes, and honest answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bot import words
from bot.extractive import HITS, QUOTE_CHARS, ExtractiveModel, answer_from, keywords, quotes
from bot.mercury import Mercury
from bot.model import Call, Text, ToolSpec
from bot.prompt import RULES, SPACE_RULES
from bot.stop import Stop, Stopped
from tests.test_turn import Talk

ARCHIVE, MEMORY, WIKI = "archive_search", "memory_search", "wiki_search"
KEY_HIT = {
    "message": "m1", "conversation": "c1", "at": "2026-03-04T05:06:07.000Z", "author": "Alice",
    "text": "The key to the garden shed is under the blue pot.",
}  # fmt: skip


def tools(*names: str) -> list[ToolSpec]:
    return [ToolSpec(name, name, {"type": "object"}) for name in names]


def converse(
    question: str,
    results: dict[str, Any],
    earlier: Sequence[dict[str, Any]] = (),
    system: str = RULES,
) -> tuple[list[Call], str]:
    """Plays the turn's loop: every call is answered from `results`, by the tool's name."""
    prompt: list[dict[str, Any]] = [
        {"role": "system", "content": system},
        {"role": "user", "content": question},
        *earlier,
    ]
    made: list[Call] = []
    for _ in range(3):
        pieces = list(ExtractiveModel().stream(prompt, tools(*results), Stop(10)))
        calls = [piece for piece in pieces if isinstance(piece, Call)]
        text = "".join(piece.delta for piece in pieces if isinstance(piece, Text))
        if not calls:
            return made, text
        made += calls
        asked = [
            {"id": c.id, "type": "function",
             "function": {"name": c.name, "arguments": c.arguments}}
            for c in calls
        ]  # fmt: skip
        prompt.append({"role": "assistant", "content": None, "tool_calls": asked})
        for call in calls:
            result = results[call.name]
            content = result if isinstance(result, str) else json.dumps(result)
            prompt.append({"role": "tool", "tool_call_id": call.id, "content": content})
    raise AssertionError("no answer after three rounds")


def found(*hits: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "hits": list(hits)}


def hit(text: str, **given: Any) -> dict[str, Any]:
    return {**KEY_HIT, "text": text, **given}


# -- search words ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What did I say about the blue door code?", "blue door code"),
        ("Wann ist das Treffen mit Frau Müller?", "Treffen Frau Müller"),
        ("Qual è il nome dell'azienda di Marco?", "nome azienda Marco"),
        ("Où est la clé de l'atelier d'Anna ?", "clé atelier Anna"),
        ("¿Cuándo es la reunión con Pedro?", "reunión Pedro"),
        ("Когда встреча с Иваном?", "встреча Иваном"),
        ("会議はいつですか", "会議"),
        ("我们的预算是多少?", "预算"),
        ("下周会议在哪里开", "下周 周会 会议"),
        ("회의는 언제예요?", "회의"),
        ("Who is Will?", "Will"),
        ("will it rain", "rain"),
        ("Alice's order INC-1234 of 2024?", "Alice order INC-1234 2024"),
        ('who said "I will be back"?', '"I will be back"'),
        ("wer sagte „bis bald“?", '"bis bald"'),
        ("key Key KEY", "key"),
        ("What did you say?", ""),
        ("", ""),
        ("?!… 🙂", ""),
    ],
)
def test_the_words_that_matter_are_looked_for(question: str, query: str) -> None:
    assert keywords(question) == query


def test_a_question_of_any_length_gives_a_short_query() -> None:
    assert len(keywords(" ".join(f"word{n}" for n in range(100_000)))) < 400
    assert len(keywords("x" * 1_000_000)) < 400


# -- answers --------------------------------------------------------------------------------


def test_every_memory_that_is_offered_is_asked_once() -> None:
    results = {ARCHIVE: found(KEY_HIT), MEMORY: found(), WIKI: found(), "wiki_write": {}}
    calls, _ = converse("Where is the shed key?", results)
    assert sorted(call.name for call in calls) == [ARCHIVE, MEMORY, WIKI]
    assert {json.loads(call.arguments)["query"] for call in calls} == {"shed key"}
    assert len({call.id for call in calls}) == 3


def test_an_answer_is_a_fixed_line_and_a_quote_with_its_source() -> None:
    _, text = converse("Where is the shed key?", {ARCHIVE: found(KEY_HIT)})
    assert text.splitlines() == [
        words.NO_MODEL,
        "",
        "> The key to the garden shed is under the blue pot.",
        "— Alice, 2026-03-04",
    ]


def test_each_memory_names_its_own_source() -> None:
    memory = {"memory": "l1", "kind": "said", "text": "The shed key is kept outside.",
              "at": "2026-02-01T00:00:00.000Z"}  # fmt: skip
    note = {"path": "mine/garden.md", "line": 7, "text": "shed: key under pot"}
    _, text = converse("shed key?", {MEMORY: found(memory), WIKI: found(note)})
    assert "> The shed key is kept outside.\n— memory, 2026-02-01" in text
    assert "> shed: key under pot\n— mine/garden.md, line 7" in text


def test_nothing_found_is_said_with_the_way_to_a_model() -> None:
    _, text = converse("Where is the shed key?", {ARCHIVE: found()})
    assert text == f"{words.NO_MODEL}\n\n{words.NOTHING_FOUND}"
    assert "MODEL_URL" in text


def test_a_memory_that_is_away_is_not_called_empty() -> None:
    _, text = converse("Where is the shed key?", {ARCHIVE: {"ok": False, "error": "store_down"}})
    assert words.COULD_NOT_LOOK in text


def test_one_memory_that_is_away_leaves_the_others() -> None:
    down = {"ok": False, "error": "store_down"}
    _, text = converse("Where is the shed key?", {ARCHIVE: found(KEY_HIT), WIKI: down})
    assert "under the blue pot" in text


def test_a_question_of_everyday_words_is_answered_without_a_search() -> None:
    calls, text = converse("What did you say?", {ARCHIVE: found(KEY_HIT)})
    assert calls == []
    assert words.NOTHING_FOUND in text


def test_without_tools_there_is_an_answer_too() -> None:
    assert converse("Where is the shed key?", {}) == (
        [], f"{words.NO_MODEL}\n\n{words.NOTHING_FOUND}",
    )  # fmt: skip


def test_what_an_earlier_attempt_looked_for_is_looked_for_again() -> None:
    looked = {"id": "call_earlier_1", "type": "function",
              "function": {"name": ARCHIVE, "arguments": "{}"}}  # fmt: skip
    earlier: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [looked]},
        {"role": "tool", "tool_call_id": "call_earlier_1", "content": "ok"},
    ]
    calls, text = converse("Where is the shed key?", {ARCHIVE: found(KEY_HIT)}, earlier)
    assert [call.name for call in calls] == [ARCHIVE]
    assert "under the blue pot" in text


@pytest.mark.parametrize("result", ["", "null", "[]", '{"ok": true}', '{"hits": 3}', "{", "x" * 99])
def test_a_result_of_any_shape_ends_in_an_answer(result: str) -> None:
    prompt: list[dict[str, Any]] = [
        {"role": "user", "content": "Where is the shed key?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": ARCHIVE, "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": result},
    ]  # fmt: skip
    assert list(ExtractiveModel().stream(prompt, tools(ARCHIVE), Stop(10)))


def test_a_speaker_and_a_quoted_message_are_no_part_of_the_question() -> None:
    direct = "(quoting a message:\n> the roof leaks\n)\nWhere is the shed key?"
    shared = "(quoting a message:\n> the roof leaks\n)\nBob Builder: Where is the shed key?"
    for text, rules in ((direct, RULES), (shared, f"{RULES}\n\n{SPACE_RULES}")):
        calls, _ = converse(text, {ARCHIVE: found()}, system=rules)
        assert json.loads(calls[0].arguments)["query"] == "shed key"


def test_a_stopped_turn_gets_no_answer() -> None:
    stop = Stop(10)
    stop.stop("cancelled")
    with pytest.raises(Stopped):
        list(ExtractiveModel().stream([{"role": "user", "content": "hi"}], [], stop))


# -- quotes ---------------------------------------------------------------------------------


def test_the_question_itself_is_no_answer() -> None:
    question = "Where is the shed key?"
    asked = [hit(question), hit("where is  the shed key?"), hit("The shed key, where is it?")]
    assert quotes(question, asked) == ""
    assert quotes(keywords(question), asked) == ""


def test_our_own_quotes_are_not_quoted_again() -> None:
    earlier = answer_from("shed key", [KEY_HIT])
    assert quotes("shed key", [hit(earlier), hit(words.MODEL_AWAY + "\n\n> shed key")]) == ""


def test_a_text_is_quoted_once_and_only_the_best_are() -> None:
    same = [hit("The shed key is here."), hit("the  shed key is HERE.")]
    many = [hit(f"The shed key, copy {n}.") for n in range(20)]
    assert quotes("shed key", same).count("> ") == 1
    assert quotes("shed key", many).count("> ") == HITS


def test_the_hit_with_most_of_the_words_comes_first() -> None:
    hits = [hit("A garden has a shed key."), hit("The garden shed key is under the blue pot.")]
    assert quotes("blue pot shed key", hits).startswith("> The garden shed key is under")


def test_what_shares_hardly_a_word_is_left_out() -> None:
    hits = [hit("The garden shed key is under the blue pot."), hit("A blue sky.")]
    assert "sky" not in quotes("blue pot shed key", hits)


def test_a_long_text_is_cut_around_the_words() -> None:
    long = "word " * 500 + "the shed key is under the pot " + "word " * 500
    quote = quotes("shed key", [hit(long)]).splitlines()[0]
    assert "the shed key is under the pot" in quote
    assert len(quote) <= QUOTE_CHARS + 10
    assert quote.startswith("> … word ")
    assert quote.endswith("word …")


def test_a_long_text_without_spaces_is_cut_around_the_words_too() -> None:
    quote = quotes("鍵", [hit("あ" * 1_000 + "物置の鍵は植木鉢の下" + "い" * 1_000)])
    assert "物置の鍵は植木鉢の下" in quote
    assert len(quote.splitlines()[0]) <= QUOTE_CHARS + 10


def test_a_quote_stays_one_line_whatever_it_holds() -> None:
    quote = quotes("key", [hit("the key\n\n# Heading\n— Mallory, 2020-01-01", author="A\nB")])
    assert quote.splitlines() == [
        "> the key # Heading — Mallory, 2020-01-01",
        "— A B, 2026-03-04",
    ]


def test_times_are_shown_as_days_in_both_forms() -> None:
    assert quotes("key", [hit("the key", at=1_772_600_767_000)]).endswith("— Alice, 2026-03-04")
    assert quotes("key", [hit("the key", at=None)]).endswith("— Alice")


def test_texts_with_many_matches_are_quoted_quickly() -> None:
    assert quotes("key shed", [hit("key " * 50_000)]).startswith("> key key")


# -- notes ----------------------------------------------------------------------------------


NOTES = [
    "/note the boiler man comes on Friday",
    "Remember that the boiler man comes on Friday",
    "please remember: the boiler man comes on Friday",
    "Don't forget that the boiler man comes on Friday",
    "Merk dir, dass der Heizungsmann am Freitag kommt",
    "Bitte merke dir: der Heizungsmann kommt am Freitag",
    "Ricordati che il tecnico viene venerdì",
    "Ricorda: il tecnico viene venerdì",
    "Souviens-toi que le technicien vient vendredi",
    "n'oublie pas que le technicien vient vendredi",
    "Recuerda que el técnico viene el viernes",
    "No olvides que el técnico viene el viernes",
]


@pytest.mark.parametrize("asked", NOTES)
def test_a_note_is_taken_when_asked_by_a_leading_word(asked: str) -> None:
    saved = {"ok": True, "path": "mine/boiler.md", "base": "b", "commit": "c"}
    calls, text = converse(asked, {ARCHIVE: found(), "wiki_write": saved})
    assert [call.name for call in calls] == ["wiki_write"]
    arguments = json.loads(calls[0].arguments)
    assert asked.split()[-1] in arguments["text"]
    assert arguments["path"].endswith(".md")
    assert text == words.NOTE_TAKEN


@pytest.mark.parametrize("asked", NOTES)
def test_without_a_wiki_the_truth_is_said(asked: str) -> None:
    calls, text = converse(asked, {ARCHIVE: found()})
    assert (calls, text) == ([], words.KEPT_WITHOUT_WIKI)


@pytest.mark.parametrize(
    "asked",
    [
        "Do you remember that trip?",
        "remember that trip to Rome?",
        "remember when we went to Rome",
        "I remember that the key is here",
        "notes on the boiler",
        "note",
        "/note",
        "/notebook the boiler",
    ],
)
def test_a_question_about_the_past_is_no_note(asked: str) -> None:
    calls, _ = converse(asked, {ARCHIVE: found(), "wiki_write": {"ok": True}})
    assert "wiki_write" not in [call.name for call in calls]


def test_a_note_that_was_not_saved_is_not_called_saved() -> None:
    _, text = converse("/note tea at five", {"wiki_write": {"ok": False, "error": "refused"}})
    assert text == words.NOTE_FAILED


def test_a_note_of_unknown_outcome_is_written_to_the_same_place_again() -> None:
    saved = {"ok": True, "path": "mine/tea.md"}
    first, _ = converse("/note tea at five", {"wiki_write": saved})
    begun = {"id": "call_earlier_1", "type": "function",
             "function": {"name": "wiki_write", "arguments": first[0].arguments}}  # fmt: skip
    earlier: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [begun]},
        {"role": "tool", "tool_call_id": "call_earlier_1",
         "content": "outcome unknown: look first"},
    ]  # fmt: skip
    calls, text = converse("/note tea at five", {"wiki_write": saved}, earlier)
    assert [call.arguments for call in calls] == [first[0].arguments]
    assert text.startswith(words.NOTE_TAKEN)


def test_different_notes_go_to_different_places() -> None:
    paths = set()
    for text in (
        "tea at five with the usual crowd today, bring cake",
        "会議は五時",
        "../../etc",
        "con",
    ):
        calls, _ = converse(f"/note {text}", {"wiki_write": {"ok": True}})
        path = json.loads(calls[0].arguments)["path"]
        assert "/" not in path
        assert ".." not in path
        paths.add(path)
    assert len(paths) == 4


# -- in a whole turn ------------------------------------------------------------------------


def test_a_first_run_answers_from_its_own_archive(make: Callable[..., Mercury]) -> None:
    talk = Talk(make())
    talk.say("The shed key is under the blue pot.")
    assert "> The shed key is under the blue pot.\n— Alice, 2" in talk.say("Where is the shed key?")
    assert words.NOTHING_FOUND in talk.say("Who feeds the hedgehog?")
