"""Copies of active histories beyond the process: a mirror, and what stands in where there is none.

A copy carries its conversation's id and the archive's stamp; one that is another's, of another
form, or not whole is as good as absent. The mirror is never needed: the archive gives the same.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from typing import Any, Protocol

from memory.conversation import History
from memory.records import Line
from memory.redis_link import RedisLink

log = logging.getLogger(__name__)

FORM = 1
"""Of the JSON below; a copy of another form is not read."""
ROLES = ("user", "assistant", "tool")
WAITING = 1_000
"""Histories that wait to be written; the oldest are let go."""
LONGEST_BYTES = 4_000_000


class Mirror(Protocol):
    """Where copies of histories are kept. Neither method raises or takes long."""

    def get(self, conversation: str, stamp: str, shared: bool) -> History | None:
        """The copy with that stamp, or None."""

    def put(self, history: History) -> None:
        """Keeps a copy, in a while."""

    def close(self) -> None:
        """Keeps no more."""


class NoMirror:
    """The mirror of a Mercury without Redis."""

    def get(self, conversation: str, stamp: str, shared: bool) -> History | None:
        """Nothing is kept."""
        return None

    def put(self, history: History) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing was opened."""


class RedisMirror:
    """Copies in Redis, written by a thread of its own; the last state of a history wins.

    Args:
        link: to the server.
        idle_ms: how long a copy is kept after it was last written.
    """

    def __init__(self, link: RedisLink, idle_ms: int) -> None:
        self._link = link
        self._life_ms = max(idle_ms, 1_000)
        self._news = threading.Condition()
        self._waiting: OrderedDict[str, tuple[str, str, list[Any]]] = OrderedDict()
        self._ended = False
        self._thread = threading.Thread(target=self._write_on, name="mirror", daemon=True)
        self._thread.start()

    def get(self, conversation: str, stamp: str, shared: bool) -> History | None:
        """The copy with that stamp, or None; one that cannot be read is taken out."""
        key = self._key(conversation)
        told = self._link.ask(lambda redis: redis.get(key), None)
        if not isinstance(told, bytes):
            return None
        try:
            return _read(told, conversation, stamp, shared)
        except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
            log.warning("a copy of a history in Redis cannot be read and is taken out")
            self._link.ask(lambda redis: redis.delete(key), 0)
            return None

    def put(self, history: History) -> None:
        """Has the history's present state written; its messages are never changed in place."""
        lines = [[line.kind, line.text, list(line.messages), line.at] for line in history.lines]
        state = [history.recap, lines, list(history.messages), history.last_seq]
        with self._news:
            if self._ended or self._link.away:
                return
            self._waiting.pop(history.conversation, None)
            self._waiting[history.conversation] = (history.conversation, history.stamp, state)
            while len(self._waiting) > WAITING:
                self._waiting.popitem(last=False)
            self._news.notify()

    def close(self) -> None:
        """Ends the writing thread; what waits is not written."""
        with self._news:
            self._ended = True
            self._news.notify()
        self._thread.join(2.0)

    def _write_on(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting or self._ended)
                if self._ended:
                    return
                _, (conversation, stamp, state) = self._waiting.popitem(last=False)
            told = json.dumps([FORM, conversation, stamp, *state], ensure_ascii=False)
            value = told.encode("utf-8", "surrogatepass")
            if len(value) <= LONGEST_BYTES:
                key = self._key(conversation)
                self._link.ask(lambda r, k=key, v=value: r.set(k, v, px=self._life_ms), None)  # type: ignore[misc]

    def _key(self, conversation: str) -> str:
        return self._link.key("history", conversation)


def _read(told: bytes, conversation: str, stamp: str, shared: bool) -> History | None:
    """A history from its copy; None for another stamp's.

    Raises:
        ValueError, TypeError, KeyError: it is no copy of this conversation.
    """
    form, id_, of, recap, lines, messages, last_seq = json.loads(told)
    if form != FORM or id_ != conversation:
        raise ValueError("another form, or another conversation's")
    if of != stamp:
        return None
    if any(one["role"] not in ROLES for one in messages):
        raise ValueError("no history")
    kept = [Line(kind, text + "", tuple(rests), at + 0) for kind, text, rests, at in lines]
    history = History(conversation, stamp, recap + "", kept, shared)
    history.restore(messages, last_seq + 0)
    return history
