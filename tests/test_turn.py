"""One turn through the engine, with a scripted model in the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from bot import words
from bot.delivery import Delivered, Later
from bot.mercury import Mercury
from bot.model import ContextTooLong, ModelAway, ModelRefused, Reset, Text
from bot.scope import Scope
from bot.settings import load
from bot.stop import Stop
from bot.tools import Arguments, Staged, Tool
from memory.records import Message
from memory.turn_rows import Answer, Incoming, Part, Turn, Work
from tests.clock import HandClock
from tests.models import Echo, Scripted, calls

Make = Callable[..., Mercury]
ALICE = Scope("http:alice", "http")
ADA = Scope("google-chat:users/1", "dm")
WAIT_S = 20.0


class Talk:
    """Posts messages to a Mercury and waits for their ends."""

    def __init__(self, mercury: Mercury) -> None:
        self.mercury = mercury
        self.events = 0

    def post(self, text: str, scope: Scope = ALICE, conversation: str = "c1") -> str:
        self.events += 1
        chat = scope.kind in ("dm", "space")
        accepted = self.mercury.stores.accepting.accept(
            Incoming(
                event=f"e{self.events}", channel="chat" if chat else "http", person=scope.person,
                owner=scope.owner, kind=scope.kind, space=scope.space, name="Alice", text=text,
                key=(scope.space or "spaces/DM") if chat else None,
                conversation=None if chat else conversation,
                target='{"space": "spaces/DM", "thread": null, "private_to": null}',
            )
        )  # fmt: skip
        self.mercury.streams.open(accepted.turn)
        self.mercury.engine.notify(accepted.key, chat=chat)
        return accepted.turn

    def wait(self, turn: str) -> Turn:
        assert self.mercury.streams.open(turn).wait_end(WAIT_S), "the turn did not end"
        return self.mercury.stores.turns.get(turn)

    def say(self, text: str, scope: Scope = ALICE, conversation: str = "c1") -> str:
        turn = self.post(text, scope, conversation)
        self.wait(turn)
        answer = self.mercury.stores.turns.result(turn)[1]
        assert answer is not None
        return answer.text

    def messages(self, scope: Scope = ALICE, conversation: str = "c1") -> list[Message]:
        return self.mercury.stores.archive.messages(scope, conversation).items


class Channel:
    """A channel that keeps what it was given; `outcomes` come before success."""

    def __init__(self, *outcomes: Delivered | Later) -> None:
        self.outcomes = list(outcomes)
        self.sent: list[str] = []

    def warm(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Nothing to close."""

    def parts(self, turn: Turn, answer: Answer) -> tuple[Part, ...]:
        return (Part(f"client-{turn.id}", answer.text),)

    def deliver(self, turn: Turn, stop: Stop) -> Delivered | Later:
        if self.outcomes:
            return self.outcomes.pop(0)
        self.sent.append(turn.id)
        return Delivered()


def with_channel(mercury: Mercury, channel: Channel) -> None:
    mercury.engine.__dict__["_deliveries"] = {"chat": channel}


class NoteArguments(Arguments):
    text: str


def note_tool(ran: list[str], effect: str = "writes") -> Tool:
    def run(context: Any, given: NoteArguments) -> Any:
        if effect == "irreversible":
            return Staged("publish", {"text": given.text})
        ran.append(given.text)
        return {"path": "mine/a.md"}

    return Tool("note", "Writes a note.", NoteArguments, effect, run)  # type: ignore[arg-type]


def test_a_message_is_answered_stored_and_remembered(make: Make) -> None:
    model = Scripted("Hello Alice.", "You said hi.")
    talk = Talk(make(model=model))
    assert talk.say("hi") == "Hello Alice."
    assert talk.say("what did I say?") == "You said hi."
    assert [m.text for m in talk.messages()] == [
        "hi", "Hello Alice.", "what did I say?", "You said hi.",
    ]  # fmt: skip
    assert [m["content"] for m in model.prompts[1][1:]] == ["hi", "Hello Alice.", "what did I say?"]


def test_a_message_with_nothing_visible_gets_a_hint_and_no_model_call(make: Make) -> None:
    model = Scripted("never")
    talk = Talk(make(model=model))
    assert talk.say("\u200b\u200b \n") == words.EMPTY_MESSAGE
    assert model.prompts == []


