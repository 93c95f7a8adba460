"""One way to ask Redis for something that is nice to have: quickly, or not at all.

Time limits are tight, a failed question is asked once more, and after that nothing is asked
until a probe in the background has got through again. So a Redis that is away, slow, full or
read-only costs one turn half a second and later ones nothing. Only commands may be asked that
can be repeated without harm: an answer may be lost after its command has run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from memory.errors import Refused

if TYPE_CHECKING:
    import redis

log = logging.getLogger(__name__)

T = TypeVar("T")

TIMEOUT_S = 0.25
TRIES = 2
PROBE_S = (0.5, 1.0, 2.0, 4.0)
"""Pauses between probes; the last one repeats."""
PROBE_LIFE_S = 60


class RedisLink:
    """A link to one Redis server, shared by all threads.

    Args:
        url: `redis://…`, `rediss://…` or `unix://…`.
        namespace: begins every key and channel; another archive's is never touched.
    """

    def __init__(self, url: str, namespace: str, timeout_s: float = TIMEOUT_S) -> None:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self.namespace = namespace
        self.client: redis.Redis = redis.Redis.from_url(
            url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), TRIES - 1), retry_on_error=[], decode_responses=False,
            health_check_interval=0, max_connections=64, protocol=2,
        )  # fmt: skip
        self._lock = threading.Lock()
        self._away = False
        self._ended = threading.Event()

    @property
    def away(self) -> bool:
        """Whether nothing is asked now."""
        return self._away

    def key(self, *parts: str) -> str:
        """A key or channel of this archive's."""
        return ":".join(("mercury", self.namespace, *parts))

    def ask(self, question: Callable[[redis.Redis], T], otherwise: T) -> T:
        """The answer to a question, or `otherwise` while Redis is away."""
        import redis

        if self._away:
            return otherwise
        try:
            return question(self.client)
        except (redis.RedisError, OSError, ValueError) as error:
            # A ValueError is what a connection says that was closed under a thread at the end.
            self._lost(error)
            return otherwise

    def check(self) -> None:
        """Looks once whether the server takes us; being away is no error.

        Raises:
            Refused: it does not take our credentials.
        """
        import redis

        try:
            self._probe()
        except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
            raise Refused("Redis refuses our credentials") from error
        except redis.ResponseError as error:
            if str(error).startswith(("NOAUTH", "WRONGPASS", "NOPERM")):
                raise Refused("Redis refuses our credentials") from error
            self._lost(error)
        except (redis.RedisError, OSError) as error:
            self._lost(error)

    def close(self) -> None:
        """Closes the connections; nothing is asked any more."""
        self._ended.set()
        self._away = True
        self.client.close()

    def _lost(self, error: Exception) -> None:
        with self._lock:
            if self._away or self._ended.is_set():
                return
            self._away = True
        log.error("Redis is away, the archive serves alone: %s", type(error).__name__)
        threading.Thread(target=self._probe_on, name="redis-probe", daemon=True).start()

    def _probe_on(self) -> None:
        import redis

        for n in range(1_000_000_000):
            if self._ended.wait(PROBE_S[min(n, len(PROBE_S) - 1)]):
                return
            try:
                self._probe()
            except (redis.RedisError, OSError, ValueError):
                continue
            self._away = False
            log.info("Redis is back")
            return

    def _probe(self) -> None:
        """Writes something: a server that only reads is as good as none."""
        self.client.set(self.key("probe"), b"1", ex=PROBE_LIFE_S)
