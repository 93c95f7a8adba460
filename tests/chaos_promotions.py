"""Nothing becomes common knowledge unconfirmed: random sequences of ask, edit, confirm, steal.

A model that would obey anything is played by the sequence itself: it asks for whatever it likes.
Afterwards every commit of the common area is held against what its person was shown.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from bot.mercury import Mercury, build
from bot.scope import Scope
from bot.settings import load
from bot.settling import Expired
from memory.errors import Conflict, NotFound
from tests.chaos import Trial
from tests.clock import HandClock
from tests.models import Echo
from tests.wikis import is_sound, write
from wiki.errors import NotThere, Stale
from wiki.paths import COMMON, Access

PEOPLE = ("http:alice", "http:bob")
NOTES = ("a.md", "b.md")
TARGETS = ("curated/x.md", "curated/y.md")


class Sequence:
    """One sequence over a Mercury: what was asked for, shown and confirmed."""

    def __init__(self, mercury: Mercury, clock: HandClock, dice: random.Random) -> None:
        self.mercury = mercury
        self.clock = clock
        self.dice = dice
        self.asked: list[Any] = []
        self.confirmed: set[str] = set()
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        """Between five and twelve steps."""
        steps = (self.edit, self.ask, self.ask, self.confirm, self.confirm, self.confirm,
                 self.steal, self.replay, self.cancel, self.operate, self.wait)  # fmt: skip
        for _ in range(self.dice.randint(5, 12)):
            step = self.dice.choice(steps)
            step()
            self.seen[step.__name__] += 1

    def edit(self) -> None:
        """A person's note changes."""
        person, path = self.dice.choice(PEOPLE), self.dice.choice(NOTES)
        write(self.mercury.notes.vault, path, f"text {self.dice.random()}\n", person)

    def operate(self) -> None:
        """The operator changes the common area."""
        write(self.mercury.notes.vault, self.dice.choice(TARGETS), f"{self.dice.random()}\n", "")

    def ask(self) -> None:
        """The model asks: to promote, to write, or to delete."""
        person, to = self.dice.choice(PEOPLE), self.dice.choice(TARGETS)
        notes, scope = self.mercury.notes, Scope(person, "http")
        kind = self.dice.choice(("promote", "write", "delete"))
        try:
            base = notes.vault.read(Access(person), to).base
        except NotThere:
            base = None
        try:
            if kind == "promote":
                staged = notes.promotion(scope, self.dice.choice(NOTES), to)
            else:
                text = f"written {self.dice.random()}\n" if kind == "write" else None
                staged = notes.change(scope, to, text, base)
        except (NotThere, Stale):
            return
        self.asked.append(
            self.mercury.stores.confirmations.stage(
                person, f"{person}/c", "", "", staged.action, staged.content
            )
        )

    def confirm(self) -> None:
        """Its person confirms one that was asked for."""
        if self.asked:
            one = self.dice.choice(self.asked)
            self._settle(one, one.person, "confirm")

    def cancel(self) -> None:
        """Its person cancels one."""
        if self.asked:
            one = self.dice.choice(self.asked)
            self._settle(one, one.person, "cancel")

    def steal(self) -> None:
        """Another person has got hold of the token, or makes one up."""
        if self.asked:
            one = self.dice.choice(self.asked)
            (other,) = set(PEOPLE) - {one.person}
            token = self.mercury.settling.token(one)
            for tried in (token, token[:-1] + ("A" if token[-1] != "A" else "B"), f"{one.id}.x"):
                person = other if tried == token else one.person
                try:
                    self.mercury.settling.by_token(person, tried, "confirm")
                except NotFound:
                    continue
                raise AssertionError("a stolen or forged token settled something")

    def replay(self) -> None:
        """What was settled is settled again, both ways."""
        for one in self.asked[-2:]:
            self._settle(one, one.person, self.dice.choice(("confirm", "cancel")))

    def wait(self) -> None:
        """Time passes, sometimes too much."""
        self.clock.move(self.dice.choice((60, 16 * 60)))

    def _settle(self, one: Any, person: str, decision: Any) -> None:
        before = self._state(one)
        try:
            self.mercury.settling.by_token(person, self.mercury.settling.token(one), decision)
        except (Conflict, Expired):
            return
        if decision == "confirm" and before == "waiting":
            self.confirmed.add(one.id)

    def _state(self, one: Any) -> str:
        return str(self.mercury.settling.find(one.id).state)

    def judge(self) -> list[str]:
        """Every commit of the common area is the operator's, or what was shown and confirmed."""
        vault = self.mercury.notes.vault
        repository, failures = vault.repository, []
        shown = {one.id: one for one in self.asked}
        for commit in repository.lineage(repository.head("main")):
            version = repository.version(commit)
            if version.author in ("operator", "Mercury"):
                continue
            changed = repository.changed(version.parents[0], commit, COMMON.folder)
            ids = [line.split()[1] for line in version.message.splitlines()
                   if line.startswith("Confirmation: ")]  # fmt: skip
            one = shown.get(ids[0]) if len(ids) == 1 else None
            if one is None or one.id not in self.confirmed or version.author != one.person:
                failures.append(f"{version.message!r} was not confirmed by its person")
            elif changed != {one.content["to"]: one.content["blob"] or None}:
                failures.append(f"{one.id} is not what was shown")
        return failures


def trial(folder: Path, sequences: int, seed: int) -> Trial:
    """Random sequences, each on a wiki of its own."""
    failures: list[str] = []
    seen: Counter[str] = Counter()
    for n in range(sequences):
        clock, dice = HandClock(), random.Random(seed + n)
        settings = load({"MERCURY_DATA": str(folder / str(n))}, None)
        mercury = build(settings, model=Echo(), clock=clock)
        mercury.start()
        try:
            sequence = Sequence(mercury, clock, dice)
            sequence.edit()
            sequence.run()
            failures += sequence.judge()
            seen += sequence.seen
            seen["confirmed"] += len(sequence.confirmed)
            vault = mercury.notes.vault
            if n % 50 == 0 and vault.is_there() and not is_sound(vault):
                failures.append("git finds the repository unsound")
        finally:
            mercury.engine.drain(1.0)
            mercury.close()
    figure = f"{dict(seen)}"
    return Trial("17 nothing common unconfirmed", sequences, failures, figure, "0")
