"""Cuts an answer into messages that Chat takes, without breaking what it says.

Takes Markdown, gives chunks of at most `limit` UTF-8 bytes, in order. A cut falls at a
paragraph, else a line, else a space, else between two graphemes; never inside a link, and a
fence that has to be cut is closed and opened again. Knows nothing of the API that sends them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

import regex  # type: ignore[import-untyped,unused-ignore]

LIMIT_BYTES = 28_000
"""Chat takes 32,000 bytes a message in all; the rest is left for what stands around the text."""

_BLANK = " \t\r\n"
_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<marker>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>[^\n]*)$", re.MULTILINE
)
_LINK = re.compile(
    r"!?\[(?:[^\[\]\n]|\n(?!\s*\n)|\[[^\[\]\n]{0,500}+\]){0,2000}+\]"
    r"\([^()\s]{0,4000}+(?:\([^()\s]{0,4000}+\)[^()\s]{0,4000}+){0,8}+"
    r"(?:[ \t]+\"[^\"\n]{0,1000}+\")?\)"
    r"|<(?:https?|mailto):[^<>\s]{1,4000}+>"
)
_LOOKS_FENCED = re.compile(r"[ \t]*(?:```|~~~)")
_GRAPHEME = regex.compile(r"\X")
_SMALLEST_ROOM = 4
"""Bytes of the longest code point: with less between two fences nothing could be said."""


def split(text: str, limit: int = LIMIT_BYTES) -> list[str]:
    """The text as messages of at most `limit` bytes of UTF-8.

    Blanks at a cut are dropped, and so are messages that would hold nothing else. A fence that
    the text leaves open is closed. A single grapheme that is bigger than a message is cut
    between code points, and a fence is only seen where `limit` leaves room to repeat it.

    Args:
        text: Markdown, of any length; the time taken grows with it linearly.
        limit: bytes a message, at least 4.

    Raises:
        ValueError: the limit is too small for one character.
    """
    if limit < _SMALLEST_ROOM:
        raise ValueError(f"a message of {limit} bytes cannot hold every character")
    chunks = _Chunks(limit)
    for block in _blocks(text, limit):
        if isinstance(block, _Fence):
            _add_fence(chunks, text, block)
        else:
            _add_text(chunks, text, *block)
    return chunks.finish()


@dataclass(frozen=True, slots=True)
class _Fence:
    """A fenced block: where it begins and ends, where its body does, and how it is fenced."""

    start: int
    end: int
    body: int
    body_end: int
    indent: str
    marker: str
    info: str
    info_at: int
    closed: bool
    """Whether the text itself closes it."""


@dataclass(slots=True)
class _Chunks:
    """The messages so far, and the one that is being filled."""

    limit: int
    done: list[str] = field(default_factory=list)
    filling: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def room(self) -> int:
        return self.limit - self.size

    def add(self, piece: str) -> None:
        if not self.filling:
            piece = piece[_first_line(piece) :]
        if piece:
            self.filling.append(piece)
            self.size += _size(piece)

    def flush(self) -> None:
        chunk = "".join(self.filling).rstrip(_BLANK)
        if chunk.strip():
            self.done.append(chunk)
        self.filling, self.size = [], 0

    def finish(self) -> list[str]:
        self.flush()
        return self.done


def _blocks(text: str, limit: int) -> list[_Fence | tuple[int, int]]:
    """The text as fences and the ranges between them, in order."""
    blocks: list[_Fence | tuple[int, int]] = []
    at = 0
    opening: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opening is None:
            if 4 * len(line["marker"]) <= limit:
                opening = line
                blocks.append((at, line.start()))
        elif _closes(line, opening):
            blocks.append(_fence(text, opening, line))
            at, opening = line.end(), None
    if opening is not None:
        blocks.append(_fence(text, opening, None))
        at = len(text)
    blocks.append((at, len(text)))
    return blocks


def _closes(line: re.Match[str], opening: re.Match[str]) -> bool:
    return line["marker"].startswith(opening["marker"]) and not line["info"].strip()


def _fence(text: str, opening: re.Match[str], closing: re.Match[str] | None) -> _Fence:
    end = len(text) if closing is None else closing.end()
    body = min(opening.end() + 1, end)
    if closing is None:
        body_end = body + len(text[body:].rstrip(_BLANK))
    else:
        body_end = max(body, closing.start() - 1)
    return _Fence(
        opening.start(),
        end,
        body,
        body_end,
        opening["indent"],
        opening["marker"],
        opening["info"].rstrip(),
        opening.start("info"),
        closing is not None,
    )


def _add_fence(chunks: _Chunks, text: str, fence: _Fence) -> None:
    """Adds a fence whole where a message holds it, else in fenced pieces."""
    whole = text[fence.start : fence.end]
    if not fence.closed:
        whole = f"{whole.rstrip(_BLANK)}\n{fence.indent}{fence.marker}"
    size = _size(whole.rstrip(_BLANK))
    if size > chunks.room:
        chunks.flush()
    if size <= chunks.room:
        chunks.add(whole)
        return
    _add_pieces(chunks, text, fence)


def _add_pieces(chunks: _Chunks, text: str, fence: _Fence) -> None:
    """Adds a fence that no message holds, each piece closed and the next one opened again."""
    at, info = fence.body, fence.info
    marker = _marker(text, fence, chunks.limit)
    around = 2 * len(marker) + 2
    if 4 * _size(info) > chunks.limit or around + _size(info) + _SMALLEST_ROOM > chunks.limit:
        # Too long to be repeated, so what stands beside the marker becomes content.
        at, info = fence.info_at, ""
    # Only the first piece still stands in the list that its indentation belongs to.
    indent = fence.indent if 8 * len(fence.indent) <= chunks.limit - 60 else ""
    while True:
        opened, closed = f"{indent}{marker}{info}\n", f"\n{indent}{marker}"
        end = _fitting(text, at, fence.body_end, chunks.limit - _size(opened + closed))
        end, following = _line_cut(text, at, end, fence.body_end)
        chunks.add(f"{opened}{text[at:end]}{closed}")
        if following >= fence.body_end:
            return
        chunks.flush()
        at, indent = following, ""


def _marker(text: str, fence: _Fence, limit: int) -> str:
    """The fence's marker, made longer than what looks like one within, which a cut may bare."""
    mark = fence.marker[0]
    runs = re.findall(f"{mark}{{3,}}", text[fence.info_at : fence.body_end])
    longer = mark * (max(map(len, runs), default=0) + 1)
    return longer if len(fence.marker) < len(longer) <= limit // 4 else fence.marker


