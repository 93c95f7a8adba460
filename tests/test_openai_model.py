"""The model's client, over real sockets, against every answer and every failure."""

from __future__ import annotations

import datetime
import ipaddress
import json
import logging
import socket
import ssl
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from bot import words
from bot.google_token import GoogleToken
from bot.model import (
    Call,
    ContextTooLong,
    Cut,
    ModelAway,
    ModelRefused,
    Piece,
    Reset,
    Text,
    ToolSpec,
)
from bot.model_stream import CALLS, EVENT_BYTES
from bot.openai_model import ANSWER_CHARS, OpenAIModel, complete, openai_model
from bot.stop import Stop, Stopped
from tests.fakes import model_server as fake
from tests.fakes.model_server import ModelServer, Reply, Rule
from tests.models import Scripted

PROMPT = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {"q": {"type": "string"}}})

Serve = Callable[..., tuple[ModelServer, OpenAIModel]]


class Patient(Stop):
    """Notes its waits in the place of waiting."""

    def __init__(self) -> None:
        super().__init__(60)
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.check()


@pytest.fixture
def serve() -> Iterator[Serve]:
    opened: list[Callable[[], object]] = []

    def one(*script: Reply | Rule, **given: Any) -> tuple[ModelServer, OpenAIModel]:
        server = ModelServer(list(script)).__enter__()
        model = OpenAIModel(server.url, "fake", "sk-key", **{"pause_s": 0.0, **given})
        opened.extend([model.close, lambda: server.__exit__()])
        return server, model

    yield one
    for close in opened:
        close()


def ask(model: OpenAIModel, tools: tuple[ToolSpec, ...] = (), seconds: float = 20) -> list[Piece]:
    return list(model.stream(PROMPT, tools, Stop(seconds)))


def said(pieces: list[Piece]) -> str:
    shown = ""
    for piece in pieces:
        shown = "" if isinstance(piece, Reset) else shown
        shown += piece.delta if isinstance(piece, Text) else ""
    return shown


def calls_of(pieces: list[Piece]) -> list[Call]:
    return [piece for piece in pieces if isinstance(piece, Call)]


def whole_call(name: str = "look", arguments: Any = "{}", **given: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **given}


# -- answers --------------------------------------------------------------------------------


def test_a_text_comes_piece_by_piece(serve: Serve) -> None:
    server, model = serve(fake.text("Hello there.", 4))
    pieces = ask(model)
    assert (said(pieces), len(pieces)) == ("Hello there.", 4)
    assert server.violations == []
    assert server.requests[0]["messages"] == PROMPT
    assert server.headers[0]["authorization"] == "Bearer sk-key"


def test_one_connection_serves_many_turns(serve: Serve) -> None:
    server, model = serve(fake.text("ok"))
    for _ in range(5):
        ask(model)
    assert (len(server.requests), server.connections) == (5, 1)


def test_a_tool_call_is_put_together(serve: Serve) -> None:
    server, model = serve(fake.call("look", '{"q": "x y"}', pieces=5))
    assert ask(model, (TOOL,)) == [Call("call_1", "look", '{"q": "x y"}')]
    assert server.requests[0]["tools"][0]["function"]["name"] == "look"


@pytest.mark.parametrize(
    "deltas",
    [
        [[whole_call(arguments='{"q": 1}', id=None), whole_call(arguments='{"q": 2}', id=None)]],
        [[whole_call(arguments='{"q": 1}')], [whole_call(arguments='{"q": 2}')]],
        [[whole_call(arguments='{"q": 1}', index=0, id="a")],
         [whole_call(arguments='{"q": 2}', index=0, id="b")]],
        [[whole_call(arguments='{"q": 1}', index=0)], [whole_call(arguments='{"q": 2}', index=0)]],
        [[whole_call(arguments={"q": 1}), whole_call(arguments={"q": 2})]],
        [[whole_call(arguments='{"q": ', index=1), whole_call(arguments='{"q"', index=2)],
         [{"index": 2, "function": {"arguments": ": 2}"}}],
         [{"index": 1, "function": {"arguments": "1}"}}]],
        [[whole_call(arguments='{"q":')], [{"function": {"arguments": " 1}"}}],
         [whole_call(arguments='{"q": 2}')]],
        [[whole_call(arguments='{"q": 1}', id="same", index=0),
          whole_call(arguments='{"q": 2}', id="same", index=1)]],
    ],
    ids=["no id", "one a chunk", "one index", "one index, no id", "objects", "mixed", "no index",
         "one id"],
)  # fmt: skip
def test_calls_are_told_apart_whatever_the_server_leaves_out(
    serve: Serve, deltas: list[list[dict[str, Any]]]
) -> None:
    chunks = [fake.delta(tool_calls=calls) for calls in deltas]
    _, model = serve(Reply([*chunks, fake.delta(finish="stop")]))
    calls = calls_of(ask(model, (TOOL,)))
    assert [json.loads(call.arguments) for call in calls] == [{"q": 1}, {"q": 2}]
    assert len({call.id for call in calls}) == 2
    assert all(call.id for call in calls)


