"""Where a trial stops the process: `MERCURY_TEST_STOP_AT`.

Costs one comparison while it is not configured.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

STEPS = (
    "accepted", "leased", "prompted", "tool_recorded", "wiki_ref", "answered", "delivering",
    "delivered", "compacting", "summarised", "settling", "promoted", "erasing",
)  # fmt: skip

_lock = threading.Lock()
_step = ""
_left = 0
_marker = Path()


def parse(spec: str) -> tuple[str, int]:
    """A step's name, and at which arrival the process stops.

    Raises:
        ValueError: neither `<step>` nor `<step>:<n>`.
    """
    step, colon, n = spec.partition(":")
    counted = n.isascii() and n.isdigit() and len(n) <= 9 and int(n) > 0
    if step not in STEPS or (colon and not counted):
        raise ValueError(f"expected <step> or <step>:<n>, the step one of {', '.join(STEPS)}")
    return step, int(n or 1)


def configure(spec: str, data_dir: Path) -> None:
    """Sets the step at which the process stops, once; '' sets none.

    Args:
        spec: `<step>` or `<step>:<n>`.
        data_dir: where the file `stopped.<step>` is left; with it there nothing stops any more.

    Raises:
        ValueError: the spec is none.
    """
    global _step, _left, _marker
    with _lock:
        _step, _left = parse(spec) if spec else ("", 0)
        _marker = data_dir / f"stopped.{_step}"


def stop_at(step: str) -> None:
    """Kills the process with SIGKILL at the configured arrival, leaving `stopped.<step>`."""
    if step != _step:
        return
    global _left
    with _lock:
        _left -= 1
        if _left != 0:
            return
        try:
            descriptor = os.open(_marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return
        os.fsync(descriptor)
        os.kill(os.getpid(), signal.SIGKILL)
        os._exit(137)  # the first process of a container is deaf to its own signals
