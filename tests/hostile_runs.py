"""How each hostile row is run: by its kind of input, or by its id where it is one of a kind.

A function notes what it saw in `rig.seen`; what that means is decided by the checks.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apsw
import pytest

from bot import words
from bot.mercury import build
from bot.tools import Arguments, Context, Tool
from memory.errors import StoreDown
from tests.fakes import google_keys
from tests.fakes import model_server as fake
from tests.fakes.google_keys import AUDIENCE, PROJECT
from tests.hostile import KEY, Rig
from tests.served import until
from tests.test_cli_commands import mfw, on_terminal
from tests.web import Web

CANARY = "CANARY-7f3a"


def run_http(rig: Rig, told: dict[str, Any]) -> None:
    """A request to the Chat route, or to one of ours."""
    if told["path"] != "$CHAT":
        run_api(rig, told)
        return
    body: Any = told.get("body")
    if "body_text" in told:
        body = told["body_text"].encode()
    elif "b64" in told:
        body = base64.b64decode(told["b64"])
    elif body == "$EVENT":
        body = rig.event({"text": "hi"})
    headers = [("Authorization", value) for value in authorization(rig, told)]
    kind = "application/json"
    for name, value in told.get("headers", {}).items():
        if name == "Content-Type":
            kind = value
        elif name != "Authorization":
            headers.append((name, value))
    rig.post(body, headers=headers, content_type=kind)


def authorization(rig: Rig, told: dict[str, Any]) -> list[str]:
    """The Authorization headers that a row describes."""
    auth = told["auth"]
    if "Authorization" in told.get("headers", {}):
        known = {"$VALID": rig.valid(), "$OTHER": rig.valid(iat=int(time.time()) - 60)}
        return [replaced(value, known) for value in told["headers"]["Authorization"]]
    if auth == "none":
        return []
    if auth == "valid":
        return [f"Bearer {rig.valid()}"]
    if "raw" in auth:
        return [auth["raw"]]
    claims = {
        name: replaced(value, {"$AUD": AUDIENCE, "$ADDON_EMAIL": ADDON_EMAIL})
        for name, value in auth.items()
        if name not in ("sign", "alg")
    }
    if isinstance(claims.get("iat"), str):
        claims["iat"] = int(time.time()) + int(claims["iat"].strip("+s"))
    if auth.get("alg") == "none":
        now = int(time.time())
        whole = {"iss": "https://accounts.google.com", "iat": now, "exp": now + 3_000, **claims}
        return [f"Bearer {google_keys.token({'alg': 'none', 'kid': 'k1'}, whole, 'unsigned')}"]
    return [f"Bearer {rig.valid(**claims)}"]


ADDON_EMAIL = f"service-{PROJECT}@gcp-sa-gsuiteaddons.iam.gserviceaccount.com"


def replaced(value: Any, known: dict[str, Any]) -> Any:
    """A text with what its `$NAMES` mean; anything else as it is."""
    if not isinstance(value, str):
        return value
    for name, meaning in known.items():
        if name.startswith("$"):
            value = value.replace(name, meaning)
    return value


def run_api(rig: Rig, told: dict[str, Any]) -> None:
    """A request to a route of ours; what alice owns is there before it."""
    alice, bob = rig.web.person("alice"), rig.web.person("bob")
    rig.seen.facts["$VALID"] = alice.token
    mine = alice.say(f"my code is {CANARY}", None)["conversation"]
    before = rig.state()
    body = dict(told["body"])
    path = replaced(told["path"], {"$TURN": "/api/turn", "$VALID": alice.token})
    if path == "$REBUILD":
        path = (
            f"/api/conversations/{replaced(body.pop('conversation'), {'$ALICE_CONV': mine})}/open"
        )
    if told["auth"] == "none":
        response = rig.web.request(told["m"], path, json=body)
    else:
        person = {"alice": alice, "bob": bob}[told["auth"]]
        response = person.request(told["m"], path, json=body)
    rig.seen.statuses.append(response.status_code)
    rig.seen.bodies.append(response.get_data(as_text=True))
    rig.seen.facts["unchanged"] = rig.state() == before
    if told["auth"] == "bob":
        missing = bob.request(told["m"], path.replace(mine, "cv_never_was"), json=body)
        assert (missing.status_code, missing.data) == (response.status_code, response.data)


def run_event(rig: Rig, told: dict[str, Any]) -> None:
    """An event of Chat, and everything that follows from it."""
    if "gen" in told:
        told = {**told, "text": told["gen"]["unit"] * told["gen"]["n"]}
    rig.post(rig.event(told))
    rig.rest()


def repeated(rig: Rig, told: dict[str, Any]) -> None:
    """The model gives the whole of a long text back."""
    rig.model.script = [fake.text(told["gen"]["unit"] * told["gen"]["n"])]
    run_event(rig, told)


def run_seq(rig: Rig, told: dict[str, Any]) -> None:
    """Steps, one after the other."""
    for step in told["steps"]:
        if "advance_s" in step:
            rig.clock.move(step["advance_s"])
        elif "idle" in step:
            rig.clock.move(1_800)
            rig.mercury.stores.archive.end_idle(1_800_000)
        elif "edit" in step:
            rig.tell(step["text"], told["steps"][0]["in"], id=step["edit"])
        else:
            run_event(rig, step)


def run_parallel(rig: Rig, told: dict[str, Any]) -> None:
    """The same event many times at once."""
    body = rig.event(told["of"])
    with ThreadPoolExecutor(told["n"]) as pool:
        list(pool.map(rig.post, [body] * told["n"]))
    rig.rest()


def run_fault(rig: Rig, told: dict[str, Any]) -> None:
    """The Chat API fails while an event is answered."""
    assert told["on"] == "chat_api"
    if told["do"] == "404 on send":
        rig.chat.gone.add(f"spaces/{told['while']['in']}")
    else:
        rig.chat.fail("create", how="cut_after")
    run_event(rig, told["while"])
    sent = rig.chat.calls("create")
    rig.seen.facts["retries"] = len(sent) - 1
    (state,) = rig.rows("SELECT state FROM turns")
    rig.seen.facts["dead_letter"] = state == ("set_aside",)


MODEL: dict[str, Callable[[], Any]] = {
    "503 x2 then ok": lambda: [fake.status(503), fake.status(503), fake.text("Hello.")],
    "503 forever": lambda: [fake.status(503)],
    "accept, never answer": lambda: [fake.never()],
    "stream cut after 40%": lambda: [
        fake.Reply(fake.text("This is half of an answer", 5).chunks, cut_after=2),
        fake.text("Hello."),
    ],
    "200 with HTML body": lambda: [fake.html()],
    "endless tool calls": lambda: [fake.endless_calls()],
    "tool name not in registry": lambda: [fake.unknown_tool(), fake.text("Hello.")],
    "400 context_length_exceeded": lambda: [fake.context_length_exceeded(), fake.text("Hello.")],
}


def run_model(rig: Rig, told: dict[str, Any]) -> None:
    """The model fails while an event is answered."""
    rig.model.script = MODEL[told["do"]]()
    run_event(rig, told["while"])
    outcomes = rig.rows("SELECT outcome FROM tool_calls")
    rig.seen.facts["tool_runs"] = sum(outcome == "ok" for (outcome,) in outcomes)
    rig.seen.facts["tool_rounds"] = len(outcomes)


def run_reply(rig: Rig, told: dict[str, Any]) -> None:
    """The model answers with something awkward."""
    text = told.get("reply") or told["reply_gen"]["unit"] * told["reply_gen"]["n"]
    rig.model.script = [fake.text(replaced(text, {"$MODEL_API_KEY": KEY}))]
    rig.seen.facts["$MODEL_API_KEY"] = KEY
    rig.tell("hi")
    rig.seen.facts["reply_parts"] = len(rig.replies())
    rig.seen.facts["each_bytes"] = max(len(text.encode()) for text in rig.replies())


def run_tool(rig: Rig, told: dict[str, Any]) -> None:
    """The model calls a tool, for somebody who has said nothing of the kind."""
    rig.tell("the budget is five")
    rig.model.script = [fake.call(told["tool"], json.dumps(told["args"])), fake.text("Looked.")]
    rig.tell("look", "DM_MALLORY", **{"from": told["as"]})
    result = json.loads(rig.model.requests[-1]["messages"][-1]["content"])
    assert result["ok"] is True, result
    rig.seen.facts["hits"] = len(result["hits"])


class Nothing(Arguments):
    """The arguments of a tool that takes none."""


def run_tool_result(rig: Rig, told: dict[str, Any]) -> None:
    """A tool gives back more than a prompt should hold."""
    rig.model.script = [fake.call("trouble", "{}"), fake.text("Looked.")]
    rig.tell("look")
    result = rig.model.requests[-1]["messages"][-1]["content"]
    rig.seen.facts["prompt_chars"] = len(result)


def huge(context: Context, given: Nothing) -> dict[str, Any]:
    return {"text": "A" * 2_000_000}


def certificates_away(rig: Rig, told: dict[str, Any]) -> None:
    """First nobody has seen the certificates, then they are cached."""
    before = rig.state()
    rig.chat.fail("certs", times=2)
    rig.seen.facts["unchanged"] = rig.post(rig.event({})) == 503 and rig.state() == before
    forged = [("Authorization", f"Bearer {rig.valid(aud='https://elsewhere.example')}")]
    assert rig.post(rig.event({}), headers=forged) in (401, 503)
    assert rig.seen.statuses.pop() != 200
    fresh = Rig(rig.folder / "cached", rig.form, rig.stack)
    fresh.folder.mkdir()
    fresh.start()
    fresh.tell("hi")
    fresh.chat.fail("certs", times=99)
    fresh.tell("again")
    assert fresh.seen.statuses == [200, 200]
    rig.seen.statuses += fresh.seen.statuses


def skewed(rig: Rig, told: dict[str, Any]) -> None:
    """Five seconds ahead are a clock's; two minutes are not."""
    run_http(rig, told)
    far = {**told, "auth": {**told["auth"], "iat": "+120s"}}
    run_http(rig, far)
    assert rig.seen.statuses.pop() == 401


