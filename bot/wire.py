"""HTTP connections whose blocked reads end together with the work that they belong to.

Gives an `httpx2` client over sockets that know, by thread, under which `Watch` they are read:
a stop shuts the socket down (before the answer's head as well as within its body), no read
outlasts the deadline, and what an error page may cost is bounded. Knows nothing of models.
"""

from __future__ import annotations

import math
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpcore2
import httpx2

from bot.stop import Stop

CONNECT_S = 5.0
"""A connect cannot be interrupted, so it is short."""
WRITE_S = 20.0
CONNECTIONS = 512
"""More than turns and summaries at once, so that none waits for a free connection."""
IDLE_S = 30.0
"""A kept connection is closed before a usual server's or balancer's own limit of 60 s."""


@dataclass(slots=True)
class Watch:
    """Under what the reads of one answer stand.

    `silence` and `linger` bound the wait for the next bytes, in seconds; `room` is how many
    bytes may still come.
    """

    stop: Stop
    silence: float
    room: float = math.inf
    linger: float = math.inf

    def patience(self) -> float:
        """How long the next read may wait; just past the deadline, so that it has passed then."""
        return max(0.01, min(self.silence, self.linger, self.stop.remaining() + 0.01))


_here = threading.local()


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Puts what this thread reads and writes within the block under the watch."""
    before = getattr(_here, "watch", None)
    _here.watch = watch
    try:
        yield
    finally:
        _here.watch = before


def client() -> httpx2.Client:
    """A client with kept connections that obey `watched`; proxies of the environment serve.

    Compression is not asked for: it holds streams back, and a small body could grow large.
    """
    made = httpx2.Client(
        timeout=httpx2.Timeout(60.0, connect=CONNECT_S, write=WRITE_S),
        limits=httpx2.Limits(
            max_connections=CONNECTIONS,
            max_keepalive_connections=CONNECTIONS,
            keepalive_expiry=IDLE_S,
        ),
        headers={"Accept-Encoding": "identity"},
    )
    # httpx2 has no argument for the backend of its pools, httpcore2 has; a transport of our own
    # would lose the proxies and the mapping of errors.
    for transport in (made._transport, *made._mounts.values()):
        if isinstance(transport, httpx2.HTTPTransport):
            transport._pool._network_backend = _Backend()
    return made


class _Backend(httpcore2.SyncBackend):
    """Opens watched streams."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        watch: Watch | None = getattr(_here, "watch", None)
        if watch is not None:
            timeout = min(CONNECT_S, watch.patience())
        stream = super().connect_tcp(host, port, timeout, local_address, socket_options)
        return _Stream(stream)


class _Stream(httpcore2.NetworkStream):
    """A stream whose reads and writes end with the watch of the thread that makes them."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        watch: Watch | None = getattr(_here, "watch", None)
        if watch is None:
            return self._inner.read(max_bytes, timeout)
        with watch.stop.on_stop(self._shut):
            data = self._inner.read(max_bytes, watch.patience())
        watch.room -= len(data)
        if watch.room < 0:
            raise httpcore2.ReadError("more than was allowed for")
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        watch: Watch | None = getattr(_here, "watch", None)
        if watch is None:
            self._inner.write(buffer, timeout)
            return
        with watch.stop.on_stop(self._shut):
            self._inner.write(buffer, min(WRITE_S, watch.patience()))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        watch: Watch | None = getattr(_here, "watch", None)
        if watch is None:
            return _Stream(self._inner.start_tls(ssl_context, server_hostname, timeout))
        with watch.stop.on_stop(self._shut):
            patience = min(CONNECT_S, watch.patience())
            return _Stream(self._inner.start_tls(ssl_context, server_hostname, patience))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def _shut(self) -> None:
        """Wakes the thread that waits for this socket.

        The base class's `shutdown`, as that of a TLS socket would take the TLS layer away from
        under the reader.
        """
        found = self._inner.get_extra_info("socket")
        if isinstance(found, socket.socket):
            with suppress(OSError):
                socket.socket.shutdown(found, socket.SHUT_RDWR)
