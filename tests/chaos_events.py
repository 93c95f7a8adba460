"""Trials of the Chat channel: mutated events by the thousand, and a burst into one space."""

from __future__ import annotations

import copy
import itertools
import json
import random
import re
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from bot import words
from tests.chaos import Trial, until_idle
from tests.fakes import model_server as fake
from tests.served import until
from tests.shared import load, names
from tests.world import World, with_text

SPACES = 300
SLOW_S = 2.6
"""Longer than it takes until a placeholder is shown."""
WRITERS = 8
_SAID = re.compile(r"You said: (?:[^:]*: )?event (\d+)(?:\n|$)")
PLAIN = ("dm_message", "space_mention", "space_thread_reply_mention", "group_chat_mention")
JUNK: tuple[Any, ...] = (
    None, True, 0, -1.5, "", "x", "spaces/..", "users/1", "BOT", "\ud800", "é" * 50, [], {},
    [None], {"name": None}, "spaces/A/messages/../x", "messages/", {"x": {"y": []}},
)  # fmt: skip


@dataclass(slots=True)
class _Sent:
    """What was posted: the plain ones by number, with where their answers belong."""

    plain: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def fuzz(folder: Path, count: int, seed: int, form: str, kills: int = 5) -> Trial:
    """Events of every kind, half of them mutated, some redelivered, in any order, with kills."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)

    def script(request: dict[str, Any]) -> fake.Reply:
        if dice.random() < 0.02:
            time.sleep(SLOW_S)
        return fake.echo(request)

    with World(folder, form, script=script) as world:
        sent = _Sent()
        bodies = [_event(form, n, random.Random(seed + n)) for n in range(count)]
        queue = [*enumerate(bodies), *dice.sample(list(enumerate(bodies)), count // 10)]
        _shuffle(queue, dice)
        stops = {len(queue) * n // (kills + 1) for n in range(1, kills + 1)}
        with ThreadPoolExecutor(WRITERS) as pool:
            for place, (n, body) in enumerate(queue):
                if place in stops:
                    until(world.served.is_ready, 60, "a worker")
                    world.served.kill_worker()
                pool.submit(_post, world, n, body, sent)
        until(world.served.is_ready, 60, "a worker")
        failures = until_idle(world, 300)
        failures += _judge(world, sent)
    figure = f"{form}: {dict(sorted(sent.statuses.items()))}, {len(sent.plain)} plain messages"
    return Trial("8 no event is lost, doubled or misplaced", len(queue), failures, figure, "0")


def _shuffle(queue: list[Any], dice: random.Random) -> None:
    """Puts what stands within twenty places of one another into any order."""
    for place in range(len(queue) - 1, 0, -1):
        other = max(0, place - dice.randrange(20))
        queue[place], queue[other] = queue[other], queue[place]


def _event(form: str, n: int, dice: random.Random) -> tuple[dict[str, Any], bool]:
    """The body of the n-th event, and whether it is a plain message."""
    plain = dice.random() < 0.5
    name = dice.choice(PLAIN if plain else names(f"google-chat/{form}"))
    told = json.dumps(load(f"google-chat/{form}/{name}.json"))
    space = dice.randrange(SPACES)
    if name.startswith("removed"):
        space += SPACES  # or answers that wait for their lane would rightly be given up
    for kind in ("FIXDM00001", "FIXROOM0001", "FIXGROUP001"):
        told = told.replace(kind, f"{kind[3:5]}{space}")
    body: dict[str, Any] = json.loads(told)
    holder = body.get("chat", {}).get("messagePayload") if form == "addon" else body
    if holder and holder.get("message"):
        body = with_text(body, f"event {n}", f"f{n}.f{n}")
    if not plain:
        for _ in range(dice.randint(1, 3)):
            _mutate(body, dice)
    return body, plain


def _mutate(body: Any, dice: random.Random) -> None:
    """Takes something out of a body, or puts something else in its place."""
    holder: Any = body
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = dice.choice(keys)
        inner = holder[key]
        if isinstance(inner, dict | list) and inner and dice.random() < 0.8:
            holder = inner
            continue
        if isinstance(holder, dict) and dice.random() < 0.3:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(dice.choice(JUNK))
        return


def _post(world: World, n: int, told: tuple[dict[str, Any], bool], sent: _Sent) -> None:
    """Posts an event as Google does: again and again until it is taken or refused."""
    body, plain = told
    while True:
        try:
            status = world.post(body).status_code
        except httpx2.HTTPError:
            time.sleep(0.05)
            continue
        with sent.lock:
            sent.statuses[status] += 1
            if plain and status == 200:
                holder = body["chat"]["messagePayload"] if "chat" in body else body
                threaded = holder["space"].get("spaceType") == "SPACE"
                thread = holder["message"]["thread"]["name"] if threaded else None
                sent.plain[n] = (holder["space"]["name"], thread)
        if status != 503:
            return
        time.sleep(0.05)


def _judge(world: World, sent: _Sent) -> list[str]:
    shown: Counter[int] = Counter()
    failures = []
    for message in world.chat.shown:
        if message.text == words.WORKING:
            failures.append(f"a placeholder was left in {message.space}")
        if len(message.texts) > 2 or (message.edits and message.texts[0] != words.WORKING):
            failures.append(f"a message in {message.space} was edited: {message.texts}")
        if found := _SAID.match(message.text):
            n = int(found[1])
            shown[n] += 1
            space, thread = sent.plain.get(n, (message.space, None))
            if message.space != space or (thread and message.thread != thread):
                failures.append(f"the answer to event {n} is in {message.space}")
    failures += [f"event {n} was answered {shown[n]} times" for n in sent.plain if shown[n] != 1]
    failures += [f"event {n} was answered {times} times" for n, times in shown.items() if times > 1]
    unknown = set(sent.statuses) - {200, 400, 503}
    failures += [f"{sent.statuses[code]} events got {code}" for code in unknown]
    failures += [f"the Chat API was misused: {one}" for one in world.chat.violations[:3]]
    errors = [
        line
        for line in world.served.told().splitlines()
        if '"ERROR"' in line and "SIGKILL" not in line
    ]
    failures += [f"an error: {line[:600]}" for line in errors[:5]]
    if "Traceback" in world.served.told():
        failures.append("an error was not caught")
    return failures


def burst(folder: Path, count: int) -> Trial:
    """Many messages into one space at once: one write a second, in their order."""
    failures: list[str] = []
    with World(folder, "addon") as world:
        fixture = load("google-chat/addon/space_mention.json")
        for n in range(count):
            world.deliver(with_text(fixture, f"event {n}", f"b{n}.b{n}"))
        failures += until_idle(world, count * 1.5 + 60)
        writes = [r.at for r in world.chat.log if r.call in ("create", "patch")]
        gaps = [later - earlier for earlier, later in itertools.pairwise(writes)]
        numbers = [int(m[1]) for one in world.chat.shown if (m := _SAID.match(one.text))]
        if numbers != list(range(count)):
            failures.append(f"the answers came as {numbers[:20]} …")
        quick = [gap for gap in gaps if gap < 0.5]
        if quick:
            failures.append(f"{len(quick)} writes came too soon, the first after {quick[0]:.2f} s")
        if sum(gaps) < 0.95 * len(gaps):
            failures.append(f"{len(writes)} writes came within {sum(gaps):.1f} s")
    figure = f"{len(writes)} writes, the closest {min(gaps):.2f} s apart"
    return Trial("8 one write a second and space", count, failures, figure, "0, ≤ 1 write/s")
