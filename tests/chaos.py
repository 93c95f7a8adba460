"""Trials that kill, end and hurry Mercury, and count what was lost or doubled.

Each returns a Trial; `make chaos` runs them long, the tests run them short. All randomness comes
from the seed that is given.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from bot import words
from bot.scope import Scope
from memory.accepting import Accepting
from memory.archive import Archive
from memory.database import SqliteDatabase
from memory.ids import random_id
from memory.schema import migrate
from memory.turn_rows import Answer, Incoming, Work
from memory.turns import Turns
from tests.clock import HandClock
from tests.fakes import model_server as fake
from tests.served import alive, until
from tests.world import World, event

IDLE_MS = 1_800_000


@dataclass(frozen=True, slots=True)
class Trial:
    """What a trial found: how often it tried, what failed, and the figure beside its mark."""

    promise: str
    trials: int
    failures: list[str]
    figure: str
    mark: str

    @property
    def passed(self) -> bool:
        return not self.failures


class _Clients:
    """People who write in many direct messages at once, some of whose events come twice."""

    def __init__(self, world: World, seed: int, count: int, spaces: int) -> None:
        self._world = world
        self._ended = threading.Event()
        self._spaces = spaces
        self.acknowledged: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._write, args=(n, count, random.Random(seed + n)))
            for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _write(self, me: int, count: int, dice: random.Random) -> None:
        """Says one thing after the other, each once the last one was answered."""
        n = 0
        while not self._ended.is_set():
            space = f"DM{me + count * dice.randrange(self._spaces // count)}"
            text = f"message {me}.{n}"
            copies = 2 if dice.random() < 0.1 else 1
            if self._post(event("addon", text, f"m{me}x{n}", space, space[2:]), copies):
                with self._lock:
                    self.acknowledged.append((space, text))
                self._await_answer(f"You said: {text}")
            n += 1

    def _post(self, told: dict[str, Any], copies: int) -> bool:
        """Posts an event as Google does: again and again until it gets its 200."""
        while True:
            try:
                statuses = [self._world.post(told).status_code for _ in range(copies)]
            except httpx2.HTTPError:
                statuses = []
            if 200 in statuses:
                return True
            if self._ended.wait(0.05):
                return False

    def _await_answer(self, text: str) -> None:
        end = time.monotonic() + 60
        while not self._ended.is_set() and time.monotonic() < end:
            if any(message.text == text for message in reversed(self._world.chat.shown)):
                return
            self._ended.wait(0.01)


def kills(folder: Path, kills: int, seed: int) -> list[Trial]:
    """SIGKILL of the worker every 50 to 250 ms under load; promises 1 and 2."""
    dice = random.Random(seed)
    with World(folder, "addon") as world:
        clients = _Clients(world, seed, count=4, spaces=400)
        for _ in range(kills):
            until(world.served.is_ready, 60, "a new worker")
            time.sleep(dice.uniform(0.05, 0.25))
            world.served.kill_worker()
        until(world.served.is_ready, 60, "a new worker")
        clients.end()
        begun = time.monotonic()
        lost = until_idle(world, 30)
        took = time.monotonic() - begun
        return _judge(world, clients.acknowledged, kills, took, lost)


def until_idle(world: World, seconds: float) -> list[str]:
    """Waits until nothing is left to do; says what is, when it takes longer."""
    sql = "SELECT count(*) FROM turns WHERE state IN ('waiting', 'running')"
    try:
        until(lambda: world.served.rows(sql)[0][0] == 0, seconds, "an empty backlog")
    except AssertionError:
        return [f"{world.served.rows(sql)[0][0]} turns still wait"]
    return []


def _judge(
    world: World, acknowledged: list[tuple[str, str]], kills: int, took: float, lost: list[str]
) -> list[Trial]:
    shown = Counter(message.text for message in world.chat.shown)
    doubled = [f"{text} was shown {n} times" for text, n in shown.items() if n > 1]
    lost += [f"{text} has no answer" for _, text in acknowledged if not shown[f"You said: {text}"]]
    aside = world.served.rows("SELECT count(*) FROM turns WHERE state = 'set_aside'")[0][0]
    if aside:
        lost.append(f"{aside} turns were set aside")
    stored = Counter(
        str(text) for (text,) in world.served.rows("SELECT text FROM messages WHERE part = 0")
    )
    doubled += [f"{text} stands {n} times" for text, n in stored.items() if n > 1]
    doubled += _out_of_order(world, acknowledged)
    edits = sum(message.edits for message in world.chat.shown)
    if world.chat.violations:
        doubled.append(f"the Chat API was misused: {world.chat.violations[:3]}")
    count = len(acknowledged)
    return [
        Trial("1 an acknowledged message gets its answer", kills, lost,
              f"{count} messages, backlog empty after {took:.1f} s", "0 lost, ≤ 30 s"),
        Trial("2 no answer twice, no message twice, in order", count, doubled,
              f"{edits} edits", "0"),
    ]  # fmt: skip


def _out_of_order(world: World, acknowledged: list[tuple[str, str]]) -> list[str]:
    """Conversations whose answers did not come in the order of their messages."""
    wanted: dict[str, list[str]] = {}
    for key, text in world.served.rows(
        "SELECT t.key, m.text FROM turns t JOIN messages m ON m.turn = t.id AND m.part = 0"
        " ORDER BY t.key, t.seq"
    ):
        wanted.setdefault(str(key), []).append(f"You said: {text}")
    given: dict[str, list[str]] = {}
    for message in world.chat.shown:
        given.setdefault(message.space, []).append(message.text)
    return [
        f"the answers in {key} are out of order"
        for key, texts in given.items()
        if texts != [text for text in wanted.get(key, []) if text in texts]
    ]


def terms(
    folder: Path, rounds: int, seed: int, slow_s: float = 20.0, exit_s: float = 10.0
) -> Trial:
    """SIGTERM with eight turns in flight, one of them of twenty seconds; promise 3."""
    failures: list[str] = []
    longest = 0.0
    held = threading.Event()

    def script(request: dict[str, Any]) -> fake.Reply:
        reply = fake.echo(request)
        if request["messages"][-1]["content"].startswith("slow"):
            reply.hold = held
        return reply

    with World(folder, "addon", script=script) as world:
        for round_ in range(rounds):
            held.clear()
            seen = len(world.model.requests)
            for n in range(8):
                text = f"{'slow' if n == 0 else 'quick'} {round_}.{n}"
                world.post(event("addon", text, f"r{round_}x{n}", f"DM{n}", str(n)))
            world.model.wait_for(seen + 8)
            threading.Timer(slow_s, held.set).start()
            begun = time.monotonic()
            world.served.terminate()
            longest = max(longest, time.monotonic() - begun)
            held.set()
            world.served.start()
            failures += until_idle(world, 60)
        shown = Counter(message.text for message in world.chat.shown)
        failures += [f"{text} was shown {n} times" for text, n in shown.items() if n > 1]
        if len(shown) != 8 * rounds:
            failures.append(f"{len(shown)} of {8 * rounds} answers came")
        counted = world.served.rows("SELECT count(*) FROM turns WHERE deaths > 0")[0][0]
        if counted:
            failures.append(f"{counted} turns were counted as deaths")
    if longest > exit_s:
        failures.append(f"an exit took {longest:.1f} s")
    return Trial("3 a restart drops nothing", rounds, failures,
                 f"longest exit {longest:.1f} s", "0 lost, 0 doubled, ≤ 10 s")  # fmt: skip


def poison(folder: Path, rounds: int, seed: int) -> Trial:
    """A message whose turn kills its process, among others; promise 12."""
    failures: list[str] = []
    attempts: Counter[str] = Counter()
    with World(folder, "addon") as world:

        def script(request: dict[str, Any]) -> fake.Reply:
            said = str(request["messages"][-1]["content"])
            if said.startswith("poison"):
                attempts[said] += 1
                world.served.kill_worker()
            return fake.echo(request)

        world.model.script = script
        for n in range(rounds):
            world.deliver(event("addon", f"poison {n}", f"p{n}", f"P{n}", str(n)))
            for m in range(4):
                world.deliver(event("addon", f"good {n}.{m}", f"g{n}x{m}", f"G{m}", f"9{m}"))
            failures += until_idle(world, 60)
        shown = Counter(message.text for message in world.chat.shown)
        if shown[words.APOLOGY] != rounds:
            failures.append(f"{shown[words.APOLOGY]} apologies for {rounds} poisons")
        failures += [
            f"good {n}.{m} has {shown[f'You said: good {n}.{m}']} answers"
            for n in range(rounds)
            for m in range(4)
            if shown[f"You said: good {n}.{m}"] != 1
        ]
    most = max(attempts.values(), default=0)
    if most > 3:
        failures.append(f"a poison was tried {most} times")
    return Trial("12 a poison message hurts only itself", rounds, failures,
                 f"at most {most} attempts", "≤ 3, one apology")  # fmt: skip


def idle_races(folder: Path, rounds: int, seed: int) -> Trial:
    """The sweep in two threads against a message in the same instant, over days; promise 14."""
    dice = random.Random(seed)
    clock = HandClock()
    database = SqliteDatabase(folder / "idle.db")
    migrate(database)
    archives = [Archive(database, clock, random_id, 60_000) for _ in range(2)]
    accepting = Accepting(database, clock, random_id, IDLE_MS)
    turns = Turns(database, clock, random_id)
    ada = Scope("google-chat:users/1", "dm")
    failures: list[str] = []
    with ThreadPoolExecutor(3) as pool:
        for n in range(rounds):
            clock.move(dice.choice([1_800, 1_801, 86_400, 7_200]))
            start = threading.Barrier(3)

            def sweep(archive: Archive, start: threading.Barrier = start) -> int:
                start.wait()
                time.sleep(dice.uniform(0, 0.01))
                return len(archive.end_idle(IDLE_MS))

            def say(n: int = n, start: threading.Barrier = start) -> str:
                start.wait()
                time.sleep(dice.uniform(0, 0.01))
                return accepting.accept(
                    Incoming(event=f"e{n}", channel="chat", person=ada.person, owner=ada.owner,
                             kind="dm", space=None, name="Ada", text=f"m{n}", key="spaces/DM")
                ).conversation  # fmt: skip

            sweeps = [pool.submit(sweep, archive) for archive in archives]
            said = pool.submit(say)
            ended = sum(one.result() for one in sweeps)
            went_to = said.result()
            if ended > 1:
                failures.append(f"round {n}: ended {ended} times")
            work = turns.take("spaces/DM", "p")
            if not isinstance(work, Work):
                failures.append(f"round {n}: the message was lost")
                continue
            turns.answer_and_next(work, Answer("ok"))
            if work.conversation.id != went_to:
                failures.append(f"round {n}: the message moved")
            if n and work.conversation.previous is None:
                failures.append(f"round {n}: no recap to make")
    found = archives[0].conversations(ada.owner, 200).items
    following = [one.previous for one in found if one.previous]
    if len(following) != len(set(following)):
        failures.append("one conversation has two that follow it")
    database.close()
    return Trial("14 idle happens once, whatever the clock", rounds, failures,
                 f"{rounds} conversations", "1 recap each")  # fmt: skip


def clock_jumps(folder: Path, seed: int) -> Trial:
    """The archive's clock jumps a day forth and back under a served Mercury; promise 14."""
    failures: list[str] = []
    jumps = [86_400, 0, -86_400, 0, 100_000, -100_000]
    with World(folder, "addon") as world:
        for n, jump in enumerate(jumps):
            world.move_clock(jump)
            world.post(event("addon", f"m{n}", f"m{n}"))
            try:
                world.answers(n + 1, 20)
            except AssertionError as error:
                failures.append(f"after {jump} s: {error}")
        recaps = world.served.rows(
            "SELECT previous, count(*) FROM conversations WHERE previous IS NOT NULL"
            " GROUP BY previous HAVING count(*) > 1"
        )
        if recaps:
            failures.append("one conversation was recapped twice")
    return Trial("14 a clock may jump", len(jumps), failures, "all answered", "0 lost")


