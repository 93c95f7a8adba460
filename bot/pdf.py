"""The text of a PDF, read by a process of its own: a hostile file costs that process, no other.

`python -m bot.pdf` reads a PDF from its input and prints the text, within bounds of time,
memory and length.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

log = logging.getLogger(__name__)

PAGES = 100
CHARS = 50_000
SECONDS = 15
MEMORY_BYTES = 1_500_000_000


def text_of(content: bytes) -> str | None:
    """The text of a PDF, page by page; None when it cannot be read."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bot.pdf"], input=content, capture_output=True, check=False,
            timeout=SECONDS + 5, cwd=Path(__file__).parent.parent,
            env={"PYTHONIOENCODING": "utf-8"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("a PDF was not read: %s", type(error).__name__)
        return None
    if done.returncode != 0:
        log.warning("a PDF was not read: exit code %d", done.returncode)
        return None
    return done.stdout.decode("utf-8", "replace")


def main() -> None:
    """Reads a PDF from standard input, prints its text."""
    import io
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    from pypdf import PdfReader

    logging.disable(logging.CRITICAL)
    reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
    left = CHARS
    for page in reader.pages[:PAGES]:
        text = page.extract_text()[:left]
        sys.stdout.write(f"{text}\n\n")
        left -= len(text)
        if left <= 0:
            return


if __name__ == "__main__":
    main()
