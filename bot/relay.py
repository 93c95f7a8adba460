"""The events of a turn beyond its own process: told through a capped stream in Redis.

Whoever watches a turn that runs elsewhere reads its events from there, and so does whoever comes
back after the process has died. Never needed: what is missing, the archive's answer makes good.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from memory.redis_link import RedisLink

if TYPE_CHECKING:
    from bot.streams import Event, Live

log = logging.getLogger(__name__)

KEPT_ENTRIES = 2_000
GATHER_S = 0.03
"""What happens within that time is told together."""
KEPT_S = 3_600
WAITING = 20_000
"""Events that wait to be written; the oldest are let go."""
BATCH = 200
LOOK_S = 0.1
"""The pause between two looks at what others tell of the turns that are watched here."""


class Relay:
    """The relay of a Mercury without Redis: nobody else is there to hear."""

    def tell(self, turn: str, event: Event) -> None:
        """Has an event of a turn that runs here told; returns at once."""

    def follow(self, live: Live) -> None:
        """Feeds what others tell of a turn into its buffer here, until `leave`."""

    def leave(self, live: Live) -> None:
        """One who watched the turn is gone."""

    def close(self) -> None:
        """Tells and follows nothing more."""


class RedisRelay(Relay):
    """A stream in Redis for each turn, written and read by two threads.

    Args:
        link: to the server.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._news = threading.Condition()
        self._waiting: deque[tuple[str, Event]] = deque(maxlen=WAITING)
        self._followed: dict[str, tuple[Live, int, str]] = {}
        self._ended = False
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in (("tell", self._tell_on), ("follow", self._follow_on))
        ]
        for thread in self._threads:
            thread.start()

    def tell(self, turn: str, event: Event) -> None:
        with self._news:
            self._waiting.append((turn, event))
            if len(self._waiting) == 1:
                self._news.notify_all()

    def follow(self, live: Live) -> None:
        with self._news:
            _, watchers, place = self._followed.get(live.turn, (live, 0, "0"))
            self._followed[live.turn] = (live, watchers + 1, place)
            self._news.notify_all()

    def leave(self, live: Live) -> None:
        with self._news:
            known, watchers, place = self._followed.get(live.turn, (live, 1, "0"))
            if watchers <= 1:
                self._followed.pop(live.turn, None)
            else:
                self._followed[live.turn] = (known, watchers - 1, place)

    def close(self) -> None:
        with self._news:
            self._ended = True
            self._news.notify_all()
        for thread in self._threads:
            thread.join(2.0)

    def _tell_on(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting or self._ended)
                if self._ended and not self._waiting:
                    return
                self._news.wait_for(lambda: self._ended, GATHER_S)
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            self._link.ask(lambda redis, batch=batch: self._write(redis, batch), None)  # type: ignore[misc]

    def _write(self, redis: Any, batch: list[tuple[str, Event]]) -> None:
        """One entry for each turn, with all that happened in it since the last one."""
        turns: dict[str, list[Any]] = {}
        for turn, event in batch:
            turns.setdefault(turn, []).append([event.attempt, event.n, event.kind, event.data])
        with redis.pipeline(transaction=False) as pipe:
            for turn, events in turns.items():
                told = json.dumps(events, ensure_ascii=False).encode("utf-8", "surrogatepass")
                pipe.xadd(self._key(turn), {"e": told}, maxlen=KEPT_ENTRIES, approximate=True)
                pipe.expire(self._key(turn), KEPT_S)
            pipe.execute()

    def _follow_on(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._followed or self._ended)
                if self._ended:
                    return
                places = {turn: place for turn, (_, _, place) in self._followed.items()}
            self._look(places)
            with self._news:
                self._news.wait_for(lambda: self._ended, LOOK_S)

    def _look(self, places: dict[str, str]) -> None:
        keys = {self._key(turn): place for turn, place in places.items()}
        found: Any = self._link.ask(lambda redis: redis.xread(keys, count=KEPT_ENTRIES), None)  # type: ignore[arg-type]
        names = {self._key(turn).encode(): turn for turn in places}
        for name, entries in found or []:
            turn = names.get(name)
            with self._news:
                followed = self._followed.get(turn or "")
                if turn is None or followed is None:
                    continue
                live, watchers, _ = followed
                self._followed[turn] = (live, watchers, entries[-1][0].decode())
            for _, fields in entries:
                self._feed(live, fields.get(b"e", b""))

    @staticmethod
    def _feed(live: Live, told: bytes) -> None:
        """Events from outside; whatever is none is left out."""
        try:
            for attempt, n, kind, data in json.loads(told):
                live.feed(int(attempt), int(n), str(kind), dict(data))
        except (ValueError, TypeError, RecursionError):
            log.warning("an event of another process cannot be read")

    def _key(self, turn: str) -> str:
        return self._link.key("events", turn)