def stopped_worker(folder: Path, seed: int, seconds: float) -> Trial:
    """The worker is paused and woken: what it held is still its own, once; promises 1 and 2."""
    failures: list[str] = []
    with World(folder, "addon") as world:
        world.post(event("addon", "one", "m1"))
        worker = world.served.worker()
        os.kill(worker, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(worker, signal.SIGCONT)
        if not alive(worker):
            failures.append("the worker died of a pause")
        try:
            world.answers(1, 30)
        except AssertionError as error:
            failures.append(str(error))
    return Trial("1 a paused process goes on", 1, failures, f"{seconds} s", "answered once")


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for one trial."""
    return tempfile.TemporaryDirectory(prefix="mercury-chaos-")


def histories(examples: int, seed: int) -> Trial:
    """Random turns, kills, idle times, rebuilds and compactions; promise 10."""
    from hypothesis import HealthCheck, settings
    from hypothesis import seed as seeded
    from hypothesis.stateful import run_state_machine_as_test

    from tests.test_history import HistoryMachine

    chosen = settings(
        max_examples=examples, stateful_step_count=40, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    failures = []
    try:
        seeded(seed)(run_state_machine_as_test)(HistoryMachine, settings=chosen)
    except AssertionError as error:
        failures.append(str(error)[:500])
    return Trial("10 the history is a function of the archive", examples, failures,
                 f"{examples} histories of up to 40 steps", "rebuilt = live")  # fmt: skip
