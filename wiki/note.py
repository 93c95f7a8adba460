"""A note: front matter, then Markdown. Reads what is in it, changes only what is asked. Pure.

Front matter is YAML between two lines of `---`. The keys `title`, `tags`, `updated`, `author`
and `source` are Mercury's; the lines of every other key, comments included, stay byte for byte.
Links are `[[name]]`, `[[path|shown]]`, `[[name#heading]]` and `![[name]]`, as Obsidian has them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

LONGEST = 20_000
"""Characters of a note."""
OURS = ("title", "tags", "updated", "author", "source")
TITLE_CHARS = 200
FRONT_CHARS = 4_000
"""Longer front matter is not read: what nests deep takes a reader long."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FRONT = re.compile(
    r"\ufeff?---[ \t]*\r?\n(?:(.*?)(?:\r?\n))??(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S
)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*\r?$", re.M)
_CODE = re.compile(
    r"^[ ]{0,3}(?P<fence>`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^[ ]{0,3}(?P=fence)[`~]*[ \t]*\r?$|\Z)"
    r"|(?<!`)(?P<ticks>`{1,8})(?!`)(?:(?!\n\s*\n)(?!(?P=ticks)(?!`)).){1,2000}?(?<!`)(?P=ticks)(?!`)",
    re.M | re.S,
)
_LINK = re.compile(
    r"\[\[(?P<target>[^\[\]\n|#^]{1,400})(?P<rest>[#^][^\[\]\n|]*)?(?P<shown>\|[^\[\]\n]*)?\]\]"
)


@dataclass(frozen=True, slots=True)
class Note:
    """What a note's text holds.

    Args:
        title: of the front matter; '' without one.
        tags, updated, author, source: of the front matter.
        begins: where the Markdown begins.
        problem: why the front matter could not be read; '' when it could.
    """

    title: str
    tags: tuple[str, ...]
    updated: str
    author: str
    source: tuple[str, ...]
    begins: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A link in a note: where its target stands, and the target as it is written."""

    start: int
    end: int
    target: str


def parse(text: str) -> Note:
    """Reads a note; broken front matter is a problem, never an error."""
    match = _FRONT.match(text)
    if match is None:
        return Note("", (), "", "", (), 0)
    if len(match[0]) > FRONT_CHARS:
        return Note("", (), "", "", (), match.end(), "the front matter is too long")
    try:
        found = yaml.load(match[1] or "", _Loader)  # noqa: S506  the loader is a safe one
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        return Note("", (), "", "", (), match.end(), _first_line(str(error)))
    if found is None:
        found = {}
    if not isinstance(found, dict):
        return Note("", (), "", "", (), match.end(), "the front matter holds no keys")
    return Note(
        _plain(found.get("title"))[:TITLE_CHARS],
        _many(found.get("tags")),
        _plain(found.get("updated")),
        _plain(found.get("author")),
        _many(found.get("source")),
        match.end(),
    )


def title_of(text: str, path: str) -> str:
    """A note's title: of its front matter, else its first heading, else its file's name."""
    note = parse(text)
    if note.title:
        return note.title
    body = text[note.begins :]
    hidden = _coded(body)
    for heading in _HEADING.finditer(body):
        title = " ".join(heading[1].split())[:TITLE_CHARS]
        if title and not any(start <= heading.start() < end for start, end in hidden):
            return title
    return name_of(path)


def name_of(path: str) -> str:
    """A note's name: its file's, without `.md`."""
    return path.rpartition("/")[2].removesuffix(".md")


def stamped(text: str, values: Mapping[str, str | Sequence[str]]) -> str:
    """The note with these keys of ours set; everything else stays byte for byte.

    A note whose front matter cannot be read is left as it is.
    """
    match = _FRONT.match(text)
    lines = [_dumped(key, value) for key, value in values.items()]
    if match is None:
        return "---\n" + "".join(lines) + "---\n" + ("" if text.startswith("\n") else "\n") + text
    segments = _segments(match[1] or "")
    if segments is None:
        return text
    newline = "\r\n" if "\r\n" in match[0] else "\n"
    front = "".join(raw for key, raw in segments if key not in values)
    front += "".join(lines).replace("\n", newline)
    return _framed(text, match, front, newline)


def carried(old: str, new: str) -> str:
    """A new text for a note, with the foreign keys of the old one kept byte for byte.

    A text without front matter keeps all of the old one's; one with front matter gives our keys,
    and foreign ones that the note does not have yet.
    """
    before, after = _FRONT.match(old), _FRONT.match(new)
    if before is None:
        return new
    if after is None:
        gap = "" if new.startswith(("\n", "\r\n")) else "\n"
        return old[: before.end()] + gap + new
    kept, given = _segments(before[1] or ""), _segments(after[1] or "")
    if kept is None or given is None:
        return new
    known = {key for key, _ in kept}
    newline = "\r\n" if "\r\n" in before[0] else "\n"
    front = "".join(raw for key, raw in kept if key not in OURS)
    front += "".join(raw for key, raw in given if key in OURS or (key and key not in known))
    return _framed(new, after, front, newline)


def same_but_for(old: str, new: str, keys: Iterable[str]) -> bool:
    """Whether two texts differ in nothing but these keys of ours."""
    return _without(old, keys) == _without(new, keys)


# -- links ----------------------------------------------------------------------------------


def links(text: str) -> list[Link]:
    """The wikilinks of a note, those in code left out."""
    if "[[" not in text:
        return []
    hidden = _coded(text)
    return [
        Link(found.start("target"), found.end("target"), found["target"].strip())
        for found in _LINK.finditer(text)
        if found["target"].strip()
        and not any(start <= found.start() < end for start, end in hidden)
    ]


def with_links(text: str, renamed: Callable[[str], str | None]) -> str:
    """The note with the targets of its links replaced; None leaves one as it is."""
    pieces, at = [], 0
    for link in links(text):
        target = renamed(link.target)
        if target is not None:
            pieces += [text[at : link.start], target]
            at = link.end
    return "".join(pieces) + text[at:]


def key_of(target: str) -> str:
    """A link's target, or a path, in the form in which they are compared."""
    if not target.isascii():
        target = unicodedata.normalize("NFC", target)
    plain = target.casefold().strip().strip("/")
    return plain.removesuffix(".md")


