"""The model fails in every way, over HTTP, and every turn still ends with a defined answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from bot import words
from bot.mercury import Mercury
from bot.openai_model import OpenAIModel
from bot.tools import MAX_CALLS
from tests.fakes import model_server as fake
from tests.fakes.model_server import ModelServer, Reply, Rule
from tests.test_turn import Talk

Meet = Callable[..., tuple[ModelServer, Talk]]


@pytest.fixture
def meet(make: Callable[..., Mercury]) -> Iterator[Meet]:
    with ExitStack() as stack:

        def one(*script: Reply | Rule, **given: Any) -> tuple[ModelServer, Talk]:
            server = stack.enter_context(ModelServer(list(script)))
            model = OpenAIModel(server.url, "fake", pause_s=0.0, **given)
            stack.callback(model.close)
            return server, Talk(make(model=model))

        yield one


def half() -> Reply:
    return Reply(fake.text("This is half of an answer").chunks, cut_after=2)


@pytest.mark.parametrize(
    "fault", [lambda: fake.status(503), half, fake.html, fake.malformed, fake.empty]
)
def test_a_fault_that_passes_is_not_seen(meet: Meet, fault: Callable[[], Reply]) -> None:
    server, talk = meet(fault(), fault(), fake.text("Hello."))
    assert talk.say("hi") == "Hello."
    assert len(server.requests) == 3
    assert server.violations == []


@pytest.mark.parametrize(
    "fault",
    [
        lambda: fake.status(503),
        lambda: fake.status(401),
        lambda: fake.status(429, headers={"Retry-After": "3600"}),
        half,
        fake.html,
        fake.malformed,
        fake.empty,
        fake.never,
    ],
)
def test_a_fault_that_stays_ends_in_one_plain_sentence(
    meet: Meet, fault: Callable[[], Reply]
) -> None:
    server, talk = meet(fault(), silence_s=0.1)
    assert talk.say("hi") == words.MODEL_AWAY
    assert len(server.requests) <= 4
    server.script = fake.echo
    assert talk.say("are you back?") == "You said: are you back?"
    said = [message["content"] for message in server.requests[-1]["messages"]]
    assert "hi" in said
    assert not any("half" in str(text) for text in said)


def test_with_the_model_away_the_memory_still_answers(meet: Meet) -> None:
    server, talk = meet(fake.text("Noted."))
    talk.say("The shed key is under the blue pot.")
    server.script = [fake.status(503)]
    answer = talk.say("Where is the shed key?")
    assert answer.startswith(words.MODEL_AWAY)
    assert "> The shed key is under the blue pot." in answer


def test_an_answer_of_50_mb_is_cut(meet: Meet) -> None:
    _, talk = meet(fake.huge(50_000_000))
    assert len(talk.say("hi")) == 100_000


def test_endless_tool_calls_end_with_a_word_on_it(meet: Meet) -> None:
    server, talk = meet(fake.endless_calls())
    assert talk.say("hi").endswith(words.TOO_MANY_CALLS)
    assert len(server.requests) <= MAX_CALLS + 1
    assert server.violations == []


@pytest.mark.parametrize("call", [fake.unknown_tool, fake.malformed_arguments])
def test_a_call_that_cannot_be_made_is_told_to_the_model(
    meet: Meet, call: Callable[[], Reply]
) -> None:
    server, talk = meet(call(), fake.text("Hello."))
    assert talk.say("hi") == "Hello."
    result = server.requests[-1]["messages"][-1]
    assert result["role"] == "tool"
    assert '"ok": false' in result["content"]
    assert server.violations == []


def test_a_prompt_that_does_not_fit_is_shortened_once(meet: Meet) -> None:
    server, talk = meet(fake.context_length_exceeded(), fake.text("Hello."))
    assert talk.say("hi") == "Hello."
    assert len(server.requests) == 2