def _line_cut(text: str, at: int, end: int, stop: int) -> tuple[int, int]:
    """Where code is cut at or before `end`, and where it goes on: a line, else a grapheme."""
    if end == stop:
        return stop, stop
    line = text.rfind("\n", at + 1, end + 1)
    if line > at:
        return line, line + 1
    end = _hard_cut(text, at, end)
    return end, end


def _add_text(chunks: _Chunks, text: str, at: int, stop: int) -> None:
    """Adds what stands between two fences, cut where a reader would least mind."""
    last = at + len(text[at:stop].rstrip(_BLANK))
    links = _links(text, at, stop, chunks.limit)
    while at < stop:
        if not chunks.filling:
            at = _first_line(text, at, stop)
        end = _fitting(text, at, last, chunks.room)
        if end >= last:
            chunks.add(text[at:stop])
            return
        cut = _natural_cut(text, at, end, links, chunks)
        if cut is None and chunks.filling:
            chunks.flush()
            at = _past_blanks(text, at, stop)
            continue
        if cut is None:
            cut = links.before(_hard_cut(text, at, end), at)
        chunks.add(text[at:cut])
        chunks.flush()
        at = _past_blanks(text, cut, stop)


@dataclass(frozen=True, slots=True)
class _Links:
    """The links of a text that fit a message and so are never cut."""

    starts: list[int]
    ends: list[int]

    def around(self, cut: int) -> int | None:
        """Where the link begins that a cut there would break, else None."""
        n = bisect_right(self.starts, cut - 1) - 1
        return self.starts[n] if n >= 0 and cut < self.ends[n] else None

    def before(self, cut: int, at: int) -> int:
        """That cut, moved to the front of the link that it would break where that is a gain."""
        start = self.around(cut)
        return cut if start is None or start <= at else start


