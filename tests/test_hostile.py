"""Every row of `hostile/inputs.jsonl` whose parts exist here, tried and held against its `expect`.

A row is run by the function for its kind of input (or, where the row is one of a kind, by the
function of its id), which notes what it saw; then each word of `expect` is checked. A row whose
part does not exist yet is skipped, and says which part that is.
"""

from __future__ import annotations

import base64
import json
import logging
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import regex

from bot import words
from bot.logs import JsonFormatter
from bot.mercury import Mercury, build
from bot.model import Call, Text
from bot.openai_model import OpenAIModel
from bot.prompt import PERSONA, RULES
from bot.settings import Settings, load
from bot.tools import MAX_CALLS, RESULT_CHARS, Arguments, Context, Tool
from memory.records import Line, Message
from memory.text import clean_for_model, is_blank
from memory.turns import Incoming
from tests import chaos
from tests.clock import HandClock
from tests.fakes import google_keys
from tests.fakes import model_server as fake
from tests.fakes.chat_server import ChatServer
from tests.fakes.google_keys import AUDIENCE, PROJECT, Signer
from tests.fakes.model_server import ModelServer
from tests.models import Scripted, calls
from tests.served import until
from tests.shared import SHARED, load as fixture
from tests.test_cli_commands import mfw, on_terminal
from tests.test_turn import Talk
from tests.web import Web
from tests.world import World, with_text

INPUTS = SHARED / "hostile" / "inputs.jsonl"
FORMS = ("addon", "classic")
SEED = 20_261_201
CANARY = "CANARY-7f3a"
KEY = "sk-the-model-s-own-key"
USERS = {"alice": "1001", "bob": "1002", "mallory": "1666"}

MISSING = {
    "wiki_path": "the wiki", "wiki_content": "the wiki", "git_repo": "the wiki",
    "memory_read": "the long-term memory", "memory_write": "the long-term memory",
    "qdrant": "the long-term index", "redis": "the mirror in Redis",
    "confirm": "promotion by a card",
    "text-12": "the commands in Chat", "cli-01": "mfw vault", "cli-06": "mfw vault",
    "inj-01": "promotion", "inj-06": "the filter of links", "inj-07": "the filter of links",
    "proc-03": "the archive in PostgreSQL (embedded means one serving process)",
}  # fmt: skip
"""What a surface, or one row, waits for."""
ADDON_ONLY = ("auth-03", "auth-04", "auth-06", "auth-08", "auth-16")
"""Rows about claims that only tokens of the add-on form have."""


def rows() -> list[Any]:
    """The rows as parameters: of what comes from Chat, one in each form of event."""
    if not INPUTS.is_file():
        return []
    found: list[Any] = []
    for line in INPUTS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        missing = MISSING.get(row["id"]) or MISSING.get(row["surface"])
        if missing:
            mark = pytest.mark.skip(reason=f"not here yet: {missing}")
            found.append(pytest.param(row, "addon", id=row["id"], marks=mark))
            continue
        both = row["surface"] in ("chat_auth", "chat_event") and row["id"] not in ADDON_ONLY
        both = both and row["input"]["k"] != "raw_http" and "gen" not in row["input"]
        found += [
            pytest.param(row, form, id=f"{row['id']}-{form}" if both else row["id"])
            for form in (FORMS if both else FORMS[:1])
        ]
    return found


@dataclass(slots=True)
class Seen:
    """What a row's run saw: answers to requests, how long it took, and named facts."""

    statuses: list[int] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)


