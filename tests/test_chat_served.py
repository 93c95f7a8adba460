"""Google Chat's channel as a whole, on a running server: every fixture, every failure of the API,
many spaces and threads at once."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bot import words
from tests.fakes import model_server as fake
from tests.hostile import Rig
from tests.served import until
from tests.shared import cases, load, names, needs_shared
from tests.test_chat_surface import Slow, placed
from tests.world import World, event

FORMS = ("addon", "classic")
ERRORS: list[Any] = [
    case
    for case in cases("google-chat/api_errors.json")
    if case.values[0]["call"] in ("create", "patch")
]
SILENT = (
    "app_home", "card_clicked", "card_clicked_by_other_user", "card_clicked_no_action_identity",
    "dialog_cancel", "dialog_submit", "message_action", "message_from_bot", "message_from_self",
    "widget_updated",
)  # fmt: skip
"""Fixtures to which nothing is said."""
SAID = {
    "added_to_dm": words.WELCOME,
    "added_to_space": words.WELCOME,
    "added_to_space_by_mention_1_of_2": words.WELCOME,
    "slash_command": words.NOTHING_TO_RECAP,
    "slash_command_no_args": words.NOTHING_TO_RECAP,
    "space_mention_empty": words.EMPTY_MESSAGE,
}
pytestmark = needs_shared


@pytest.fixture(scope="module", params=FORMS)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp(f"world-{request.param}")
    env = {"GOOGLE_CHAT_DOMAINS": "corp.example.test"}
    with World(folder, str(request.param), env=env) as opened:
        yield opened
        assert opened.chat.violations == []
        assert "Traceback" not in opened.served.told()


def of_its_own(fixture: dict[str, Any], name: str) -> dict[str, Any]:
    """A fixture whose spaces are its own."""
    told = json.dumps(fixture)
    for kind in ("FIXDM00001", "FIXROOM0001", "FIXGROUP001"):
        told = told.replace(kind, f"{kind[3:5]}{name.replace('_', '-')}")
    made: dict[str, Any] = json.loads(told)
    return made


ALL = sorted({name for form in FORMS for name in names(f"google-chat/{form}")})


@pytest.mark.served
@pytest.mark.parametrize("name", ALL)
def test_every_fixture_is_answered_once_where_it_belongs(world: World, name: str) -> None:
    if name not in names(f"google-chat/{world.form}"):
        pytest.skip(f"not in the {world.form} form")
    body = of_its_own(load(f"google-chat/{world.form}/{name}.json"), name)
    before = len(world.chat.messages)
    for _ in range(2):
        response = world.post(body)
        assert (response.status_code, response.text) == (200, "{}")
    world.idle()
    shown = world.chat.messages[before:]
    if name in SILENT or name.startswith("removed") or name == "message_from_other_domain":
        assert shown == []
        return
    if name == "added_to_space_by_mention":
        assert sorted(m.text == words.WELCOME for m in shown) == [False, True]
        return
    (message,) = shown
    if name in SAID:
        assert message.text == SAID[name]
    else:
        assert message.text.startswith("You said: ")
    assert message.markup == "MARKUP_SYNTAX_MARKDOWN"
    holder = (
        body
        if world.form == "classic"
        else next(value for key, value in body["chat"].items() if key.endswith("Payload"))
    )
    assert message.space == holder["space"]["name"]
    if holder["space"].get("spaceType") == "SPACE" and "message" in holder:
        assert message.thread == holder["message"]["thread"]["name"]


@pytest.mark.served
def test_twenty_people_at_once_each_get_their_own_answer(world: World) -> None:
    events = [event(world.form, f"I am {n}", f"p{n}", f"DMP{n}", f"{2000 + n}") for n in range(20)]
    for body in events:
        told = body if world.form == "classic" else body["chat"]
        told["user"]["email"] = "someone@corp.example.test"
    with ThreadPoolExecutor(20) as pool:
        assert [r.status_code for r in pool.map(world.post, events)] == [200] * 20
    world.idle()
    said = {m.space: m.text for m in world.chat.messages if m.space.startswith("spaces/DMP")}
    assert said == {f"spaces/DMP{n}": f"You said: I am {n}" for n in range(20)}


# -- in this process ----------------------------------------------------------------------------


@pytest.fixture(params=FORMS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        made = Rig(tmp_path, str(request.param), stack)
        yield made.start()
        assert made.chat.violations == []


def in_thread(rig: Rig, thread: str, text: str) -> dict[str, Any]:
    """A message in a thread of the one space."""
    body = rig.event({"text": text, "in": "TEAM"})
    holder = body if rig.form == "classic" else body["chat"]["messagePayload"]
    for one in (holder, holder["message"]):
        one["thread"] = {"name": f"spaces/TEAM/threads/{thread}"}
    return body


def test_interleaved_threads_never_see_each_other(rig: Rig) -> None:
    bodies = [in_thread(rig, f"t{n % 4}", f"word{n % 4}x{n}") for n in range(16)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(rig.post, bodies))
    until(lambda: len(rig.chat.messages) == 16, 40, "every answer")
    for message in rig.chat.messages:
        thread = message.thread[-1]
        assert f"word{thread}x" in message.text
    for request in rig.model.requests:
        told = str([m["content"] for m in request["messages"][1:]])
        assert len({n for n in "0123" if f"word{n}x" in told}) == 1


NEVER = [
    "thread gone with REPLY_MESSAGE_OR_FAIL", "app removed from space", "bad thread name",
    "message deleted by user while streaming", "synthetic message name",
    "naming markupSyntax in updateMask",
]  # fmt: skip
NOTHING_AFTER = {"create": [*NEVER, "client id already used"], "patch": NEVER}
"""After which errors of the API nothing is shown in that place; after all others the answer is."""
WAITS = ("credentials revoked", "429 with Retry-After")


@pytest.mark.parametrize("call", ["create", "patch"])
@pytest.mark.parametrize("case", ERRORS)
def test_each_failure_of_the_api_has_its_outcome(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any], call: Any
) -> None:
    """Each row, met while an answer is created and while it is put where a placeholder stands."""
    monkeypatch.setattr("bot.chat.deliver.PAUSES_S", (0.01,))
    monkeypatch.setattr("bot.watch.SILENT_S", 0.05 if call == "patch" else 99.0)
    monkeypatch.setattr("bot.watch.WATCH_S", 0.02)
    rig.model.script = slow = Slow()
    response = copy.deepcopy(case["response"])
    body = rig.event({"text": "think", "in": "TEAM"})
    if call == "create":
        fail(rig, call, response)
        slow.go.set()
        rig.post(body)
    else:
        rig.post(body)
        placed(rig)
        fail(rig, call, response)
        slow.go.set()
    name = case["name"]
    if name in WAITS:
        until(lambda: rig.rows("SELECT due_at > 0 FROM turns") == [(1,)], 20, "the pause")
        seconds = 60 if name == "credentials revoked" else 7
        (due,) = rig.rows("SELECT due_at FROM turns")
        assert seconds - 5 < int(due[0]) / 1000 - time.time() <= seconds
        rig.mercury.stores.database.write(lambda tx: tx.run("UPDATE turns SET due_at = 0"))
        rig.mercury.stores.database.write(lambda tx: tx.run("UPDATE lanes SET free_at = 0"))
    rig.rest()
    wanted = words.TOO_LONG_TO_SHOW if name == "text too long" else "The answer."
    shown = [m.text for m in rig.chat.shown if m.text != words.WORKING]
    assert shown == ([] if name in NOTHING_AFTER[call] else [wanted])
    rig.model.script = fake.echo
    rig.tell("go on", "DM_BOB", **{"from": "bob"})
    assert rig.replies("DM_BOB") == ["You said: go on"]


def fail(rig: Rig, call: Any, response: Any) -> None:
    if response is None:
        rig.chat.fail(call, how="cut")
    else:
        # A first 401 is answered with a fresh token; what is meant here is one that stays.
        rig.chat.fail(call, times=2 if response["http"] == 401 else 1, response=response)
