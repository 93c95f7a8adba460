"""`mfw chat`: talk to Mercury in the terminal, as `cli:<user>`.

Speaks to the running server through `$MERCURY_DATA/serve.json`; without one it serves itself
for the while.
"""

from __future__ import annotations

import getpass
import json
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from cli.common import safe, safe_block
from cli.errors import FAILED, NOT_ALLOWED, NOT_FOUND, STORE_DOWN, Failed

if TYPE_CHECKING:
    import httpx2

    from bot.settings import Settings

TIMEOUT_S = 330.0
_CODES = {401: NOT_ALLOWED, 403: NOT_ALLOWED, 404: NOT_FOUND, 503: STORE_DOWN}


def _name(_: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Checks the form of a name that the server would refuse."""
    letters = "A-Za-z0-9._@-" if option.name == "user" else "A-Za-z0-9_-"
    longest = 128 if option.name == "user" else 64
    if value is not None and not re.fullmatch(f"[{letters}]{{1,{longest}}}", value):
        raise click.BadParameter(f"1 to {longest} of {letters}")
    return value


@click.command()
@click.argument("text", required=False)
@click.option(
    "--conversation",
    default="terminal",
    show_default=True,
    callback=_name,
    help="Which conversation.",
)
@click.option(
    "--user", callback=_name, help="Speak as cli:USER; without it, as whoever is logged in."
)
def command(text: str | None, conversation: str, user: str | None) -> None:
    """Talk to Mercury in the terminal.

    With TEXT it answers once, else until the end of input. Understands /help, /new and the other
    commands of Google Chat; Ctrl-C stops an answer that is being made.
    """
    from bot import logs
    from bot.settings import load

    settings = load()
    logs.configure(settings, quiet=True)
    name = user or re.sub(r"[^A-Za-z0-9._@-]", "-", getpass.getuser())
    with server(settings, name) as client:
        talk = Talk(client, conversation)
        if text is not None:
            talk.say(text)
            return
        if sys.stdin.isatty():
            click.echo(
                "Mercury listens; /help says to what. An empty line or Ctrl-D ends.", err=True
            )
        for line in lines():
            talk.say(line)


def lines() -> Iterator[str]:
    """What is typed or piped in, line by line."""
    while True:
        if sys.stdin.isatty():
            click.echo("> ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line.strip():
            if line and not sys.stdin.isatty():
                continue
            return
        yield line.rstrip("\n")


class Talk:
    """A talk in the terminal: messages and commands, one after the other."""

    def __init__(self, client: httpx2.Client, conversation: str) -> None:
        self._client = client
        self._conversation = conversation

    def say(self, text: str) -> None:
        """Sends a message and prints the answer as it comes, or does what a command says."""
        from bot.commands import command_of

        command = command_of(text)
        if command is None:
            send(self._client, text, self._conversation)
        else:
            self._command(command.name)

    def _command(self, name: str) -> None:
        from bot import words

        if name == "new":
            self._conversation = f"terminal-{secrets.token_hex(4)}"
            click.echo(f"A new conversation begins: --conversation {self._conversation}")
        elif name == "recap":
            click.echo(self._recap())
        else:
            told = {"stop": words.NOTHING_TO_STOP, **words.NOT_YET}
            click.echo(told.get(name, words.HELP))

    def _recap(self) -> str:
        """The last exchange, word for word: the terminal has the room."""
        from bot import words

        path = f"/api/conversations/{self._conversation}/messages"
        answer = self._client.get(path, params={"limit": "2"})
        if answer.status_code == 404:
            return words.NOTHING_TO_RECAP
        if answer.status_code != 200:
            raise Failed(_problem(answer), _CODES.get(answer.status_code, FAILED))
        items = answer.json()["items"]
        said = [f"{safe(one['author'])}: {safe_block(one['text'])}" for one in items]
        return "\n".join(said) or words.NOTHING_TO_RECAP


def send(client: httpx2.Client, text: str, conversation: str) -> None:
    """Sends one message and prints the answer as it comes; Ctrl-C stops it."""
    import httpx2

    body = {"text": text, "conversation": conversation}
    headers = {"Accept": "text/event-stream"}
    shown, turn = "", ""
    try:
        with client.stream("POST", "/api/turn", json=body, headers=headers) as response:
            if response.status_code != 200:
                response.read()
                raise Failed(_problem(response), _CODES.get(response.status_code, FAILED))
            kind = ""
            for kind, data in events(response):
                if kind == "error":
                    raise Failed(data["detail"], _CODES.get(data["status"], FAILED))
                turn = data["turn"] if kind == "accepted" else turn
                shown = _show(kind, data, shown)
            if kind != "answer":
                raise Failed("the server ended before it had answered; it will go on", STORE_DOWN)
    except KeyboardInterrupt:
        if not turn or client.delete(f"/api/turns/{turn}").status_code != 202:
            raise
        click.echo("\n[stopped]", err=True)
    except httpx2.HTTPError as error:
        raise Failed(f"the server does not answer: {error}", STORE_DOWN) from None


def _show(kind: str, data: dict[str, Any], shown: str) -> str:
    if kind == "text":
        click.echo(safe_block(data["delta"]), nl=False)
        return shown + str(data["delta"])
    if kind == "reset" and shown:
        click.echo("\n[it begins again]", err=True)
        return ""
    if kind == "tool":
        click.echo(f"[{safe(data['name'])}]", err=True)
    elif kind == "confirmation":
        click.echo(
            f"\nTo be confirmed: {data['action']}. Type: confirm {data['code']} "
            f"(or: cancel {data['code']})",
            err=True,
        )
    elif kind == "answer":
        if not shown and data["answer"]:
            click.echo(safe_block(data["answer"]), nl=False)
        click.echo()
        for notice in data["notices"]:
            if notice["text"] not in (data["answer"] or ""):
                click.echo(notice["text"], err=True)
    return shown


def events(response: httpx2.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of a stream as kind and data."""
    kind, rest = "", b""
    for piece in response.iter_bytes():
        *lines, rest = (rest + piece).split(b"\n")  # at no other character, unlike `iter_lines`
        for line in lines:
            if line.startswith(b"event: "):
                kind = line[7:].decode()
            elif line.startswith(b"data: "):
                yield kind, json.loads(line[6:])


def _problem(response: httpx2.Response) -> str:
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the server answered {response.status_code}"


@contextmanager
def server(settings: Settings, user: str) -> Iterator[httpx2.Client]:
    """A client of the running server, or of one that lives as long as the command."""
    import httpx2

    found = _running(settings)
    with (
        nullcontext((found["url"], found["key"])) if found else _own_server(settings) as (url, key)
    ):
        headers = {"Authorization": f"Bearer {key}", "X-Mercury-User": user}
        with httpx2.Client(base_url=url, headers=headers, timeout=TIMEOUT_S) as client:
            yield client


def _running(settings: Settings) -> dict[str, Any] | None:
    """What `serve.json` says of a server that really answers."""
    import httpx2

    try:
        told: dict[str, Any] = json.loads(settings.serve_json_path.read_text())
        alive = httpx2.get(told["url"] + "/healthz", timeout=2.0).status_code == 200
    except PermissionError:
        raise Failed(f"{settings.serve_json_path} is not yours to read", NOT_ALLOWED) from None
    except (OSError, ValueError, KeyError, TypeError, httpx2.HTTPError):
        return None
    return told if alive else None


@contextmanager
def _own_server(settings: Settings) -> Iterator[tuple[str, str]]:
    """Serves on a free port of the loopback while the command runs."""
    import threading

    from werkzeug.serving import make_server

    from bot.http.app import flask_app
    from bot.mercury import build
    from bot.serve import ServeLock

    lock = ServeLock(settings.serve_lock_path)
    if not lock.take(1.0):
        raise Failed("a server has the data folder, but does not answer", STORE_DOWN)
    mercury = build(settings)
    key = secrets.token_urlsafe(32)
    try:
        mercury.start()
        http = make_server("127.0.0.1", 0, flask_app(mercury, key), threaded=True)
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}", key
        finally:
            mercury.stop()
            http.shutdown()
            http.server_close()
    finally:
        mercury.close()
        lock.release()