def content_type(rig: Rig, told: dict[str, Any]) -> None:
    """On the Chat route the token decides; on ours it is refused before anything runs."""
    run_http(rig, told)
    alice = rig.web.person("alice")
    before = rig.state()
    data = b'{"text": "hi"}'
    response = alice.request("POST", "/api/turn", data=data, content_type="text/plain")
    assert response.status_code == 415
    rig.seen.facts["unchanged"] = rig.state() == before


def forwarded(rig: Rig, told: dict[str, Any]) -> None:
    """With and without the headers, the same is stored and the same is sent."""
    run_http(rig, told)
    rig.rest()
    rig.tell("hi")
    first, second = rig.rows("SELECT key, person, kind, space, target FROM turns ORDER BY seq")
    rig.seen.facts["same"] = first == second
    assert "evil" not in rig.left() + rig.prompts()


def rotated(rig: Rig, told: dict[str, Any]) -> None:
    """A token that is replaced is dead at once."""
    alice = rig.web.person("alice")
    assert alice.say("hi")
    (token,) = rig.mercury.stores.tokens.all("http:alice")
    rig.mercury.stores.tokens.new("http:alice", "new", None)
    rig.mercury.stores.tokens.revoke(token.id)
    rig.seen.statuses.append(alice.turn("hi").status_code)


