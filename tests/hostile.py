"""A whole Mercury in this process for one hostile row: what it is told, and what leaves it."""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.logs import JsonFormatter
from bot.mercury import build
from bot.openai_model import OpenAIModel
from bot.settings import load
from tests.clock import HandClock
from tests.fakes import model_server as fake
from tests.fakes.chat_server import ChatServer
from tests.fakes.google_keys import AUDIENCE, PROJECT, Signer
from tests.fakes.model_server import ModelServer
from tests.served import until
from tests.shared import load as fixture
from tests.web import Web, close_chat
from tests.world import with_text

KEY = "sk-the-model-s-own-key"
USERS = {"alice": "1001", "bob": "1002", "mallory": "1666"}


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
        self._count = 0

    def start(self, **parts: Any) -> Rig:
        """Starts the servers and a Mercury; `parts` go to `build`."""
        self.chat = self.stack.enter_context(ChatServer())
        self.model = self.stack.enter_context(ModelServer())
        self.chat.write_key_file(self.folder / "account.json")
        changes = parts.pop("settings", {})
        silence = parts.pop("silence_s", 20.0)
        self.settings = load(self.environ(), None).model_copy(update=changes)
        self._silence = silence
        self._parts = parts
        self._build()
        self.stack.callback(self.end)
        self._listen()
        return self

    def _build(self) -> None:
        client = OpenAIModel(self.model.url, "fake", KEY, pause_s=0.0, silence_s=self._silence)
        self.stack.callback(client.close)
        self.mercury = build(self.settings, clock=self.clock, **{"model": client, **self._parts})
        self.mercury.start()
        self.web = Web(self.mercury)

    def again(self) -> None:
        """Another Mercury takes the place of this one, over the same archive."""
        self.end()
        self._build()

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
        close_chat(self.mercury)
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
