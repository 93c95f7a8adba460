"""Mercury, served for real, between a fake Google Chat and a scripted model server."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import httpx2

from tests.fakes.chat_server import ChatServer
from tests.fakes.google_keys import AUDIENCE, PROJECT, Signer
from tests.fakes.model_server import ModelServer, Script, echo
from tests.served import Served, until


class World:
    """A served Mercury with one form of Chat events; use it in a `with`.

    Args:
        folder: for the data, the key file and the log.
        form: `addon` or `classic`.
        script: what the model server answers; echoes without one.
        env: further settings.
        module: what serves in the place of `mfw serve`.
    """

    def __init__(
        self,
        folder: Path,
        form: str,
        script: Script = echo,
        env: dict[str, str] | None = None,
        module: str = "",
    ) -> None:
        self.form = form
        self.chat = ChatServer()
        self.model = ModelServer(script)
        self.signer = Signer()
        self.clock_file = folder / "clock"
        certs = self.chat.certs_url if form == "addon" else self.chat.classic_certs_url
        self.served = Served(
            folder / "data",
            {
                "GOOGLE_CHAT_FORMAT": form, "GOOGLE_CHAT_PROJECT_NUMBER": PROJECT,
                "GOOGLE_CHAT_AUDIENCE": AUDIENCE if form == "addon" else "",
                "GOOGLE_CHAT_API_URL": self.chat.url, "GOOGLE_CHAT_CERTS_URL": certs,
                "GOOGLE_APPLICATION_CREDENTIALS": str(
                    self.chat.write_key_file(folder / "account.json")
                ),
                "MODEL_URL": self.model.url, "MODEL": "fake",
                "MERCURY_TEST_CLOCK": str(self.clock_file), **(env or {}),
            },
        )  # fmt: skip
        if module:
            self.served.command = (module,)

    def __enter__(self) -> World:
        self.chat.__enter__()
        self.model.__enter__()
        self.served.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.served.stop()
        self.model.__exit__(None, None, None)
        self.chat.__exit__(None, None, None)

    def post(self, event: dict[str, Any]) -> httpx2.Response:
        """Posts a signed event, as Google does."""
        token = self.signer.addon() if self.form == "addon" else self.signer.classic()
        return httpx2.post(
            f"{self.served.url}/chat/events", content=json.dumps(event), timeout=30,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )  # fmt: skip

    def deliver(self, event: dict[str, Any]) -> None:
        """Posts an event again and again until it is acknowledged, as Google does."""

        def posted() -> bool:
            try:
                return self.post(event).status_code == 200
            except httpx2.HTTPError:
                return False

        until(posted, 60, "a 200")

    def answers(self, count: int, seconds: float = 30.0) -> list[str]:
        """The texts in the spaces, once there are that many, in the order they came."""
        until(lambda: len(self.chat.shown) >= count, seconds, f"{count} answers")
        return [message.text for message in self.chat.shown]

    def move_clock(self, seconds: float) -> None:
        """Moves the archive's time."""
        self.clock_file.write_text(str(seconds))

    def idle(self) -> None:
        """Waits until nothing is left to do."""
        sql = "SELECT count(*) FROM turns WHERE state IN ('waiting', 'running')"
        until(lambda: self.served.rows(sql)[0][0] == 0, 30, "the end of every turn")


def event(form: str, text: str, id_: str, space: str = "DM1", user: str = "1001") -> dict[str, Any]:
    """A direct message of a person in one of the two forms."""
    name = f"users/{user}"
    person = {"name": name, "displayName": "Ada Fixture", "type": "HUMAN"}
    place = {"name": f"spaces/{space}", "type": "DM", "spaceType": "DIRECT_MESSAGE"}
    message = {
        "name": f"spaces/{space}/messages/{id_}", "sender": person, "text": text,
        "argumentText": text, "space": place,
        "thread": {"name": f"spaces/{space}/threads/{id_}"},
    }  # fmt: skip
    if form == "classic":
        return {"type": "MESSAGE", "user": person, "space": place, "message": message}
    return {"chat": {"user": person, "messagePayload": {"space": place, "message": message}}}


def with_text(fixture: dict[str, Any], text: str, id_: str) -> dict[str, Any]:
    """A fixture's event with another text and message id."""
    made = copy.deepcopy(fixture)
    found = made["chat"]["messagePayload"] if "chat" in made else made
    space = found["space"]["name"]
    found["message"].update(text=text, argumentText=text, name=f"{space}/messages/{id_}")
    return made
