"""The card that asks for a confirmation, its clicks, and the page for what does not fit on it."""

from __future__ import annotations

import copy
import html
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bot import words
from bot.settling import CHANGED, ActionFailed
from tests.fakes import model_server as fake
from tests.hostile import Rig
from tests.served import until
from tests.shared import load, needs_shared
from tests.test_confirmations import TOOL, Press

FORMS = ("addon", "classic")
pytestmark = needs_shared


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def press() -> Press:
    return Press()


@pytest.fixture
def rig(form: str, tmp_path: Path, press: Press) -> Iterator[Rig]:
    with ExitStack() as stack:
        made = Rig(tmp_path, form, stack)
        yield made.start(
            tools=[TOOL],
            actions={"publish": press},
            settings={"public_url": "https://mercury.example.test"},
        )
        assert made.chat.violations == []


def ask(rig: Rig, place: str = "DM_ALICE", text: str = "all of it") -> Any:
    """Has something staged; gives the card that asks for it."""
    rig.model.script = [fake.call("publish", json.dumps({"text": text})), fake.text("Asked.")]
    rig.tell("publish it", place)
    rig.model.script = fake.echo
    return next(message for message in reversed(rig.chat.messages) if message.cards)


def click(
    rig: Rig, card: Any, decision: str, user: str = "1001", space: str | None = None
) -> dict[str, Any]:
    """The event of a press of a card's button, made from the fixture."""
    button = next(b for b in card.buttons() if b["text"].lower() == decision)
    action = button["onClick"]["action"]
    body: dict[str, Any] = copy.deepcopy(load(f"google-chat/{rig.form}/card_clicked.json"))
    told = {one["key"]: one["value"] for one in action["parameters"]}
    place = {"name": space or card.space, "spaceType": "SPACE"}
    if not (space or card.space).endswith("TEAM"):
        place = {"name": space or card.space, "spaceType": "DIRECT_MESSAGE", "type": "DM"}
    message = {"name": card.name, "sender": {"name": "users/777", "type": "BOT"}}
    if rig.form == "classic":
        body.update(user={**body["user"], "name": f"users/{user}"}, space=place, message=message)
        body["action"] = {
            "actionMethodName": action["function"],
            "parameters": action["parameters"],
        }
        body["common"] = {"invokedFunction": action["function"], "parameters": told}
    else:
        body["chat"]["user"]["name"] = f"users/{user}"
        body["chat"]["buttonClickedPayload"] = {"space": place, "message": message}
        body["commonEventObject"]["parameters"] = told
    return body


def settled(card: Any, says: str) -> None:
    until(lambda: card.buttons() == [] and says in card.card_text(), 10, f"a card: {says}")


def test_the_card_shows_the_whole_content_and_is_settled_in_place(rig: Rig, press: Press) -> None:
    card = ask(rig, "TEAM", "1 < 2 & <b>bold</b> <users/all>")
    assert rig.replies("TEAM") == ["Asked.", ""]
    assert (card.private_to, card.body["fallbackText"]) == (
        "users/1001", "publish: mine/a.md → curated/a.md",
    )  # fmt: skip
    assert "1 &lt; 2 &amp; &lt;b&gt;bold&lt;/b&gt; &lt;users/all&gt;" in card.card_text()
    assert card.body["thread"] == {"name": "spaces/TEAM/threads/tR1"}
    assert rig.post(click(rig, card, "confirm")) == 200
    settled(card, "✅ publish: published")
    assert len(press.published) == 1
    assert card.edits == 1
    assert rig.rows("SELECT role FROM messages ORDER BY n") == [
        ("person",), ("assistant",), ("settled",),
    ]  # fmt: skip


def test_in_a_direct_message_the_card_names_no_viewer(rig: Rig, press: Press) -> None:
    card = ask(rig)
    assert card.private_to is None
    rig.post(click(rig, card, "cancel"))
    settled(card, "Cancelled: publish")
    assert press.calls == 0