def test_malformed_arguments_are_handed_on_as_they_are(serve: Serve) -> None:
    _, model = serve(fake.malformed_arguments("look"))
    assert calls_of(ask(model, (TOOL,)))[0].arguments == '{"query": "x'


def test_calls_beyond_a_sane_number_are_left_out(serve: Serve) -> None:
    many = [whole_call(id=f"c{n}", index=n) for n in range(CALLS + 10)]
    _, model = serve(Reply([fake.delta(tool_calls=many), fake.delta(finish="tool_calls")]))
    assert len(calls_of(ask(model, (TOOL,)))) == CALLS


def test_text_and_calls_come_in_that_order(serve: Serve) -> None:
    chunks = [
        fake.delta(content="Let me look."),
        fake.delta(tool_calls=[whole_call(id="a", index=0)]),
        fake.delta(finish="tool_calls"),
    ]
    _, model = serve(Reply(chunks))
    assert ask(model, (TOOL,)) == [Text("Let me look."), Call("a", "look", "{}")]


def test_an_answer_without_a_reason_to_finish_is_whole_at_the_end_mark(serve: Serve) -> None:
    server, model = serve(fake.text("Hello.", finish=None))
    assert said(ask(model)) == "Hello."
    assert len(server.requests) == 1


def test_a_stream_that_stays_open_after_a_whole_answer_is_not_waited_for(serve: Serve) -> None:
    open_end = fake.text("Hello.")
    open_end.end = False
    server, model = serve(open_end, linger_s=0.05)
    assert said(ask(model)) == "Hello."
    assert len(server.requests) == 1


def test_a_server_that_does_not_stream_is_understood(serve: Serve) -> None:
    body = json.dumps(fake.whole(fake.call("look", '{"q": "x"}').chunks))
    _, model = serve(Reply(body=body))
    assert ask(model, (TOOL,)) == [Call("call_1", "look", '{"q": "x"}')]


def test_reasoning_is_no_answer(serve: Serve) -> None:
    thought = fake.delta(content="")
    thought["choices"][0]["delta"]["reasoning_content"] = "the person wants"
    _, model = serve(Reply([thought, *fake.text("Hello.").chunks]))
    assert said(ask(model)) == "Hello."


def test_a_character_that_came_in_halves_is_put_together(serve: Serve) -> None:
    chunks = [fake.delta(content=piece) for piece in ("a\ud83d", "\ude00b", "\udc00c")]
    _, model = serve(Reply([*chunks, fake.delta(finish="stop")]))
    assert said(ask(model)) == "a😀b\ufffdc"


# -- failures that pass ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        lambda: fake.status(503),
        lambda: fake.status(500),
        lambda: fake.status(408),
        lambda: fake.status(429),
        lambda: fake.status(429, headers={"Retry-After": "0"}),
        lambda: fake.status(503, headers={"Retry-After": "nonsense"}),
        fake.html,
        lambda: Reply(body="<html>no header</html>"),
        lambda: Reply(body="{}"),
        lambda: Reply(body="[" * 100_000),
        fake.malformed,
        lambda: Reply(raw=["[1, 2]"]),
        lambda: Reply(raw=['{"choices": "x"}']),
        lambda: Reply(raw=['{"choices": [{"delta": {"content": {"a": 1}}}]}']),
        lambda: Reply(raw=['{"choices": [{"delta": {"tool_calls": "x"}}]}']),
        lambda: Reply(raw=[]),
        fake.empty,
        lambda: fake.text(" \n", finish="stop"),
        lambda: fake.text("", finish="length"),
        lambda: Reply(fake.text("half an answer").chunks, cut_after=2),
        lambda: Reply(fake.text("half an answer").chunks, cut_after=0),
        lambda: Reply(raw=['{"error": {"message": "overloaded", "code": 500}}']),
        lambda: Reply([fake.delta(tool_calls=[whole_call(arguments="x" * 300_000)])]),
    ],
)
def test_what_fails_in_passing_is_tried_again(serve: Serve, failure: Callable[[], Reply]) -> None:
    server, model = serve(failure(), failure(), fake.text("Whole."))
    assert said(ask(model)) == "Whole."
    assert len(server.requests) == 3


