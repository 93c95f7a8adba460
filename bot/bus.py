"""Words between the processes that serve one archive: a turn has ended, a turn is cancelled.

They only hurry: whoever misses one reads the archive a moment later. `Bus` is what a process
has that serves alone; `RedisBus` speaks through Redis.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Literal

from memory.redis_link import RedisLink

log = logging.getLogger(__name__)

Word = Literal["ended", "cancelled"]
LISTEN_S = 1.0
AGAIN_S = 1.0
LONGEST_ID = 64


class Bus:
    """Says nothing and hears nothing: there is nobody else."""

    def say(self, word: Word, turn: str) -> None:
        """Tells the other processes."""

    def listen(self, heard: Mapping[Word, Callable[[str], None]]) -> None:
        """Begins to hear others; each function gets the turn's id and returns at once."""

    def close(self) -> None:
        """Hears nothing more."""


class RedisBus(Bus):
    """Words through Redis's publish and subscribe.

    Args:
        link: to the server.
        process: who speaks, so that nobody hears themselves.
    """

    def __init__(self, link: RedisLink, process: str) -> None:
        self._link = link
        self._process = process
        self._channel = link.key("bus")
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def say(self, word: Word, turn: str) -> None:
        told = f"{self._process} {word} {turn}"
        self._link.ask(lambda redis: redis.publish(self._channel, told), 0)

    def listen(self, heard: Mapping[Word, Callable[[str], None]]) -> None:
        self._thread = threading.Thread(
            target=self._listen_on, args=(heard,), name="bus", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(2 * LISTEN_S)

    def _listen_on(self, heard: Mapping[Word, Callable[[str], None]]) -> None:
        import redis

        while not self._ended.is_set():
            try:
                with self._link.client.pubsub(  # type: ignore[no-untyped-call]
                    ignore_subscribe_messages=True
                ) as channel:
                    channel.subscribe(self._channel)
                    while not self._ended.is_set():
                        message = channel.get_message(timeout=LISTEN_S)
                        if message is not None:
                            self._hear(message["data"], heard)
            except (redis.RedisError, OSError, ValueError):
                self._ended.wait(AGAIN_S)

    def _hear(self, data: object, heard: Mapping[Word, Callable[[str], None]]) -> None:
        """The edge of that thread: whatever stands in the channel ends here."""
        parts = data.decode("utf-8", "replace").split(" ") if isinstance(data, bytes) else []
        if len(parts) != 3 or parts[0] == self._process or len(parts[2]) > LONGEST_ID:
            return
        for word, take in heard.items():
            if word == parts[1]:
                try:
                    take(parts[2])
                except Exception:
                    log.exception("a word of another process was not understood")
