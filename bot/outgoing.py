"""What leaves of an answer while it is being made: nothing before it is known to be harmless.

Texts go out as they come, word by word, as long as nothing in them may be a link; from there on
line by line, as the rules of the whole text so far say. When a later part changes an earlier
one, what was shown is taken back with `reset`, and the text is shown anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bot.links import may_link

Emit = Callable[[str, dict[str, Any]], None]

LONGEST_WORD = 400
"""A longer run without a blank is shown in pieces; a secret that it held is then taken back."""
_UNFINISHED = re.compile(r"[!-~]+\Z")
"""A word that may go on; in scripts without blanks every character stands for itself."""
SHORT_CHARS = 8_000
GROWTH = 1.1
"""A longer text is judged anew whenever it has grown by a tenth, so that the work stays linear."""


class Outgoing:
    """One answer on its way to whoever watches.

    Args:
        clean: gives a text as it may leave; asked again as the text grows.
        emit: takes the events `text` and `reset`.
    """

    def __init__(self, clean: Callable[[str], str], emit: Emit) -> None:
        self._clean = clean
        self._emit = emit
        self._raw = ""
        self._shown = ""
        self._judged = 0

    def add(self, delta: str) -> None:
        """Takes what the model says next."""
        self._raw += delta
        if not may_link(self._raw[self._judged :]):
            self._show_words()
        elif "\n" in delta and (
            len(self._raw) < SHORT_CHARS or len(self._raw) > self._judged * GROWTH
        ):
            self._judge(self._raw[: self._raw.rindex("\n") + 1])

    def settle(self) -> None:
        """Shows what was held: the model has said all it will say for now."""
        self._judge(self._raw)

    def begin_again(self, text: str) -> None:
        """Takes back what was shown; the answer so far is `text`."""
        self._raw, self._shown, self._judged = text, "", 0
        self._emit("reset", {})
        self._judge(text)

    def finish(self, text: str) -> str:
        """Shows the whole answer, whatever was shown before, and gives it as it may be stored."""
        self._raw = text
        return self._judge(text)

    def close(self, text: str, addition: str) -> str:
        """Shows what is ours and stands after the answer, and gives both together."""
        self._put(addition)
        return text + addition

    def _show_words(self) -> None:
        """Shows whole words only: the next piece may make something else of the last one."""
        new = self._raw[self._judged :]
        held = _UNFINISHED.search(new)
        end = held.start() if held and len(held[0]) <= LONGEST_WORD else len(new)
        if end:
            # Only what is cleaned word by word can be left without its neighbours.
            self._put(self._clean(new[:end]))
            self._judged += end

    def _judge(self, text: str) -> str:
        cleaned = self._clean(text)
        if cleaned.startswith(self._shown):
            self._put(cleaned[len(self._shown) :])
        else:
            self._emit("reset", {})
            self._shown = ""
            self._put(cleaned)
        self._judged = len(text)
        return cleaned

    def _put(self, text: str) -> None:
        if text:
            self._shown += text
            self._emit("text", {"delta": text})