def test_tools_run_and_only_their_outcome_is_remembered(make: Make) -> None:
    ran: list[str] = []
    model = Scripted(
        [Text("Let me look."), *calls("archive_search", '{"query": "hello"}')],
        calls("note", '{"text": "n"}', "c2"),
        "Done.",
        "Again.",
    )
    talk = Talk(make(model=model, tools=[note_tool(ran)]))
    assert talk.say("hello") == "Let me look.\n\nDone."
    assert ran == ["n"]
    answer = talk.messages()[1]
    assert [(c.n, c.name, c.outcome) for c in answer.tools] == [
        (1, "archive_search", "ok"), (2, "note", "ok"),
    ]  # fmt: skip
    talk.say("more")
    later = model.prompts[-1]
    results = [m["content"] for m in later if m["role"] == "tool"]
    assert results == ["ok", "ok"]


def test_a_search_does_not_find_the_question_itself(make: Make) -> None:
    model = Scripted("noted", calls("archive_search", '{"query": "budget"}'), "It is 5.")
    talk = Talk(make(model=model))
    talk.say("the budget is 5")
    talk.say("what is the budget?")
    result = model.prompts[-1][-1]["content"]
    assert "the budget is 5" in result
    assert "what is the budget?" not in result


@pytest.mark.parametrize(
    ("name", "arguments", "outcome"),
    [
        ("no_such_tool", "{}", "failed: unknown_tool"),
        ("archive_search", "{broken", "failed: bad_arguments"),
        (
            "archive_search",
            '{"query": "x", "filter": {"user": "users/2"}}',
            "failed: bad_arguments",
        ),
        ("archive_search", "[1]", "failed: bad_arguments"),
        ("archive_search", "[" * 50_000, "failed: bad_arguments"),
        ("archive_read", '{"message": "m_nobody"}', "failed: not_found"),
    ],
)
def test_a_bad_call_is_told_to_the_model_and_the_turn_goes_on(
    make: Make, name: str, arguments: str, outcome: str
) -> None:
    talk = Talk(make(model=Scripted(calls(name, arguments), "I could not look.")))
    assert talk.say("go") == "I could not look."
    assert [call.outcome for call in talk.messages()[-1].tools] == [outcome]


def test_endless_tool_calls_end_with_a_word(make: Make) -> None:
    talk = Talk(make(model=Scripted(calls("archive_search", '{"query": "x"}'))))
    assert words.TOO_MANY_CALLS in talk.say("go")
    assert len(talk.messages()[-1].tools) == 40


def test_a_tool_that_raises_is_told_to_the_model(make: Make) -> None:
    def run(context: Any, given: NoteArguments) -> Any:
        raise RuntimeError("boom")

    tool = Tool("note", "x", NoteArguments, "reads", run)
    model = Scripted(calls("note", '{"text": "n"}'), "It failed.")
    talk = Talk(make(model=model, tools=[tool]))
    assert talk.say("go") == "It failed."
    assert "boom" not in str(model.prompts)


@pytest.mark.parametrize("error", [ModelAway("503"), ModelRefused("401")])
def test_a_model_that_is_away_leaves_one_plain_sentence_and_what_is_remembered(
    make: Make, error: Exception
) -> None:
    talk = Talk(make(model=Scripted("noted", error)))
    talk.say("the logo is green")
    turn = talk.wait(talk.post("what colour is the logo?"))
    answer = talk.messages()[-1]
    assert answer.text.startswith(words.MODEL_AWAY)
    assert "the logo is green" in answer.text
    assert answer.rests_on_tools
    assert turn.state == "done"
    assert turn.extras["notices"] == [{"store": "model", "text": words.MODEL_AWAY}]


def test_a_prompt_that_is_too_long_is_shortened_once(make: Make) -> None:
    model = Scripted("a" * 3_000, ContextTooLong(), "Fits.")
    talk = Talk(make(model=model))
    talk.say("b" * 3_000)
    assert talk.say("question") == "Fits."
    long, short = model.prompts[-2:]
    assert len(str(short)) < len(str(long)) - 5_000
    assert "left out" in short[0]["content"]
    assert len(model.prompts) == 3


def test_what_a_reset_voids_is_not_in_the_answer(make: Make) -> None:
    model = Scripted([Text("half an ans"), Reset(), Text("Whole.")])
    assert Talk(make(model=model)).say("go") == "Whole."


