"""`/api/turn` and `/api/turns/…`: as JSON and as a stream, again, later, cancelled, refused."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from bot import words
from bot.mercury import Mercury
from bot.model import Call, ModelAway, Text
from bot.settings import Settings
from memory.turn_rows import Incoming
from tests.clock import HandClock
from tests.models import Echo, Scripted, calls
from tests.served import until
from tests.test_turn import note_tool
from tests.web import Paced, Person, Web, lose_archive

Make = Callable[..., Mercury]

TURN_FIELDS = {
    "conversation", "turn", "message", "answer", "tools", "confirmations", "memories", "notices",
}  # fmt: skip
PROBLEM = "application/problem+json"


def alice(mercury: Mercury) -> Person:
    return Web(mercury).person("alice")


def post_soon(person: Person, *args: Any, **given: Any) -> Callable[[], Any]:
    """Posts a turn in a thread; the function waits for its response."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(person.turn(*args, **given)))
    thread.start()

    def result() -> Any:
        thread.join(20)
        return found[0]

    return result


def the_turn(mercury: Mercury) -> str:
    """The id of the turn that was accepted last, once there is one."""
    sql = "SELECT id FROM turns ORDER BY accepted_at DESC, seq DESC"
    until(lambda: mercury.stores.database.read(lambda tx: tx.row(sql)), what="a turn")
    row = mercury.stores.database.read(lambda tx: tx.row(sql))
    assert row is not None
    return str(row[0])


# -- as JSON --------------------------------------------------------------------------------


def test_a_turn_is_answered_as_json(make: Make) -> None:
    person = alice(make(model=Scripted(calls("archive_search", '{"query": "x"}'), "Hello.")))
    response = person.turn("hi", Accept="application/json")
    told = response.get_json()
    assert (response.status_code, response.content_type) == (200, "application/json")
    assert set(told) == TURN_FIELDS
    assert told["answer"] == "Hello."
    assert told["conversation"] == "c"
    assert told["tools"] == [
        {"name": "archive_search", "arguments": {"query": "x"}, "outcome": "ok"}
    ]
    assert (told["confirmations"], told["memories"], told["notices"]) == ([], [], [])
    items = person.get("/api/conversations/c/messages").get_json()["items"]
    assert items[0]["id"] == told["message"]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", told[name]) for name in ("turn", "message"))


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("text/html, */*;q=0.1", "application/json"),
        ("application/*", "application/json"),
        ("text/event-stream", "text/event-stream"),
        ("text/event-stream, application/json;q=0.5", "text/event-stream"),
        ("text/event-stream;q=0.5, application/json", "application/json"),
    ],
)
def test_the_client_chooses_between_json_and_a_stream(
    make: Make, accept: str | None, kind: str
) -> None:
    headers = {} if accept is None else {"Accept": accept}
    response = alice(make(model=Echo())).turn("hi", **headers)
    assert response.status_code == 200
    assert response.mimetype == kind


@pytest.mark.parametrize("accept", ["text/html", "image/png;q=1", "application/xml"])
def test_a_client_that_takes_neither_is_refused_and_nothing_is_stored(
    make: Make, accept: str
) -> None:
    person = alice(make(model=Echo()))
    response = person.turn("hi", Accept=accept)
    assert (response.status_code, response.content_type) == (406, PROBLEM)
    assert person.get("/api/conversations").get_json()["items"] == []


def test_without_a_conversation_each_turn_opens_one_of_ours(make: Make) -> None:
    person = alice(make(model=Echo()))
    first, second = person.say("a", None), person.say("b", None)
    assert first["conversation"] != second["conversation"]
    assert first["conversation"].startswith("cv_")
    again = person.say("c", first["conversation"])
    assert again["conversation"] == first["conversation"]


def test_a_name_of_the_client_s_own_belongs_to_that_person(make: Make) -> None:
    web = Web(make(model=Echo()))
    ours, theirs = web.person("alice"), web.person("bob")
    ours.say("mine", "notes")
    theirs.say("his", "notes")
    for person, text in ((ours, "mine"), (theirs, "his")):
        items = person.get("/api/conversations/notes/messages").get_json()["items"]
        assert [item["text"] for item in items] == [text, f"You said: {text}"]