def test_the_buttons_call_back_as_the_form_wants_it(rig: Rig) -> None:
    actions = [button["onClick"]["action"] for button in ask(rig).buttons()]
    keys = [[one["key"] for one in action["parameters"]] for action in actions]
    functions = {action["function"] for action in actions}
    if rig.form == "addon":
        assert functions == {rig.settings.google_chat_audience}
        assert keys == [["action", "decision", "ref"]] * 2
    else:
        assert functions == {"publish"}
        assert keys == [["decision", "ref"]] * 2


def test_eight_clicks_at_once_do_it_once(rig: Rig, press: Press) -> None:
    card = ask(rig)
    body = click(rig, card, "confirm")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(rig.post, [body] * 8)) == {200}
    settled(card, "published")
    assert press.calls == 1
    rig.post(click(rig, card_with_buttons(card, body), "cancel"))
    assert press.calls == 1
    assert rig.rows("SELECT state FROM confirmations") == [("done",)]


def card_with_buttons(card: Any, body: dict[str, Any]) -> Any:
    """The card as somebody still sees it who has not looked again."""
    old = copy.copy(card)
    old.cards = card.body["cardsV2"]
    return old


@pytest.mark.parametrize("where", ["another person", "another space"])
def test_another_person_s_click_or_one_elsewhere_does_nothing(
    rig: Rig, press: Press, where: str
) -> None:
    card = ask(rig, "TEAM")
    user = "1666" if where == "another person" else "1001"
    space = "spaces/OTHERTEAM" if where == "another space" else None
    assert rig.post(click(rig, card, "confirm", user, space)) == 200
    assert rig.rows("SELECT state FROM confirmations") == [("waiting",)]
    rig.post(click(rig, card, "confirm"))
    settled(card, "published")
    assert press.calls == 1


def test_a_forged_reference_does_nothing(rig: Rig, press: Press) -> None:
    card = ask(rig)
    body = click(rig, card, "confirm")
    told = body["commonEventObject"] if rig.form == "addon" else body["common"]
    for ref in ("cf_x.AAAA", "é", "", told["parameters"]["ref"][:-1] + "A"):
        told["parameters"]["ref"] = ref
        if rig.form == "classic":
            body["action"]["parameters"] = [
                {"key": k, "value": v} for k, v in told["parameters"].items()
            ]
        assert rig.post(body) == 200
    assert press.calls == 0


def test_a_typed_code_settles_the_card_too(rig: Rig, press: Press) -> None:
    card = ask(rig, "TEAM")
    code = re.search(r"confirm ([A-Z2-9]{4}-[A-Z2-9]{4})", card.card_text())
    assert code is not None
    rig.tell(f"CONFIRM {code[1].lower()}", "TEAM")
    settled(card, "✅ publish: published")
    assert rig.chat.messages[-1].private_to == "users/1001"
    assert rig.replies("TEAM")[-1] == "publish: published"


def test_an_expired_card_says_so(rig: Rig, press: Press) -> None:
    card = ask(rig)
    rig.clock.move(901)
    rig.mercury.engine.look()
    settled(card, "Expired: publish")
    assert press.calls == 0


def test_what_failed_is_said_on_the_card(rig: Rig, press: Press) -> None:
    press.error = ActionFailed(CHANGED)
    card = ask(rig)
    rig.post(click(rig, card, "confirm"))
    settled(card, f"❌ publish: {words.WHY['changed']}")


@pytest.mark.parametrize("status", [429, 503])
def test_a_card_is_settled_when_the_api_is_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr("bot.chat.beside.PAUSE_S", 0.05)
    card = ask(rig)
    rig.chat.fail("patch", times=2, status=status)
    rig.post(click(rig, card, "confirm"))
    settled(card, "published")


def test_tokens_and_codes_stand_in_no_store_prompt_answer_or_log(rig: Rig) -> None:
    card = ask(rig)
    code = re.search(r"confirm ([A-Z2-9]{4}-[A-Z2-9]{4})", card.card_text())
    ref = card.buttons()[0]["onClick"]["action"]["parameters"][-1]["value"]
    assert code is not None
    rig.model.script = [fake.text(f"Your code is {code[1]} and {ref}.")]
    rig.tell("what is my code?")
    assert rig.replies()[-1] == "Your code is ••• and •••."
    tables = ("messages", "turns", "events", "deliveries", "confirmations", "tool_calls")
    stored = str([rig.rows(f"SELECT * FROM {table}") for table in tables])
    for secret in (code[1], ref, ref.split(".")[1]):
        assert secret not in stored
        assert secret not in rig.prompts()
        assert secret not in "\n".join(rig.log)