def test_an_attempt_ends_at_its_deadline_with_a_word(make: Make, settings: Any) -> None:
    def slow(prompt: Any, stop: Stop) -> Any:
        stop.wait(60)
        return "never"

    short = settings.model_copy(update={"turn_timeout_s": 0.2})
    talk = Talk(make(short, model=Scripted(slow)))
    assert talk.say("go") == words.TOOK_TOO_LONG


def test_three_failures_set_a_turn_aside_with_one_apology(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.engine.RETRY_S", (0.0, 0.0))
    model = Scripted(ValueError("a bug"))
    mercury = make(model=model)
    talk = Talk(mercury)
    turn = talk.wait(talk.post("go"))
    assert (turn.state, turn.reason) == ("set_aside", "ValueError")
    assert len(model.prompts) == 3
    assert [m.text for m in talk.messages()] == ["go", words.APOLOGY]


def test_a_turn_that_killed_its_process_three_times_is_set_aside(make: Make) -> None:
    mercury = make(model=Echo())
    turns = mercury.stores.turns
    accepted = mercury.stores.accepting.accept(
        Incoming(event="poison", channel="http", person="http:eve", owner="person:http:eve",
                 kind="http", space=None, name="eve", text="die", conversation="p")
    )  # fmt: skip
    for _ in range(3):
        assert isinstance(turns.take(accepted.key, "dead process", alone=True), Work)
        turns.void_leases()
    live = mercury.streams.open(accepted.turn)
    mercury.engine.notify(accepted.key, chat=False)
    assert live.wait_end(WAIT_S)
    assert turns.get(accepted.turn).state == "set_aside"
    assert Talk(mercury).say("hi") == "You said: hi"


def test_turns_of_one_key_run_in_order_and_others_do_not_wait(make: Make) -> None:
    gate = threading.Event()

    def waits(prompt: Any, stop: Stop) -> str:
        if prompt[-1]["content"] == "first":
            assert gate.wait(WAIT_S)
        return f"re: {prompt[-1]['content']}"

    talk = Talk(make(model=Scripted(waits)))
    first = talk.post("first")
    second = talk.post("second")
    assert talk.say("other", conversation="c2") == "re: other"
    assert talk.mercury.stores.turns.get(second).state == "waiting"
    gate.set()
    talk.wait(first)
    talk.wait(second)
    assert [m.text for m in talk.messages()] == [
        "first", "re: first", "second", "re: second",
    ]  # fmt: skip


def test_a_prompt_holds_nothing_of_later_turns(make: Make) -> None:
    gate = threading.Event()

    def waits(prompt: Any, stop: Stop) -> str:
        if prompt[-1]["content"] == "first":
            assert gate.wait(WAIT_S)
        return "ok"

    model = Scripted(waits)
    talk = Talk(make(model=model))
    turns = [talk.post(text) for text in ("first", "second", "third")]
    gate.set()
    for turn in turns:
        talk.wait(turn)
    said = [[m["content"] for m in prompt if m["role"] == "user"] for prompt in model.prompts]
    assert said == [["first"], ["first", "second"], ["first", "second", "third"]]


def test_a_cancelled_turn_has_no_answer_and_its_key_goes_on(make: Make) -> None:
    started = threading.Event()

    def waits(prompt: Any, stop: Stop) -> str:
        if prompt[-1]["content"] == "stop me":
            started.set()
            stop.wait(WAIT_S)
        return "answer"

    mercury = make(model=Scripted(waits))
    talk = Talk(mercury)
    first, second = talk.post("stop me"), talk.post("go on")
    assert started.wait(WAIT_S)
    mercury.engine.cancel(first, ALICE.owner)
    assert talk.wait(first).state == "cancelled"
    assert talk.wait(second).state == "done"
    assert [m.text for m in talk.messages()] == [
        "stop me", words.STOPPED, "go on", "answer",
    ]  # fmt: skip


def test_a_turn_that_another_process_cancelled_is_stopped_here(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.watch.WATCH_S", 0.02)
    started, stopped = threading.Event(), threading.Event()

    def waits(prompt: Any, stop: Stop) -> str:
        started.set()
        with stop.on_stop(stopped.set):
            assert stopped.wait(WAIT_S)
        stop.check()
        return "never"

    mercury = make(model=Scripted(waits))
    talk = Talk(mercury)
    turn = talk.post("stop me")
    assert started.wait(WAIT_S)
    mercury.stores.turns.cancel(turn, ALICE.owner, words.STOPPED)
    assert stopped.wait(WAIT_S)
    assert [m.text for m in talk.messages()] == ["stop me", words.STOPPED]


def test_a_written_call_is_not_run_again_by_a_later_attempt(make: Make) -> None:
    ran: list[str] = []
    mercury = make(
        model=Scripted(calls("note", '{"text": "once"}'), RuntimeError("x"), "ok"),
        tools=[note_tool(ran)],
    )
    talk = Talk(mercury)
    turn = talk.post("go")
    talk.wait(turn)
    assert ran == ["once"]
    tools = talk.messages()[-1].tools
    assert [(c.n, c.outcome) for c in tools] == [(1, "ok")]


def test_an_irreversible_call_is_staged_and_the_model_learns_no_code(make: Make) -> None:
    model = Scripted(calls("note", '{"text": "all"}'), "It waits for you.")
    mercury = make(model=model, tools=[note_tool([], "irreversible")])
    talk = Talk(mercury)
    turn = talk.wait(talk.post("publish it"))
    (shown,) = mercury.settling.of_turn(turn.id)
    assert shown["state"] == "waiting"
    assert talk.messages()[-1].tools[0].outcome == "waiting for confirmation"
    assert shown["code"] not in str(model.prompts)
    assert shown["token"] not in str(model.prompts)


def test_secrets_never_leave(make: Make, tmp_path: Any) -> None:
    with_key = load(
        {"MERCURY_DATA": str(tmp_path / "k"), "MODEL_URL": "http://127.0.0.1:9/v1", "MODEL": "m",
         "MODEL_API_KEY": "sk-very-secret-key"}, None,
    )  # fmt: skip
    talk = Talk(make(with_key, model=Scripted("my key is sk-very-secret-key")))
    assert "sk-very-secret-key" not in talk.say("what is your key?")


def test_a_delivery_that_fails_is_tried_again_and_the_model_is_not(make: Make) -> None:
    model = Scripted("once")
    mercury = make(model=model)
    channel = Channel(Later(0.0, "away"), Later(0.0, "away"))
    with_channel(mercury, channel)
    talk = Talk(mercury)
    turn = talk.wait(talk.post("hi", ADA))
    assert (turn.state, channel.sent) == ("done", [turn.id])
    assert len(model.prompts) == 1


def test_a_delivery_that_can_never_succeed_is_set_aside(make: Make) -> None:
    mercury = make(model=Scripted("answer"))
    with_channel(mercury, Channel(Delivered("removed from the space")))
    turn = Talk(mercury).wait(Talk(mercury).post("hi", ADA))
    assert (turn.state, turn.reason) == ("set_aside", "removed from the space")


def test_the_first_prompt_after_half_an_hour_holds_a_recap_and_not_the_history(
    make: Make, clock: HandClock
) -> None:
    model = Scripted("Blue it is.", "Hello again.", "Still here.")
    mercury = make(model=model)
    with_channel(mercury, Channel())
    talk = Talk(mercury)
    talk.say("We decided that the logo is blue.", ADA)
    clock.move(1_800)
    talk.say("hello", ADA)
    first = model.prompts[1]
    assert [m["role"] for m in first] == ["system", "user"]
    assert "> " in first[0]["content"]
    assert "We decided that the logo is blue." in first[0]["content"]
    talk.say("and now?", ADA)
    assert model.prompts[2][0]["content"] == first[0]["content"]


def test_over_http_the_history_comes_back_as_if_no_time_had_passed(
    make: Make, clock: HandClock
) -> None:
    model = Scripted("one", "two")
    mercury = make(model=model)
    talk = Talk(mercury)
    talk.say("first")
    found = mercury.stores.archive.conversation(ALICE, "c1")
    before = mercury.stores.archive.history(found).canonical()
    clock.move(86_400)
    mercury.engine.afterwards.sweep()
    assert mercury.histories.size()[0] == 0
    assert mercury.histories.rebuild(found).canonical() == before
    talk.say("second")
    assert [m["content"] for m in model.prompts[1][1:]] == ["first", "one", "second"]
