"""The `mfw` commands on real archives: what they print, where, and how they end."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.mercury import Mercury, Stores, open_stores
from bot.scope import Scope
from bot.serve import ServeLock
from bot.settings import Settings, load
from cli.main import COMMANDS, main
from memory.schema import migrate
from memory.turn_rows import Answer, Incoming, Work
from tests.clock import HandClock
from tests.models import Echo, Scripted, calls
from tests.web import Web, kept_logging

Make = Callable[..., Mercury]
ROOT = Path(__file__).parent.parent
ESCAPES = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202eevil\rover"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of the test's own, in the environment, with nothing in it."""
    folder = tmp_path / "data"
    for name in os.environ:
        if name.startswith(("MERCURY", "MODEL", "GOOGLE_CHAT", "DATABASE_URL", "PORT", "LOG_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERCURY_DATA", str(folder))
    return folder


def mfw(*args: str, code: int = 0, stdin: str = "") -> Result:
    """Runs a command in the process, and holds its exit code against the one expected."""
    with kept_logging():
        result = CliRunner().invoke(main, list(args), input=stdin, prog_name="mfw")
    told = f"{result.stdout}{result.stderr}"
    assert result.exit_code == code, f"{result.exit_code}: {told}"
    assert "Traceback" not in told
    if code:
        assert result.stdout == ""
        assert result.stderr.strip() != ""
    return result


def listed(*args: str) -> Any:
    """What a command prints as JSON."""
    return json.loads(mfw(*args, "--json").stdout)


@pytest.fixture
def stores(data: Path) -> Iterator[Stores]:
    """The archive that the commands work on, with its tables."""
    opened = open_stores(load(), HandClock())
    migrate(opened.database)
    yield opened
    opened.database.close()


def tell(stores: Stores, text: str, answer: str, *, chat: bool = False, name: str = "c") -> str:
    """One whole turn of `http:alice`, or of a person in a direct message; gives its id."""
    person = "google-chat:users/1" if chat else "http:alice"
    accepted = stores.accepting.accept(
        Incoming(
            event=f"{name}/{text}", channel="chat" if chat else "http", person=person,
            owner=f"person:{person}", kind="dm" if chat else "http", space=None, name="Alice",
            text=text, key="spaces/DM" if chat else None, conversation=None if chat else name,
        )
    )  # fmt: skip
    work = stores.turns.take(accepted.key, "p_test")
    assert isinstance(work, Work)
    stores.turns.answer_and_next(work, Answer(answer))
    return accepted.turn


def set_aside(stores: Stores, text: str) -> str:
    accepted = stores.accepting.accept(
        Incoming(event=text, channel="http", person="http:alice", owner="person:http:alice",
                 kind="http", space=None, name="Alice", text=text, conversation="c")
    )  # fmt: skip
    work = stores.turns.take(accepted.key, "p_test")
    assert isinstance(work, Work)
    answer = Answer("Sorry.", state="set_aside", reason=f"it broke {ESCAPES}")
    stores.turns.answer_and_next(work, answer)
    return accepted.turn


def the_conversation(stores: Stores) -> str:
    (one,) = stores.archive.conversations(None).items
    return one.id


# -- help and usage ---------------------------------------------------------------------------


def test_help_lists_every_command_and_what_it_does() -> None:
    told = mfw("--help").stdout
    for name, what in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(what)}$", told, re.MULTILINE)
    assert mfw("-h").stdout == told


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself_in_whole_sentences(name: str) -> None:
    told = mfw(name, "--help").stdout
    assert told.startswith(f"Usage: mfw {name}")
    assert "..." not in re.sub(r"\[ARGS\]\.\.\.", "", told)
    for line in told.split("Commands:\n")[1:]:
        for sub in re.findall(r"^  (\w+) ", line, re.MULTILINE):
            assert mfw(name, sub, "--help").stdout.startswith(f"Usage: mfw {name} {sub}")


@pytest.mark.parametrize(
    "args",
    [
        ("nothing",),
        ("archive", "nothing"),
        ("archive", "read"),
        ("archive", "search", "x"),
        ("archive", "search", "x", "--person", "bob"),
        ("archive", "list", "--person", "users/1001\n--all"),
        ("archive", "list", "--person", "google-chat:users/1 OR 1=1"),
        ("archive", "list", "--limit", "0"),
        ("archive", "list", "--limit", "ten"),
        ("status", "--colour"),
        ("token", "new"),
        ("token", "new", "--user", "a/b"),
        ("token", "new", "--user", ""),
        ("token", "new", "--user", "alice", "--expires", "soon"),
        ("token", "new", "--user", "alice", "--expires", "0d"),
        ("serve", "--port", "0"),
        ("chat", "hi", "--user", "a b"),
        ("chat", "hi", "--conversation", "a/b"),
    ],
)
def test_a_wrong_use_is_2_and_changes_nothing(data: Path, args: tuple[str, ...]) -> None:
    assert "Traceback" not in mfw(*args, code=2).stderr
    assert not data.exists()


