"""What people see in Google Chat: placeholders, commands, notices, welcomes, in both forms."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bot import words
from bot.tools import Arguments, Context, Tool
from memory.errors import StoreDown
from tests.fakes import model_server as fake
from tests.hostile import Rig
from tests.served import until
from tests.shared import load, needs_shared

FORMS = ("addon", "classic")
TEAM = "spaces/TEAM"
WAIT_S = 20.0
pytestmark = needs_shared


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def rig(form: str, tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        made = Rig(tmp_path, form, stack)
        made.stack = stack
        yield made.start()
        assert made.chat.violations == []
        assert "Traceback" not in "\n".join(made.log)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A placeholder is shown after a moment."""
    monkeypatch.setattr("bot.watch.SILENT_S", 0.05)
    monkeypatch.setattr("bot.watch.WATCH_S", 0.02)


class Slow:
    """A model that answers when it is let go."""

    def __init__(self, text: str = "The answer.") -> None:
        self.go = threading.Event()
        self.asked = threading.Event()
        self.text = text

    def __call__(self, request: dict[str, Any]) -> Any:
        self.asked.set()
        assert self.go.wait(WAIT_S)
        return fake.text(self.text)


def placed(rig: Rig) -> None:
    until(lambda: [m.text for m in rig.chat.shown] == [words.WORKING], WAIT_S, "a placeholder")


# -- the placeholder ----------------------------------------------------------------------------


def test_what_takes_long_is_shown_and_becomes_the_answer(impatient: None, rig: Rig) -> None:
    rig.model.script = slow = Slow("**Done.**")
    rig.post(rig.event({"text": "think", "in": "TEAM"}))
    placed(rig)
    slow.go.set()
    rig.rest()
    (message,) = rig.chat.messages
    assert message.texts == [words.WORKING, "**Done.**"]
    assert (message.edits, message.deleted) == (1, False)


def test_a_quick_answer_has_no_placeholder(rig: Rig) -> None:
    rig.tell("hi")
    (message,) = rig.chat.messages
    assert message.texts == ["You said: hi"]


def test_a_long_answer_begins_where_the_placeholder_stood(impatient: None, rig: Rig) -> None:
    rig.model.script = slow = Slow("word " * 12_000)
    rig.post(rig.event({"text": "think", "in": "TEAM"}))
    placed(rig)
    slow.go.set()
    rig.rest()
    first, *others = rig.chat.messages
    assert first.texts[0] == words.WORKING
    assert others
    assert {message.thread for message in others} == {first.thread}
    assert all(message.edits == 0 for message in others)
    assert " ".join(m.text for m in rig.chat.messages).split() == ["word"] * 12_000


def test_a_placeholder_that_a_person_deleted_stops_all_parts(impatient: None, rig: Rig) -> None:
    rig.model.script = slow = Slow("word " * 12_000)
    rig.post(rig.event({"text": "think"}))
    placed(rig)
    rig.chat.delete(rig.chat.messages[0].id)
    slow.go.set()
    rig.rest()
    assert rig.chat.shown == []
    assert rig.rows("SELECT state FROM turns") == [("done",)]


@pytest.mark.parametrize("how", ["cut", "cut_after", "error", "error_after", "no_json"])
def test_an_uncertain_placeholder_still_becomes_the_one_answer(
    impatient: None, rig: Rig, how: Any
) -> None:
    rig.model.script = slow = Slow()
    rig.chat.fail("create", how=how)
    rig.post(rig.event({"text": "think"}))
    until(lambda: rig.chat.calls("create"), WAIT_S, "a placeholder")
    slow.go.set()
    rig.rest()
    assert rig.replies() == ["The answer."]


