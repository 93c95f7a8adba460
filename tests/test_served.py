"""The main job on real parts: `mfw serve`, a fake Google Chat, a scripted model server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bot import words
from bot.scope import Scope
from tests.fakes import model_server as fake
from tests.served import until
from tests.shared import load, needs_shared
from tests.wikis import git
from tests.world import World, event, with_text
from wiki.paths import area_of

ADA = Scope("google-chat:users/1001", "dm")
FORMS = ("addon", "classic")
STEPS = ("accepted", "leased", "prompted", "answered", "delivering", "delivered")

MakeWorld = Callable[..., World]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MakeWorld]:
    opened: list[World] = []

    def make(form: str = "addon", **given: Any) -> World:
        made = World(tmp_path, form, **given).__enter__()
        opened.append(made)
        return made

    yield make
    for one in opened:
        one.__exit__()


@needs_shared
@pytest.mark.parametrize("form", FORMS)
def test_a_signed_event_is_answered_once_in_its_thread(world: MakeWorld, form: str) -> None:
    mercury = world(form, script=lambda request: fake.text("**Green**, as decided."))
    for name in ("dm_message", "space_thread_reply_mention"):
        fixture = load(f"google-chat/{form}/{name}.json")
        response = mercury.post(fixture)
        assert (response.status_code, response.json()) == (200, {})
    mercury.answers(2)
    for name in ("dm_message", "space_thread_reply_mention"):
        assert mercury.post(load(f"google-chat/{form}/{name}.json")).json() == {}
    mercury.post(with_text(load(f"google-chat/{form}/dm_message.json"), "and now?", "later"))
    mercury.answers(3)
    mercury.idle()
    first, second, third = sorted(mercury.chat.shown, key=lambda m: (m.space, m.id))
    direct = [m for m in mercury.chat.shown if m.space == "spaces/FIXDM00001"]
    (room,) = [m for m in mercury.chat.shown if m.space == "spaces/FIXROOM0001"]
    assert len(direct) == 2
    assert room.thread == "spaces/FIXROOM0001/threads/tR1"
    assert room.body["thread"] == {"name": room.thread}
    assert all("thread" not in message.body for message in direct)
    for message in (first, second, third):
        assert (message.text, message.markup) == (
            "**Green**, as decided.", "MARKUP_SYNTAX_MARKDOWN",
        )  # fmt: skip
    assert mercury.chat.violations == []
    assert mercury.model.violations == []
    assert len(mercury.model.requests) == 3


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_loses_and_doubles_nothing(world: MakeWorld, step: str) -> None:
    mercury = world(env={"MERCURY_TEST_STOP_AT": step})
    for n in range(3):
        mercury.deliver(event("addon", f"message {n}", f"m{n}"))
    mercury.answers(3, 60)
    mercury.idle()
    assert (mercury.served.data / f"stopped.{step}").exists()
    assert [m.text for m in mercury.chat.shown] == [f"You said: message {n}" for n in range(3)]
    assert all(message.edits == 0 for message in mercury.chat.shown)
    texts = [m.text for m in mercury.served.messages(ADA)]
    assert texts == [x for n in range(3) for x in (f"message {n}", f"You said: message {n}")]
    assert mercury.served.rows("SELECT count(*) FROM turns WHERE state <> 'done'") == [(0,)]


def wait_until_stopped_and_back(mercury: World, step: str) -> None:
    until(lambda: (mercury.served.data / f"stopped.{step}").exists(), 30, f"the stop at {step}")
    until(mercury.served.is_ready, 30, "a new worker")


@pytest.mark.parametrize("step", ["compacting", "summarised"])
def test_a_kill_while_a_history_is_compacted_loses_nothing(world: MakeWorld, step: str) -> None:
    def script(request: dict[str, Any]) -> fake.Reply:
        is_summary = "tools" not in request
        return fake.text("said [1] A long text.") if is_summary else fake.echo(request)

    mercury = world(script=script, env={"MERCURY_TEST_STOP_AT": step, "HISTORY_MAX_CHARS": "20000"})
    texts = [f"number {n} " + "lorem ipsum " * 250 for n in range(10)]
    for n, text in enumerate(texts):
        mercury.deliver(event("addon", text, f"m{n}"))
        mercury.answers(n + 1, 60)
        mercury.idle()
    wait_until_stopped_and_back(mercury, step)
    mercury.deliver(event("addon", "last " * 1_000, "last"))
    mercury.answers(11, 60)
    sql = "SELECT compacted_through FROM conversations"
    until(lambda: mercury.served.rows(sql)[0][0] > 0, 30, "the compaction")
    stored = [m.text for m in mercury.served.messages(ADA) if m.role == "person"]
    assert stored[:10] == texts
    ends = mercury.served.rows("SELECT first_seq, last_seq FROM segments ORDER BY last_seq")
    assert ends[0][0] == 1
    assert all(ends[n][1] + 1 == ends[n + 1][0] for n in range(len(ends) - 1))


def test_a_kill_after_a_write_was_recorded_does_not_write_twice(world: MakeWorld) -> None:
    def script(request: dict[str, Any]) -> fake.Reply:
        if any(message["role"] == "tool" for message in request["messages"]):
            return fake.text("I looked: " + request["messages"][-1]["content"])
        return fake.call("note", '{"text": "once"}')

    mercury = world(
        script=script, env={"MERCURY_TEST_STOP_AT": "tool_recorded"}, module="tests.served_tools"
    )
    mercury.deliver(event("addon", "note it", "m1"))
    (answer,) = mercury.answers(1, 60)
    assert answer == "I looked: outcome unknown: look first"
    assert not (mercury.served.data / "notes").exists()
    calls = mercury.served.rows("SELECT name, outcome FROM tool_calls")
    assert calls == [("note", "outcome unknown: look first")]


def test_a_kill_while_a_confirmation_is_settled_does_it_once(world: MakeWorld) -> None:
    def script(request: dict[str, Any]) -> fake.Reply:
        if request["messages"][-1]["role"] == "tool":
            return fake.text("It waits for you.")
        return fake.call("publish", '{"text": "all of it"}')

    mercury = world(
        script=script, env={"MERCURY_TEST_STOP_AT": "settling"}, module="tests.served_tools"
    )
    with mercury.served.client(mercury.served.token("alice")) as client:
        turn = client.post("/api/turn", json={"text": "publish"}).json()
        (waiting,) = turn["confirmations"]
        path = f"/api/confirmations/{waiting['token']}"
        with pytest.raises(httpx2.HTTPError):
            client.post(path, json={"decision": "confirm"})
        wait_until_stopped_and_back(mercury, "settling")
        mercury.move_clock(60)
        published = mercury.served.data / "published"
        until(published.exists, 30, "what was confirmed")
        until(lambda: client.post(path, json={"decision": "confirm"}).status_code == 200)
        again = client.post(path, json={"decision": "confirm"}).json()
    assert (again["state"], again["already"]) == ("done", True)
    assert published.read_text().splitlines() == [f"{waiting['id']} all of it"]


def test_sigterm_drops_nothing_and_ends_within_ten_seconds(world: MakeWorld) -> None:
    slow = threading.Event()

    def script(request: dict[str, Any]) -> fake.Reply:
        reply = fake.echo(request)
        if "slow" in request["messages"][-1]["content"] and not slow.is_set():
            reply.hold = slow
        return reply

    mercury = world(script=script)
    for n in range(8):
        text = "slow one" if n == 0 else f"quick {n}"
        assert mercury.post(event("addon", text, f"m{n}", f"DM{n}", f"{n}")).status_code == 200
    until(lambda: len(mercury.model.requests) >= 8, what="eight requests to the model")
    begun = mercury.served.process
    assert begun is not None
    code = mercury.served.terminate()
    assert code == 0
    slow.set()
    mercury.served.start()
    mercury.answers(8)
    mercury.idle()
    told = sorted(message.text for message in mercury.chat.shown)
    assert told == sorted(["You said: slow one", *(f"You said: quick {n}" for n in range(1, 8))])
    attempts = mercury.served.rows("SELECT DISTINCT attempts, deaths FROM turns")
    assert attempts == [(1, 0)]


def test_a_poison_message_gets_one_apology_and_hurts_nobody_else(
    world: MakeWorld, tmp_path: Path
) -> None:
    mercury = world()

    def script(request: dict[str, Any]) -> fake.Reply:
        if "poison" in request["messages"][-1]["content"]:
            mercury.served.kill_worker()
        return fake.echo(request)

    mercury.model.script = script
    mercury.post(event("addon", "poison", "p", "DM1", "1"))
    until(lambda: "poison" in str(mercury.model.requests[-1:]), what="the first attempt")
    until(mercury.served.is_ready, 30, "a new worker")
    mercury.post(event("addon", "hello", "h", "DM2", "2"))
    texts = mercury.answers(2, 60)
    mercury.idle()
    assert sorted(texts) == sorted([words.APOLOGY, "You said: hello"])
    poisoned = [r for r in mercury.model.requests if "poison" in r["messages"][-1]["content"]]
    assert len(poisoned) <= 3
    assert mercury.served.rows("SELECT count(*) FROM turns WHERE state = 'set_aside'") == [(1,)]


def test_after_half_an_hour_a_recap_stands_in_even_after_a_kill(world: MakeWorld) -> None:
    mercury = world()
    mercury.post(event("addon", "We decided that the logo is blue.", "m1"))
    mercury.answers(1)
    mercury.idle()
    mercury.served.kill()
    mercury.move_clock(1_800)
    mercury.served.start()
    mercury.post(event("addon", "hello", "m2"))
    mercury.answers(2)
    prompt = mercury.model.requests[-1]["messages"]
    assert [message["role"] for message in prompt] == ["system", "user"]
    assert "We decided that the logo is blue." in prompt[0]["content"]


def test_over_http_the_history_is_the_freed_one_byte_for_byte_even_after_a_kill(
    world: MakeWorld,
) -> None:
    mercury = world()
    with mercury.served.client(mercury.served.token("alice")) as client:
        for text in ("first", "second"):
            client.post("/api/turn", json={"text": text, "conversation": "c"}).raise_for_status()
        (found,) = mercury.served.rows("SELECT id FROM conversations")
        shown = ("conversation", "show", str(found[0]), "--history", "--json")
        before = mercury.served.mfw(*shown).stdout
        mercury.move_clock(100_000)
        mercury.served.kill()
        mercury.served.start()
        assert mercury.served.mfw(*shown).stdout == before
        opened = client.post("/api/conversations/c/open").json()
        assert opened["history_chars"] == len("firstYou said: firstsecondYou said: second")
        client.post("/api/turn", json={"text": "third", "conversation": "c"}).raise_for_status()
    said = [m["content"] for m in mercury.model.requests[-1]["messages"][1:]]
    assert said == ["first", "You said: first", "second", "You said: second", "third"]


def test_a_second_server_on_the_same_folder_is_refused_in_one_sentence(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.served import Served, free_port

    mercury = world()
    second = Served(mercury.served.data, {**mercury.served.env, "PORT": str(free_port())})
    second.log = mercury.served.data.parent / "second.log"
    second.start(wait=False)
    assert second.process is not None
    assert second.process.wait(30) == 4
    assert "another Mercury serves from" in second.told()
    assert mercury.served.is_ready()


def test_the_archive_s_outage_is_503_and_what_was_acknowledged_stays(
    world: MakeWorld,
) -> None:
    mercury = world()
    mercury.post(event("addon", "before", "m1"))
    mercury.answers(1)
    mercury.idle()
    mercury.served.stop()
    path = mercury.served.data / "archive.db"
    whole = path.read_bytes()
    damaged = whole[:8192] + b"\xa5" * 16384 + whole[8192 + 16384 :]
    path.write_bytes(damaged)
    mercury.served.start(wait=False)
    client = mercury.served

    def answers() -> bool:
        try:
            return httpx2.get(f"{client.url}/healthz", timeout=5).status_code == 200
        except httpx2.HTTPError:
            return False

    until(answers, 20, "a living process")
    assert not client.is_ready()
    assert mercury.post(event("addon", "during", "m2")).status_code == 503
    client.stop()
    assert path.read_bytes() == damaged
    path.write_bytes(whole)
    client.start()
    assert mercury.post(event("addon", "after", "m3")).status_code == 200
    mercury.answers(2)


# -- notes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["tool_recorded", "wiki_ref"])
def test_a_kill_around_the_write_of_a_note_writes_it_at_most_once(
    world: MakeWorld, step: str
) -> None:
    """After the branch has moved, the next attempt finds the note and tells of it."""

    def script(request: dict[str, Any]) -> fake.Reply:
        if request["messages"][-1]["role"] == "tool":
            return fake.text("It is " + request["messages"][-1]["content"][:30])
        return fake.call("wiki_write", '{"path": "plan.md", "text": "# Plan"}')

    mercury = world(script=script, env={"MERCURY_TEST_STOP_AT": step})
    mercury.deliver(event("addon", "note it", "m1"))
    (answer,) = mercury.answers(1, 60)
    root = mercury.served.data / "wiki"
    if step == "wiki_ref":
        assert git(root, "rev-list", "--count", "--branches").strip() == "2"
        assert answer.startswith("It is ok\n\nSaved: `mine/plan.md` (")
    else:
        assert not root.exists()
        assert answer == "It is outcome unknown: look first"


@pytest.mark.parametrize("step", ["settling", "promoted"])
def test_a_kill_while_a_note_is_promoted_does_it_once(world: MakeWorld, step: str) -> None:
    def script(request: dict[str, Any]) -> fake.Reply:
        said = [m for m in request["messages"] if m["role"] == "tool"]
        if len(said) == 2:
            return fake.text("It waits for you.")
        if said:
            return fake.call("wiki_promote", '{"path": "mine/plan.md", "to": "curated/plan.md"}')
        return fake.call("wiki_write", '{"path": "plan.md", "text": "# Plan"}')

    mercury = world(script=script, env={"MERCURY_TEST_STOP_AT": step})
    root = mercury.served.data / "wiki"
    with mercury.served.client(mercury.served.token("alice")) as client:
        (waiting,) = client.post("/api/turn", json={"text": "share"}).json()["confirmations"]
        path = f"/api/confirmations/{waiting['token']}"
        with pytest.raises(httpx2.HTTPError):
            client.post(path, json={"decision": "confirm"})
        wait_until_stopped_and_back(mercury, step)
        mercury.move_clock(60)
        until(
            lambda: not (root / area_of("http:alice").folder / "plan.md").exists(),
            30,
            "the promotion",
        )
        until(lambda: (root / "curated/plan.md").exists(), 30, "the note")
        done = "SELECT state FROM confirmations"
        until(lambda: mercury.served.rows(done) == [("done",)], 30, "the end of it")
        again = client.post(path, json={"decision": "confirm"}).json()
        assert again["already"] is True
        assert again["outcome"].startswith("curated/plan.md (")
    assert git(root, "log", "--format=%s", "main").splitlines() == [
        "Promote curated/plan.md", "The wiki begins",
    ]  # fmt: skip
    assert (root / "curated/plan.md").read_text() == waiting["text"]