def test_help_loads_nothing_that_it_does_not_say() -> None:
    """What makes it quick: how quick it is, `python -m benchmarks start` measures."""
    loading = "import sys; before = set(sys.modules); from cli.main import main"
    showing = "main(['--help'], standalone_mode=False)"
    telling = "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    code = "; ".join(("import click, importlib.metadata", loading, showing, telling))
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = set(ended.stdout.splitlines()[-1].split())
    assert "cli" in loaded
    assert loaded - sys.stdlib_module_names <= {"cli", "click"}


# -- settings and stores ----------------------------------------------------------------------

READING = [
    ("status",), ("archive", "list"), ("archive", "read", "x"),
    ("archive", "search", "x", "--person", "http:alice"), ("conversation", "list"),
    ("conversation", "show", "x"), ("conversation", "end", "x"), ("conversation", "rebuild", "x"),
    ("token", "list"), ("token", "revoke", "x"), ("turn", "list"), ("turn", "retry", "x"),
    ("turn", "dismiss", "x", "--yes"), ("migrate", "--dry-run"),
]  # fmt: skip


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_without_an_archive_it_is_3_and_none_is_made(data: Path, args: tuple[str, ...]) -> None:
    told = mfw(*args, code=3).stderr
    assert "there is no archive" in told
    assert not (data / "archive.db").exists()


