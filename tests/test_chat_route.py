"""`POST /chat/events`: what each request is answered, and what is kept out of the log."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from bot.chat.events import Event, Form, Message, Removed
from bot.chat.route import blueprint
from bot.chat.verify import Certificates, CertificatesAway, Unverified, Verifier
from bot.http.body import MAX_BYTES
from memory.errors import StoreDown
from tests.fakes.chat_server import ChatServer
from tests.fakes.google_keys import AUDIENCE, PROJECT, Signer
from tests.shared import cases, load, names, needs_shared

EVENT = {
    "type": "MESSAGE",
    "user": {"name": "users/1", "displayName": "Ada", "email": "ada@corp.example.test"},
    "space": {"name": "spaces/DM", "spaceType": "DIRECT_MESSAGE"},
    "message": {"name": "spaces/DM/messages/m1", "text": "the secret words"},
}


class Gate:
    """A verifier that a test opens and shuts."""

    def __init__(self) -> None:
        self.refuse: Exception | None = None
        self.seen: list[list[str]] = []

    def verify(self, authorization_headers: list[str]) -> None:
        self.seen.append(authorization_headers)
        if self.refuse is not None:
            raise self.refuse


class Route:
    """The route in an app of its own, and what it accepted."""

    def __init__(self, form: Form = "classic") -> None:
        self.gate = Gate()
        self.accepted: list[Event] = []
        self.down = False
        app = Flask(__name__)
        app.register_blueprint(blueprint(self.gate, form, frozenset(), self._accept))
        self.client = app.test_client()

    def _accept(self, event: Event) -> None:
        if self.down:
            raise StoreDown("full")
        self.accepted.append(event)

    def post(self, body: Any, **headers: str) -> TestResponse:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post("/chat/events", data=data, headers=named)


@pytest.fixture
def route() -> Route:
    return Route()


def test_a_message_is_stored_and_then_answered_with_nothing_to_show(route: Route) -> None:
    answer = route.post(EVENT)
    assert (answer.status_code, answer.json) == (200, {})
    (event,) = route.accepted
    assert isinstance(event, Message)
    assert event.text == "the secret words"


def test_an_unverified_request_is_refused_without_a_word_and_unread(route: Route) -> None:
    route.gate.refuse = Unverified("audience")
    answer = route.post(b"\xff" * (2 * MAX_BYTES))
    assert (answer.status_code, answer.data) == (401, b"")
    assert route.accepted == []


def test_without_certificates_google_is_asked_to_come_again(route: Route) -> None:
    route.gate.refuse = CertificatesAway()
    answer = route.post(EVENT)
    assert (answer.status_code, answer.data) == (503, b"")
    assert int(answer.headers["Retry-After"]) > 0


def test_what_could_not_be_stored_is_not_acknowledged(route: Route) -> None:
    route.down = True
    answer = route.post(EVENT)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"1",
        b"true",
        b'"text"',
        b"{",
        b'{"type":"MESSAGE","message":{"text":NaN}}',
        b'{"user":{"name":"users/1001"},"user":{"name":"users/1666"},"type":"MESSAGE"}',
        b'{"type":"MESSAGE","message":{"text":"\xff\xfe"}}',
        b'{"a":' * 40 + b"1" + b"}" * 40,
    ],
)
def test_what_is_no_strict_json_object_is_400(route: Route, body: bytes) -> None:
    assert route.post(body).status_code == 400
    assert route.accepted == []


@pytest.mark.parametrize(
    "body",
    [
        [],
        [EVENT],
        {},
        {"type": "SOMETHING_NEW_2027", "space": {"name": "spaces/TEAM"}},
        {
            "type": "MESSAGE",
            "message": {"name": "spaces/TEAM/messages/x", "text": {"$ne": 1}},
            "user": {"name": ["users/1001"]},
            "space": {"name": "spaces/TEAM"},
        },
    ],
)
def test_everything_else_that_is_authenticated_is_200_and_changes_nothing(
    route: Route, body: Any
) -> None:
    answer = route.post(body)
    assert (answer.status_code, answer.json) == (200, {})
    assert route.accepted == []


@needs_shared
@pytest.mark.parametrize("name", names("google-chat/malformed"))
def test_a_malformed_event_is_200(name: str) -> None:
    route = Route("addon" if name.startswith("addon") else "classic")
    answer = route.post(load(f"google-chat/malformed/{name}.json"))
    assert (answer.status_code, answer.json, route.accepted) == (200, {}, [])


def test_a_packed_body_is_not_unpacked(route: Route) -> None:
    assert route.post(EVENT, Content_Encoding="gzip").status_code == 415
    assert route.post(EVENT, Content_Encoding="identity").status_code == 200


def test_a_body_over_a_mebibyte_is_413(route: Route) -> None:
    assert route.post(b" " * (MAX_BYTES + 1)).status_code == 413
    padded = json.dumps(EVENT).encode().ljust(MAX_BYTES)
    assert route.post(padded).status_code == 200


def test_the_content_type_and_the_host_decide_nothing(route: Route) -> None:
    answer = route.post(EVENT, Content_Type="text/plain", Host="evil.example")
    assert answer.status_code == 200


def test_a_removal_is_accepted(route: Route) -> None:
    route.post({"type": "REMOVED_FROM_SPACE", "space": {"name": "spaces/S"}})
    assert route.accepted == [Removed("spaces/S")]


def test_the_log_names_keys_and_nothing_that_stands_under_them(
    route: Route, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    route.post(EVENT | {"type": "CARD_CLICKED", "configCompleteRedirectUrl": "capability"})
    (record,) = [one for one in caplog.records if one.name == "bot.chat.route"]
    assert "configCompleteRedirectUrl, message, space, type, user" in record.getMessage()
    for private in ("secret", "capability", "ada@", "users/1"):
        assert private not in caplog.text


@needs_shared
@pytest.mark.parametrize(
    "case", cases("google-chat/tokens/transport_cases.json"), ids=lambda case: str(case["name"])
)
def test_the_transport_answers_as_the_fixture_says(case: dict[str, Any]) -> None:
    """The cases with real tokens and certificates, over the whole route."""
    signed = Signer().addon()
    body: Any = load("google-chat/addon/dm_message.json")
    with ChatServer() as server:
        route = Route("addon")
        verifier = Verifier("addon", AUDIENCE, PROJECT, Certificates(server.certs_url))
        headers = [("Authorization", f"Bearer {signed}")]
        name = case["name"]
        if name.startswith("no Authorization header"):
            body["authorizationEventObject"]["systemIdToken"] = signed
            headers = []
        elif name.startswith("lower-case"):
            headers = [("Authorization", f"bearer {signed}")]
        elif name.startswith("two Authorization"):
            headers *= 2
        elif name.startswith("Authorization longer"):
            headers = [("Authorization", f"Bearer {signed}{'A' * 8_192}")]
        elif "warm cache" in name:
            verifier.verify([f"Bearer {signed}"])
            server.fail("certs", times=99)
        elif "cold cache" in name:
            server.fail("certs", times=99)
        elif "not JSON" in name:
            body = b"{"
        elif "unknown event type" in name:
            body = load("google-chat/malformed/addon_unknown_payload.json")
        elif "store down" in name:
            route.down = True
        app = Flask(__name__)
        app.register_blueprint(blueprint(verifier, "addon", frozenset(), route._accept))
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status = app.test_client().post("/chat/events", data=data, headers=headers).status_code
    verdict = case["verdict"]
    expected = next((code for code in (401, 503, 400) if str(code) in verdict.split(",")[0]), 200)
    assert status == expected
