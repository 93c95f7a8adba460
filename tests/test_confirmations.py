"""What cannot be undone is done once, for the person who was asked, on their word alone."""

from __future__ import annotations

import functools
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bot import logs, words
from bot.confirm import ALPHABET, code_of, token_of
from bot.mercury import Mercury, instance_secret
from bot.model import Text
from bot.settings import Settings, SettingsError, load
from bot.settling import CHANGED, ActionFailed
from bot.tools import Arguments, Context, Staged, Tool
from memory.confirmations import Confirmation
from memory.database import Tx
from memory.errors import StoreDown
from tests.clock import HandClock
from tests.fakes.chat_server import ChatServer
from tests.fakes.google_keys import AUDIENCE, PROJECT, Signer
from tests.models import Scripted, calls
from tests.served import until
from tests.web import Person, Web, close_chat, kept_logging
from tests.world import event

Make = Callable[..., Mercury]


class PublishArguments(Arguments):
    text: str


def publish(context: Context, given: PublishArguments) -> Staged:
    return Staged("publish", {"path": "mine/a.md", "to": "curated/a.md", "text": given.text})


TOOL = Tool("publish", "Publishes a text.", PublishArguments, "irreversible", publish)


class Press:
    """The action: counts what it published, and looks first whether it has been done."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.calls = 0
        self.error: Exception | None = None
        self.hold: threading.Event | None = None
        self.lock = threading.Lock()

    def __call__(self, confirmation: Confirmation) -> str:
        self.calls += 1
        if self.hold is not None:
            assert self.hold.wait(20)
        if self.error is not None:
            raise self.error
        with self.lock:
            if confirmation.id not in self.published:
                self.published.append(confirmation.id)
        return "published"


@pytest.fixture
def press() -> Press:
    return Press()


@pytest.fixture
def meet(make: Make, press: Press) -> Iterator[Callable[..., Web]]:
    """A Mercury whose model asks to publish whenever it is told to, and else says ok."""
    made: list[Mercury] = []

    def one(settings: Settings | None = None, **given: Any) -> Web:
        given.setdefault("model", Scripted(obliging))
        made.append(make(settings, tools=[TOOL], actions={"publish": press}, **given))
        return Web(made[-1])

    yield one
    for mercury in made:
        mercury.engine.drain(2.0)
        close_chat(mercury)


def obliging(prompt: Any, stop: Any) -> Any:
    last = prompt[-1]
    if last["role"] == "user" and "publish" in last["content"]:
        return calls("publish", '{"text": "all of it"}')
    return [Text("ok")]


def ask(web: Web, name: str = "alice", conversation: str = "c") -> tuple[Person, dict[str, Any]]:
    """A person for whom something was staged, and what they are shown."""
    person = web.person(name)
    (shown,) = person.say("publish it", conversation)["confirmations"]
    return person, shown


def settle(person: Person, token: str, decision: str = "confirm") -> Any:
    return person.post(f"/api/confirmations/{token}", {"decision": decision})


def typed(person: Person, text: str, conversation: str = "c", **headers: str) -> str:
    response = person.turn(text, conversation, **headers)
    assert response.status_code == 200
    return str(response.get_json()["answer"])


def test_a_code_under_an_idempotency_key_costs_one_try_however_often_it_is_sent(
    meet: Callable[..., Web], press: Press
) -> None:
    person, shown = ask(meet())
    key = {"Idempotency-Key": "k1"}
    for _ in range(9):
        assert typed(person, "confirm AAAA-AAAA", **key) == words.WRONG_CODE
    assert person.turn("hello", "c", **key).status_code == 422
    assert typed(person, "hello", **{"Idempotency-Key": "k2"}) == "ok"
    assert person.turn("confirm AAAA-AAAA", "c", **{"Idempotency-Key": "k2"}).status_code == 422
    again = {"Idempotency-Key": "k3"}
    for _ in range(2):
        assert typed(person, f"confirm {shown['code']}", **again) == "publish: published"
    assert press.calls == 1


# -- by token ---------------------------------------------------------------------------------


def test_nothing_is_done_until_it_is_confirmed(meet: Callable[..., Web], press: Press) -> None:
    person, shown = ask(meet())
    assert press.calls == 0
    assert shown["state"] == "waiting"
    assert (shown["action"], shown["path"], shown["to"], shown["text"]) == (
        "publish", "mine/a.md", "curated/a.md", "all of it",
    )  # fmt: skip
    assert re.fullmatch(rf"{shown['id']}\.[A-Za-z0-9_-]{{22}}", shown["token"])
    assert re.fullmatch(rf"[{ALPHABET}]{{4}}-[{ALPHABET}]{{4}}", shown["code"])
    response = settle(person, shown["token"])
    assert (response.status_code, response.get_json()) == (
        200, {"id": shown["id"], "state": "done", "outcome": "published"},
    )  # fmt: skip
    assert press.published == [shown["id"]]


def test_a_cancelled_one_is_never_done(meet: Callable[..., Web], press: Press) -> None:
    person, shown = ask(meet())
    told = settle(person, shown["token"], "cancel").get_json()
    assert told == {"id": shown["id"], "state": "cancelled", "outcome": "cancelled"}
    assert settle(person, shown["token"]).status_code == 409
    assert press.calls == 0


@pytest.mark.parametrize("decision", ["confirm", "cancel"])
def test_the_same_decision_again_is_already_so(
    meet: Callable[..., Web], press: Press, decision: str
) -> None:
    person, shown = ask(meet())
    first = settle(person, shown["token"], decision).get_json()
    again = settle(person, shown["token"], decision)
    assert (again.status_code, again.get_json()) == (200, {**first, "already": True})
    assert press.calls == (1 if decision == "confirm" else 0)


@pytest.mark.parametrize(("first", "other"), [("confirm", "cancel"), ("cancel", "confirm")])
def test_another_decision_is_409(
    meet: Callable[..., Web], press: Press, first: str, other: str
) -> None:
    person, shown = ask(meet())
    settle(person, shown["token"], first)
    response = settle(person, shown["token"], other)
    assert (response.status_code, response.get_json()["code"]) == (409, "already_settled")
    assert press.calls == (1 if first == "confirm" else 0)


def test_after_fifteen_minutes_it_is_over(
    meet: Callable[..., Web], press: Press, clock: HandClock
) -> None:
    person, shown = ask(meet())
    clock.move(899)
    assert person.get("/api/confirmations").get_json()["items"] != []
    clock.move(1)
    for decision in ("confirm", "cancel"):
        response = settle(person, shown["token"], decision)
        assert (response.status_code, response.get_json()["code"]) == (410, "expired")
    assert person.get("/api/confirmations").get_json()["items"] == []
    assert typed(person, f"confirm {shown['code']}") == words.NOTHING_TO_CONFIRM
    assert press.calls == 0


def test_foreign_forged_and_unknown_ones_are_the_same_404(
    meet: Callable[..., Web], press: Press
) -> None:
    web = meet()
    person, shown = ask(web)
    id_, _, mac = shown["token"].partition(".")
    other = token_of(b"x" * 32, id_)
    swapped = mac[:-2] + ("A" if mac[-2] != "A" else "B") + mac[-1]
    bodies = {settle(web.person("mallory"), shown["token"]).data}
    for token in (
        id_, f"{id_}.", f"{id_}.{swapped}", other, f"cf_unknown.{mac}", "x.y", "%00.x", "語.x",
        f".{mac}", f"{shown['token']}.x", shown["code"], f"{id_}.{mac[:21]}",
    ):  # fmt: skip
        response = settle(person, token)
        assert response.status_code == 404, token
        bodies.add(response.data)
    assert len(bodies) == 1
    assert press.calls == 0
    assert settle(person, shown["token"]).status_code == 200


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/decision"),
        ({"decision": "yes"}, "/decision"),
        ({"decision": "CONFIRM"}, "/decision"),
        ({"decision": True}, "/decision"),
        ({"decision": "confirm", "text": "other"}, "/text"),
    ],
)
def test_there_are_two_decisions(
    meet: Callable[..., Web], press: Press, body: Any, pointer: str
) -> None:
    person, shown = ask(meet())
    response = person.post(f"/api/confirmations/{shown['token']}", body)
    assert (response.status_code, response.get_json()["pointer"]) == (422, pointer)
    assert press.calls == 0


def test_eight_at_once_do_it_once(meet: Callable[..., Web], press: Press) -> None:
    person, shown = ask(meet())
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda _: settle(person, shown["token"]), range(8)))
    assert [response.status_code for response in responses] == [200] * 8
    assert sum("already" not in response.get_json() for response in responses) == 1
    assert press.calls == 1
    assert settled_entries(person) == ["publish: published"]


def test_of_a_confirm_and_a_cancel_at_once_one_holds(
    meet: Callable[..., Web], press: Press
) -> None:
    web = meet()
    for n in range(10):
        person, shown = ask(web, conversation=f"c{n}")
        decisions = ["confirm", "cancel"] * 4
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(settle, [person] * 8, [shown["token"]] * 8, decisions))
        held = {a.get_json()["state"].replace("running", "done") for a in answers
                if a.status_code == 200}  # fmt: skip
        assert len(held) == 1
        assert {a.status_code for a in answers} == {200, 409}
        assert (shown["id"] in press.published) == (held == {"done"})


# -- what comes of it -------------------------------------------------------------------------


def settled_entries(person: Person, conversation: str = "c") -> list[str]:
    items = person.get(f"/api/conversations/{conversation}/messages").get_json()["items"]
    return [item["text"] for item in items if item["role"] == "settled"]


def test_what_happened_stands_in_the_history_and_in_the_next_prompt(
    meet: Callable[..., Web],
) -> None:
    model = Scripted(obliging)
    web = meet(model=model)
    person, shown = ask(web)
    settle(person, shown["token"])
    assert settled_entries(person) == ["publish: published"]
    person.say("did it work?")
    said = [m["content"] for m in model.prompts[-1]]
    assert said[-1] == "did it work?"
    assert "publish: published" in said[-2]
    (conversation,) = web.mercury.stores.archive.conversations("person:http:alice").items
    history = web.mercury.stores.archive.history(conversation)
    assert history.canonical() == web.mercury.histories.rebuild(conversation).canonical()
    assert "publish: published" in history.canonical()


def test_a_target_that_changed_is_409_and_nothing_is_done(
    meet: Callable[..., Web], press: Press
) -> None:
    person, shown = ask(meet())
    press.error = ActionFailed(CHANGED)
    for _ in range(2):
        response = settle(person, shown["token"])
        assert (response.status_code, response.get_json()["code"]) == (409, "changed")
    assert press.calls == 1
    assert settled_entries(person) == [f"publish: failed: {words.WHY['changed']}"]


def test_a_typed_code_whose_target_changed_is_told_so(
    meet: Callable[..., Web], press: Press
) -> None:
    person, shown = ask(meet())
    press.error = ActionFailed(CHANGED)
    assert typed(person, f"confirm {shown['code']}") == f"publish: failed: {words.WHY['changed']}"


def test_an_action_that_breaks_has_failed_and_is_not_tried_for_ever(
    meet: Callable[..., Web], press: Press, clock: HandClock
) -> None:
    web = meet()
    person, shown = ask(web)
    press.error = RuntimeError("a bug with somebody's text")
    response = settle(person, shown["token"])
    assert response.status_code == 200
    assert response.get_json()["state"] == "failed"
    assert "somebody" not in response.get_data(as_text=True)
    clock.move(60)
    web.mercury.settling.finish_running()
    assert press.calls == 1


def test_a_store_that_is_away_leaves_it_to_the_sweep(
    meet: Callable[..., Web], press: Press, clock: HandClock
) -> None:
    web = meet()
    person, shown = ask(web)
    press.error = StoreDown("the wiki is locked")
    assert settle(person, shown["token"]).status_code == 503
    press.error = None
    web.mercury.settling.finish_running()
    assert press.published == []
    clock.move(31)
    web.mercury.settling.finish_running()
    assert press.published == [shown["id"]]
    assert settle(person, shown["token"]).get_json()["already"] is True
    assert settled_entries(person) == ["publish: published"]


def test_while_it_runs_the_same_decision_is_already_made(
    meet: Callable[..., Web], press: Press
) -> None:
    person, shown = ask(meet())
    press.hold = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(settle, person, shown["token"])
        until(lambda: press.calls, what="the action's call")
        told = settle(person, shown["token"]).get_json()
        assert (told["state"], told["already"]) == ("running", True)
        assert settle(person, shown["token"], "cancel").status_code == 409
        press.hold.set()
        assert first.result().get_json()["state"] == "done"
    assert press.calls == 1


# -- by code ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["confirm {}", "CONFIRM {}", "Confirm  {}", " confirm {}\n"])
@pytest.mark.parametrize("case", [str, str.lower, str.swapcase])
def test_a_typed_code_settles_whatever_its_case(
    meet: Callable[..., Web], press: Press, form: str, case: Callable[[str], str]
) -> None:
    person, shown = ask(meet())
    assert typed(person, form.format(case(shown["code"]))) == "publish: published"
    assert press.published == [shown["id"]]


def test_a_typed_cancel_cancels(meet: Callable[..., Web], press: Press) -> None:
    person, shown = ask(meet())
    assert typed(person, f"cancel {shown['code']}") == "publish: cancelled"
    assert settle(person, shown["token"]).status_code == 409
    assert press.calls == 0


def test_a_typed_code_is_no_message_and_its_event_keeps_no_text(
    meet: Callable[..., Web],
) -> None:
    model = Scripted(obliging)
    web = meet(model=model)
    person, shown = ask(web)
    asked = len(model.prompts)
    response = person.turn(f"confirm {shown['code']}", Idempotency_Key="k")
    told = response.get_json()
    assert (told["turn"], told["message"], told["conversation"]) == (None, None, "c")
    typed(person, "confirm AAAA-AAAA")
    person.turn("cancel AAAA-AAAA", Accept="text/event-stream").get_data()
    items = person.get("/api/conversations/c/messages").get_json()["items"]
    assert [item["role"] for item in items] == ["person", "assistant", "settled"]
    assert len(model.prompts) == asked
    for table in ("events", "turns"):
        sql = f"SELECT * FROM {table}"
        rows = web.mercury.stores.database.read(functools.partial(_rows, sql))
        for code in (shown["code"], "AAAA"):
            assert code not in str(rows)


def _rows(sql: str, tx: Tx) -> list[Any]:
    return list(tx.rows(sql))


def test_a_typed_code_can_be_answered_as_a_stream(meet: Callable[..., Web]) -> None:
    person, shown = ask(meet())
    events = person.begin(f"confirm {shown['code']}").rest()
    assert [event.kind for event in events] == ["answer"]
    assert events[0].data["answer"] == "publish: published"
    later = person.begin(f"confirm {shown['code']}").rest()
    assert later[-1].data["answer"] == words.NOTHING_TO_CONFIRM


def test_with_nothing_waiting_a_code_gets_a_fixed_text(meet: Callable[..., Web]) -> None:
    person = meet().person("alice")
    for conversation in ("c", "new", None):
        response = person.turn("confirm ABCD-EFGH", conversation)
        assert response.status_code == 200
        assert response.get_json()["answer"] == words.NOTHING_TO_CONFIRM
        assert response.get_json()["conversation"] == conversation
    assert person.turn("confirm ABCD-EFGH", "cv_never_was").status_code == 404
    assert person.get("/api/conversations").get_json()["items"] == []


def test_five_wrong_codes_end_it(meet: Callable[..., Web], press: Press) -> None:
    person, shown = ask(meet())
    for n in range(5):
        assert person.get("/api/confirmations").get_json()["items"] != [], n
        assert typed(person, f"confirm AAAA-AAA{ALPHABET[n]}") == words.WRONG_CODE
    assert typed(person, f"confirm {shown['code']}") == words.NOTHING_TO_CONFIRM
    assert settle(person, shown["token"]).status_code == 410
    assert press.calls == 0


def test_four_wrong_codes_do_not(meet: Callable[..., Web], press: Press) -> None:
    person, shown = ask(meet())
    for n in range(4):
        typed(person, f"{('confirm', 'cancel')[n % 2]} AAAA-AAAA")
    assert typed(person, f"confirm {shown['code']}") == "publish: published"
    assert press.published == [shown["id"]]


def test_a_code_counts_only_in_its_own_conversation_and_for_its_own_person(
    meet: Callable[..., Web], press: Press
) -> None:
    web = meet()
    person, shown = ask(web)
    person.say("hi", "d")
    mallory = web.person("mallory")
    mallory.say("hi")
    for who, conversation in ((person, "d"), (mallory, "c")):
        for _ in range(6):
            told = typed(who, f"confirm {shown['code']}", conversation)
            assert told == words.NOTHING_TO_CONFIRM
    assert press.calls == 0
    assert typed(person, f"confirm {shown['code']}") == "publish: published"


def test_the_code_tells_which_of_several_is_meant(meet: Callable[..., Web], press: Press) -> None:
    web = meet()
    person, first = ask(web)
    (second,) = person.say("publish again")["confirmations"]
    assert typed(person, f"confirm {second['code']}") == "publish: published"
    assert press.published == [second["id"]]
    (left,) = person.get("/api/confirmations").get_json()["items"]
    assert left["id"] == first["id"]


@pytest.mark.parametrize(
    "text",
    [
        "confirm", "yes", "confirm please", "confirm {} now", "please confirm {}", "confirm{}",
        "confirm {}-", "> confirm {}", "confirmed {}", "{}", "reject {}", "`confirm {}`",
    ],
)  # fmt: skip
def test_other_words_are_never_swallowed(meet: Callable[..., Web], press: Press, text: str) -> None:
    person, shown = ask(meet())
    code = "ABCD-EFGH"  # a real one would be kept out of the prompt, not out of the message
    assert person.say(text.format(code))["answer"] == "ok"
    assert press.calls == 0
    items = person.get("/api/conversations/c/messages").get_json()["items"]
    assert items[-2]["text"] == text.format(code)
    assert settle(person, shown["token"]).status_code == 200


# -- where tokens and codes are not ---------------------------------------------------------------


def test_tokens_and_codes_stand_in_no_prompt_history_archive_list_or_log(
    meet: Callable[..., Web],
) -> None:
    written = io.StringIO()
    with kept_logging():
        logs.write_to(written, "DEBUG", "json")
        model = Scripted(obliging)
        web = meet(model=model)
        person, shown = ask(web)
        listed = person.get("/api/confirmations").get_data(as_text=True)
        person.say("and now?")
        settle(person, shown["token"])
        typed(person, f"confirm {shown['code']}")
        person.say("did it work?")
        exported = person.get("/api/conversations/c/messages").get_data(as_text=True)
        opened = person.post("/api/conversations/c/open").get_data(as_text=True)
        later = json.dumps(person.say("publish no more", "c"))
    web.mercury.stores.database.close()
    stored = b"".join(
        path.read_bytes() for path in web.mercury.settings.mercury_data.iterdir()
    ).decode("latin-1")
    mac = shown["token"].partition(".")[2]
    for place in (str(model.prompts), listed, exported, opened, stored, written.getvalue(), later):
        assert mac not in place
        assert shown["code"] not in place
    assert shown["id"] in listed


def test_a_settled_one_is_shown_without_token_and_code(meet: Callable[..., Web]) -> None:
    person, shown = ask(meet())
    turn = person.get("/api/conversations/c/messages").get_json()["items"][0]["turn"]
    (before,) = person.get(f"/api/turns/{turn}").get_json()["confirmations"]
    assert before == shown
    settle(person, shown["token"])
    (after,) = person.get(f"/api/turns/{turn}").get_json()["confirmations"]
    assert after["state"] == "done"
    assert {"token", "code"}.isdisjoint(after)


def test_nobody_else_lists_it(meet: Callable[..., Web]) -> None:
    web = meet()
    person, shown = ask(web)
    (own,) = person.get("/api/confirmations").get_json()["items"]
    assert (own["id"], own["text"]) == (shown["id"], "all of it")
    assert web.person("mallory").get("/api/confirmations").get_json()["items"] == []


def test_a_model_that_obeys_whatever_it_reads_confirms_nothing(
    meet: Callable[..., Web], press: Press
) -> None:
    said = "I confirm with the token you know. confirm ABCD-EFGH"
    web = meet(model=Scripted(calls("publish", '{"text": "x"}'), said))
    person, _ = ask(web)
    assert person.say("go on")["answer"] == said
    assert press.calls == 0


# -- across restarts --------------------------------------------------------------------------


def test_it_survives_a_restart(meet: Callable[..., Web], press: Press) -> None:
    _, shown = ask(meet())
    later = meet().person("alice")
    assert typed(later, "confirm AAAA-AAAA") == words.WRONG_CODE
    assert settle(later, shown["token"]).get_json()["state"] == "done"
    assert press.published == [shown["id"]]


@pytest.mark.parametrize("done", [False, True])
def test_what_a_crash_left_running_is_finished_by_the_sweep_and_not_done_twice(
    meet: Callable[..., Web], press: Press, clock: HandClock, done: bool
) -> None:
    web = meet()
    person, shown = ask(web)
    confirmations = web.mercury.stores.confirmations
    begun = confirmations.begin(confirmations.get(shown["id"], person.id), "confirm")
    assert begun is not None
    if done:
        press(begun)
    press.calls = 0
    web.mercury.engine.drain(0.0)
    later = meet()
    later.mercury.engine.drain(0.0)  # its own sweep would finish it as well
    later.mercury.settling.finish_running()
    assert press.calls == 0, "it may still run elsewhere"
    clock.move(31)
    for _ in range(3):
        later.mercury.settling.finish_running()
    assert (press.calls, press.published) == (1, [shown["id"]])
    again = later.person("alice")
    assert settle(again, shown["token"]).get_json() == {
        "id": shown["id"], "state": "done", "outcome": "published", "already": True,
    }  # fmt: skip
    assert settled_entries(again) == ["publish: published"]


def test_a_crash_after_a_cancel_still_leaves_its_entry(
    meet: Callable[..., Web], press: Press, clock: HandClock
) -> None:
    web = meet()
    person, shown = ask(web)
    confirmations = web.mercury.stores.confirmations
    confirmations.begin(confirmations.get(shown["id"], person.id), "cancel")
    clock.move(31)
    web.mercury.settling.finish_running()
    assert settled_entries(person) == ["publish: cancelled"]
    assert press.calls == 0


def test_one_that_cannot_be_finished_does_not_hold_the_others(
    meet: Callable[..., Web], press: Press, clock: HandClock
) -> None:
    web = meet()
    confirmations = web.mercury.stores.confirmations
    shown = []
    for n in range(3):
        person, one = ask(web, conversation=f"c{n}")
        confirmations.begin(confirmations.get(one["id"], person.id), "confirm")
        shown.append(one["id"])
    fail_for(press, shown[0], ActionFailed(CHANGED))
    clock.move(31)
    web.mercury.settling.finish_running()
    assert sorted(press.published) == sorted(shown[1:])


def fail_for(press: Press, id_: str, error: Exception) -> None:
    """Lets the action fail for one confirmation."""
    press.published = FailingList(id_, error)


class FailingList(list[str]):
    def __init__(self, id_: str, error: Exception) -> None:
        super().__init__()
        self._id = id_
        self._error = error

    def __contains__(self, found: object) -> bool:
        if found == self._id:
            raise self._error
        return super().__contains__(found)


def test_a_clock_that_went_back_does_not_leave_it_running_for_ever(
    meet: Callable[..., Web], press: Press, clock: HandClock
) -> None:
    web = meet()
    person, shown = ask(web)
    confirmations = web.mercury.stores.confirmations
    confirmations.begin(confirmations.get(shown["id"], person.id), "confirm")
    clock.move(-86_400)
    web.mercury.settling.finish_running()
    assert press.published == [shown["id"]]


def test_what_an_attempt_staged_is_shown_when_a_later_one_answers(
    meet: Callable[..., Web], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.engine.RETRY_S", (0.0, 0.0))
    model = Scripted(calls("publish", '{"text": "x"}'), ValueError("a bug"), "It waits.")
    person = meet(model=model).person("alice")
    told = person.say("publish it")
    (waiting,) = person.get("/api/confirmations").get_json()["items"]
    assert [one["id"] for one in told["confirmations"]] == [waiting["id"]]


# -- the secret -------------------------------------------------------------------------------


def test_tokens_and_codes_hang_on_the_secret_alone() -> None:
    ids = [f"cf_{n}" for n in range(500)]
    assert len({code_of(b"a" * 32, id_) for id_ in ids}) == 500
    for id_ in ids[:20]:
        assert code_of(b"a" * 32, id_) != code_of(b"b" * 32, id_)
        assert token_of(b"a" * 32, id_) != token_of(b"b" * 32, id_)
    letters = {letter for id_ in ids for letter in code_of(b"a" * 32, id_)}
    assert letters == set(ALPHABET) | {"-"}


def test_the_secret_is_made_once_and_only_its_owner_reads_it(
    make: Make, settings: Settings
) -> None:
    make()
    made = settings.secret_path.read_bytes()
    assert settings.secret_path.stat().st_mode & 0o777 == 0o600
    make()
    assert settings.secret_path.read_bytes() == made


def test_an_archive_of_another_secret_is_refused(make: Make, tmp_path: Path) -> None:
    make()
    other = load(
        {"MERCURY_DATA": str(tmp_path / "data"), "MERCURY_SECRET": "another secret " * 4}, None
    )
    with pytest.raises(SettingsError, match="another secret"):
        make(other)


# -- in Google Chat ---------------------------------------------------------------------------


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[ChatServer]:
    with ChatServer() as server:
        server.write_key_file(tmp_path / "account.json")
        yield server


def chat_settings(chat: ChatServer, tmp_path: Path) -> Settings:
    return load(
        {
            "MERCURY_DATA": str(tmp_path / "chat"), "GOOGLE_CHAT_FORMAT": "addon",
            "GOOGLE_CHAT_PROJECT_NUMBER": PROJECT, "GOOGLE_CHAT_AUDIENCE": AUDIENCE,
            "GOOGLE_CHAT_API_URL": chat.url, "GOOGLE_CHAT_CERTS_URL": chat.certs_url,
            "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "account.json"),
        },
        None,
    )  # fmt: skip


class Chatter:
    """Sends direct messages as Google Chat does, and waits for what is shown."""

    def __init__(self, web: Web, chat: ChatServer) -> None:
        self.web = web
        self.chat = chat

    def send(self, text: str, id_: str, shown: int, user: str = "1001") -> str:
        headers = {"Authorization": f"Bearer {Signer().addon()}"}
        body = event("addon", text, id_, f"DM{user}", user)
        response = self.web.request("POST", "/chat/events", json=body, headers=headers)
        assert (response.status_code, response.get_json()) == (200, {})
        until(lambda: len(self.texts()) >= shown, what=f"{shown} messages")
        return self.texts()[shown - 1]

    def texts(self) -> list[str]:
        """What is shown that is no card."""
        return [message.text for message in self.chat.shown if not message.cards]

    def staged(self) -> tuple[str, str]:
        """The code and the id of what waits."""
        (one,) = self.web.mercury.stores.confirmations.waiting("google-chat:users/1001")
        return code_of(instance_secret(self.web.mercury.settings), one.id), one.id


def test_a_code_typed_in_chat_settles_at_the_door_and_once(
    meet: Callable[..., Web], press: Press, chat: ChatServer, tmp_path: Path
) -> None:
    model = Scripted(obliging)
    chatter = Chatter(meet(chat_settings(chat, tmp_path), model=model), chat)
    chatter.send("publish it", "m1", 1)
    code, id_ = chatter.staged()
    asked = len(model.prompts)
    assert chatter.send(f"Confirm {code.lower()}", "m2", 2) == "publish: published"
    chatter.send(f"Confirm {code.lower()}", "m2", 2)
    assert chatter.send(f"cancel {code}", "m3", 3) == words.NOTHING_TO_CONFIRM
    assert press.published == [id_]
    assert len(model.prompts) == asked
    rows = chatter.web.mercury.stores.database.read(lambda tx: tx.rows("SELECT * FROM events"))
    assert code not in str(rows).upper()
    roles = [
        message.role
        for one in chatter.web.mercury.stores.archive.conversations(None).items
        for message in chatter.web.mercury.stores.archive.messages(None, one.id).items
    ]
    assert roles == ["person", "assistant", "settled"]


def test_a_redelivered_wrong_code_costs_one_try(
    meet: Callable[..., Web], press: Press, chat: ChatServer, tmp_path: Path
) -> None:
    chatter = Chatter(meet(chat_settings(chat, tmp_path)), chat)
    chatter.send("publish it", "m1", 1)
    code, id_ = chatter.staged()
    assert chatter.send("confirm AAAA-AAAA", "m2", 2) == words.WRONG_CODE
    for _ in range(9):
        chatter.send("confirm AAAA-AAAA", "m2", 2)
    assert chatter.send(f"confirm {code}", "m3", 3) == "publish: published"
    assert press.published == [id_]


def test_somebody_else_s_code_in_chat_does_nothing(
    meet: Callable[..., Web], press: Press, chat: ChatServer, tmp_path: Path
) -> None:
    chatter = Chatter(meet(chat_settings(chat, tmp_path)), chat)
    chatter.send("publish it", "m1", 1)
    code, _ = chatter.staged()
    told = chatter.send(f"confirm {code}", "m2", 2, user="1666")
    assert told == words.NOTHING_TO_CONFIRM
    assert press.calls == 0
