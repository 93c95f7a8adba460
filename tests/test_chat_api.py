"""Sending to Google Chat: one message for one id, whatever happens to requests and answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from bot.chat.api import ChatApi, message_id
from bot.chat.client import Client
from bot.chat.errors import (
    ChatError,
    CredentialsRefused,
    Deleted,
    Gone,
    Limited,
    NotAllowed,
    Rejected,
    Taken,
    TooLong,
    Unavailable,
)
from bot.chat.events import Target
from bot.stop import Stop, Stopped
from tests.fakes.chat_server import ChatServer
from tests.shared import cases, needs_shared

ROOM = Target("spaces/FIXROOM0001", "spaces/FIXROOM0001/threads/tR1")
DM = Target("spaces/FIXDM00001")
ID = message_id("spaces/FIXDM00001/messages/m1", 0)
OWN = f"{DM.space}/messages/{ID}"
ERRORS: list[Any] = [
    case
    for case in cases("google-chat/api_errors.json")
    if case.values[0]["call"] in ("create", "patch")
]
EXPECTED: dict[str, type[ChatError]] = {
    "per-space or project quota": Limited,
    "429 with Retry-After": Limited,
    "backend unavailable on create": Unavailable,
    "deadline/lost response on create": Unavailable,
    "client id already used": Deleted,
    "text too long": TooLong,
    "bad thread name": Rejected,
    "thread gone with REPLY_MESSAGE_OR_FAIL": Gone,
    "message deleted by user while streaming": Deleted,
    "app removed from space": NotAllowed,
    "credentials revoked": CredentialsRefused,
    "synthetic message name": Rejected,
    "naming markupSyntax in updateMask": Rejected,
}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server
    assert server.violations == []


@pytest.fixture
def api(server: ChatServer, tmp_path: Path) -> Iterator[ChatApi]:
    key = server.write_key_file(tmp_path / "key.json")
    with closing(Client(server.url, key, timeout_s=5.0)) as client:
        yield ChatApi(client)


def stop() -> Stop:
    return Stop(30.0)


def test_a_message_goes_out_as_markdown_under_its_own_id(server: ChatServer, api: ChatApi) -> None:
    sent = api.put(DM, ID, "**hi**", stop())
    (message,) = server.shown
    assert (message.id, message.request_id, message.text) == (ID, ID, "**hi**")
    assert message.markup == "MARKUP_SYNTAX_MARKDOWN"
    assert (sent.name, sent.thread) == (message.name, message.thread)
    assert [request.call for request in server.log] == ["token", "create"]


def test_the_reply_option_stands_with_a_thread_and_never_without(
    server: ChatServer, api: ChatApi
) -> None:
    api.put(ROOM, ID, "in", stop())
    api.put(DM, ID, "top", stop())
    inside, top = server.calls("create")
    assert inside.query["messageReplyOption"] == ["REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"]
    assert inside.body["thread"] == {"name": ROOM.thread}
    assert "messageReplyOption" not in top.query
    assert "thread" not in top.body


def test_a_private_answer_names_its_one_reader(server: ChatServer, api: ChatApi) -> None:
    api.put(Target(ROOM.space, ROOM.thread, "users/7"), ID, "psst", stop())
    assert server.shown[0].private_to == "users/7"


def test_a_private_answer_to_a_lost_thread_goes_to_the_top_level(
    server: ChatServer, api: ChatApi
) -> None:
    assert ROOM.thread is not None
    server.gone.add(ROOM.thread)
    api.put(Target(ROOM.space, ROOM.thread, "users/7"), ID, "psst", stop())
    assert [(m.private_to, "thread" in m.body) for m in server.shown] == [("users/7", False)]


def test_sending_again_is_the_same_message(server: ChatServer, api: ChatApi) -> None:
    first, second = api.put(DM, ID, "hi", stop()), api.put(DM, ID, "hi", stop())
    assert first == second
    assert [message.edits for message in server.messages] == [0]


@pytest.mark.parametrize("echo", [False, True])
def test_a_placeholder_becomes_the_answer(server: ChatServer, api: ChatApi, echo: bool) -> None:
    server.echo = echo
    api.create(DM, ID, "Working on it…")
    api.put(DM, ID, "the answer", stop())
    assert [(message.text, message.edits) for message in server.shown] == [("the answer", 1)]


def test_an_id_that_another_request_used_is_adopted_and_patched(
    server: ChatServer, api: ChatApi
) -> None:
    api.create(DM, ID, "old")
    server.messages[0].request_id = "another"
    with pytest.raises(Taken):
        api.create(DM, ID, "new")
    api.put(DM, ID, "new", stop())
    assert [message.text for message in server.shown] == ["new"]


@pytest.mark.parametrize("how", ["cut_after", "error_after", "no_json"])
def test_a_message_whose_answer_was_lost_is_found_again(
    server: ChatServer, api: ChatApi, how: Any
) -> None:
    server.fail("create", times=2, how=how)
    sent = api.put(DM, ID, "hi", stop())
    assert [(message.text, message.edits) for message in server.messages] == [("hi", 0)]
    assert sent.name == server.messages[0].name
    assert server.calls("get")


def test_a_time_out_after_the_message_was_stored_is_found_again(
    server: ChatServer, tmp_path: Path
) -> None:
    key = server.write_key_file(tmp_path / "key.json")
    server.fail("create", how="stall_after")
    with closing(Client(server.url, key, timeout_s=0.3)) as client:
        ChatApi(client).put(DM, ID, "hi", stop())
    assert [message.text for message in server.messages] == ["hi"]


@pytest.mark.parametrize("how", ["cut", "error"])
def test_what_did_not_arrive_is_sent_later_under_the_same_id(
    server: ChatServer, api: ChatApi, how: Any
) -> None:
    server.fail("create", times=2 if how == "cut" else 1, how=how)
    with pytest.raises(Unavailable):
        api.put(DM, ID, "hi", stop())
    assert server.messages == []
    api.put(DM, ID, "hi", stop())
    assert [message.id for message in server.messages] == [ID]


def test_a_lost_patch_is_made_again(server: ChatServer, api: ChatApi) -> None:
    api.create(DM, ID, "Working on it…")
    server.fail("patch")
    with pytest.raises(Unavailable):
        api.put(DM, ID, "answer", stop())
    api.put(DM, ID, "answer", stop())
    assert [message.text for message in server.messages] == ["answer"]


def test_a_text_that_chat_tells_without_its_marks_is_not_patched(
    server: ChatServer, api: ChatApi
) -> None:
    server.plain = True
    api.put(DM, ID, "**bold** and `code`", stop())
    api.put(DM, ID, "**bold** and `code`", stop())
    assert [message.edits for message in server.messages] == [0]


@pytest.mark.parametrize("text", ["---", "👍", "Working on something else"])
def test_a_text_of_few_words_still_replaces_the_placeholder(
    server: ChatServer, api: ChatApi, text: str
) -> None:
    server.plain = True
    api.create(DM, ID, "Working on it…")
    api.put(DM, ID, text, stop())
    assert [message.text for message in server.messages] == [text]


def test_a_message_that_a_person_deleted_is_not_made_again(
    server: ChatServer, api: ChatApi
) -> None:
    api.create(DM, ID, "Working on it…")
    server.delete(ID)
    with pytest.raises(Deleted):
        api.put(DM, ID, "answer", stop())
    assert server.shown == []


@needs_shared
@pytest.mark.parametrize("case", ERRORS)
def test_every_error_of_the_api_is_its_own_kind(
    server: ChatServer, api: ChatApi, case: dict[str, Any]
) -> None:
    if case["call"] == "patch":
        api.create(DM, ID, "Working on it…")
    if case["response"] is None:
        server.fail(case["call"], times=2, how="cut")
    else:
        server.fail(case["call"], times=2, response=case["response"])
    with pytest.raises(EXPECTED[case["name"]]) as caught:
        api.put(DM, ID, "text", stop())
    assert type(caught.value) is EXPECTED[case["name"]]
    if isinstance(caught.value, Limited):
        wanted = case["response"]["headers"].get("Retry-After")
        assert caught.value.retry_after == (float(wanted) if wanted else None)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (None, None),
        ("soon", None),
        ("Fri, 20 Nov 2026 09:00:30 GMT", 30.0),
        ("Fri, 20 Nov 2026 08:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(
    server: ChatServer, tmp_path: Path, header: str | None, seconds: float | None
) -> None:
    key = server.write_key_file(tmp_path / "key.json")
    server.fail("create", status=429, retry_after=header)
    with (
        closing(Client(server.url, key, now=lambda: 1_795_165_200.0)) as client,
        pytest.raises(Limited) as caught,
    ):
        ChatApi(client).put(DM, ID, "hi", stop())
    assert caught.value.retry_after == seconds


def test_a_token_that_ran_out_is_fetched_again_once(server: ChatServer, api: ChatApi) -> None:
    api.put(DM, ID, "one", stop())
    server.revoke_tokens()
    api.put(DM, message_id("m2", 0), "two", stop())
    assert len(server.calls("token")) == 2
    server.fail("create", times=9, status=401)
    with pytest.raises(CredentialsRefused):
        api.put(DM, message_id("m3", 0), "three", stop())
    assert len(server.calls("token")) == 3


def test_a_refused_key_is_refused_credentials(server: ChatServer, api: ChatApi) -> None:
    server.fail("token", status=400, response={"http": 400, "headers": {}, "body": {"error": "x"}})
    with pytest.raises(CredentialsRefused):
        api.put(DM, ID, "hi", stop())


def test_a_key_file_that_cannot_be_read_is_refused_credentials(tmp_path: Path) -> None:
    with pytest.raises(CredentialsRefused):
        ChatApi(Client("http://127.0.0.1:9", tmp_path / "none.json")).put(DM, ID, "hi", stop())


def test_a_text_over_chats_limit_is_too_long(server: ChatServer, api: ChatApi) -> None:
    with pytest.raises(TooLong):
        api.put(DM, ID, "é" * 16_001, stop())


def test_a_space_that_the_app_left_is_not_allowed_and_another_still_works(
    server: ChatServer, api: ChatApi
) -> None:
    server.removed_from.add(ROOM.space)
    with pytest.raises(NotAllowed):
        api.put(ROOM, ID, "hi", stop())
    api.put(DM, ID, "hi", stop())
    assert len(server.shown) == 1


@pytest.mark.parametrize(
    "name",
    [
        "spaces/A/messages/../x",
        "spaces/A/messages/..",
        "spaces/A/messages/b?alt=media",
        "spaces/A/messages/b#c",
        "spaces/A/messages/b/c",
        "spaces/../messages/b",
        "",
    ],
)
def test_a_name_that_could_lead_elsewhere_is_never_sent(
    server: ChatServer, api: ChatApi, name: str
) -> None:
    with pytest.raises(Rejected):
        api.patch(name, "x")
    with pytest.raises(Rejected):
        api.get(name)
    assert server.log == []


@pytest.mark.parametrize(
    "names",
    [
        ("spaces/..", None, None),
        ("spaces/A?b", None, None),
        ("spaces/A", "spaces/B/threads/t", None),
        ("spaces/A", "spaces/A/threads/..", None),
        ("spaces/A", None, "users/ada@corp.example.test"),
    ],
)
def test_a_target_elsewhere_cannot_be_made(names: tuple[str, str | None, str | None]) -> None:
    with pytest.raises(ValueError):
        Target(*names)


def test_ids_are_chats_own_form_and_always_the_same() -> None:
    made = {message_id(f"spaces/S/messages/{n}", part) for n in range(50) for part in range(3)}
    assert len(made) == 150
    assert message_id("e", 1) == message_id("e", 1)
    assert all(len(one) <= 63 and one == one.lower() for one in made)


def test_nothing_is_sent_once_the_work_has_to_end(server: ChatServer, api: ChatApi) -> None:
    ended = stop()
    ended.stop("handover")
    with pytest.raises(Stopped):
        api.put(DM, ID, "hi", ended)
    assert server.log == []


def test_what_is_there_can_be_read(server: ChatServer, api: ChatApi) -> None:
    api.create(DM, ID, "hi")
    assert api.get(OWN).text == "hi"
    server.delete(ID)
    with pytest.raises(Gone):
        api.get(OWN)


def test_many_threads_send_at_once(server: ChatServer, api: ChatApi) -> None:
    ids = [message_id("event", n) for n in range(12)]
    threads = [threading.Thread(target=api.put, args=(DM, one, one, stop())) for one in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(message.text for message in server.messages) == sorted(ids)
    assert len(server.calls("token")) == 1


def test_the_description_finds_what_is_wrong_with_a_request(
    server: ChatServer, api: ChatApi
) -> None:
    api.create(DM, ID, "hi")
    token = next(iter(server._tokens))
    answer = requests.post(
        f"{server.url}/v1/{DM.space}/messages?messageReplyOption=MAYBE&pretty=1",
        json={"text": 1, "argumentText": "x", "cardsV2": [{"card": {"headline": "x"}}]},
        headers={"Authorization": f"Bearer {token}"},
        timeout=5,
    )
    assert answer.status_code == 400
    found, server.violations = server.violations, []
    assert {one.split(": ", 1)[1] for one in found} == {
        "query parameter 'messageReplyOption' is 'MAYBE'",
        "query parameter 'pretty' is unknown",
        "body.text is no string",
        "body.argumentText is read-only",
        "body.cardsV2[0].card.headline is unknown",
        "messageReplyOption without a thread",
    }


def test_the_api_s_methods_are_made_once(server: ChatServer, tmp_path: Path) -> None:
    """googleapiclient makes them anew at each look, which costs more than a request."""
    with closing(Client(server.url, server.write_key_file(tmp_path / "key.json"))) as client:
        assert client._service().messages is client._service().messages