def test_a_conversation_of_ours_that_is_foreign_is_as_missing_as_one_that_never_was(
    make: Make,
) -> None:
    web = Web(make(model=Echo()))
    foreign = web.person("alice").say("secret", None)["conversation"]
    bob = web.person("bob")
    refusals = [bob.turn("hi", name) for name in (foreign, "cv_never_was")]
    assert [response.status_code for response in refusals] == [404, 404]
    assert refusals[0].data == refusals[1].data
    assert bob.get("/api/conversations").get_json()["items"] == []


def test_a_conversation_of_google_chat_is_read_only_here(make: Make) -> None:
    mercury = make(model=Echo())
    mercury.stores.accepting.accept(
        Incoming(
            event="e", channel="chat", person="google-chat:users/1",
            owner="person:google-chat:users/1", kind="dm", space=None, name="Ada", text="hi",
            key="spaces/DM",
        )
    )  # fmt: skip
    person = Web(mercury).person("google-chat:users/1")
    (found,) = person.get("/api/conversations").get_json()["items"]
    assert (found["channel"], found["writable"]) == ("chat", False)
    for text in ("hello", "confirm ABCD-EFGH"):
        response = person.turn(text, found["id"])
        assert (response.status_code, response.get_json()["code"]) == (409, "read_only_here")


def test_a_turn_without_the_model_is_answered_all_the_same(make: Make) -> None:
    told = alice(make(model=Scripted(ModelAway("503")))).say("hi")
    assert told["answer"] == words.MODEL_AWAY
    assert told["notices"] == [{"store": "model", "text": words.MODEL_AWAY}]