# -- what does not fit, and its page --------------------------------------------------------------


def page_of(card: Any) -> str:
    """The path of the page that a card leads to."""
    (url,) = [b["onClick"]["openLink"]["url"] for b in card.buttons() if "openLink" in b["onClick"]]
    assert url.startswith("https://mercury.example.test/confirm/cf_")
    return str(url).removeprefix("https://mercury.example.test")


def test_what_does_not_fit_on_a_card_is_decided_on_its_page(rig: Rig, press: Press) -> None:
    text = "<script>alert(1)</script> & more\n" * 900
    card = ask(rig, text=text)
    assert [button["text"] for button in card.buttons()] == ["Read and decide", "Cancel"]
    assert "confirm" not in card.card_text()
    path = page_of(card)
    shown = rig.web.request("GET", path)
    assert shown.status_code == 200
    body = shown.get_data(as_text=True)
    assert html.escape(text, quote=False).replace("'", "&#39;") in body
    assert "<script" not in body
    assert press.calls == 0
    assert "default-src 'none'" in shown.headers["Content-Security-Policy"]
    assert (shown.headers["Cache-Control"], shown.headers["Referrer-Policy"]) == (
        "no-store", "no-referrer",
    )  # fmt: skip
    done = rig.web.request("POST", path, data={"decision": "confirm"})
    assert (done.status_code, press.calls) == (200, 1)
    assert "✅ publish: published" in done.get_data(as_text=True)
    assert "<form" not in done.get_data(as_text=True)
    settled(card, "✅ publish: published")
    assert path.split("k=")[1] not in "\n".join(rig.log)


def test_a_page_settles_once(rig: Rig, press: Press) -> None:
    path = page_of(ask(rig, text="long " * 9_000))
    assert rig.web.request("POST", path, data={"decision": "nonsense"}).status_code == 422
    codes = [
        rig.web.request("POST", path, data={"decision": decision}).status_code
        for decision in ("cancel", "cancel", "confirm")
    ]
    assert codes == [200, 200, 409]
    assert press.calls == 0


def test_a_page_whose_time_is_over_says_so(rig: Rig, press: Press) -> None:
    path = page_of(ask(rig, text="long " * 9_000))
    rig.clock.move(901)
    assert "Expired" in rig.web.request("GET", path).get_data(as_text=True)
    assert rig.web.request("POST", path, data={"decision": "confirm"}).status_code == 410
    assert press.calls == 0


@pytest.mark.parametrize("change", ["", "k=", "k=AAAA", "k=é", "token"])
def test_a_wrong_key_opens_no_page(rig: Rig, press: Press, change: str) -> None:
    card = ask(rig, text="long " * 9_000)
    path, _, _ = page_of(card).partition("?")
    if change == "token":
        cancel = card.buttons()[1]["onClick"]["action"]["parameters"][-1]["value"]
        change = f"k={cancel.split('.')[1]}"
    for method in ("GET", "POST"):
        data = {"decision": "confirm"} if method == "POST" else None
        response = rig.web.request(method, f"{path}?{change}", data=data)
        assert response.status_code == 404
    assert rig.web.request("GET", "/confirm/cf_never?k=AAAA").status_code == 404
    assert press.calls == 0


def test_without_a_page_nothing_can_be_confirmed_that_was_not_shown(
    form: str, tmp_path: Path, press: Press
) -> None:
    if form == "addon":
        pytest.skip("the endpoint's own host has the page")
    with ExitStack() as stack:
        rig = Rig(tmp_path, form, stack).start(tools=[TOOL], actions={"publish": press})
        card = ask(rig, text="long " * 9_000)
        assert [button["text"] for button in card.buttons()] == ["Cancel"]
        assert words.TOO_LONG_FOR_A_CARD in html.unescape(card.card_text())
