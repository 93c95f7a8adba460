"""`mfw setup google-chat`: what it says, what it checks, and the first event."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.chat.setup import checks, console, endpoint
from bot.commands import NAMES
from bot.settings import load
from tests.served import ROOT
from tests.world import World, event


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("setup"), "classic") as opened:
        yield opened


def environ(world: World, **more: str) -> dict[str, str]:
    """The server's settings as its operator's shell has them, with its address from outside."""
    kept = {key: value for key, value in world.served.env.items() if "TEST" not in key}
    return {**kept, "PUBLIC_URL": world.served.url, **more}


def setup(env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli", "setup", "google-chat", *args], env=env, cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.served
def test_every_step_is_checked_and_the_first_event_is_waited_for(world: World) -> None:
    threading.Timer(4.0, lambda: world.post(event("classic", "hello", "s1"))).start()
    told = setup(environ(world), "--wait", "40")
    assert told.returncode == 0, told.stdout + told.stderr
    marks = [line.split()[:2] for line in told.stdout.splitlines() if line.startswith("ok ")]
    assert marks == [["ok", name] for name in
                     ("settings", "credentials", "certificates", "endpoint", "event")]  # fmt: skip
    assert "google-chat:users/1001, answered" in told.stdout


@pytest.mark.served
def test_what_fails_is_said_with_what_to_do(world: World, tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text("{}")
    env = environ(
        world, GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "key.json"),
        GOOGLE_CHAT_CERTS_URL="http://127.0.0.1:9/certs", PUBLIC_URL=world.chat.url,
    )  # fmt: skip
    told = setup(env, "--wait", "0")
    assert told.returncode == 4
    failed = [line.split()[1] for line in told.stdout.splitlines() if line.startswith("FAIL")]
    assert failed == ["credentials", "certificates", "endpoint"]
    assert "mend what failed" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.served
def test_no_event_is_said_too(world: World) -> None:
    told = setup(environ(world), "--wait", "1")
    assert told.returncode == 1
    assert "no event has come" in told.stderr


def test_without_a_format_it_says_what_to_set_and_shows_the_console_s_form() -> None:
    settings = load({}, None)
    (check,) = checks(settings)
    assert not check.ok
    assert "GOOGLE_CHAT_FORMAT" in check.says
    shown = console(settings)
    assert all(f"/{name}" in shown for name in NAMES)
    assert "https://<your host>/chat/events" in shown


def test_the_console_is_told_each_form_s_own_audience() -> None:
    addon = load(
        {"GOOGLE_CHAT_FORMAT": "addon", "GOOGLE_CHAT_PROJECT_NUMBER": "123456789013",
         "GOOGLE_CHAT_AUDIENCE": "https://mercury.corp.test/chat/events"}, None
    )  # fmt: skip
    assert endpoint(addon) == "https://mercury.corp.test/chat/events"
    assert "Authentication audience             HTTP endpoint URL" in console(addon)
    classic = load(
        {"GOOGLE_CHAT_FORMAT": "classic", "GOOGLE_CHAT_PROJECT_NUMBER": "123456789013",
         "PUBLIC_URL": "https://mercury.corp.test/"}, None
    )  # fmt: skip
    assert endpoint(classic) == "https://mercury.corp.test/chat/events"
    assert "Authentication audience             Project number" in console(classic)
    assert "/help" in console(classic)
