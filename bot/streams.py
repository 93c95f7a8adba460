"""What happens in a turn while it runs, for those who watch: a bounded buffer a turn.

Events live in the process that runs the turn, and a relay tells them to others; they are never
needed for correctness: whoever finds them gone reads the turn itself. Each event is known as
`<attempt>.<n>`, the attempt being the fence it ran under, which grows with every attempt in
whatever process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from bot.relay import Relay
from memory.records import Message

BUFFER_EVENTS = 2_000
BUFFER_CHARS = 200_000
"""What one turn's buffer holds; older deltas are joined, then given up."""
KEPT = 1_000
"""How many ended turns can still be resumed from their buffers."""
KEPT_CHARS = 20_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a turn: its place, its kind and its data.

    `joined` says how many events before it have been put into it.
    """

    attempt: int
    n: int
    kind: str
    data: dict[str, Any]
    joined: int = 0

    @property
    def id(self) -> str:
        return f"{self.attempt}.{self.n}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended here: what was stored, so that nobody has to read it again."""

    answer: Message
    extras: dict[str, Any]


class Live:
    """A turn that runs here, or did a moment ago; `attempt` is the fence that it runs under."""

    def __init__(self, turn: str, relay: Relay | None = None) -> None:
        self.turn = turn
        self._relay = relay or Relay()
        self.outcome: Outcome | None = None
        self.attempt = 0
        self.ended = False
        self.chars = 0
        self._events: list[Event] = []
        self._n = 0
        self._lost = False
        self._news = threading.Condition()
        self._over = threading.Event()
        self._showed = False

    def begin(self, attempt: int) -> None:
        """A new attempt begins; what was shown of an earlier one is void."""
        with self._news:
            void = self._showed
            self.attempt, self._n, self._showed = attempt, 0, False
            self._events.clear()
            self.chars = 0
            self._lost = False
        if void:
            self.put("reset", {})

    def reset(self) -> None:
        """What was shown of this attempt is void: it starts anew."""
        with self._news:
            self._events.clear()
            self.chars = 0
            self._showed = False
        self.put("reset", {})

    def put(self, kind: str, data: dict[str, Any]) -> None:
        """Adds an event and wakes those who wait for it."""
        with self._news:
            event = Event(self.attempt, self._n + 1, kind, data)
            self._add(event)
        self._relay.tell(self.turn, event)

    def feed(self, attempt: int, n: int, kind: str, data: dict[str, Any]) -> None:
        """Adds an event of the process that runs the turn; what is older than here is left out."""
        with self._news:
            if (attempt, n) <= (self.attempt, self._n):
                return
            if attempt != self.attempt:
                self._events.clear()
                self.attempt, self._n, self.chars, self._lost = attempt, 0, 0, False
            self._lost = self._lost or n != self._n + 1
            self._add(Event(attempt, n, kind, data))

    def _add(self, event: Event) -> None:
        self._n = event.n
        self._events.append(event)
        if event.kind == "text":
            self._showed = True
            self.chars += len(event.data["delta"])
        if len(self._events) > BUFFER_EVENTS or self.chars > BUFFER_CHARS:
            self._shorten()
        self._news.notify_all()

    def end(self) -> None:
        """The turn has ended: whoever watches reads its outcome from the archive."""
        with self._news:
            self.ended = True
            self._news.notify_all()
        self._over.set()

    def wait_end(self, seconds: float) -> bool:
        """Waits until the turn has ended, unmoved by what happens in it; False if it has not."""
        return self._over.wait(seconds)

    def after(self, place: tuple[int, int], seconds: float) -> tuple[list[Event], bool, bool]:
        """Waits for events after `place`, an attempt and a number.

        Returns the events, whether something between was lost (so that the watcher starts
        anew), and whether the turn has ended and nothing more will come.
        """
        with self._news:
            self._news.wait_for(lambda: self.ended or self._is_new(place), seconds)
            lost = place != (0, 0) and place[0] != self.attempt and self._is_new(place)
            lost = lost or (self._lost and place < (self.attempt, self._first()))
            lost = lost or any(self._is_within(place, event) for event in self._events)
            events = [e for e in self._events if lost or (e.attempt, e.n) > place]
            return events, lost, self.ended

    def _is_new(self, place: tuple[int, int]) -> bool:
        return bool(self._events) and (self._events[-1].attempt, self._events[-1].n) > place

    @staticmethod
    def _is_within(place: tuple[int, int], event: Event) -> bool:
        """Whether the place lies among events that were joined, of which a part was seen."""
        return place[0] == event.attempt and event.n - event.joined <= place[1] < event.n

    def _first(self) -> int:
        return self._events[0].n - self._events[0].joined - 1 if self._events else 0

    def _shorten(self) -> None:
        """Joins deltas that follow one another; drops the older half when that is not enough."""
        joined: list[Event] = []
        for event in self._events:
            last = joined[-1] if joined else None
            if last and event.kind == last.kind == "text" and self.chars <= BUFFER_CHARS:
                data = {"delta": last.data["delta"] + event.data["delta"]}
                count = last.joined + event.joined + 1
                joined[-1] = Event(event.attempt, event.n, "text", data, count)
            else:
                joined.append(event)
        if len(joined) > BUFFER_EVENTS // 2 or self.chars > BUFFER_CHARS:
            self._lost = True
            joined = joined[len(joined) // 2 + 1 :]
            self.chars = sum(len(e.data["delta"]) for e in joined if e.kind == "text")
        self._events = joined


class Streams:
    """The live turns of this process, and the ended ones that are still kept."""

    def __init__(self, relay: Relay | None = None) -> None:
        self.relay = relay or Relay()
        self._lock = threading.Lock()
        self._lives: dict[str, Live] = {}
        self._ended: OrderedDict[str, Live] = OrderedDict()
        self._chars = 0

    def open(self, turn: str) -> Live:
        """The buffer of a turn that waits or runs, made on first use."""
        with self._lock:
            live = self._lives.get(turn) or self._ended.get(turn)
            if live is None:
                live = self._lives[turn] = Live(turn, self.relay)
            return live

    def find(self, turn: str) -> Live | None:
        """The buffer of a turn, if there is one here."""
        with self._lock:
            return self._lives.get(turn) or self._ended.get(turn)

    def close(self, turn: str) -> None:
        """The turn has ended; its buffer is kept for a while."""
        with self._lock:
            live = self._lives.pop(turn, None)
            if live is None:
                return
            self._ended[turn] = live
            self._chars += live.chars
            while len(self._ended) > KEPT or self._chars > KEPT_CHARS:
                self._chars -= self._ended.popitem(last=False)[1].chars
        live.end()
