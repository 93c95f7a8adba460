"""Several serving processes over one archive."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests import chaos_processes as processes
from tests.fakes import model_server as fake
from tests.fakes.model_server import ModelServer
from tests.postgres import Postgres
from tests.redis_server import RedisServer
from tests.served import ROOT, Served, until

pytestmark = pytest.mark.served


def test_two_processes_keep_one_order_whatever_happens_to_them(
    tmp_path: Path, postgres: Postgres
) -> None:
    trial = processes.two(tmp_path, postgres, 400, 20_261_201, pause_s=11.0)
    assert trial.passed, (trial.failures[:10], trial.figure)


def test_a_database_that_breaks_loses_nothing(tmp_path: Path) -> None:
    trial = processes.database(tmp_path, 200, 20_261_201, pause_s=0.5)
    assert trial.passed, (trial.failures[:10], trial.figure)


def running(url: str) -> str:
    """The id of the turn that runs."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT id FROM turns WHERE state = 'running'").fetchone()
        assert row is not None
        return str(row[0])


def test_one_process_waits_for_what_another_answers_and_stops_it(
    tmp_path: Path, postgres: Postgres
) -> None:
    held = threading.Event()

    def slow(request: dict[str, Any]) -> fake.Reply:
        reply = fake.echo(request)
        reply.hold = held
        return reply

    with (
        RedisServer() as redis,
        ModelServer(slow) as model,
        processes.Pair(tmp_path, postgres, redis.url, model) as pair,
    ):
        one, two = pair.servers
        postgres_url = one.env["DATABASE_URL"]
        token = one.token("ada")
        with one.client(token) as here, two.client(token) as there:
            body = {"text": "hello", "conversation": "c"}
            key = {"Idempotency-Key": "k"}
            answers: list[Any] = []

            def ask(client: httpx2.Client, headers: dict[str, str]) -> threading.Thread:
                def post() -> None:
                    answers.append(client.post("/api/turn", json=body, headers=headers))

                return threading.Thread(target=post)

            asks = [ask(client, key) for client in (here, there)]
            asks[0].start()
            model.wait_for(1)
            asks[1].start()
            held.set()
            for one_of_them in asks:
                one_of_them.join(20)
            assert [a.json()["answer"] for a in answers] == ["You said: hello"] * 2
            held.clear()
            stopped = ask(here, {})
            stopped.start()
            model.wait_for(2)
            turn = running(postgres_url)
            until(lambda: there.delete(f"/api/turns/{turn}").status_code == 202, 10, "the stop")
            stopped.join(10)
            assert answers[-1].json()["answer"] is None
            held.set()
        status = one.mfw("status", "--json")
        assert status.stdout.count('"alive": true') == 2


def test_a_stream_cut_anywhere_goes_on_at_the_other_process(
    tmp_path: Path, postgres: Postgres
) -> None:
    words = [f"word{n} " for n in range(12)]

    def paced(request: dict[str, Any]) -> fake.Reply:
        reply = fake.text("".join(words), pieces=12)
        reply.pace = threading.Semaphore(0)
        threading.Thread(target=let_go, args=(reply.pace,), daemon=True).start()
        return reply

    with (
        RedisServer() as redis,
        ModelServer(paced) as model,
        processes.Pair(tmp_path, postgres, redis.url, model) as pair,
    ):
        token = pair.servers[0].token("ada")
        with pair.servers[0].client(token) as here, pair.servers[1].client(token) as there:
            for cut in range(1, 10, 2):
                shown, turn, last = read(here, None, "", cut, conversation=f"c{cut}")
                rest, _, final = read(there, turn, last, 999, text=shown)
                assert rest == "".join(words), (cut, shown, rest)
                assert final == "answer"
            live = read(there, None, "", 999, conversation="live")
            assert live[0] == "".join(words)


def let_go(pace: threading.Semaphore) -> None:
    """Lets a reply's pieces go one after the other."""
    for _ in range(20):
        time.sleep(0.12)
        pace.release()


def read(
    client: httpx2.Client,
    turn: str | None,
    last: str,
    most: int,
    text: str = "",
    conversation: str = "c",
) -> tuple[str, str, str]:
    """Reads at most so many events of a turn's stream.

    Returns the text that stands then, the turn, and the last event's id (`answer` at the end).
    """
    if turn is None:
        request = client.build_request(
            "POST", "/api/turn", json={"text": "go", "conversation": conversation},
            headers={"Accept": "text/event-stream"},
        )  # fmt: skip
    else:
        headers = {"Last-Event-ID": last}
        request = client.build_request("GET", f"/api/turns/{turn}/events", headers=headers)
    response = client.send(request, stream=True)
    kind, seen = "", 0
    for line in response.iter_lines():
        if line.startswith("id: "):
            last = line[4:]
        elif line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            data = json.loads(line[6:])
            seen += 1
            if kind == "accepted":
                turn = data["turn"]
            elif kind == "text":
                text += data["delta"]
            elif kind == "reset":
                text = ""
            elif kind == "answer":
                last = "answer"
            if seen == most:
                break
    response.close()
    assert turn is not None
    return text, turn, last


def test_several_workers_without_what_they_share_are_refused(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "MERCURY_DATA": str(tmp_path), "HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-m", "cli", "serve", "--workers", "2"], env=env, cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert told.returncode == 4
    assert "2 processes would split the memory: set DATABASE_URL and REDIS_URL" in told.stderr


def test_a_second_process_without_redis_is_refused(tmp_path: Path, postgres: Postgres) -> None:
    env = {"DATABASE_URL": postgres.url(), "MERCURY_SECRET": processes.SECRET}
    with Served(tmp_path / "one", env):
        second = Served(tmp_path / "two", env)
        second.start(wait=False)
        assert second.process is not None
        assert second.process.wait(40) == 4
        assert "several processes need REDIS_URL as well" in second.told()


def test_workers_of_one_server_share_its_work(tmp_path: Path, postgres: Postgres) -> None:
    with RedisServer() as redis, ModelServer(fake.echo) as model:
        env = {
            "DATABASE_URL": postgres.url(), "REDIS_URL": redis.url, "MODEL": "fake",
            "MODEL_URL": model.url, "MERCURY_SECRET": processes.SECRET,
        }  # fmt: skip
        served = Served(tmp_path / "data", env)
        served.command = ("cli", "serve", "--workers", "2")
        with served:
            until(
                lambda: served.mfw("status", "--json").stdout.count('"alive": true') == 2, 20,
                "two processes",
            )  # fmt: skip
            token = served.token("ada")
            for n in range(20):
                told = httpx2.post(
                    f"{served.url}/api/turn", json={"text": f"t{n}", "conversation": "c"},
                    headers={"Authorization": f"Bearer {token}"}, timeout=20,
                )  # fmt: skip
                assert told.json()["answer"] == f"You said: t{n}"
            assert served.terminate() == 0
