"""Sends requests and times the answers; a program of its own, so that it shares no interpreter
lock with the server.

Takes a plan as JSON on stdin and prints what came of it as JSON. A lane is one connection that
is kept alive, on which the next request goes out when the last one is answered, or at its time
when there is a pace. One thread and no libraries, to be light beside what it measures.
"""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send, to a port on loopback.

    Args:
        port: where.
        lanes: the requests of each connection, as they go over the wire.
        pace_s: seconds between the requests of a lane, 0 for as fast as they are answered. The
            lanes start evenly spread over a pace.
        timeout_s: when the whole run is given up.
    """

    port: int
    lanes: Sequence[Sequence[str]]
    pace_s: float = 0.0
    timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Result:
    """What came: the time from first to last byte, each answer's, and those that were no 200."""

    seconds: float
    latencies_s: list[float]
    bad: int
    last: str = ""
    """The body of the last answer."""


def request(method: str, path: str, body: str = "", **headers: str) -> str:
    """A request as it goes over the wire; `_` in the names of headers stands for `-`."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body.encode())}"]
    elif method == "POST":
        lines.append("Content-Length: 0")
    return "\r\n".join(lines) + "\r\n\r\n" + body


def run(plan: Plan) -> Result:
    """Runs a plan in a process of its own.

    Raises:
        RuntimeError: it did not end well.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"], input=json.dumps(asdict(plan)),
        capture_output=True, text=True, cwd=ROOT, timeout=plan.timeout_s + 30, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"the load generator failed: {done.stderr[-2_000:]}")
    return Result(**json.loads(done.stdout))


class _Lane:
    """One connection and where it stands."""

    def __init__(self, port: int, requests: Sequence[str], first_at: float, pace_s: float) -> None:
        self._requests = [one.encode() for one in requests]
        self._pace_s = pace_s
        self.due = first_at
        self.sent = 0
        self._begun = 0.0
        self._got = b""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def over(self) -> bool:
        return self.sent == len(self._requests)

    def send(self) -> None:
        """Sends the next request; a late one is timed from when it was due."""
        now = time.perf_counter()
        self._begun = min(now, self.due) if self._pace_s else now
        self.socket.sendall(self._requests[self.sent])
        self.sent += 1
        self.due += self._pace_s
        self._got = b""

    def receive(self) -> tuple[int, float, str] | None:
        """The answer's status, its time and its body once it is whole.

        Raises:
            ConnectionError: the server closed the connection.
        """
        data = self.socket.recv(262_144)
        if not data:
            raise ConnectionError("the connection was closed")
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return None
        return int(head[9:12]), time.perf_counter() - self._begun, body.decode()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line[15:])
    return 0


def _drive(plan: Plan) -> Result:
    begun = time.perf_counter()
    spread = plan.pace_s / max(1, len(plan.lanes))
    lanes = [
        _Lane(plan.port, requests, begun + n * spread, plan.pace_s)
        for n, requests in enumerate(plan.lanes)
    ]
    begun = time.perf_counter()
    latencies: list[float] = []
    bad, last = 0, ""
    resting, open_lanes = list(lanes), len(lanes)
    with selectors.DefaultSelector() as ready:
        for lane in lanes:
            ready.register(lane.socket, selectors.EVENT_READ, lane)
        while open_lanes and time.perf_counter() - begun < plan.timeout_s:
            now = time.perf_counter()
            for lane in [one for one in resting if one.due <= now or not plan.pace_s]:
                resting.remove(lane)
                lane.send()
            wait = min((lane.due - now for lane in resting), default=1.0)
            for key, _ in ready.select(max(0.0, wait)):
                lane = key.data
                try:
                    answer = lane.receive()
                except OSError:
                    bad += 1 + len(plan.lanes[lanes.index(lane)]) - lane.sent
                    ready.unregister(lane.socket)
                    open_lanes -= 1
                    continue
                if answer is None:
                    continue
                status, seconds, last = answer
                latencies.append(seconds)
                bad += status != 200
                if lane.over:
                    open_lanes -= 1
                elif plan.pace_s:
                    resting.append(lane)
                else:
                    lane.send()
    took = time.perf_counter() - begun
    bad += sum(len(requests) for requests in plan.lanes) - len(latencies) - bad if open_lanes else 0
    for lane in lanes:
        lane.socket.close()
    return Result(took, latencies, bad, last)


if __name__ == "__main__":
    json.dump(asdict(_drive(Plan(**json.load(sys.stdin)))), sys.stdout)