class Rig:
    """A Mercury in this process between a fake Google Chat and a scripted model server."""

    def __init__(self, folder: Path, form: str, stack: ExitStack) -> None:
        self.folder = folder
        self.form = form
        self.stack = stack
        self.clock = HandClock()
        self.signer = Signer()
        self.seen = Seen()
        self.log: list[str] = []
        self._mercuries: list[Mercury] = []
        self._count = 0

    def start(self, **parts: Any) -> Rig:
        """Starts the servers and a Mercury; `parts` go to `build`."""
        self.chat = self.stack.enter_context(ChatServer())
        self.model = self.stack.enter_context(ModelServer())
        self.chat.write_key_file(self.folder / "account.json")
        changes = parts.pop("settings", {})
        silence = parts.pop("silence_s", 20.0)
        self.settings = load(self.environ(), None).model_copy(update=changes)
        client = OpenAIModel(self.model.url, "fake", KEY, pause_s=0.0, silence_s=silence)
        self.stack.callback(client.close)
        parts.setdefault("model", client)
        self.mercury = build(self.settings, clock=self.clock, **parts)
        self.stack.callback(self.end)
        self.mercury.start()
        self.web = Web(self.mercury)
        self._listen()
        return self

    def environ(self) -> dict[str, str]:
        certs = self.chat.certs_url if self.form == "addon" else self.chat.classic_certs_url
        return {
            "MERCURY_DATA": str(self.folder / "data"), "GOOGLE_CHAT_FORMAT": self.form,
            "GOOGLE_CHAT_PROJECT_NUMBER": PROJECT,
            "GOOGLE_CHAT_AUDIENCE": AUDIENCE if self.form == "addon" else "",
            "GOOGLE_CHAT_API_URL": self.chat.url, "GOOGLE_CHAT_CERTS_URL": certs,
            "GOOGLE_APPLICATION_CREDENTIALS": str(self.folder / "account.json"),
            "MODEL_URL": self.model.url, "MODEL": "fake", "MODEL_API_KEY": KEY,
        }  # fmt: skip

    def end(self) -> None:
        self.mercury.engine.drain(2.0)
        self.mercury.close()

    def _listen(self) -> None:
        """Keeps every line that is logged, as it is written."""
        formatter = JsonFormatter()

        class Keeps(logging.Handler):
            def emit(handler, record: logging.LogRecord) -> None:
                self.log.append(formatter.format(record))

        handler, root = Keeps(), logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        self.stack.callback(root.setLevel, level)
        self.stack.callback(root.removeHandler, handler)

    # -- Chat ---------------------------------------------------------------------------------

    def valid(self, **claims: Any) -> str:
        """A token as Google signs it."""
        return getattr(self.signer, self.form)(**claims)  # type: ignore[no-any-return]

    def event(self, told: dict[str, Any]) -> dict[str, Any]:
        """The event that a row's words mean, made from the fixture of this form."""
        place = told.get("in", "DM_ALICE")
        name = "dm_message" if place.startswith("DM_") else "space_mention"
        if told.get("type") == "REMOVED_FROM_SPACE":
            name = "removed_from_space"
        elif told.get("from") == "bot:self":
            name = "message_from_self"
        text = json.dumps(fixture(f"google-chat/{self.form}/{name}.json"))
        text = text.replace("FIXDM00001", place.replace("_", "")).replace("FIXROOM0001", place)
        user = USERS.get(told.get("from", "alice"), USERS["alice"])
        made: dict[str, Any] = json.loads(text.replace("200000000000000000001", user))
        if "displayName" in told:
            person = made["chat"]["user"] if self.form == "addon" else made["user"]
            person.update(displayName=told["displayName"], email=told["email"])
        if name == "removed_from_space":
            return made
        self._count += 1
        return with_text(made, told.get("text", "hi"), told.get("id", f"n{self._count}"))

    def post(self, body: Any, **given: Any) -> int:
        """Posts to the Chat route; a body that is no bytes goes as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given.setdefault("headers", [("Authorization", f"Bearer {self.valid()}")])
        given.setdefault("content_type", "application/json")
        response = self.web.request("POST", "/chat/events", data=data, **given)
        self.seen.statuses.append(response.status_code)
        self.seen.bodies.append(response.get_data(as_text=True))
        return response.status_code

    def tell(self, text: str, place: str = "DM_ALICE", **told: Any) -> int:
        """A message of a person, and everything that follows from it."""
        status = self.post(self.event({"text": text, "in": place, **told}))
        self.rest()
        return status

    def rest(self) -> None:
        """Waits until nothing is left to do."""
        sql = "SELECT count(*) FROM turns WHERE state IN ('waiting', 'running')"
        until(lambda: self.rows(sql) == [(0,)], 60, "the end of every turn")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the archive."""
        return self.mercury.stores.database.read(lambda tx: list(tx.rows(sql)))

    def state(self) -> str:
        """Everything that a request could have changed."""
        tables = ("messages", "turns", "events", "conversations", "keys", "confirmations", "lanes")
        return str([self.rows(f"SELECT * FROM {table}") for table in tables])

    def replies(self, place: str | None = None) -> list[str]:
        """What is shown in a place, or anywhere."""
        spaces = None if place is None else f"spaces/{place.replace('_', '')}"
        spaces = f"spaces/{place}" if place and not place.startswith("DM_") else spaces
        return [m.text for m in self.chat.shown if spaces in (None, m.space)]

    def left(self) -> str:
        """Whatever left, or was logged."""
        sent = [json.dumps(request.body, ensure_ascii=False) for request in self.chat.log]
        return "\n".join([*sent, *self.seen.bodies, *self.log])

    def prompts(self) -> str:
        """Whatever the model was given."""
        return json.dumps(self.model.requests, ensure_ascii=False)

    def stored(self) -> list[str]:
        """What people wrote, word for word."""
        sql = "SELECT text FROM messages WHERE role = 'person' ORDER BY n"
        return [str(text) for (text,) in self.rows(sql)]

    def alive(self) -> bool:
        """Whether the next normal message works."""
        self.model.script = fake.echo
        self._count += 1
        name = f"users-alive-{self._count}"
        status = self.post(self.event({"text": name, "in": "DM_BOB", "from": "bob"}))
        until(lambda: f"You said: {name}" in self.replies("DM_BOB"), 20, "the next answer")
        return status == 200