@pytest.mark.parametrize("args", [*READING, ("migrate",), ("chat", "hi")], ids=" ".join)
def test_a_damaged_archive_is_5_and_stays_as_it_is(stores: Stores, args: tuple[str, ...]) -> None:
    tell(stores, "hello", "hi")
    stores.database.close()
    path = load().archive_path
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    path.write_bytes(path.read_bytes()[:4_096] + b"\xa5" * 65_536)
    before = path.read_bytes()
    told = mfw(*args, code=5).stderr
    assert "damaged" in told
    assert len(told.strip().splitlines()) == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "args",
    [
        *READING, ("migrate",), ("token", "new", "--user", "a"), ("config", "list"), ("serve",),
        ("chat", "hi"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_settings_are_4_with_one_line_that_names_them(
    data: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PORT", "eighty")
    told = mfw(*args, code=4).stderr
    assert told == "Error: PORT=eighty: expected a whole number from 1 to 65535\n"
    assert not data.exists()


@pytest.mark.parametrize("args", [("token", "new", "--user", "a"), ("migrate",), ("chat", "hi")])
def test_a_folder_that_cannot_be_made_is_one_sentence(
    data: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MERCURY_DATA", "/proc/version/data")
    assert "/proc/version" in mfw(*args, code=5).stderr


def test_an_archive_of_a_newer_version_is_4(stores: Stores) -> None:
    stores.database.write(lambda tx: tx.run("UPDATE meta SET value = '999' WHERE name = 'schema'"))
    for args in (("status",), ("migrate",), ("migrate", "--dry-run")):
        assert "run the newer version" in mfw(*args, code=4).stderr


def test_an_archive_without_tables_wants_to_be_migrated(data: Path) -> None:
    opened = open_stores(load())
    opened.database.write(lambda tx: tx.run("CREATE TABLE x (y)"))
    opened.database.close()
    assert "mfw migrate" in mfw("status", code=4).stderr
    dry = mfw("migrate", "--dry-run")
    assert dry.stdout.startswith("schema 1: ")
    assert "mfw migrate" in mfw("status", code=4).stderr
    mfw("migrate")
    mfw("status")
    assert mfw("migrate", "--dry-run").stdout == ""


def test_migrating_under_a_server_is_4(data: Path) -> None:
    lock = ServeLock(load().serve_lock_path)
    assert lock.take(0.0)
    try:
        assert "stop it first" in mfw("migrate", code=4).stderr
        assert not (data / "archive.db").exists()
    finally:
        lock.release()
    mfw("migrate")
    assert (data / "archive.db").exists()


def test_an_unexpected_error_is_a_sentence_and_1(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise RuntimeError("with somebody's text")

    monkeypatch.setattr("memory.turns.Turns.counts", breaks)
    told = mfw("status", code=1).stderr
    assert "RuntimeError" in told
    assert "somebody" not in told


# -- config and status ------------------------------------------------------------------------


def test_settings_are_listed_with_their_source_and_without_secrets(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_API_KEY", "sk-secret-value")
    monkeypatch.setenv("MODEL_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("MODEL", "m")
    monkeypatch.setenv("REDIS_URL", "redis://:pass-word@127.0.0.1:1/0")
    found = {one["id"]: one for one in listed("config", "list")}
    assert found["MODEL"] == {"id": "MODEL", "value": "m", "source": "environment"}
    assert found["PORT"]["source"] == "default"
    assert found["MODEL_API_KEY"]["value"] == "(set)"
    whole = mfw("config", "list").stdout + json.dumps(found)
    assert "sk-secret-value" not in whole
    assert "pass-word" not in whole


def test_status_says_what_waits(stores: Stores) -> None:
    set_aside(stores, "broke")
    told = listed("status")
    assert told["turns"] == {"waiting": 0, "running": 0, "set_aside": 1}
    assert told["archive"]["kind"] == "sqlite"
    shown = mfw("status").stdout
    assert "1 set aside" in shown
    assert "mfw turn list" in shown


# -- tokens -----------------------------------------------------------------------------------


def test_a_token_is_the_last_line_and_works(data: Path) -> None:
    made = mfw("token", "new", "--user", "alice", "--name", "laptop", "--expires", "2d")
    (token,) = made.stdout.splitlines()
    assert token.startswith("mcy_")
    assert token not in made.stderr
    opened = open_stores(load())
    assert opened.tokens.person_of(token) == "http:alice"
    opened.database.close()
    (one,) = listed("token", "list")
    assert (one["person"], one["name"]) == ("http:alice", "laptop")
    assert one["expires_at"] - one["created_at"] == 172_800_000
    assert token not in mfw("token", "list").stdout + json.dumps(one)


def test_a_revoked_token_does_not_work_any_more(data: Path) -> None:
    token = mfw("token", "new", "--user", "alice").stdout.strip()
    mfw("token", "new", "--user", "bob")
    (one,) = listed("token", "list", "--person", "http:alice")
    assert mfw("token", "revoke", one["id"]).stdout == ""
    opened = open_stores(load())
    assert opened.tokens.person_of(token) is None
    opened.database.close()
    (one,) = listed("token", "list", "--person", "http:alice")
    assert one["revoked_at"] is not None
    assert mfw("token", "revoke", "tok_x", code=3).stderr == "Error: there is no token tok_x\n"


# -- the archive ------------------------------------------------------------------------------


def test_lists_show_text_only_to_whom_it_belongs(stores: Stores) -> None:
    tell(stores, "a secret title", "fine")
    for command in ("archive", "conversation"):
        everybody = listed(command, "list")
        assert [(one["id"], one["owner"]) for one in everybody] == [
            (the_conversation(stores), "person:http:alice")
        ]
        assert "secret" not in json.dumps(everybody) + mfw(command, "list").stdout
        own = listed(command, "list", "--person", "http:alice")
        assert own[0]["title"] == "a secret title"
        assert listed(command, "list", "--person", "http:bob") == []
        assert mfw(command, "list", "--person", "http:bob").stdout == ""


def test_a_conversation_is_read_word_for_word_and_page_by_page(stores: Stores) -> None:
    texts = [f"line one {n}\n\tline two 語 é" for n in range(4)]
    for text in texts:
        tell(stores, text, f"re: {text}")
    whole = [x for text in texts for x in (text, f"re: {text}")]
    id_ = the_conversation(stores)
    assert [one["text"] for one in listed("archive", "read", id_)["items"]] == whole
    page = listed("archive", "read", id_, "--limit", "3")
    assert [one["text"] for one in page["items"]] == whole[-3:]
    before = listed("archive", "read", id_, "--limit", "3", "--before", page["next"])
    assert [one["text"] for one in before["items"]] == whole[2:5]
    told = mfw("archive", "read", id_, "--limit", "3")
    assert f"--before {page['next']}" in told.stderr
    assert f"--before {page['next']}" not in told.stdout
    assert whole[-1] in told.stdout
    for flag in ("--before", "--after"):
        assert flag in mfw("archive", "read", id_, flag, "junk", code=2).stderr


def test_a_client_s_own_name_is_found_with_its_person(stores: Stores) -> None:
    tell(stores, "hello", "hi", name="notes")
    found = listed("archive", "read", "notes", "--person", "http:alice")["items"]
    assert [one["text"] for one in found] == ["hello", "hi"]
    for person in ((), ("--person", "http:bob")):
        told = mfw("archive", "read", "notes", *person, code=3).stderr
        assert told == "Error: there is no conversation notes\n"
    id_ = the_conversation(stores)
    assert "there is no" in mfw("archive", "read", id_, "--person", "http:bob", code=3).stderr


def test_a_person_s_messages_are_searched(stores: Stores) -> None:
    tell(stores, "the blue logo", "noted")
    tell(stores, "a logo in blue", "noted too")
    search = ("archive", "search", "--person", "http:alice")
    assert len(listed(*search, "blue logo")["items"]) == 2
    quoted = listed(*search, '"blue logo"')["items"]
    assert [one["text"] for one in quoted] == ["the blue logo"]
    assert listed("archive", "search", "blue", "--person", "http:bob") == {
        "items": [], "next": None,
    }  # fmt: skip
    nothing = mfw(*search, "green")
    assert (nothing.stdout, nothing.stderr) == ("", "nothing found\n")
    first = listed(*search, "blue", "--newest", "--limit", "1")
    second = listed(*search, "blue", "--newest", "--limit", "1", "--cursor", first["next"])
    assert first["items"][0]["id"] != second["items"][0]["id"]
    assert "--cursor" in mfw(*search, "blue", "--cursor", "junk", code=2).stderr


# -- conversations ----------------------------------------------------------------------------


def test_the_canonical_history_is_printed_byte_for_byte(
    make: Make, data: Path, settings: Settings
) -> None:
    model = Scripted(calls("archive_search", '{"query": "é語"}'), "Fertig \u2028 ✓ \u202e.")
    mercury = make(model=model)
    Web(mercury).person("alice").say("hi\n\t\u200b語 👩\u200d👩\u200d👧")
    found = mercury.stores.archive.conversation(Scope("http:alice", "http"), "c")
    canonical = mercury.stores.archive.history(found).canonical()
    shown = mfw("conversation", "show", found.id, "--history", "--json").stdout
    assert shown == canonical + "\n"
    assert shown == mercury.histories.rebuild(found).canonical() + "\n"
    named = ("conversation", "show", "c", "--person", "http:alice", "--history", "--json")
    assert mfw(*named).stdout == shown


def test_a_conversation_is_shown(stores: Stores) -> None:
    tell(stores, "hello\nthere", "hi")
    id_ = the_conversation(stores)
    state = listed("conversation", "show", id_)
    assert (state["id"], state["owner"], state["messages"]) == (id_, "person:http:alice", 2)
    assert state["history_chars"] == len("hello\ntherehi")
    told = mfw("conversation", "show", id_, "--history").stdout
    assert "user: hello\nthere\n" in told
    assert "assistant: hi\n" in told
    assert mfw("conversation", "show", "cv_x", code=3).stderr == (
        "Error: there is no conversation cv_x\n"
    )


def test_a_chat_conversation_is_ended_and_the_next_message_opens_another(stores: Stores) -> None:
    tell(stores, "one", "1", chat=True)
    id_ = the_conversation(stores)
    assert mfw("conversation", "end", id_).stdout == ""
    tell(stores, "two", "2", chat=True)
    found = {one["id"]: one for one in listed("conversation", "list")}
    assert len(found) == 2
    assert found[id_]["ended_at"] is not None


def test_a_conversation_over_http_never_ends(stores: Stores) -> None:
    tell(stores, "one", "1")
    id_ = the_conversation(stores)
    assert "never ends" in mfw("conversation", "end", id_, code=1).stderr
    assert listed("conversation", "show", id_)["ended_at"] is None


def test_rebuilding_folds_the_same_history_anew(stores: Stores) -> None:
    tell(stores, "one", "1")
    id_ = the_conversation(stores)
    stamp = stores.archive.conversation(None, id_).stamp
    shown = ("conversation", "show", id_, "--history", "--json")
    before = mfw(*shown).stdout
    told = listed("conversation", "rebuild", id_)
    assert told == {"id": id_, "messages": 2, "history_chars": 4}
    assert mfw(*shown).stdout == before
    assert stores.archive.conversation(None, id_).stamp != stamp


# -- turns ------------------------------------------------------------------------------------


def test_a_turn_that_was_set_aside_is_retried(stores: Stores) -> None:
    turn = set_aside(stores, "broke")
    (one,) = listed("turn", "list")
    assert (one["id"], one["state"], one["person"]) == (turn, "set_aside", "http:alice")
    mfw("turn", "retry", turn)
    assert listed("turn", "list") == []
    assert [one["id"] for one in listed("turn", "list", "--open")] == [turn]
    assert "waiting" in mfw("turn", "retry", turn, code=1).stderr


def test_a_turn_is_dismissed_only_with_a_yes(stores: Stores) -> None:
    turn = set_aside(stores, "broke")
    assert "--yes" in mfw("turn", "dismiss", turn, code=2, stdin="y\n").stderr
    assert "would be" in mfw("turn", "dismiss", turn, "--dry-run").stderr
    assert [one["id"] for one in listed("turn", "list")] == [turn]
    assert mfw("turn", "dismiss", turn, "--yes").stdout == ""
    assert listed("turn", "list") == []
    assert "cancelled" in mfw("turn", "dismiss", turn, "--yes", code=1).stderr
    (message, _) = listed("archive", "read", the_conversation(stores))["items"]
    assert message["text"] == "broke"


@pytest.mark.parametrize("command", [("retry",), ("dismiss", "--yes"), ("dismiss", "--dry-run")])
def test_a_turn_that_is_not_there_is_3(stores: Stores, command: tuple[str, ...]) -> None:
    assert mfw("turn", *command, "t_x", code=3).stderr == "Error: there is no turn t_x\n"


# -- terminals --------------------------------------------------------------------------------


def on_terminal(*args: str, stdin: str = "") -> tuple[str, int]:
    """What a command prints on a terminal, and its exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", *args], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb"},
    )  # fmt: skip
    os.close(theirs)
    if stdin:
        os.write(ours, stdin.encode())
    told = b""
    try:
        while piece := os.read(ours, 65_536):
            told += piece
    except OSError:
        pass  # the other side has been closed
    os.close(ours)
    return told.decode(), process.wait(20)


def hostile(stores: Stores) -> str:
    """An archive that somehow holds what no door lets through."""
    turn = tell(stores, "plain", "plain too")
    stores.database.write(lambda tx: tx.run("UPDATE messages SET text = ?, name = ?",
                                            f"a{ESCAPES}\nb", f"N{ESCAPES}"))  # fmt: skip
    stores.database.write(lambda tx: tx.run("UPDATE conversations SET title = ?", f"T{ESCAPES}"))
    stores.database.write(
        lambda tx: tx.run(
            "INSERT INTO tool_calls (turn, n, attempt, name, arguments, outcome, reads, at)"
            " VALUES (?, 1, 1, ?, ?, ?, 1, 0)",
            turn, f"look{ESCAPES}", json.dumps({"q": ESCAPES}, ensure_ascii=False),
            f"failed: {ESCAPES}",
        )
    )  # fmt: skip
    return the_conversation(stores)


def test_nothing_that_is_stored_reaches_a_terminal_raw(stores: Stores) -> None:
    id_ = hostile(stores)
    stores.tokens.new("http:alice", ESCAPES, None)
    set_aside(stores, "broke")
    for args in (
        ("archive", "read", id_), ("archive", "list", "--person", "http:alice"),
        ("conversation", "show", id_, "--history"), ("token", "list"), ("turn", "list"),
        ("archive", "read", id_, "--json"), ("conversation", "show", id_, "--history", "--json"),
    ):  # fmt: skip
        told, code = on_terminal(*args)
        assert code == 0, told
        assert "pwned" in told or "evil" in told or "broke" in told, args
        styled = re.sub(r"\x1b\[[01]m", "", told)  # bold, which is ours
        for raw in ("\x1b", "\x07", "\x9b", "\u202e"):
            assert raw not in styled, (args, raw)
        assert not re.search(r"\r(?!\n)", styled)


def test_what_is_printed_as_json_on_a_terminal_is_the_same_value(stores: Stores) -> None:
    id_ = hostile(stores)
    told, _ = on_terminal("archive", "read", id_, "--json")
    assert json.loads(told) == listed("archive", "read", id_)


def test_other_scripts_and_emoji_are_shown_as_they_are(stores: Stores) -> None:
    text = "日本語\u3000テスト 👩\u200d👩\u200d👧 é العربية"
    tell(stores, text, "ok")
    assert text in on_terminal("archive", "read", the_conversation(stores))[0]


def test_on_a_terminal_a_dismissal_is_asked_for(stores: Stores) -> None:
    turn = set_aside(stores, "broke")
    told, code = on_terminal("turn", "dismiss", turn, stdin="n\n")
    assert (code, "for good?" in told) == (1, True)
    assert [one["id"] for one in listed("turn", "list")] == [turn]
    assert on_terminal("turn", "dismiss", turn, stdin="y\n")[1] == 0
    assert listed("turn", "list") == []


def test_a_pipe_gets_the_text_word_for_word(make: Make, data: Path) -> None:
    mercury = make(model=Echo())
    text = "tab\there \u202e and \u2028 more"
    Web(mercury).person("alice").say(text)
    told = mfw("archive", "read", "c", "--person", "http:alice").stdout
    assert text in told