def test_a_failure_that_stays_ends_after_four_tries(serve: Serve) -> None:
    server, model = serve(fake.status(503))
    with pytest.raises(ModelAway, match="503"):
        ask(model)
    assert len(server.requests) == 4


def test_what_was_shown_of_a_broken_answer_is_void(serve: Serve) -> None:
    broken = Reply(fake.text("half an answer").chunks, cut_after=2)
    _, model = serve(broken, fake.text("Whole.", 1))
    assert ask(model) == [Text("half "), Text("an an"), Reset(), Text("Whole.")]


def test_the_pauses_grow(serve: Serve) -> None:
    _, model = serve(fake.status(503), pause_s=1.0)
    stop = Patient()
    with pytest.raises(ModelAway):
        list(model.stream(PROMPT, (), stop))
    assert [int(wait) for wait in stop.waits] == [1, 2, 4]


def test_a_server_that_asks_for_a_pause_gets_it(serve: Serve) -> None:
    _, model = serve(fake.status(429, headers={"Retry-After": "7"}), fake.text("ok"))
    stop = Patient()
    assert said(list(model.stream(PROMPT, (), stop))) == "ok"
    assert stop.waits == [7.0]


def test_a_pause_longer_than_the_window_is_not_waited_for(serve: Serve) -> None:
    server, model = serve(fake.status(429, headers={"Retry-After": "3600"}))
    with pytest.raises(ModelAway):
        ask(model)
    assert len(server.requests) == 1


def test_no_try_begins_after_the_window(serve: Serve) -> None:
    server, model = serve(fake.status(503), window_s=0.0)
    with pytest.raises(ModelAway):
        ask(model)
    assert len(server.requests) == 1


def test_a_refused_connection_is_a_model_that_is_away() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = OpenAIModel(f"http://127.0.0.1:{port}/v1", "m", pause_s=0.0)
    with pytest.raises(ModelAway, match="no connection"):
        ask(model)
    model.close()


def test_silence_is_a_failure_and_not_a_wait_without_end(serve: Serve) -> None:
    server, model = serve(fake.never(), silence_s=0.1)
    with pytest.raises(ModelAway, match="silence"):
        ask(model)
    assert len(server.requests) == 4


def test_silence_within_an_answer_is_a_failure_too(serve: Serve) -> None:
    halting = fake.text("half an answer")
    halting.hold = threading.Event()
    _, model = serve(halting, fake.text("Whole."), silence_s=0.2)
    assert said(ask(model)) == "Whole."


# -- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
def test_what_the_server_refuses_is_not_tried_again(serve: Serve, code: int) -> None:
    server, model = serve(fake.status(code))
    with pytest.raises(ModelRefused):
        ask(model)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, "This model's maximum context length is 8192 tokens"),
        (400, "The decoder prompt (length 21535) is longer than the maximum model length of 9."),
        (400, "the request exceeds the available context size, try increasing it"),
        (400, "request (4390 tokens) exceeds the available context size (4096 tokens)"),
        (500, "Context size has been exceeded."),
        (400, "The input token count (1000001) exceeds the maximum number of tokens allowed (9)."),
        (400, "the input length exceeds the context length"),
        (400, "prompt too long; exceeded max context length by 4 tokens"),
        (413, "prompt is too long: 200001 tokens > 200000 maximum"),
        (422, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"),
        (400, "Requested tokens (2285) exceed context window of 2048"),
    ],
)
def test_a_prompt_that_does_not_fit_is_said_at_once(
    serve: Serve, code: int, message: str
) -> None:  # fmt: skip
    server, model = serve(fake.status(code, message))
    with pytest.raises(ContextTooLong):
        ask(model)
    assert len(server.requests) == 1


def test_a_prompt_that_does_not_fit_is_known_by_its_code(serve: Serve) -> None:
    _, model = serve(fake.status(400, "no", error_code="context_length_exceeded"))
    with pytest.raises(ContextTooLong):
        ask(model)