def test_a_failed_turn_leaves_an_apology_in_its_place(
    impatient: None, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.engine.RETRY_S", (0.0, 0.0))
    slow = Slow()

    def broken(*_: Any, **__: Any) -> Any:
        slow.asked.set()
        assert slow.go.wait(WAIT_S)
        raise RuntimeError("a bug")

    monkeypatch.setattr(rig.mercury.model, "stream", broken)
    rig.post(rig.event({"text": "think"}))
    placed(rig)
    slow.go.set()
    rig.rest()
    (message,) = rig.chat.messages
    assert message.texts == [words.WORKING, words.APOLOGY]
    rig.log.clear()


def test_a_stop_of_the_process_hands_the_placeholder_to_the_next(
    impatient: None, form: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        rig = Rig(tmp_path, form, stack)
        rig.start()
        rig.model.script = slow = Slow()
        rig.post(rig.event({"text": "think"}))
        placed(rig)
        rig.mercury.engine.drain(0.0)
        slow.go.set()
        rig.model.script = [fake.text("After all.")]
        rig.again()
        rig.rest()
        assert [m.texts for m in rig.chat.messages] == [[words.WORKING, "After all."]]


# -- /stop -----------------------------------------------------------------------------------


def test_stop_ends_the_running_turn_and_says_so_in_its_place(impatient: None, rig: Rig) -> None:
    rig.model.script = slow = Slow()
    rig.post(rig.event({"text": "think", "in": "TEAM"}))
    placed(rig)
    rig.tell("/stop", "TEAM")
    (message,) = rig.chat.messages
    assert message.texts == [words.WORKING, words.STOPPED]
    slow.go.set()
    rig.model.script = fake.echo
    rig.tell("go on", "TEAM")
    assert rig.replies() == [words.STOPPED, "You said: Ada Fixture: go on"]
    states = rig.rows("SELECT state FROM turns WHERE command = '' ORDER BY seq")
    assert states == [("cancelled",), ("done",)]


def test_stop_ends_only_what_its_own_person_asked(rig: Rig) -> None:
    rig.model.script = slow = Slow()
    rig.post(rig.event({"text": "think", "in": "TEAM"}))
    assert slow.asked.wait(WAIT_S)
    rig.post(rig.event({"text": "/stop", "in": "TEAM", "from": "bob"}))
    until(lambda: rig.replies() == [words.NOTHING_TO_STOP], WAIT_S, "the reply")
    assert rig.chat.shown[0].private_to == "users/1002"
    slow.go.set()
    rig.rest()
    assert sorted(rig.replies()) == sorted([words.NOTHING_TO_STOP, "The answer."])


def test_stop_told_twice_stops_once(rig: Rig) -> None:
    rig.model.script = slow = Slow()
    rig.post(rig.event({"text": "one"}))
    rig.post(rig.event({"text": "two"}))
    assert slow.asked.wait(WAIT_S)
    stop = rig.event({"text": "/stop"})
    rig.post(stop)
    rig.post(stop)
    slow.go.set()
    rig.rest()
    assert rig.replies() == [words.STOPPED, "The answer."]


# -- commands in their place --------------------------------------------------------------------


def test_new_ends_the_conversation_and_the_next_begins_with_a_recap(rig: Rig) -> None:
    rig.tell("The logo will be green.")
    rig.tell("/new")
    assert rig.replies()[-1] == words.NEW_CONVERSATION
    rig.tell("hello")
    system, *rest = rig.model.requests[-1]["messages"]
    assert "The logo will be green." in system["content"]
    assert [message["content"] for message in rest] == ["hello"]
    assert rig.stored() == ["The logo will be green.", "hello"]


def test_what_was_written_before_new_is_answered_in_the_old_conversation(rig: Rig) -> None:
    rig.model.script = slow = Slow()
    rig.post(rig.event({"text": "one"}))
    assert slow.asked.wait(WAIT_S)
    for text in ("two", "/new", "three"):
        rig.post(rig.event({"text": text}))
    slow.go.set()
    rig.rest()
    sittings = rig.rows(
        "SELECT conversation, group_concat(text) FROM messages WHERE role = 'person'"
        " GROUP BY conversation ORDER BY min(n)"
    )
    assert [texts for _, texts in sittings] == ["one,two", "three"]
    assert rig.replies() == [
        "The answer.", "The answer.", words.NEW_CONVERSATION, "The answer.",
    ]  # fmt: skip


def test_commands_are_no_messages(rig: Rig) -> None:
    for text in ("/memory", "/forget all", "/web", "/help", "/RECAP", "/recap last week"):
        rig.tell(text)
    assert rig.stored() == []
    assert rig.model.requests == []
    assert rig.rows("SELECT count(*) FROM conversations") == [(0,)]
    assert rig.replies() == [
        words.NO_LONG_TERM_MEMORY, words.NO_FORGETTING, words.NO_WEB_PAGES, words.HELP,
        words.NOTHING_TO_RECAP, words.NOTHING_TO_RECAP,
    ]  # fmt: skip


def test_recap_tells_what_was_said_here(rig: Rig) -> None:
    rig.tell("The logo will be green.", "TEAM")
    rig.tell("/recap", "TEAM")
    assert "The logo will be green." in rig.replies()[-1]
    rig.tell("/recap", "DM_ALICE")
    assert rig.replies("DM_ALICE") == [words.NOTHING_TO_RECAP]


@pytest.mark.parametrize(
    "text", ["/new", "/recap", "/help", "/memory", "/stop", "confirm AAAA-AAAA"]
)
def test_in_a_space_a_command_is_answered_to_its_person_alone(rig: Rig, text: str) -> None:
    rig.tell(text, "TEAM")
    (message,) = rig.chat.messages
    assert message.private_to == "users/1001"
    assert message.body["thread"] == {"name": f"{TEAM}/threads/tR1"}
    rig.tell(text, "DM_ALICE")
    assert rig.chat.messages[-1].private_to is None


@pytest.mark.parametrize("text", ["/newish", "say /new", "/ new", "//new", "/foo", "confirm later"])
def test_other_words_are_never_swallowed(rig: Rig, text: str) -> None:
    rig.tell(text)
    assert rig.stored() == [text]


def test_a_command_does_not_keep_a_conversation_from_growing_idle(rig: Rig) -> None:
    rig.tell("one")
    rig.clock.move(1_700)
    rig.tell("/recap")
    rig.clock.move(200)
    rig.tell("two")
    assert rig.rows("SELECT count(*) FROM conversations") == [(2,)]


def test_a_redelivered_command_is_answered_once(rig: Rig) -> None:
    for text in ("/new", "/help"):
        body = rig.event({"text": text})
        for _ in range(3):
            rig.post(body)
    rig.rest()
    assert rig.replies() == [words.NEW_CONVERSATION, words.HELP]


# -- added and removed --------------------------------------------------------------------------


def test_added_is_one_welcome_and_by_a_mention_one_answer_too(rig: Rig) -> None:
    if rig.form == "addon":
        bodies = [
            load(f"google-chat/addon/added_to_space_by_mention_{n}_of_2.json") for n in (1, 2)
        ]
    else:
        bodies = [load("google-chat/classic/added_to_space_by_mention.json")]
    for body in bodies * 3:
        assert rig.post(body) == 200
    rig.rest()
    answer = "You said: Ada Fixture: welcome, what can you do?"
    assert sorted(rig.replies()) == sorted([words.WELCOME, answer])
    assert len(words.WELCOME) <= 600


def test_a_space_that_removed_the_app_gets_nothing_until_it_is_added_again(rig: Rig) -> None:
    rig.post(load(f"google-chat/{rig.form}/added_to_space.json"))
    rig.rest()
    rig.model.script = slow = Slow()
    room = load(f"google-chat/{rig.form}/space_mention.json")
    rig.post(room)
    assert slow.asked.wait(WAIT_S)
    rig.post(load(f"google-chat/{rig.form}/removed_from_space.json"))
    slow.go.set()
    rig.rest()
    assert rig.replies() == [words.WELCOME]
    assert rig.rows("SELECT state FROM turns WHERE command = ''") == [("set_aside",)]
    again = load(f"google-chat/{rig.form}/added_to_space.json")
    (again if rig.form == "classic" else again["chat"])["eventTime"] = "2026-12-01T08:00:00Z"
    rig.post(again)
    rig.rest()
    assert rig.replies() == [words.WELCOME, words.WELCOME]


# -- what is said beside answers ------------------------------------------------------------------


class Nothing(Arguments):
    """No arguments."""


def away(context: Context, given: Nothing) -> dict[str, Any]:
    raise StoreDown("away")


def test_a_memory_that_is_away_is_told_once_in_a_conversation(form: str, tmp_path: Path) -> None:
    tools = [
        Tool("wiki_look", "Looks.", Nothing, "reads", away, "wiki"),
        Tool("memory_look", "Looks.", Nothing, "reads", away, "memory"),
    ]
    with ExitStack() as stack:
        rig = Rig(tmp_path, form, stack).start(tools=tools)
        rig.model.script = [
            fake.call("wiki_look", "{}"), fake.text("One."), fake.call("wiki_look", "{}"),
            fake.text("Two."), fake.call("memory_look", "{}"), fake.text("Three."),
        ]  # fmt: skip
        for text in ("a", "b", "c"):
            rig.tell(text)
        assert rig.replies() == [
            f"One.\n\n*{words.AWAY['wiki']}*", "Two.", f"Three.\n\n*{words.AWAY['memory']}*",
        ]  # fmt: skip
        rig.tell("/new")
        rig.model.script = [fake.call("wiki_look", "{}"), fake.text("Four.")]
        rig.tell("d")
        assert rig.replies()[-1] == f"Four.\n\n*{words.AWAY['wiki']}*"
        assert words.AWAY["wiki"] not in rig.prompts()


def test_a_direct_message_whose_thread_is_refused_is_answered_without_it(rig: Rig) -> None:
    body = load(f"google-chat/{rig.form}/dm_thread_reply.json")
    refused = {"error": {"code": 400, "status": "INVALID_ARGUMENT",
               "message": "The request contains an invalid thread resource name"}}  # fmt: skip
    rig.chat.fail("create", response={"http": 400, "headers": {}, "body": refused})
    rig.post(body)
    rig.rest()
    assert [("thread" in m.body, m.text) for m in rig.chat.messages] == [
        (False, "You said: and who owns it?")
    ]