def resolve(target: str, paths: Iterable[str]) -> str | None:
    """The path that a link's target names, of the paths that its reader may see.

    A path below an area, or with the area in front, is exact; a name alone stands for the note
    of that name that lies highest.
    """
    wanted = key_of(target)
    named: list[str] = []
    for path in paths:
        key = key_of(path)
        if wanted in (key, key.partition("/")[2]):
            return path
        if key.endswith(f"/{wanted}"):
            named.append(path)
    return min(named, key=lambda path: (path.count("/"), path), default=None)


# -- the front matter's parts -----------------------------------------------------------------


def _segments(front: str) -> list[tuple[str, str]] | None:
    """The lines of each top-level key, in order, what stands before the first under ''.

    None where they cannot be told apart.
    """
    if len(front) > FRONT_CHARS:
        return None
    if front and not front.endswith("\n"):
        front += "\r\n" if "\r\n" in front else "\n"
    try:
        node = yaml.compose(front, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return None
    if node is None:
        return [("", front)] if front else []
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        return None
    starts = []
    for key, _ in node.value:
        at = _offset(front, key.start_mark)
        if not isinstance(key, yaml.ScalarNode) or key.start_mark.column != 0:
            return None
        starts.append((str(key.value), at))
    segments = [("", front[: starts[0][1]])] if starts and starts[0][1] else []
    for n, (name, at) in enumerate(starts):
        end = starts[n + 1][1] if n + 1 < len(starts) else len(front)
        segments.append((name, front[at:end]))
    return segments


def _offset(front: str, mark: Any) -> int:
    """Where a mark is, counted by lines: the C reader's own index counts bytes."""
    at = 0
    for _ in range(mark.line):
        at = front.index("\n", at) + 1
    return at + int(mark.column)


def _framed(text: str, match: re.Match[str], front: str, newline: str) -> str:
    """The note with another front matter, its first and last line as they are."""
    if front and not front.endswith("\n"):
        front += newline
    head = match[0].split("\n", 1)[0] + "\n"
    tail = re.search(r"(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)\Z", match[0])
    closing = tail[0] if tail else f"---{newline}"
    return head + front + closing + text[match.end() :]


def _without(text: str, keys: Iterable[str]) -> str:
    match = _FRONT.match(text)
    segments = _segments(match[1] or "") if match else None
    if match is None or segments is None:
        return text
    left_out = set(keys)
    front = "".join(raw for key, raw in segments if key not in left_out)
    if not front.strip():
        return text[match.end() :].removeprefix("\r\n").removeprefix("\n")
    return _framed(text, match, front, "\n")


def _dumped(key: str, value: str | Sequence[str]) -> str:
    """One line of front matter; a value of several lines becomes one."""
    plain = _plain(value) if isinstance(value, str) else [_plain(one) for one in value]
    dumped: str = yaml.safe_dump(
        plain, allow_unicode=True, width=float("inf"), default_flow_style=True
    )
    return f"{key}: {dumped.split(chr(10), 1)[0]}\n"


def _plain(value: object) -> str:
    """A scalar of YAML as one line of text; '' for anything else."""
    if value is None or isinstance(value, dict | list | set | bytes):
        return ""
    return " ".join(str(value).split())


def _many(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(text for one in value[:100] if (text := _plain(one)))
    if isinstance(value, str):
        return tuple(part for part in re.split(r"[,\s]+", value) if part)
    return ()


def _coded(text: str) -> list[tuple[int, int]]:
    """Where code stands."""
    return [match.span() for match in _CODE.finditer(text)] if "`" in text or "~" in text else []


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]
