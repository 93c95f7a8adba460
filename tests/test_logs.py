"""Lines for a cloud and for a terminal, and what never stands in one."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot import logs
from bot.settings import load
from tests import floods

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
log = logging.getLogger("bot.test")


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leaves logging as it was, and lets no cloud in."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in logs.QUIET}
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(logs, "redact", logs.Redactor())
    for name in logs.CLOUD:
        monkeypatch.delenv(name, raising=False)
    yield
    root.handlers = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


@pytest.fixture
def lines() -> io.StringIO:
    stream = io.StringIO()
    logs.write_to(stream, "INFO", "json")
    return stream


@pytest.fixture
def text() -> io.StringIO:
    stream = io.StringIO()
    logs.write_to(stream, "INFO", "text")
    return stream


def last(stream: io.StringIO) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stream.getvalue().splitlines()[-1])
    return found


# -- which format -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "stream", "cloud", "as_json"),
    [
        ("", io.StringIO, "", True),
        ("", Terminal, "", False),
        ("", Terminal, "K_SERVICE", True),
        ("", Terminal, "KUBERNETES_SERVICE_HOST", True),
        ("", Terminal, "GAE_ENV", True),
        ("", Terminal, "GOOGLE_CLOUD_PROJECT", True),
        ("text", io.StringIO, "K_SERVICE", False),
        ("json", Terminal, "", True),
    ],
)
def test_the_format_follows_from_where_it_runs(
    fmt: str, stream: type[io.StringIO], cloud: str, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cloud:
        monkeypatch.setenv(cloud, "yes")
    out = stream()
    logs.write_to(out, "INFO", fmt)
    log.info("hello")
    assert out.getvalue().startswith("{") == as_json


def test_a_json_line_has_the_clouds_fields(lines: io.StringIO) -> None:
    log.warning("%s of %d", "one", 2)
    line = last(lines)
    assert line["severity"] == "WARNING"
    assert line["message"] == "one of 2"
    assert line["logger"] == "bot.test"
    assert line["time"].endswith("Z")
    assert "turn" not in line
    assert "exception" not in line


def test_a_level_that_the_cloud_does_not_know_is_default(lines: io.StringIO) -> None:
    log.log(35, "odd")
    assert last(lines)["severity"] == "DEFAULT"


def test_the_turn_stands_in_its_lines(lines: io.StringIO) -> None:
    token = logs.turn.set("tn_1")
    try:
        log.info("hello")
    finally:
        logs.turn.reset(token)
    assert last(lines)["turn"] == "tn_1"
    log.info("hello")
    assert "turn" not in last(lines)


def test_the_trace_stands_in_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "bots")
    stream = io.StringIO()
    logs.write_to(stream, "INFO")
    token = logs.trace.set("ab" * 16)
    try:
        log.info("hello")
    finally:
        logs.trace.reset(token)
    assert last(stream)["logging.googleapis.com/trace"] == f"projects/bots/traces/{'ab' * 16}"


@pytest.mark.parametrize(
    ("header", "trace"),
    [
        (f"00-{'0a' * 16}-00f067aa0ba902b7-01", "0a" * 16),
        (f"{'0A' * 16}/1;o=1", "0a" * 16),
        ("0a" * 16, "0a" * 16),
        ("", ""),
        ("projects/x", ""),
        ("0a" * 15, ""),
    ],
)
def test_a_trace_is_read_from_either_header(header: str, trace: str) -> None:
    assert logs.trace_of(header) == trace


def test_settings_give_level_format_and_secrets() -> None:
    stream = io.StringIO()
    settings = load(
        {
            "LOG_LEVEL": "warning",
            "MODEL_URL": "http://x/v1",
            "MODEL": "m",
            "MODEL_API_KEY": "sesame99",
        },
        None,
    )
    logs.configure(settings, stream=stream)
    log.info("not this")
    log.warning("open sesame99")
    assert stream.getvalue().count("\n") == 1
    assert last(stream)["message"] == "open ***"
    logs.configure(settings, quiet=True, stream=stream)
    log.error("nor this")
    assert stream.getvalue().count("\n") == 1


@pytest.mark.parametrize(
    "library",
    ["httpx", "openai", "googleapiclient.discovery", "urllib3.connectionpool", "werkzeug",
     "gunicorn.error", "google.auth"],
)  # fmt: skip
def test_libraries_are_quiet_up_to_warnings(library: str) -> None:
    stream = io.StringIO()
    logs.write_to(stream, "DEBUG", "json")
    logging.getLogger(library).info("request")
    log.debug("ours")
    logging.getLogger(library).warning("trouble")
    assert [json.loads(one)["message"] for one in stream.getvalue().splitlines()] == [
        "ours",
        "trouble",
    ]


# -- exceptions -------------------------------------------------------------------------------


def fail(text: str) -> None:
    raise ValueError(f"no {text}")


@pytest.mark.parametrize("fmt", ["json", "text"])
def test_an_exception_is_its_type_and_its_places(fmt: str) -> None:
    stream = io.StringIO()
    logs.write_to(stream, "INFO", fmt)
    try:
        fail("hunter2")
    except ValueError:
        log.exception("it went wrong")
    line = stream.getvalue()
    assert line.count("\n") == 1
    assert "it went wrong" in line
    assert "ValueError at tests/test_logs.py:" in line
    assert ":fail < tests/test_logs.py:" in line
    for never in ("hunter2", "raise ", "Traceback", str(Path(__file__).parent)):
        assert never not in line


def test_an_exceptions_causes_are_told_by_type(lines: io.StringIO) -> None:
    try:
        try:
            fail("hunter2")
        except ValueError as error:
            raise OSError("hunter3") from error
    except OSError:
        log.exception("it went wrong")
    told = last(lines)["exception"]
    assert told.startswith("OSError at ")
    assert ", after ValueError at " in told
    assert "hunter" not in told


def test_a_hidden_cause_is_not_told() -> None:
    def hide() -> None:
        try:
            fail("x")
        except ValueError:
            raise OSError("y") from None

    with pytest.raises(OSError, match="y") as caught:
        hide()
    assert "ValueError" not in logs.where(caught.value)


def test_a_deep_stack_is_told_by_its_innermost_places(lines: io.StringIO) -> None:
    def down(depth: int) -> None:
        if depth == 0:
            fail("x")
        down(depth - 1)

    try:
        down(200)
    except ValueError:
        log.exception("deep")
    assert last(lines)["exception"].count(" < ") == logs.FRAMES - 1


def test_a_librarys_exception_among_the_arguments_is_told_by_type(lines: io.StringIO) -> None:
    log.warning("cannot: %s", ValueError("hunter2"))
    assert last(lines)["message"] == "cannot: ValueError"
    log.warning("cannot: %s", json.JSONDecodeError("hunter2", "", 0))
    assert last(lines)["message"] == "cannot: json.decoder.JSONDecodeError"


def test_our_own_exceptions_words_are_kept(lines: io.StringIO) -> None:
    from memory.errors import StoreDown

    log.error("the archive is away: %s", StoreDown("disk full"))
    assert last(lines)["message"] == "the archive is away: disk full"


def test_a_message_that_cannot_be_put_together_harms_nobody(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = io.StringIO()
    logs.write_to(lines, "INFO", "json")  # here, so that pytest's own handlers are away

    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("hunter2")

    log.info("%s", Odd())
    log.info("%d", "hunter2")
    log.info("%s %s", "hunter2")
    log.info("100%")
    log.info("%(name)s", {"name": "named"})
    assert "hunter2" not in lines.getvalue() + capsys.readouterr().err
    assert lines.getvalue().count("\n") == 5
    assert last(lines)["message"] == "named"


def test_a_stream_that_is_gone_harms_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    logs.write_to(stream, "INFO", "json")
    stream.close()
    log.info("hunter2")
    assert capsys.readouterr().err == ""


def test_a_thread_that_dies_is_told_by_type_and_place(lines: io.StringIO) -> None:
    thread = threading.Thread(target=fail, args=("hunter2",), name="beat")
    thread.start()
    thread.join()
    assert last(lines)["message"].startswith(
        "thread beat ended by ValueError at tests/test_logs.py"
    )
    assert "hunter2" not in lines.getvalue()


def test_an_end_by_exception_is_told_by_type(lines: io.StringIO) -> None:
    error = ValueError("hunter2")
    sys.excepthook(ValueError, error, None)
    assert last(lines)["message"] == "ended by ValueError"


# -- secrets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secret",
    [
        "mcy_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4",
        JWT,
        f"token={JWT}",
        "Bearer abc",
        "Authorization: Bearer sk-1234567890",
        "authorization: bearer 0123456789abcdef",
        "'Authorization': 'Bearer a.b-c_d~e+f/g='",
        "ya29.a0AfH6SMBx-abc_def",
        "cf_01hxyz.AAAAAAAAAAAAAAAAAAAAAA",
        "confirm abcd-efgh",
        "CANCEL ABCD-2345",
        "ABCD-EFGH",
        "/confirm/cf_1?k=AAAAAAAAAAAAAAAAAAAAAA",
        "/api/turn?x=1&token=opensesame",
        "postgresql://mercury:opensesame@db/mercury",
        "redis://:opensesame@10.0.0.1:6379",
    ],
)
@pytest.mark.parametrize("fmt", ["json", "text"])
def test_what_looks_like_a_secret_is_never_written(secret: str, fmt: str) -> None:
    stream = io.StringIO()
    logs.write_to(stream, "INFO", fmt)
    log.info("got %s here", secret)
    core = secret.rpartition(" ")[2].strip("'").rpartition("=")[2] or secret
    if "@" in secret:
        core = "opensesame"
    assert core not in stream.getvalue()
    assert "***" in stream.getvalue()
    assert "here" in stream.getvalue()


@pytest.mark.parametrize(
    "harmless",
    ["a bearer token is needed", "2026-11-20", "spaces/AAAA/messages/BBBB-CCCC.DDDD",
     "bot.http.problems", "http://127.0.0.1:8080/healthz", "confirm the change", "key=value",
     "01234567-89ab-cdef-0123-456789abcdef"],
)  # fmt: skip
def test_ordinary_words_are_left_alone(harmless: str) -> None:
    assert logs.Redactor()(harmless) == harmless


def test_registered_secrets_go_in_whatever_form() -> None:
    redactor = logs.Redactor(("pass/word&more", "pass/word&more-and-more"))
    redactor.add("made-later")
    told = redactor("pass/word&more-and-more pass/word&more pass%2Fword%26more made-later")
    assert told == "*** *** *** ***"


def test_short_values_do_not_tear_up_words() -> None:
    assert logs.Redactor(("a", ""))("banana") == "banana"


def test_a_secret_at_the_lines_end_is_not_cut_in_half(lines: io.StringIO) -> None:
    logs.redact.add("opensesame-opensesame")
    log.info("%s", "x" * 8_000 + "opensesame-opensesame" * 20)
    assert "opense" not in lines.getvalue()


# -- lines ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", ["json", "text"])
@pytest.mark.parametrize(
    "unit", ["x", "\n", "\x1b", '"', "\\", "日", "😀", "\ud800", "\u2028", "\x00"]
)
@pytest.mark.parametrize("length", [1, 2_000, 8_150, 8_192, 100_000])
def test_a_line_is_one_line_and_at_most_8_kib(fmt: str, unit: str, length: int) -> None:
    stream = io.StringIO()
    logs.write_to(stream, "INFO", fmt)
    log.info("%s", unit * length)
    line = stream.getvalue()
    assert len(line.encode()) <= logs.LONGEST_LINE
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    if fmt == "json":
        assert last(stream)["message"].isprintable()
    if length >= 8_192:
        assert "…" in line
        assert len(line.encode()) > 6_000 or unit in '\n\x1b\ud800\u2028\x00"\\'


def test_a_long_message_leaves_room_for_its_exception(lines: io.StringIO) -> None:
    try:
        fail("x")
    except ValueError:
        log.exception("%s", "x" * 100_000)
    assert len(lines.getvalue()) <= logs.LONGEST_LINE
    assert last(lines)["exception"].startswith("ValueError at ")


def test_a_line_cannot_be_forged(text: io.StringIO) -> None:
    log.info("name: %s", "x\n12:00:00 CRITICAL bot.engine: all is lost\r\x1b[2K")
    assert text.getvalue().count("\n") == 1
    assert "\\x0a12:00:00" in text.getvalue()


@pytest.mark.parametrize("unit", floods.SECRETS)
def test_a_hostile_mebibyte_hides_no_secret(unit: str) -> None:
    shown = logs.Redactor(("opensesame",))(floods.repeated(unit) + " opensesame")
    assert "opensesame" not in shown
