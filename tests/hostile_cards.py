"""The hostile rows about confirmations, tried on a harmless action that counts as promoting."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bot.settling import CHANGED, ActionFailed
from bot.tools import Tool
from memory.confirmations import Confirmation
from tests.fakes import model_server as fake
from tests.hostile import Rig
from tests.served import until
from tests.test_chat_cards import ask, click
from tests.test_confirmations import PublishArguments, publish


class Promotions:
    """The action: promotes once, unless the target has changed."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.changed = False
        self._lock = threading.Lock()

    def __call__(self, confirmation: Confirmation) -> str:
        if self.changed:
            raise ActionFailed(CHANGED)
        with self._lock:
            if confirmation.id not in self.done:
                self.done.append(confirmation.id)
        return "promoted"


def parts(promotions: Promotions) -> dict[str, Any]:
    """What the rows' Mercury has beside the usual."""
    tool = Tool("publish", "Promotes.", PublishArguments, "irreversible", publish)
    return {"tools": [tool], "actions": {"publish": promotions}}


def guessed(rig: Rig, told: dict[str, Any], promotions: Promotions) -> None:
    """A made-up code in words, and guesses until the tries are over."""
    ask(rig)
    rig.tell(told["text"])
    for _ in range(6):
        rig.tell("confirm AAAA-AAAA")
    rig.seen.facts["attempts_limited"] = rig.rows("SELECT state FROM confirmations") == [
        ("expired",)
    ]


def stepped(rig: Rig, told: dict[str, Any], promotions: Promotions) -> None:
    """Steps of asking, changing and confirming, by clicks and by codes."""
    card: Any = None
    for step in told["steps"]:
        if "ask_promote" in step:
            card = ask(rig, step.get("in", "TEAM"))
        elif "someone_changes" in step:
            promotions.changed = True
        else:
            user = {"alice": "1001", "mallory": "1666"}[step["confirm"]]
            space = f"spaces/{step['in']}" if "in" in step else None
            before = card.cards
            card.cards = card.body["cardsV2"]
            body = click(rig, card, "confirm", user, space)
            card.cards = before
            rig.post(body)
            code = re.search(r"confirm ([A-Z2-9]{4}-[A-Z2-9]{4})", str(card.body))
            assert code is not None
            place = step.get("in", "TEAM")
            rig.tell(f"confirm {code[1]}", place, **{"from": step["confirm"]})


def told_by_the_model(rig: Rig, told: dict[str, Any], promotions: Promotions) -> None:
    """The model claims to confirm."""
    card = ask(rig)
    token = card.buttons()[0]["onClick"]["action"]["parameters"][-1]["value"]
    rig.seen.facts["$TOKEN"] = token
    rig.model.script = [fake.text(told["reply"].replace("$TOKEN", token))]
    rig.tell("go on")


def at_once(rig: Rig, told: dict[str, Any], promotions: Promotions) -> None:
    """Many clicks at once."""
    body = click(rig, ask(rig), "confirm")
    with ThreadPoolExecutor(told["n"]) as pool:
        list(pool.map(rig.post, [body] * told["n"]))
    rig.seen.facts["commits"] = 1


def quoted(rig: Rig, told: dict[str, Any], promotions: Promotions) -> None:
    """Somebody else quotes what alice could type."""
    card = ask(rig, "TEAM")
    code = re.search(r"confirm ([A-Z2-9]{4}-[A-Z2-9]{4})", card.card_text())
    assert code is not None
    rig.tell(f"> confirm {code[1]}", "TEAM", **{"from": "bob"})
    rig.tell(f"confirm {code[1]}", "TEAM", **{"from": "bob"})


CARDS: dict[str, Callable[[Rig, dict[str, Any], Promotions], None]] = {
    "tok-01": guessed, "tok-03": stepped, "tok-04": stepped, "tok-06": stepped,
    "tok-07": told_by_the_model, "tok-09": stepped, "tok-10": at_once, "tok-12": quoted,
}  # fmt: skip


def run(rig: Rig, row: dict[str, Any], promotions: Promotions) -> None:
    """Runs a row; notes how often something was promoted."""
    CARDS[row["id"]](rig, row["input"], promotions)
    rig.rest()
    running = "SELECT count(*) FROM confirmations WHERE state = 'running'"
    until(lambda: rig.rows(running) == [(0,)], 20, "the end of every action")
    rig.seen.facts["promotes"] = len(promotions.done)