def test_a_prompt_that_does_not_fit_may_be_said_within_the_stream(serve: Serve) -> None:
    _, model = serve(Reply(raw=['{"error": {"message": "exceeds the maximum context length"}}']))
    with pytest.raises(ContextTooLong):
        ask(model)


@pytest.mark.parametrize(
    "message",
    [
        "registry.ollama.ai/library/gemma:2b does not support tools",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "tools param requires --jinja flag",
    ],
)
def test_a_server_without_tools_is_named_to_the_operator(
    serve: Serve, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, model = serve(fake.status(400, message))
    with pytest.raises(ModelRefused, match="no tools"):
        ask(model, (TOOL,))
    assert "takes no tools" in caplog.text


def test_a_withheld_answer_becomes_one_plain_sentence(serve: Serve) -> None:
    server, model = serve(fake.text("half of it", 1, finish="content_filter"))
    assert ask(model) == [Text("half of it"), Reset(), Text(words.ANSWER_WITHHELD)]
    assert len(server.requests) == 1


def test_a_withheld_answer_is_no_text_to_remember(serve: Serve) -> None:
    _, model = serve(fake.text("half", finish="content_filter"))
    with pytest.raises(ModelRefused):
        model.complete(PROMPT, Stop(10))


# -- limits ---------------------------------------------------------------------------------


def test_a_text_without_end_is_cut_and_memory_stays_bounded(serve: Serve) -> None:
    server, model = serve(fake.huge(50_000_000))
    ask(serve(fake.text("warm"))[1])
    tracemalloc.start()
    pieces = ask(model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(said(pieces)) == ANSWER_CHARS
    assert pieces[-1] == Cut("length")
    assert peak < 10_000_000
    assert len(server.requests) == 1


@pytest.mark.parametrize("streamed", [True, False])
def test_a_text_in_one_endless_event_is_cut_too(serve: Serve, streamed: bool) -> None:
    event = json.dumps(fake.whole([fake.delta(content="é" * EVENT_BYTES, finish="stop")]))
    _, model = serve(Reply(raw=[event]) if streamed else Reply(body=event))
    pieces = ask(model)
    assert said(pieces) == "é" * ANSWER_CHARS
    assert pieces[-1] == Cut("length")


def test_an_endless_event_without_text_is_a_failure(serve: Serve) -> None:
    _, model = serve(Reply(raw=["x" * (EVENT_BYTES + 1)]), fake.text("Whole."))
    assert said(ask(model)) == "Whole."


def test_an_endless_error_page_is_not_read_to_its_end(serve: Serve) -> None:
    server, model = serve(Reply(status=500, body="x" * 20_000_000), fake.text("Whole."))
    assert said(ask(model)) == "Whole."
    assert len(server.requests) == 2


def test_an_answer_cut_by_the_model_says_so(serve: Serve) -> None:
    _, model = serve(fake.text("and so on", finish="length"))
    assert ask(model)[-1] == Cut("length")


def test_a_call_cut_by_the_model_is_not_made(serve: Serve) -> None:
    cut = [
        fake.delta(content="Looking."),
        fake.delta(tool_calls=[whole_call(index=0, id="a"), whole_call("look", '{"q', index=1)]),
        fake.delta(finish="length"),
    ]
    _, model = serve(Reply(cut))
    assert ask(model, (TOOL,)) == [Text("Looking."), Call("a", "look", "{}"), Cut("length")]


# -- stopping -------------------------------------------------------------------------------


def stop_when(ready: Callable[[], object], stop: Stop) -> threading.Thread:
    """Cancels from another thread, once the turn waits for the server."""

    def run() -> None:
        ready()
        stop.stop("cancelled")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_stopped_turn_does_not_wait_for_the_first_word(serve: Serve) -> None:
    server, model = serve(fake.never())
    stop = Stop(60)
    begun = time.monotonic()
    thread = stop_when(lambda: server.wait_for(1), stop)
    with pytest.raises(Stopped, match="cancelled"):
        list(model.stream(PROMPT, (), stop))
    assert time.monotonic() - begun < 10
    thread.join()


def test_a_stopped_turn_does_not_wait_for_the_next_word(serve: Serve) -> None:
    halting = fake.text("slow answer")
    halting.hold = threading.Event()
    _, model = serve(halting)
    stop, begun, shown = Stop(60), time.monotonic(), threading.Event()
    thread = stop_when(shown.wait, stop)
    pieces = model.stream(PROMPT, (), stop)
    next(pieces)
    shown.set()
    with pytest.raises(Stopped, match="cancelled"):
        list(pieces)
    assert time.monotonic() - begun < 10
    thread.join()


def test_a_stopped_turn_does_not_wait_for_the_next_try(serve: Serve) -> None:
    server, model = serve(fake.status(503, headers={"Retry-After": "40"}))
    stop, begun = Stop(60), time.monotonic()
    thread = stop_when(lambda: server.wait_for(1), stop)
    with pytest.raises(Stopped, match="cancelled"):
        list(model.stream(PROMPT, (), stop))
    assert time.monotonic() - begun < 10
    thread.join()


def test_a_turn_stopped_before_it_asks_does_not_ask(serve: Serve) -> None:
    server, model = serve(fake.text("ok"))
    stop = Stop(60)
    stop.stop("cancelled")
    with pytest.raises(Stopped):
        list(model.stream(PROMPT, (), stop))
    assert server.requests == []


def test_the_deadline_ends_a_wait(serve: Serve) -> None:
    server, model = serve(fake.never())
    with pytest.raises(Stopped, match="deadline"):
        ask(model, seconds=0.3)
    assert len(server.requests) == 1


def test_the_deadline_ends_an_answer_that_drips(serve: Serve) -> None:
    def drip() -> Iterator[str]:
        while not server.ending.wait(0.02):
            yield json.dumps(fake.delta(content="x"))

    server, model = serve(Reply(raw=drip()))
    with pytest.raises(Stopped, match="deadline"):
        ask(model, seconds=0.3)


def test_an_answer_that_nobody_reads_on_gives_its_connection_back(serve: Serve) -> None:
    server, model = serve(fake.text("one two three"), fake.text("ok"))
    pieces = model.stream(PROMPT, (), Stop(20))
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert said(ask(model)) == "ok"
    assert len(server.requests) == 2


def test_stopping_one_answer_leaves_the_others_alone(serve: Serve) -> None:
    def rule(request: dict[str, Any]) -> Reply:
        return fake.never() if request["messages"][-1]["content"] == "hang" else fake.text("ok")

    server, model = serve(rule)
    stop = Stop(60)

    def others() -> None:
        server.wait_for(1)
        ask(model)

    thread = stop_when(others, stop)
    with pytest.raises(Stopped):
        list(model.stream([{"role": "user", "content": "hang"}], (), stop))
    thread.join()
    assert said(ask(model)) == "ok"


def test_a_stopped_turn_does_not_wait_over_tls_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, asked, ending = tls_server(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    model = OpenAIModel(f"https://127.0.0.1:{port}/v1", "m")
    stop, begun = Stop(60), time.monotonic()
    thread = stop_when(asked.wait, stop)
    with pytest.raises(Stopped, match="cancelled"):
        list(model.stream(PROMPT, (), stop))
    assert time.monotonic() - begun < 10
    ending()
    thread.join()
    model.close()


def tls_server(folder: Path) -> tuple[int, threading.Event, Callable[[], None]]:
    """A TLS server that takes one request and never answers: port, asked, and its end."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(alternative, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(pem_of(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    listening = socket.create_server(("127.0.0.1", 0))
    asked, over = threading.Event(), threading.Event()

    def serve_one() -> None:
        plain, _ = listening.accept()
        with listening, context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(65_536)
            asked.set()
            over.wait(60)

    thread = threading.Thread(target=serve_one)
    thread.start()

    def end() -> None:
        over.set()
        thread.join()

    return listening.getsockname()[1], asked, end


def pem_of(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


# -- whole texts ----------------------------------------------------------------------------


def test_an_empty_completion_is_an_answer(serve: Serve) -> None:
    server, model = serve(fake.text(""))
    assert complete(model, PROMPT, Stop(10)) == ""
    assert "tools" not in server.requests[0]
    assert len(server.requests) == 1


def test_a_completion_that_broke_off_is_no_empty_one(serve: Serve) -> None:
    server, model = serve(Reply(fake.text("said: x").chunks, cut_after=1))
    with pytest.raises(ModelAway):
        model.complete(PROMPT, Stop(10))
    assert len(server.requests) == 4


def test_a_completion_is_only_what_came_of_the_last_try(serve: Serve) -> None:
    _, model = serve(Reply(fake.text("said: half").chunks, cut_after=1), fake.text("said: all"))
    assert model.complete(PROMPT, Stop(10)) == "said: all"


def test_half_a_line_of_a_cut_completion_is_left_out(serve: Serve) -> None:
    _, model = serve(fake.text("said: tea\nsaid: no mi", finish="length"))
    assert model.complete(PROMPT, Stop(10)) == "said: tea"


def test_a_completion_of_half_a_line_is_no_answer(serve: Serve) -> None:
    _, model = serve(fake.text("said: no mi", finish="length"))
    with pytest.raises(ModelAway):
        model.complete(PROMPT, Stop(10))


def test_every_model_completes(serve: Serve) -> None:
    steps: list[Piece] = [Text("half"), Reset(), Text("whole")]
    assert complete(Scripted(steps), PROMPT, Stop(10)) == "whole"


# -- keys and logs --------------------------------------------------------------------------


def test_the_key_is_asked_for_at_each_try(serve: Serve) -> None:
    server, _ = serve(fake.status(503), fake.text("ok"))
    keys = iter(["one", "two\n"])
    model = OpenAIModel(server.url, "m", lambda: next(keys), pause_s=0.0)
    ask(model)
    model.close()
    assert [h["authorization"] for h in server.headers] == ["Bearer one", "Bearer two"]


def test_without_a_key_none_is_sent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    server, _ = serve(fake.text("ok"))
    model = openai_model(server.url, "m", "")
    ask(model)
    model.close()
    assert "authorization" not in server.headers[0]


def test_a_key_that_no_header_can_hold_is_refused(serve: Serve) -> None:
    server, _ = serve(fake.text("ok"))
    model = OpenAIModel(server.url, "m", "sk-ключ")
    with pytest.raises(ModelRefused, match="MODEL_API_KEY"):
        ask(model)
    assert server.requests == []


def test_a_failed_try_is_one_line_without_texts_and_keys(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    echoed = fake.status(503, "busy: canary-text, key sk-key")
    _, model = serve(echoed, fake.status(401, "bad key sk-key"))
    with caplog.at_level(logging.INFO), pytest.raises(ModelRefused) as refused:
        list(model.stream([{"role": "user", "content": "canary-text"}], (), Stop(20)))
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("bot")]
    assert lines == [
        "a try of the model failed: status 503",
        "a try of the model failed: status 401",
    ]
    for secret in ("canary-text", "sk-key"):
        assert secret not in caplog.text + str(refused.value)


class _Tokens(BaseHTTPRequestHandler):
    """Google's token endpoint, as far as a key file needs it."""

    asked = 0

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).asked += 1
        body = json.dumps({"access_token": "ya29.x", "expires_in": 3600}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_on_google_cloud_its_own_credentials_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = pem_of(key).decode()
    with HTTPServer(("127.0.0.1", 0), _Tokens) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        info = {
            "type": "service_account", "private_key": pem, "private_key_id": "k",
            "client_email": "m@p.iam.gserviceaccount.com", "project_id": "p",
            "token_uri": f"http://127.0.0.1:{server.server_port}/token",
        }  # fmt: skip
        file = tmp_path / "key.json"
        file.write_text(json.dumps(info))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        token = GoogleToken()
        assert [token(), token()] == ["ya29.x", "ya29.x"]
        assert _Tokens.asked == 1
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("url", "googles"),
    [
        ("https://europe-west1-aiplatform.googleapis.com/v1beta1/x", True),
        ("https://googleapis.com.example.invalid/v1", False),
    ],
)
def test_only_google_gets_google_tokens(
    url: str, googles: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    model = openai_model(url, "m", "")
    expected = ModelRefused if googles else ModelAway
    with pytest.raises(expected, match="Google token" if googles else "no connection"):
        list(model.stream(PROMPT, (), Patient()))
    model.close()


# -- the fake -------------------------------------------------------------------------------


def test_the_scripted_server_runs_as_a_program(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"status": 503}, {"text": "from a file"}, "echo"]))
    command = [sys.executable, "-m", "tests.fakes.model_server", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        model = OpenAIModel(process.stdout.readline().strip(), "m", pause_s=0.0)
        assert [said(ask(model)), said(ask(model))] == ["from a file", "You said: hi"]
        model.close()
        process.terminate()