def removed(rig: Rig, told: dict[str, Any]) -> None:
    """Nothing is sent to a space that we were taken out of, neither now nor when it is idle."""
    rig.tell("hi", "TEAM")
    rig.model.script = [fake.Reply(fake.text("late").chunks, hold=(go := threading.Event()))]
    rig.post(rig.event({"text": "and now?", "in": "TEAM"}))
    rig.model.wait_for(2)
    sent = len(rig.replies("TEAM"))
    rig.post(rig.event(told))
    go.set()
    rig.rest()
    rig.clock.move(3_600)
    rig.mercury.stores.archive.end_idle(1_800_000)
    rig.seen.facts["later_sends"] = len(rig.replies("TEAM")) - sent


def other_spaces(rig: Rig, told: dict[str, Any]) -> None:
    """What is recapped in a DM stays out of the space's first prompt."""
    run_seq(rig, told)
    recaps = rig.rows("SELECT coalesce(recap, '') FROM conversations WHERE owner LIKE 'space:%'")
    rig.seen.facts["recaps"] = str(recaps) + json.dumps(rig.model.requests[-1])


def twin(rig: Rig, told: dict[str, Any]) -> None:
    """Somebody takes another's name and address."""
    rig.tell(f"my note says {CANARY}")
    rig.chat.log.clear()
    change, ask = told["steps"]
    query = json.dumps({"query": f"note says {CANARY[:6]}"})
    rig.model.requests.clear()
    rig.model.script = [fake.call("archive_search", query), fake.echo]
    run_event(rig, {**ask, **{name: change[name] for name in ("email", "displayName")}})
    rig.seen.bodies.append(rig.prompts())


