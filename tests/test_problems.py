"""Whatever goes wrong over HTTP is a problem in JSON, and says nothing that is somebody else's."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask, abort, request
from flask.testing import FlaskClient
from werkzeug.exceptions import TooManyRequests, Unauthorized

from bot.http.body import read_json
from bot.http.problems import Problem, register
from bot.logs import write_to
from memory.errors import StoreDown

SECRET = "redis://:hunter2hunter2@10.0.0.1"


@pytest.fixture
def client() -> FlaskClient:
    app = Flask("test")
    app.config["MAX_CONTENT_LENGTH"] = 100
    register(app)

    @app.get("/fine")
    def fine() -> str:
        return "fine"

    @app.route("/problem", methods=["GET", "POST"])
    def problem() -> str:
        raise Problem(409, "changed", "it changed", "/base", {"ETag": '"2"'}, text="now", status_=1)

    @app.get("/boom/<name>")
    def boom(name: str) -> str:
        raise RuntimeError(f"{name}: cannot reach {SECRET}")

    @app.get("/v1/boom")
    def v1() -> str:
        raise KeyError(SECRET)

    @app.get("/v1/problem")
    def v1_problem() -> str:
        raise Problem(422, "unknown_field", "there is no such field", "/input/0")

    @app.get("/down")
    def down() -> str:
        raise StoreDown("disk full")

    @app.get("/abort/<int:status>")
    def aborts(status: int) -> str:
        abort(status, description=SECRET)

    @app.get("/slow")
    def slow() -> str:
        raise TooManyRequests(SECRET, retry_after=7)

    @app.get("/who")
    def who() -> str:
        raise Unauthorized(SECRET, www_authenticate=None)

    @app.post("/read")
    def read() -> dict[str, Any]:
        return {"got": read_json(request, 50)}

    @app.post("/raw")
    def raw() -> str:
        return str(len(request.get_data()))

    @app.get("/form")
    def form() -> str:
        return request.args["missing"]

    return app.test_client()


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the log says."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    for name in ("sys.excepthook", "threading.excepthook"):
        monkeypatch.setattr(name, None)
    stream = io.StringIO()
    write_to(stream, "INFO", "json")
    yield stream
    root.handlers = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "//fine", 404, "not_found"),
        ("GET", "/abort/404", 404, "not_found"),
        ("DELETE", "/fine", 405, "method_not_allowed"),
        ("GET", "/problem", 409, "changed"),
        ("GET", "/boom/x", 500, "internal"),
        ("GET", "/down", 503, "store_down"),
        ("GET", "/abort/403", 403, "forbidden"),
        ("GET", "/abort/418", 418, "im_a_teapot"),
        ("GET", "/slow", 429, "too_many_requests"),
        ("GET", "/who", 401, "unauthenticated"),
        ("GET", "/form", 400, "bad_request"),
        ("POST", "/read", 415, "unsupported_media_type"),
    ],
)
def test_every_error_is_a_problem(
    client: FlaskClient, method: str, path: str, status: int, code: str
) -> None:
    answer = client.open(path, method=method)
    assert answer.status_code == status
    assert answer.content_type == "application/problem+json"
    assert answer.json is not None
    assert answer.json["status"] == status
    assert answer.json["code"] == code
    assert {"type", "title", "detail"} <= answer.json.keys()
    for never in ("hunter2", "Traceback", "<html", "<!doctype", ".py", "RuntimeError"):
        assert never not in answer.text


def test_a_problem_has_its_pointer_its_headers_and_what_else_it_says(client: FlaskClient) -> None:
    answer = client.post("/problem")
    assert answer.headers["ETag"] == '"2"'
    assert answer.json == {
        "type": "about:blank", "title": "Conflict", "status": 409, "code": "changed",
        "detail": "it changed", "pointer": "/base", "text": "now", "status_": 1,
    }  # fmt: skip


def test_a_problem_without_a_pointer_has_none() -> None:
    assert "pointer" not in Problem(404, "not_found", "no").body()
    assert Problem(422, "invalid_body", "no", "").body()["pointer"] == ""


def test_what_else_it_says_replaces_nothing() -> None:
    assert Problem(409, "changed", "no", title="x", type="y").body()["title"] == "Conflict"


def test_headers_that_a_client_needs_are_kept(client: FlaskClient) -> None:
    assert "GET" in client.delete("/fine").headers["Allow"]
    assert client.get("/slow").headers["Retry-After"] == "7"
    assert client.get("/down").headers["Retry-After"]


def test_a_body_over_the_limit_is_a_problem_wherever_it_is_read(client: FlaskClient) -> None:
    for path in ("/read", "/raw"):
        answer = client.post(path, data=b"1" * 101, content_type="application/json")
        assert (answer.status_code, answer.content_type) == (413, "application/problem+json")
    assert client.post("/read", data=b"11", content_type="application/json").json == {"got": 11}


def test_a_head_request_gets_the_status_alone(client: FlaskClient) -> None:
    answer = client.head("/nowhere")
    assert (answer.status_code, answer.data) == (404, b"")


def test_openai_clients_get_openais_shape(client: FlaskClient) -> None:
    answer = client.get("/v1/problem")
    assert answer.content_type == "application/json"
    assert answer.json == {
        "error": {
            "message": "there is no such field",
            "type": "invalid_request_error",
            "param": "input.0",
            "code": "unknown_field",
        }
    }
    assert client.get("/v1/nowhere").json == {
        "error": {
            "message": "there is no such thing here",
            "type": "invalid_request_error",
            "param": None,
            "code": "not_found",
        }
    }
    assert (client.get("/v1/boom").json or {})["error"]["type"] == "server_error"


def test_an_unexpected_error_is_logged_once_by_type_and_place(
    client: FlaskClient, lines: io.StringIO
) -> None:
    client.get("/boom/hunter3")
    (line,) = lines.getvalue().splitlines()
    message = json.loads(line)["message"]
    assert message.startswith("GET /boom/<name> failed: RuntimeError at tests/test_problems.py:")
    assert message.count(":boom") == 1
    assert "hunter" not in line


def test_an_unexpected_error_keeps_its_text_from_any_handler(
    client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.get("/boom/hunter3")
    assert "RuntimeError" in caplog.text
    assert "hunter" not in caplog.text