# -- running ----------------------------------------------------------------------------------


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


def replaced(value: Any, known: dict[str, str]) -> Any:
    if not isinstance(value, str):
        return value
    for name, meaning in known.items():
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
    """The archive's file is damaged in the middle, under a Mercury that runs."""
    for n in range(20):
        rig.web.person("alice").say(f"message {n} " + "x" * 2_000)
    rig.mercury.stores.database.close()
    path = rig.settings.archive_path
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    whole = path.read_bytes()
    damaged = whole[:8_192] + b"\xa5" * (len(whole) - 16_384) + whole[-8_192:]
    path.write_bytes(damaged)
    rig.post(rig.event({"text": "hi"}))
    assert rig.seen.statuses == [503]
    rig.seen.facts["ready"] = rig.web.request("GET", "/readyz").status_code
    rig.seen.facts["alert"] = any('"severity": "ERROR"' in line for line in rig.log)
    assert rig.web.request("GET", "/healthz").status_code == 200
    assert path.read_bytes() == damaged


def hangs(rig: Rig, told: dict[str, Any]) -> None:
    """A tool never returns; its turn ends at the deadline and others do not notice."""
    rig.model.script = lambda request: (
        fake.call("hang", "{}")
        if request["messages"][-1]["content"] == "hang"
        else fake.echo(request)
    )
    rig.post(rig.event({"text": "hang"}))
    rig.model.wait_for(1)
    rig.seen.facts["other_turns"] = "unaffected" if rig.alive_beside() else "waited"
    rig.rest()
    rig.seen.facts["turn_deadline"] = rig.replies("DM_ALICE") == [words.TOOK_TOO_LONG]


def rules_stay(rig: Rig, told: dict[str, Any]) -> None:
    """A long history is compacted by a summariser that obeys what it reads."""


Special = Callable[[Rig, dict[str, Any]], None]
SPECIAL: dict[str, Special] = {
    "auth-11": certificates_away, "auth-12": forwarded, "auth-15": rotated, "auth-16": skewed,
    "parse-18": content_type, "deliv-08": removed, "scope-04": other_spaces, "scope-13": twin,
    "disk-12": corrupt, "proc-09": hangs,
}  # fmt: skip
KINDS: dict[str, Special] = {
    "http": run_http, "event": run_event, "seq": run_seq, "parallel": run_parallel,
    "fault": run_fault, "model": run_reply, "tool": run_tool, "tool_result": run_tool_result,
}  # fmt: skip