def corrupt(rig: Rig, told: dict[str, Any]) -> None:
    """The archive's file is damaged in the middle when a Mercury finds it."""
    alice = rig.web.person("alice")
    for n in range(20):
        alice.say(f"message {n} " + "x" * 2_000)
    rig.end()
    path = rig.settings.archive_path
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    whole = path.read_bytes()
    damaged = whole[:8_192] + b"\xa5" * (len(whole) - 16_384) + whole[-8_192:]
    path.write_bytes(damaged)
    rig.mercury = build(rig.settings, clock=rig.clock)
    with pytest.raises(StoreDown, match="damaged"):
        rig.mercury.start()
    rig.web = Web(rig.mercury)
    assert rig.post(rig.event({"text": "hi"})) == 503
    rig.seen.facts["ready"] = rig.web.request("GET", "/readyz").status_code
    rig.seen.facts["alert"] = any('"severity": "ERROR"' in line for line in rig.log)
    assert rig.web.request("GET", "/healthz").status_code == 200
    assert path.read_bytes() == damaged


def jumps(rig: Rig, told: dict[str, Any]) -> None:
    """The clock goes a day ahead and back while conversations are open."""
    places = {"DM_ALICE": "alice", "DM_BOB": "bob", "DM_MALLORY": "mallory", "TEAM": "alice"}
    for days in (1, 0, -1):
        for place, name in places.items():
            rig.post(rig.event({"text": "We decided on blue.", "in": place, "from": name}))
        rig.rest()
        rig.clock.move(86_400 * days)
        rig.mercury.stores.archive.end_idle(1_800_000)
    sittings = rig.rows("SELECT key, previous, recap FROM conversations")
    again = [(key, previous) for key, previous, _ in sittings if previous is not None]
    assert len(again) == len(set(again)) == len(places)
    assert all((previous is None) == (recap is None) for _, previous, recap in sittings)
    rig.seen.facts["recaps_max_per_conversation"] = 1
    rig.seen.facts["crashes"] = sum('"severity": "ERROR"' in line for line in rig.log)


def hangs(rig: Rig, told: dict[str, Any]) -> None:
    """A tool never returns; its turn ends at the deadline and others do not notice."""
    rig.model.script = lambda request: (
        fake.call("hang", "{}")
        if request["messages"][-1]["content"] == "hang"
        else fake.echo(request)
    )
    rig.post(rig.event({"text": "hang"}))
    rig.model.wait_for(1)
    rig.post(rig.event({"text": "beside", "in": "DM_BOB", "from": "bob"}))
    until(lambda: rig.replies("DM_BOB"), 20, "the answer beside")
    rig.seen.facts["other_turns"] = "waited" if rig.replies("DM_ALICE") else "unaffected"
    rig.rest()
    rig.seen.facts["turn_deadline"] = rig.replies("DM_ALICE") == [words.TOOK_TOO_LONG]