def test_a_turn_that_is_set_aside_is_answered_with_the_apology(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.engine.RETRY_S", (0.0, 0.0))
    person = alice(make(model=Scripted(ValueError("a bug of ours"))))
    told = person.say("hi")
    assert told["answer"] == words.APOLOGY
    assert person.get(f"/api/turns/{told['turn']}").get_json()["state"] == "set_aside"
    assert "a bug of ours" not in str(told)


def test_past_the_deadline_a_turn_is_202_and_can_be_fetched_later(
    make: Make, settings: Settings
) -> None:
    go = threading.Event()

    def hangs(prompt: Any, stop: Any) -> str:
        assert go.wait(20)
        return "late"

    person = alice(make(settings.model_copy(update={"turn_timeout_s": 0.3}), model=Scripted(hangs)))
    person.begin("one").leave()
    response = person.turn("two")
    told = response.get_json()
    assert response.status_code == 202
    assert set(told) == {"turn", "conversation", "state"}
    assert told["state"] == "waiting"
    assert response.headers["Location"] == f"/api/turns/{told['turn']}"
    go.set()
    until(lambda: person.get(response.headers["Location"]).get_json()["state"] == "done")
    late = person.get(response.headers["Location"]).get_json()
    assert set(late) == TURN_FIELDS | {"state"}
    assert late["answer"] == "late"


def test_a_message_that_was_not_stored_is_503(make: Make) -> None:
    mercury = make(model=Echo())
    person = alice(mercury)
    person.say("before")
    lose_archive(mercury)
    response = person.turn("hi")
    assert (response.status_code, response.content_type) == (503, PROBLEM)
    assert int(response.headers["Retry-After"]) > 0


# -- as a stream ----------------------------------------------------------------------------


def test_a_stream_tells_the_turn_in_order(make: Make) -> None:
    model = Scripted(
        [Text("Let me "), Text("look."), Call("1", "archive_search", '{"query": "x"}')], "Done."
    )
    person = alice(make(model=model))
    stream = person.begin("hi")
    events = stream.rest()
    assert stream.response.content_type == "text/event-stream; charset=utf-8"
    assert stream.response.headers["Cache-Control"] == "no-store"
    assert [event.kind for event in events] == [
        "accepted", "text", "text", "tool", "tool_finished", "text", "text", "answer",
    ]  # fmt: skip
    assert set(events[0].data) == {"turn", "conversation", "message"}
    assert events[3].data == {"n": 1, "name": "archive_search", "arguments": {"query": "x"}}
    assert events[4].data == {"n": 1, "outcome": "ok"}
    shown = "".join(event.data["delta"] for event in events if event.kind == "text")
    assert shown == events[-1].data["answer"] == "Let me look.\n\nDone."
    later = person.get(f"/api/turns/{events[0].data['turn']}").get_json()
    assert {**events[-1].data, "state": "done"} == later
    assert set(events[-1].data) == TURN_FIELDS
    places = [tuple(int(n) for n in event.id.split(".")) for event in events]
    assert places == sorted(set(places))


def test_text_is_told_while_it_is_made(make: Make) -> None:
    model = Paced([Text("one "), None, Text("two")])
    stream = alice(make(model=model)).begin("hi")
    assert [event.kind for event in stream.until("text")] == ["accepted", "text"]
    model.go()
    assert [event.kind for event in stream.rest()] == ["text", "answer"]


def test_a_confirmation_is_told_in_the_stream_and_in_the_json(make: Make) -> None:
    model = Scripted(calls("note", '{"text": "all"}'), "It waits.")
    person = alice(make(model=model, tools=[note_tool([], "irreversible")]))
    events = person.begin("publish").rest()
    assert [event.kind for event in events] == [
        "accepted", "tool", "confirmation", "tool_finished", "text", "text", "answer",
    ]  # fmt: skip
    shown = events[2].data
    assert {"token", "code", "action", "text", "expires_at"} <= set(shown)
    assert events[-1].data["confirmations"] == [shown]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", shown["expires_at"])


def test_what_the_model_s_absence_voids_is_reset_in_the_stream(make: Make) -> None:
    events = alice(make(model=Scripted(ModelAway("503")))).begin("hi").rest()
    assert [event.kind for event in events] == ["accepted", "reset", "text", "notice", "answer"]
    assert events[3].data == {"store": "model", "text": words.MODEL_AWAY}


def test_another_attempt_begins_with_one_reset(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.engine.RETRY_S", (0.0, 0.0))
    broken = [Text("half an ans"), None, RuntimeError("a bug")]
    model = Paced(broken, [Text("Whole.")])
    mercury = make(model=model)
    person = alice(mercury)
    stream = person.begin("hi")
    first = stream.until("text")[-1]
    assert first.data == {"delta": "half an "}
    model.go()
    events = stream.rest()
    assert [event.kind for event in events] == ["reset", "text", "answer"]
    assert events[-1].data["answer"] == "Whole."
    attempts = {int(event.id.split(".")[0]) for event in events}
    assert attempts == {int(first.id.split(".")[0]) + 1}


def test_a_silent_stream_gives_a_sign_of_life(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.http.turns.HEARTBEAT_S", 0.02)
    monkeypatch.setattr("bot.http.turns.POLL_S", 0.01)
    model = Paced([None, Text("ok")])
    stream = alice(make(model=model)).begin("hi")
    assert [event.kind for event in stream.until(":")] == ["accepted", ":"]
    assert [event.kind for event in stream.until(":")] == [":"]
    model.go()
    assert [e.kind for e in stream.rest() if e.kind != ":"] == ["text", "answer"]


def test_a_client_that_goes_away_does_not_stop_the_turn(make: Make) -> None:
    model = Paced([Text("one "), None, Text("two")])
    web = Web(make(model=model))
    person = web.person("alice")
    stream = person.begin("hi")
    turn = stream.until("text")[0].data["turn"]
    stream.leave()
    assert web.gate.open == 0
    model.go()
    until(lambda: person.get(f"/api/turns/{turn}").get_json()["state"] == "done")
    assert person.get(f"/api/turns/{turn}").get_json()["answer"] == "one two"


def test_an_archive_that_goes_away_ends_a_stream_with_an_error(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.http.turns.POLL_S", 0.01)
    model = Paced([Text("one "), None])
    mercury = make(model=model)
    stream = alice(mercury).begin("hi")
    last = stream.until("text")[-1]
    lose_archive(mercury)
    (error,) = [event for event in stream.rest() if event.kind != ":"]
    assert (error.kind, error.id) == ("error", last.id)
    assert (error.data["status"], error.data["code"]) == (503, "store_down")
    assert "archive.db" not in str(error.data)


# -- again ----------------------------------------------------------------------------------


def test_the_same_key_and_body_is_the_same_turn(make: Make) -> None:
    model = Scripted("once", "twice")
    person = alice(make(model=model))
    first = person.turn("hi", Idempotency_Key="k1")
    again = person.turn("hi", Idempotency_Key="k1")
    assert first.get_json() == again.get_json()
    streamed = person.begin("hi", Idempotency_Key="k1").rest()
    assert streamed[-1].data == first.get_json()
    assert len(model.prompts) == 1
    assert person.turn("hi", Idempotency_Key="k2").get_json()["answer"] == "twice"


def test_the_same_key_means_the_same_turn_after_a_restart(make: Make) -> None:
    first = alice(make(model=Scripted("once"))).turn("hi", Idempotency_Key="k")
    again = alice(make(model=Scripted("twice"))).turn("hi", Idempotency_Key="k")
    assert again.get_json() == first.get_json()


@pytest.mark.parametrize(("text", "conversation"), [("hi!", "c"), ("hi", "d"), ("hi", None)])
def test_the_same_key_with_another_body_is_refused(
    make: Make, text: str, conversation: str | None
) -> None:
    model = Scripted("once")
    person = alice(make(model=model))
    person.turn("hi", Idempotency_Key="k")
    response = person.turn(text, conversation, Idempotency_Key="k")
    assert (response.status_code, response.content_type) == (422, PROBLEM)
    assert response.get_json()["code"] == "idempotency_mismatch"
    assert len(model.prompts) == 1


def test_two_people_may_use_the_same_key(make: Make) -> None:
    web = Web(make(model=Echo()))
    told = [
        web.person(name).turn("hi", Idempotency_Key="k").get_json() for name in ("alice", "bob")
    ]
    assert told[0]["turn"] != told[1]["turn"]


@pytest.mark.parametrize("key", ["", "with space", "k" * 256, "ümlaut"])
def test_a_key_that_is_none_is_400(make: Make, key: str) -> None:
    response = alice(make(model=Echo())).turn("hi", Idempotency_Key=key)
    assert (response.status_code, response.content_type) == (400, PROBLEM)
    assert response.get_json()["code"] == "bad_idempotency_key"


def test_a_caller_attaches_to_the_turn_that_runs(make: Make) -> None:
    model = Paced([Text("one "), None, Text("two")])
    person = alice(make(model=model))
    stream = person.begin("hi", Idempotency_Key="k")
    accepted = stream.until("text")[0]
    waiting = post_soon(person, "hi", Idempotency_Key="k")
    second = person.begin("hi", Idempotency_Key="k")
    assert second.until("text")[0] == accepted
    model.go()
    assert waiting().get_json() == stream.rest()[-1].data == second.rest()[-1].data
    assert model.asked == 1


def test_many_at_once_under_one_key_are_one_turn(make: Make) -> None:
    model = Paced([None, Text("once")])
    person = alice(make(model=model))
    results = [post_soon(person, "hi", Idempotency_Key="k") for _ in range(8)]
    until(lambda: model.asked, what="the model's request")
    model.go()
    told = [result().get_json() for result in results]
    assert all(one == told[0] for one in told)
    assert model.asked == 1


# -- later ----------------------------------------------------------------------------------


def test_a_turn_tells_its_state(make: Make) -> None:
    model = Paced([None, Text("ok")])
    person = alice(make(model=model))
    first, second = person.begin("one"), person.begin("two")
    running, waiting = first.next().data["turn"], second.next().data["turn"]
    until(lambda: person.get(f"/api/turns/{running}").get_json()["state"] == "running")
    told = person.get(f"/api/turns/{waiting}").get_json()
    assert told == {"turn": waiting, "conversation": "c", "state": "waiting"}
    model.go(2)
    first.rest()
    second.rest()
    done = person.get(f"/api/turns/{waiting}").get_json()
    assert (done["state"], done["answer"]) == ("done", "ok")


def test_a_stream_is_taken_up_in_the_middle(make: Make) -> None:
    model = Paced([Text("a "), Text("b "), Text("c "), None, Text("d")])
    person = alice(make(model=model))
    first = person.begin("hi")
    turn = first.next().data["turn"]
    seen = [first.next() for _ in range(3)]
    first.leave()
    second = person.again(turn, seen[0].id)
    assert [second.next() for _ in range(2)] == seen[1:]
    model.go()
    whole = person.again(turn).rest()
    assert person.again(turn, whole[0].id).rest() == whole[1:]
    rest = second.rest()
    assert rest == whole[4:]
    assert [event.kind for event in whole] == ["accepted", *4 * ["text"], "answer"]
    assert person.again(turn, seen[2].id).rest() == rest


def test_a_stream_whose_events_are_gone_is_reset_and_told_as_a_whole(make: Make) -> None:
    person = alice(make(model=Scripted([Text("a"), Text("b")])))
    events = person.begin("hi").rest()
    turn = events[0].data["turn"]
    later = alice(make(model=Scripted("never")))
    told = later.again(turn, events[1].id).rest()
    assert [event.kind for event in told] == ["reset", "text", "answer"]
    assert told[1].data == {"delta": "ab"}
    assert told[2].data == events[-1].data
    assert [event.kind for event in later.again(turn).rest()] == ["accepted", "text", "answer"]
    places = [tuple(int(n) for n in event.id.split(".")) for event in (events[1], *told)]
    assert places == sorted(set(places))


def test_events_that_left_the_buffer_mean_a_reset(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.streams.BUFFER_CHARS", 10)
    model = Paced([Text("012 "), None, Text("456 "), Text("89a "), None, Text("cde ")])
    person = alice(make(model=model))
    stream = person.begin("hi")
    turn = stream.next().data["turn"]
    first = stream.next()
    stream.leave()
    model.go(2)
    until(lambda: person.get(f"/api/turns/{turn}").get_json()["state"] == "done")
    told = person.again(turn, first.id).rest()
    assert told[0].kind == "reset"
    assert told[-1].data["answer"] == "012 456 89a cde "


@pytest.mark.parametrize("last", ["x", "1", "1.2.3", "-1.0", "1.1x", "٣.1", "1" * 30 + ".1"])
def test_an_id_that_no_stream_gave_is_400(make: Make, last: str) -> None:
    person = alice(make(model=Echo()))
    turn = person.say("hi")["turn"]
    response = person.again(turn, last.encode().decode("latin-1")).response
    assert (response.status_code, response.content_type) == (400, PROBLEM)


# -- cancelled ------------------------------------------------------------------------------


def test_a_running_turn_is_cancelled_and_its_answer_is_null(make: Make) -> None:
    model = Paced([Text("one "), None], [Text("two")])
    person = alice(make(model=model))
    waiting = post_soon(person, "hi")
    turn = the_turn(person.web.mercury)
    until(lambda: model.asked, what="the model's request")
    stream = person.again(turn)
    response = person.request("DELETE", f"/api/turns/{turn}")
    assert response.status_code == 202
    told = waiting()
    assert (told.status_code, told.get_json()["answer"]) == (200, None)
    assert stream.rest()[-1].data["answer"] is None
    later = person.get(f"/api/turns/{turn}").get_json()
    assert (later["state"], later["answer"]) == ("cancelled", None)
    assert person.say("next")["answer"] == "two"


def test_a_waiting_turn_is_cancelled_and_never_runs(make: Make) -> None:
    model = Paced([None, Text("ok")])
    person = alice(make(model=model))
    first, second = person.begin("one"), person.begin("two")
    turn = second.next().data["turn"]
    assert person.request("DELETE", f"/api/turns/{turn}").status_code == 202
    assert second.rest()[-1].data["answer"] is None
    model.go()
    assert first.rest()[-1].data["answer"] == "ok"
    assert model.asked == 1


@pytest.mark.parametrize("state", ["done", "cancelled"])
def test_a_turn_that_has_ended_cannot_be_cancelled(make: Make, state: str) -> None:
    model = Paced([None, Text("ok")])
    person = alice(make(model=model))
    stream = person.begin("hi")
    turn = stream.next().data["turn"]
    if state == "cancelled":
        person.request("DELETE", f"/api/turns/{turn}")
    model.go()
    stream.rest()
    response = person.request("DELETE", f"/api/turns/{turn}")
    assert (response.status_code, response.content_type) == (409, PROBLEM)
    assert person.get(f"/api/turns/{turn}").get_json()["state"] == state


def test_nobody_else_sees_or_cancels_a_turn(make: Make) -> None:
    model = Paced([None, Text("secret")])
    web = Web(make(model=model))
    person, bob = web.person("alice"), web.person("bob")
    stream = person.begin("hi")
    turn = stream.next().data["turn"]
    for method, path in (
        ("GET", "/api/turns/{}"), ("GET", "/api/turns/{}/events"), ("DELETE", "/api/turns/{}"),
    ):  # fmt: skip
        foreign, missing = (bob.request(method, path.format(x)) for x in (turn, "t_never_was"))
        assert foreign.status_code == missing.status_code == 404
        assert foreign.data == missing.data
        assert foreign.content_type == PROBLEM
    model.go()
    assert stream.rest()[-1].data["answer"] == "secret"


# -- refused --------------------------------------------------------------------------------


def test_when_too_many_are_open_the_next_is_told_to_come_back(make: Make) -> None:
    web = Web(make(model=Echo()))
    person = web.person("alice")
    turn = person.say("hi")["turn"]
    while web.gate.enter():
        pass
    assert web.gate.open == 224
    for response in (
        person.turn("hi"),
        person.begin("hi").response,
        person.again(turn).response,
    ):
        assert (response.status_code, response.content_type) == (503, PROBLEM)
        assert int(response.headers["Retry-After"]) > 0
    assert web.request("GET", "/healthz").status_code == 200
    assert web.request("GET", "/readyz").status_code == 200
    assert person.get(f"/api/turns/{turn}").status_code == 200
    web.gate.leave()
    assert person.turn("hi").status_code == 200


def test_every_way_out_gives_the_place_at_the_gate_back(make: Make) -> None:
    web = Web(make(model=Echo()))
    person = web.person("alice")
    stream = {"Accept": "text/event-stream"}
    turn = person.say("hi")["turn"]
    person.turn("hi", Idempotency_Key="k")
    for headers in ({}, stream):
        assert person.turn("hi", "cv_never_was", **headers).status_code == 404
        assert person.turn("ho", Idempotency_Key="k", **headers).status_code == 422
        assert person.turn("hi", "no/name", **headers).status_code == 422
        with person.turn("hi", **headers) as answered:
            assert b"You said: hi" in answered.get_data()
        person.turn("confirm ABCD-EFGH", **headers)
    assert person.again("t_never_was").response.status_code == 404
    assert person.again(turn, "x").response.status_code == 400
    person.again(turn).rest()
    assert web.gate.open == 0


def test_a_server_that_ends_takes_no_turn_and_ends_its_streams_cleanly(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.http.turns.POLL_S", 0.01)
    model = Paced([Text("one "), None])
    mercury = make(model=model)
    person = alice(mercury)
    stream = person.begin("hi")
    turn = stream.until("text")[0].data["turn"]
    waiting = post_soon(person, "hi", "other")
    until(lambda: model.asked == 2, what="the second request")
    mercury.engine.drain(0.05)
    assert stream.rest() == []
    left = waiting()
    assert (left.status_code, left.get_json()["state"]) == (202, "waiting")
    refused = person.turn("hi", "third")
    assert (refused.status_code, refused.get_json()["code"]) == (503, "busy")
    later = alice(make(model=Echo()))
    assert later.again(turn, "1.1").rest()[-1].data["answer"] == "You said: hi"


def test_idle_time_changes_nothing_over_http(make: Make, clock: HandClock) -> None:
    person = alice(make(model=Echo()))
    person.say("first")
    clock.move(86_400 * 30)
    person.say("second")
    (one,) = person.get("/api/conversations").get_json()["items"]
    assert one["id"] == "c"
    items = person.get("/api/conversations/c/messages").get_json()["items"]
    assert [item["text"] for item in items if item["role"] == "person"] == ["first", "second"]
