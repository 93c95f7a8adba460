"""What an active conversation costs in memory, an idle one, and very many of them.

Traced by `tracemalloc`, so that only what Python objects take is counted. The conversations are
really had: each message is accepted, answered and kept by Mercury's own parts.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

from benchmarks import archives
from benchmarks.figures import Figure, Sizes, at_most, bounded
from bot.clock import SystemClock
from bot.mercury import Mercury, build
from bot.settings import load
from memory.conversation import History
from memory.histories import CACHE_BYTES, Histories
from memory.records import Message
from memory.schema import migrate
from memory.turn_rows import Answer, Incoming, Stored, Work

CHARS = 400
"""A realistic length of a message."""
TURNS = 5
PEOPLE = 50
MIB = 1_048_576


class _Clock:
    """The archive's time, moved by hand."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._clock = SystemClock()

    def now(self) -> int:
        return self._clock.now() + self.ahead_ms


def measure(sizes: Sizes) -> Iterator[Figure]:
    """Active and idle conversations, for several kinds of text; then the cap of the cache."""
    clock = _Clock()
    settings = load({"MERCURY_DATA": str(sizes.new_folder("memory"))}, None)
    mercury = build(settings, clock=clock)
    migrate(mercury.stores.database)  # and no more: a started engine would take up the turns
    work: Work | None = None
    try:
        for n in range(PEOPLE):
            work = _talk(mercury, f"warm-{n}", n, ["warm"] * 4)
        for kind, plain in _texts().items():
            yield from _active_and_idle(mercury, clock, kind, plain, sizes)
        assert work is not None
        yield from _cap(mercury, clock, work, sizes)
    finally:
        mercury.close()


def _texts() -> dict[str, list[str]]:
    """Messages of about 400 characters: plain ASCII, and with the quotes and dashes of print."""
    dice, words = random.Random(11), archives.words()
    plain = [words.sentence(dice, 90)[:CHARS] for _ in range(200)]
    return {"English": plain, "Russian": [text.translate(_CYRILLIC) for text in plain]}


_CYRILLIC = str.maketrans("abdefgiklmnoprstuvw", "абдефгиклмнопрстувж")


def _active_and_idle(
    mercury: Mercury, clock: _Clock, kind: str, texts: list[str], sizes: Sizes
) -> Iterator[Figure]:
    count = sizes.of(2_000, 300)
    histories, idle_ms = mercury.histories, mercury.settings.session_idle_timeout_ms
    said = 0
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for n in range(count):
            chosen = [texts[(n + m) % len(texts)] for m in range(2 * TURNS)]
            said += sum(len(text.encode()) for text in chosen)
            _talk(mercury, f"{kind}-{n}", n, chosen)
        gc.collect()
        active = tracemalloc.get_traced_memory()[0] - before
        held, weight = histories.size()
        assert held >= count, "conversations have left the cache before they were measured"
        clock.ahead_ms += idle_ms + 1
        histories.free_idle(idle_ms)
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    yield at_most(
        f"active conversation, {kind}: to its text", [(active / count, said / count)], 2.0, "B",
        f"weighed {weight / count:,.0f} B",
    )  # fmt: skip
    # What is left are the slots of the emptied table, which the next conversations take again.
    yield bounded(
        f"idle conversation, {kind}: of an active one", max(0.0, 100 * left / active), 2, "%",
        f"{histories.size()[0]} histories held",
    )  # fmt: skip


def _talk(mercury: Mercury, name: str, number: int, texts: list[str]) -> Work | None:
    """Has a conversation of these texts, person and Mercury in turn."""
    turns, histories = mercury.stores.turns, mercury.histories
    person = archives.person(number % PEOPLE)
    work: Work | None = None
    for n in range(0, len(texts), 2):
        # A copy each: texts that come over the wire share no memory with each other.
        accepted = mercury.stores.accepting.accept(
            Incoming(
                event=f"{name}-{n}", channel="http", person=person, owner=f"person:{person}",
                kind="http", space=None, name="", text=_copy(texts[n]), conversation=name,
            )
        )  # fmt: skip
        taken = turns.take(accepted.key, mercury.engine.process)
        assert isinstance(taken, Work)
        work = taken
        history = histories.hold(work)
        stored, _ = turns.answer_and_next(work, Answer(_copy(texts[n + 1])))
        histories.keep(work, history, stored)
    return work


def _copy(text: str) -> str:
    return text.encode().decode()


def _cap(mercury: Mercury, clock: _Clock, work: Work, sizes: Sizes) -> Iterator[Figure]:
    """Touches very many conversations; what they take stays under the cache's own limit."""
    count, limit = (100_000, CACHE_BYTES) if not sizes.quick else (10_000, CACHE_BYTES // 10)
    histories = Histories(mercury.stores.archive, clock, limit)
    text = "x" * CHARS
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        peak = 0
        for n in range(count):
            _touch(histories, work, f"cv_{n}", text)
            if n % 5_000 == 0:
                peak = max(peak, tracemalloc.get_traced_memory()[0] - before)
        peak = max(peak, tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()
    yield bounded(
        f"cache after {count:,} conversations were touched", peak / MIB, limit / MIB, "MiB",
        f"{histories.size()[0]:,} histories held",
    )  # fmt: skip


def _touch(histories: Histories, work: Work, name: str, text: str) -> None:
    """Keeps a history of ten messages and one turn more."""
    history = History(name, "s", "", (), shared=False)
    message = Message("m", name, "t", 1, 0, "person", "p", "", 0, text)
    for _ in range(10):
        history.append(replace(message, text=_copy(text)))
    answer = replace(message, role="assistant", part=1, text=_copy(text))
    histories.keep(
        replace(work, message=replace(message, text=_copy(text))), history, Stored(answer, "s", "s")
    )