def only(archive: Any) -> str:
    (one,) = archive.conversations(None).items
    return str(one.id)


def argument(rig: Rig, told: dict[str, Any]) -> None:
    """An id with a line break and an option in it."""
    result = mfw("archive", "list", "--person", told["argv"][-1], code=2)
    rig.seen.facts["exit_nonzero"] = result.exit_code != 0


def terminal(rig: Rig, told: dict[str, Any]) -> None:
    """What is stored, whoever put it there, is shown on a terminal."""
    value = told["put"]["value"]
    rig.tell("plain")
    rig.mercury.stores.database.write(
        lambda tx: tx.run("UPDATE messages SET text = ?, name = ?", value, value)
    )
    id_ = only(rig.mercury.stores.archive)
    shown = [
        on_terminal("archive", "read", id_)[0],
        on_terminal("archive", "read", id_, "--json")[0],
    ]
    assert all("pwned" in one for one in shown)
    rig.seen.facts["stdout"] = re.sub(r"\x1b\[[01]m", "", "".join(shown))


def begun_anew(rig: Rig, told: dict[str, Any]) -> None:
    """`/new` of one person, beside others' conversations and their own in a space."""
    for place, name in (("DM_ALICE", "alice"), ("DM_BOB", "bob"), ("TEAM", "alice")):
        rig.tell("We decided on blue.", place, **{"from": name})
    before = len(rig.chat.messages)
    run_event(rig, told)
    rig.seen.facts["shown"] = [message.text for message in rig.chat.messages[before:]]
    ended = rig.rows("SELECT key FROM conversations WHERE ended_at IS NOT NULL")
    rig.seen.facts["only alice's own DM conversation is closed"] = ended == [("spaces/DMALICE",)]


Special = Callable[[Rig, dict[str, Any]], None]
SPECIAL: dict[str, Special] = {
    "auth-11": certificates_away, "auth-12": forwarded, "auth-15": rotated, "auth-16": skewed,
    "parse-18": content_type, "deliv-08": removed, "scope-04": other_spaces, "scope-13": twin,
    "text-09": repeated, "text-12": begun_anew, "disk-12": corrupt,
    "proc-04": jumps, "proc-09": hangs, "cli-03": argument,
    "cli-04": terminal,
}  # fmt: skip
"""One of a kind, on a Mercury in this process."""
KINDS: dict[str, Special] = {
    "http": run_http, "event": run_event, "seq": run_seq, "parallel": run_parallel,
    "fault": run_fault, "model": run_reply, "tool": run_tool, "tool_result": run_tool_result,
}  # fmt: skip


def run(rig: Rig, row: dict[str, Any]) -> None:
    """Runs a row of the first two tables."""
    told = row["input"]
    if row["id"] in SPECIAL:
        SPECIAL[row["id"]](rig, told)
    elif told["k"] == "fault" and told["on"] == "model":
        run_model(rig, told)
    else:
        KINDS[told["k"]](rig, told)


def parts(id_: str, stop: threading.Event) -> dict[str, Any]:
    """What a row's Mercury has beside the usual; `stop` ends what hangs."""

    def hang(context: Context, given: Nothing) -> dict[str, Any]:
        stop.wait(60)
        return {}

    if id_ == "proc-09":
        tools = [Tool("hang", "Hangs.", Nothing, "reads", hang)]
        return {"tools": tools, "settings": {"turn_timeout_s": 2.0}}
    if id_ == "inj-15":
        return {"tools": [Tool("trouble", "Says a lot.", Nothing, "reads", huge)]}
    return {"silence_s": 0.1} if id_ == "model-04" else {}