def _links(text: str, at: int, stop: int, limit: int) -> _Links:
    links = _Links([], [])
    for link in _LINK.finditer(text, at, stop):
        if _size(link[0]) <= limit:
            links.starts.append(link.start())
            links.ends.append(link.end())
    return links


def _natural_cut(text: str, at: int, end: int, links: _Links, chunks: _Chunks) -> int | None:
    """The last paragraph, line or space up to `end`; an early one yields to a later lesser one."""
    latest: int | None = None
    for mark, width in (("\n\n", 2), ("\n", 1), (" ", 1), ("\t", 1)):
        cut = _last(text, mark, at, end + width, links)
        if cut is not None and 3 * (chunks.size + cut - at) >= chunks.limit:
            return cut
        if cut is not None and (latest is None or cut > latest):
            latest = cut
    return latest


def _last(text: str, mark: str, at: int, stop: int, links: _Links) -> int | None:
    """The last place of that blank within the range that breaks no link and no grapheme."""
    while (cut := text.rfind(mark, at, stop)) >= 0:
        link = links.around(cut)
        if link is not None:
            stop = max(link, at)
        elif mark[0] == "\n" or (
            _breaks(text, cut) and _breaks(text, cut + 1) and not _LOOKS_FENCED.match(text, cut)
        ):
            return cut
        else:
            stop = cut
    return None


def _past_blanks(text: str, at: int, stop: int) -> int:
    """Past the blanks at a cut; the indentation of the next line is no such blank."""
    line = _first_line(text, at, stop)
    if line > at:
        return line
    while at < stop and text[at] in " \t" and _breaks(text, at + 1):
        at += 1
    return _first_line(text, at, stop)


def _first_line(text: str, at: int = 0, stop: int | None = None) -> int:
    """Where the first line begins that is not blank."""
    stop = len(text) if stop is None else stop
    line = place = at
    while place < stop and text[place] in _BLANK:
        place += 1
        if text[place - 1] == "\n":
            line = place
    return line if place < stop else stop


def _fitting(text: str, at: int, stop: int, room: int) -> int:
    """The furthest place up to `stop` so that what lies between takes at most `room` bytes."""
    if room <= 0:
        return at
    stop = min(stop, at + room)
    encoded = text[at:stop].encode("utf-8", "surrogatepass")
    if len(encoded) <= room:
        return stop
    while encoded[room] & 0xC0 == 0x80:
        room -= 1
    return at + len(encoded[:room].decode("utf-8", "surrogatepass"))


def _hard_cut(text: str, at: int, end: int) -> int:
    """A place within a word: between graphemes, and never so that a fence seems to begin there."""
    cut = _whole_graphemes(text, at, end)
    if not _LOOKS_FENCED.match(text, cut):
        return cut
    run = at + len(text[at:cut].rstrip(" \t`~"))
    return _whole_graphemes(text, at, run - 1) if run - 1 > at else cut


def _whole_graphemes(text: str, at: int, end: int) -> int:
    """The last place up to `end` where no grapheme is cut; `end` when the first one is longer.

    Whether a grapheme ends at a place depends on what stands before it and on one character
    after it (Unicode UAX #29), so nothing beyond is looked at.
    """
    if end > at and text[end - 1 : end + 1].isascii() and _breaks(text, end):
        return end
    place = at
    for grapheme in _GRAPHEME.finditer(text, at, min(end + 1, len(text))):
        if grapheme.end() > end:
            break
        place = grapheme.end()
    return place if place > at else max(end, at + 1)


def _breaks(text: str, at: int) -> bool:
    """Whether a grapheme may end at a place that has a blank or an ASCII letter at its side."""
    if at <= 0 or at >= len(text):
        return True
    found = _GRAPHEME.match(text, at - 1, at + 1)
    return found is not None and found.end() == at


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
