"""`mfw chat`: with a server that runs, and alone; and the real `mfw` in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from werkzeug.serving import make_server

from bot import words
from bot.model import Text
from bot.serve import ServeLock
from bot.settings import Settings
from cli.main import main
from tests.models import Echo, Scripted, calls
from tests.served import until
from tests.test_http_turns import Make
from tests.test_turn import note_tool
from tests.web import Paced, Web, kept_logging

KEY = "the-key-of-this-data-folder"
ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def data(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The test's own data folder, in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("MODEL_URL", "MODEL", "PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MERCURY_DATA", str(settings.mercury_data))
    with kept_logging():
        yield settings.mercury_data


def chat(*args: str, stdin: str = "", code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["chat", *args], input=stdin, prog_name="mfw")
    assert result.exit_code == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result


@contextmanager
def serving(web: Web) -> Iterator[str]:
    """The application on a port, announced as `mfw serve` does it."""
    server = make_server("127.0.0.1", 0, web.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    told = {"url": url, "pid": os.getpid(), "key": KEY}
    web.mercury.settings.serve_json_path.write_text(json.dumps(told))
    try:
        yield url
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def owners(web: Web) -> list[str]:
    return [one.owner for one in web.mercury.stores.archive.conversations(None).items]


# -- with a server ----------------------------------------------------------------------------


def test_one_message_is_answered_by_the_server_that_runs(make: Make) -> None:
    web = Web(make(model=Echo()), KEY)
    with serving(web):
        told = chat("hello", "--user", "ann")
    assert (told.stdout, told.stderr) == ("You said: hello\n", "")
    assert owners(web) == ["person:cli:ann"]


def test_lines_that_are_piped_in_are_messages_of_one_conversation(make: Make) -> None:
    model = Scripted("1", "2")
    web = Web(make(model=model), KEY)
    with serving(web):
        told = chat("--user", "ann", stdin="one\n\n  \ntwo\n")
    assert told.stdout == "1\n2\n"
    assert [m["content"] for m in model.prompts[-1][1:]] == ["one", "1", "two"]


def test_commands_work_as_in_google_chat(make: Make) -> None:
    model = Scripted("1", "2", "3")
    web = Web(make(model=model), KEY)
    with serving(web):
        told = chat("--user", "ann", stdin="/recap\none\n/recap\n/new\ntwo\n/help\n/stop\n/web\n")
    lines = told.stdout.splitlines()
    assert lines[:4] == [words.NOTHING_TO_RECAP, "1", "ann: one", "Mercury: 1"]
    assert re.fullmatch(r"A new conversation begins: --conversation terminal-[0-9a-f]{8}", lines[4])
    assert lines[5] == "2"
    assert words.HELP in told.stdout
    assert told.stdout.endswith(f"{words.NOTHING_TO_STOP}\n{words.NO_WEB_PAGES}\n")
    assert [m["content"] for m in model.prompts[-1][1:]] == ["two"]


def test_ctrl_c_stops_the_answer_and_the_turn(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from cli import chat as module

    monkeypatch.setattr(module, "_show", _interrupted)
    held = threading.Event()

    def waits(prompt: Any, stop: Any) -> Any:
        with stop.on_stop(held.set):
            held.wait(20)
        stop.check()
        return "late"

    web = Web(make(model=Scripted(waits)), KEY)
    with serving(web):
        told = chat("hello", "--user", "ann")
    assert told.stderr.strip() == "[stopped]"
    (turn,) = web.mercury.stores.turns.in_state(("cancelled",), 9)
    assert turn.person == "cli:ann"


def _interrupted(kind: str, data: Any, shown: str) -> str:
    raise KeyboardInterrupt


def test_tools_and_what_waits_are_told_beside_the_answer(make: Make) -> None:
    model = Scripted(calls("note", '{"text": "all"}'), "It waits.")
    published: list[Any] = []

    def publish(confirmation: Any) -> str:
        published.append(confirmation.id)
        return "published"

    mercury = make(model=model, tools=[note_tool([], "irreversible")], actions={"publish": publish})
    with serving(Web(mercury, KEY)):
        told = chat("publish", "--user", "ann")
        assert told.stdout == "It waits.\n"
        code = told.stderr.split("Type: confirm ")[1][:9]
        assert "[note]" in told.stderr
        settled = chat(f"confirm {code}", "--user", "ann")
        assert (settled.stdout, len(published)) == ("publish: published\n", 1)
        again = chat(f"confirm {code}", "--user", "ann")
        assert again.stdout == words.NOTHING_TO_CONFIRM + "\n"


def test_an_answer_may_hold_any_character(make: Make) -> None:
    text = "one\u2028two\u2029three \u0085 four\x0bfive\n\nsix é 語 👩\u200d👧"
    with serving(Web(make(model=Scripted([Text(text)])), KEY)):
        assert chat("hi").stdout == text + "\n"


@pytest.mark.parametrize(
    ("arrange", "code", "said"),
    [
        (lambda web: web.mercury.settings.serve_json_path.write_text(
            web.mercury.settings.serve_json_path.read_text().replace(KEY, "another")), 4,
         "the token is not valid"),
        (lambda web: [web.gate.enter() for _ in range(224)], 5, "too many turns are open now"),
    ],
)  # fmt: skip
def test_a_refusal_is_a_sentence_and_an_exit_code(
    make: Make, arrange: Any, code: int, said: str
) -> None:
    web = Web(make(model=Echo()), KEY)
    with serving(web):
        arrange(web)
        told = chat("hi", code=code)
    assert (told.stdout, told.stderr) == ("", f"Error: {said}\n")


def test_a_conversation_that_is_not_there_is_3(make: Make) -> None:
    with serving(Web(make(model=Echo()), KEY)):
        chat("hi", "--conversation", "cv_never_was", code=3)


def test_a_server_that_ends_in_the_middle_is_5(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.http.turns.POLL_S", 0.01)
    model = Paced([Text("half an "), None])
    mercury = make(model=model)
    with serving(Web(mercury, KEY)):

        def end() -> None:
            until(lambda: model.asked, what="the model's request")
            mercury.engine.drain(0.05)

        ending = threading.Thread(target=end)
        ending.start()
        told = chat("hi", code=5)
        ending.join()
    assert "before it had answered" in told.stderr


# -- alone ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stale", [None, "{", '{"url": "http://127.0.0.1:9"}', "[]", "null"])
def test_without_a_server_it_serves_itself_for_the_while(data: Path, stale: str | None) -> None:
    if stale is not None:
        data.mkdir(exist_ok=True)
        (data / "serve.json").write_text(stale)
    told = chat("hello", "--user", "ann")
    assert told.stdout.startswith(words.NO_MODEL)
    lock = ServeLock(data / "serve.lock")
    assert lock.take(0.0), "the lock was not given back"
    lock.release()


def test_what_was_said_alone_is_remembered_by_the_next(data: Path) -> None:
    chat("the shed key is under the blue pot", "--user", "ann")
    told = chat("where is the shed key?", "--user", "ann").stdout
    assert "> the shed key is under the blue pot" in told


def test_a_server_that_holds_the_folder_and_does_not_answer_is_5(data: Path) -> None:
    lock = ServeLock(data / "serve.lock")
    assert lock.take(0.0)
    try:
        assert "does not answer" in chat("hi", code=5).stderr
    finally:
        lock.release()


# -- the real command -------------------------------------------------------------------------


def mfw(*args: str, **given: Any) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("mfw")
    argv = [str(command)] if command.exists() else [sys.executable, "-m", "cli"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*argv, *args], env=env, capture_output=True, text=True, timeout=60, check=False, **given
    )


def test_the_real_command_keeps_talk_and_data_apart(data: Path) -> None:
    assert mfw("--version").stdout.startswith("mfw, version ")
    assert mfw("status").returncode == 3
    made = mfw("token", "new", "--user", "alice")
    assert (made.returncode, made.stdout.count("\n")) == (0, 1)
    told = mfw("chat", "--user", "ann", input="hello\n")
    assert (told.returncode, told.stdout.startswith(words.NO_MODEL)) == (0, True)
    assert json.loads(mfw("conversation", "list", "--json").stdout)[0]["owner"] == "person:cli:ann"
    assert mfw("nothing").returncode == 2


def test_the_real_command_tells_wrong_settings_in_one_line(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HISTORY_MAX_CHARS", "lots")
    for command in ("serve", "status", "chat"):
        told = mfw(command, stdin=subprocess.DEVNULL)
        assert (told.returncode, told.stdout) == (4, "")
        assert told.stderr.startswith("Error: HISTORY_MAX_CHARS=lots: expected")
        assert told.stderr.count("\n") == 1
