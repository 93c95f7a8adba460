"""A note: front matter, then Markdown. Reads what is in it, changes only what is asked. Pure.

Front matter is YAML between two lines of `---`. The keys `title`, `tags`, `updated`, `author`
and `source` are Mercury's; the lines of every other key, comments included, stay byte for byte.
Links are `[[name]]`, `[[path|shown]]`, `[[name#heading]]` and `![[name]]`, as Obsidian has them.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
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
_BOM = "\ufeff"
_FRONT = re.compile(
    r"(?P<opening>\ufeff?---[ \t]*\r?\n)(?P<raw>(?:.*?\n)??)"
    r"(?P<closing>(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z))",
    re.S,
)
_KEY = re.compile(r"(?:[ \t\r]*+(?:#[^\n]*+)?\n)*+[^\n]*?:\s")
"""Lines of which the first, but for comments, says something of a key."""
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""What YAML 1.1 counts as the end of a line."""
_TAIL = re.compile(r"(?:^(?:#[^\n]*|[ \t\r]*)\n)+\Z", re.M)
"""Comments and empty lines at the end."""
_HEADING = re.compile(
    r"^ {0,3}(?:#{1,6}[ \t]+(?P<marked>[^\n]*)"
    r"|(?![-*+>#][ \t])(?P<underlined>[^\s#>][^\n]*)\n {0,3}=++[ \t]*+\r?$)",
    re.M,
)
_FENCE = re.compile(
    r"(?P<before>[ \t]*+(?:(?:>|[-*+](?=[ \t])|[0-9]{1,9}[.)](?=[ \t]))[ \t]*+)*+)"
    r"(?P<run>`{3,}+(?=[^`\n]*+$)|~{3,}+)",
    re.M,
)
_FENCE_END = re.compile(r"(?P<before>[ \t>]*+)(?P<run>`{3,}+|~{3,}+)[ \t]*+\r?$", re.M)
_RUN = re.compile("`+")
_RUN_OR_ESCAPED = re.compile(r"\\.|`+", re.S)
_LINK = re.compile(
    r"\[\[(?P<target>[^\[\]\n|#^\\]{1,400})(?P<rest>[#^][^\[\]\n|]*)?(?P<shown>\\?\|[^\[\]\n]*)?\]\]"
)
"""In a table the bar is written with a backslash before it."""
_TARGET = re.compile(r"(?!\s)[^\[\]\n|#^\\]{1,400}(?<!\s)")


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
    """Reads a note; broken front matter is a problem, never an error.

    What YAML takes for a plain text or a list is none: the lines of `---` are rules in Markdown.
    """
    front = _front(text)
    if front is None:
        return Note("", (), "", "", (), int(text.startswith(_BOM)))
    found = front.values()
    return Note(
        _plain(found.get("title"))[:TITLE_CHARS],
        _many(found.get("tags")),
        _plain(found.get("updated")),
        _plain(found.get("author")),
        _many(found.get("source")),
        front.end,
        front.problem,
    )


def title_of(text: str, path: str) -> str:
    """A note's title: of its front matter, else its first heading, else its file's name."""
    note = parse(text)
    if note.title:
        return note.title
    body = text[note.begins :]
    code = _Code(body)
    for heading in _HEADING.finditer(body):
        title = " ".join(_unmarked(heading["marked"] or heading["underlined"] or "").split())
        if title and heading.start() not in code:
            return title[:TITLE_CHARS]
    return name_of(path)


def name_of(path: str) -> str:
    """A note's name: its file's, without `.md`."""
    return path.rpartition("/")[2].removesuffix(".md")


def stamped(text: str, values: Mapping[str, str | Sequence[str]]) -> str:
    """The note with these keys of ours set; everything else stays byte for byte.

    A note whose front matter cannot be read, or could not be read afterwards, is left as it is.
    """
    front = _front(text)
    lines = [(key, _dumped(key, value)) for key, value in values.items()]
    if front is None:
        begins = int(text.startswith(_BOM))
        newline = _newline_of(text)
        new = _Front(f"{text[:begins]}---{newline}", "", f"---{newline}", begins, None, "")
        gap = "" if text.startswith(("\n", "\r\n"), begins) else newline
        return _rebuilt(new, [], lines, gap + text[begins:]) or text
    keys = front.keys()
    if keys is None:
        return text
    kept = [(key, raw) for key, raw in keys if key not in values]
    return _rebuilt(front, kept, lines, text[front.end :]) or text


def carried(old: str, new: str) -> str:
    """A new text for a note, with the foreign keys of the old one kept byte for byte.

    A text without front matter keeps all of the old one's; one with front matter gives our keys,
    and foreign ones that the note does not have yet. Where the two cannot be brought together the
    old one's stays whole, but for one that cannot be read.
    """
    before, after = _front(old), _front(new)
    if before is None:
        return new
    newline = _newline_of(before.opening)
    if after is None:
        body = new.removeprefix(_BOM)
        gap = "" if body.startswith(("\n", "\r\n")) else newline
        return old[: before.end] + gap + body
    kept, given, body = before.keys(), after.keys(), new[after.end :]
    if before.problem:
        return new
    if kept is not None and given is not None:
        known = {key for key, _ in kept}
        foreign = [(key, raw) for key, raw in kept if key not in OURS]
        added = [(key, raw) for key, raw in given if key in OURS or (key and key not in known)]
        if rebuilt := _rebuilt(before, foreign, added, body):
            return rebuilt
    return _joined(old[: before.end], body, newline)


def same_but_for(old: str, new: str, keys: Iterable[str]) -> bool:
    """Whether two texts differ in nothing but these keys of ours."""
    left_out = frozenset(keys)
    return _without(old, left_out) == _without(new, left_out)


# -- links ----------------------------------------------------------------------------------


def links(text: str) -> list[Link]:
    """The wikilinks of a note, those in code left out."""
    if "[[" not in text:
        return []
    code = _Code(text)
    found = []
    for match in _LINK.finditer(text):
        target = match["target"].strip()
        if target and match.start() not in code:
            start = match.start("target") + match["target"].index(target)
            found.append(Link(start, start + len(target), target))
    return found


def with_links(text: str, renamed: Callable[[str], str | None]) -> str:
    """The note with the targets of its links replaced; None leaves one as it is.

    So does a name that cannot stand in a link.
    """
    pieces, at = [], 0
    for link in links(text):
        target = renamed(link.target)
        if target is not None and _TARGET.fullmatch(target):
            pieces += [text[at : link.start], target]
            at = link.end
    return "".join(pieces) + text[at:]


def key_of(target: str) -> str:
    """A link's target, or a path, in the form in which they are compared."""
    folded = unicodedata.normalize("NFD", target).casefold()
    plain = unicodedata.normalize("NFC", folded).strip().strip("/")
    return plain.removesuffix(".md")


def resolve(target: str, paths: Iterable[str]) -> str | None:
    """The path that a link's target names, of the paths that its reader may see.

    A path with the area in front comes first, then one below an area, then a name, or the end
    of a path, anywhere; of several the one that lies highest.
    """
    wanted = key_of(target)
    named: list[tuple[int, int, str]] = []
    for path in paths if wanted else ():
        key = key_of(path)
        if key == wanted or key.endswith(f"/{wanted}"):
            is_below = key.partition("/")[2] == wanted
            rank = 0 if key == wanted else 1 if is_below else 2
            named.append((rank, path.count("/"), path))
    return min(named)[2] if named else None


# -- the front matter's parts -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Front:
    """Front matter as it is written.

    Args:
        opening, raw, closing: its first line, the YAML, its last line.
        end: where the Markdown begins.
        node: the mapping that the YAML holds; None for none, or when it cannot be read.
        problem: why it cannot be read; '' when it can.
    """

    opening: str
    raw: str
    closing: str
    end: int
    node: Any
    problem: str

    def values(self) -> dict[str, Any]:
        """The YAML node of each key; of a key that stands there twice, the last one's."""
        pairs = self.node.value if self.node is not None else ()
        return {str(key.value): value for key, value in pairs if isinstance(key, yaml.ScalarNode)}

    def keys(self) -> list[tuple[str, str]] | None:
        """The lines of each key, in order; what is no key's own stands under ''.

        None where they cannot be told apart.
        """
        if self.problem or (self.node is not None and self.node.flow_style):
            return None
        if self.node is None:
            return [("", self.raw)] if self.raw else []
        begins = [0, *(found.end() for found in _BREAK.finditer(self.raw))]
        starts: list[tuple[str, int]] = []
        for key, _ in self.node.value:
            if not isinstance(key, yaml.ScalarNode) or key.start_mark.column != 0:
                return None
            starts.append((str(key.value), begins[key.start_mark.line]))
        ends = [at for _, at in starts[1:]] + [len(self.raw)]
        keys = [("", self.raw[: starts[0][1] if starts else len(self.raw)])]
        for (name, start), end in zip(starts, ends, strict=False):
            tail = _TAIL.search(self.raw[start:end]) if name in OURS else None
            own = start + tail.start() if tail else end
            keys += [(name, self.raw[start:own]), ("", self.raw[own:end])]
        return [(name, raw) for name, raw in keys if raw]


def _front(text: str) -> _Front | None:
    """The front matter of a note; None where it has none."""
    match = _FRONT.match(text)
    if match is None:
        return None
    node, problem = _composed(match["raw"])
    if problem and not _KEY.match(match["raw"]):
        return None
    if node is not None and not isinstance(node, yaml.MappingNode):
        return None
    return _Front(match["opening"], match["raw"], match["closing"], match.end(), node, problem)


def _composed(raw: str) -> tuple[Any, str]:
    """The node that YAML holds, and why it cannot be read; aliases are never written out."""
    if len(raw) > FRONT_CHARS:
        return None, "the front matter is too long"
    try:
        return yaml.compose(raw, _Loader), ""
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        why, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark else ""
        return None, f"{why}{where}" if why else _first_line(str(error))


def _rebuilt(
    front: _Front, kept: list[tuple[str, str]], added: list[tuple[str, str]], body: str
) -> str | None:
    """A note with other front matter: the lines of keys that stay, then of those that are new.

    None where it could not be read any more, as when a key that stays stands for one that goes.
    """
    newline = _newline_of(front.opening)
    added = [(key, raw.replace("\r\n", "\n").replace("\n", newline)) for key, raw in added]
    text = front.opening + "".join(raw for _, raw in kept + added) + front.closing
    read = _front(text)
    found = read.keys() if read is not None else None
    if found is None or _foreign(found) != _foreign(kept + added):
        return None
    return _joined(text, body, newline)


def _foreign(keys: Iterable[tuple[str, str]]) -> str:
    return "".join(raw for key, raw in keys if key not in OURS)


def _joined(front: str, body: str, newline: str) -> str:
    """Front matter and what stands below it."""
    return front + (newline if body and not front.endswith("\n") else "") + body


def _without(text: str, keys: frozenset[str]) -> str:
    """A text without some keys; without front matter, when no other key is left."""
    front = _front(text)
    found = front.keys() if front is not None else None
    if front is None or found is None:
        return text
    raw = "".join(raw for key, raw in found if key not in keys)
    if not raw.strip():
        return text[front.end :].removeprefix("\r\n").removeprefix("\n")
    return front.opening + raw + front.closing + text[front.end :]


def _newline_of(text: str) -> str:
    """How the first line of a text ends."""
    return "\r\n" if text[: text.find("\n") + 1].endswith("\r\n") else "\n"


def _dumped(key: str, value: str | Sequence[str]) -> str:
    """One line of front matter; a value of several lines becomes one."""
    one_line = _in_line(value) if isinstance(value, str) else [_in_line(one) for one in value]
    dumped: str = yaml.safe_dump(
        one_line, allow_unicode=True, width=float("inf"), default_flow_style=True
    )
    return f"{key}: {dumped.split(chr(10), 1)[0]}\n"


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _plain(node: Any) -> str:
    """A scalar of YAML as it is written, as one line of text; '' for anything else."""
    if not isinstance(node, yaml.ScalarNode):
        return ""
    is_text = node.tag not in ("tag:yaml.org,2002:null", "tag:yaml.org,2002:binary")
    return _in_line(str(node.value)) if is_text else ""


def _many(node: Any) -> tuple[str, ...]:
    if isinstance(node, yaml.SequenceNode):
        return tuple(text for one in node.value[:100] if (text := _plain(one)))
    return tuple(part for part in re.split(r"[,\s]+", _plain(node)) if part)


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]


# -- the Markdown's parts ---------------------------------------------------------------------


def _unmarked(heading: str) -> str:
    """A heading without the `#` that may close it."""
    text = heading.strip()
    bare = text.rstrip("#")
    return text if bare and not bare[-1].isspace() else bare


class _Code:
    """Where code stands in a text: fences, and spans within a paragraph.

    Every line and every run of backticks is looked at once, whatever they are.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []
        self._ends: list[int] = []
        if "`" in text or "~~~" in text:
            self._find()

    def __contains__(self, at: int) -> bool:
        n = bisect_right(self._starts, at) - 1
        return n >= 0 and at < self._ends[n]

    def _find(self) -> None:
        text, at, paragraph = self._text, 0, 0
        fence: re.Match[str] | None = None
        while at < len(text):
            end = text.find("\n", at) + 1 or len(text)
            if fence is not None and self._leaves(fence, at, end):
                self._add(fence.start(), at)
                fence, paragraph = None, at
            if fence is None:
                fence = _FENCE.match(text, at, end)
                if fence is not None or text[at:end].isspace():
                    self._find_spans(paragraph, at)
                    paragraph = end
            elif self._closes(fence, at, end):
                self._add(fence.start(), end)
                fence, paragraph = None, end
            at = end
        if fence is not None:
            self._add(fence.start(), len(text))
        else:
            self._find_spans(paragraph, len(text))

    def _leaves(self, fence: re.Match[str], at: int, end: int) -> bool:
        """Whether a line is outside of the quotation that a fence stands in."""
        return ">" in fence["before"] and not self._text[at:end].lstrip().startswith(">")

    def _closes(self, fence: re.Match[str], at: int, end: int) -> bool:
        last = _FENCE_END.match(self._text, at, end)
        return (
            last is not None
            and last["run"].startswith(fence["run"])
            and _width(last["before"]) <= _width(fence["before"]) + 3
        )

    def _find_spans(self, start: int, end: int) -> None:
        """Backticks, and as many of them again: what is between is code."""
        runs: dict[int, list[int]] = {}
        for run in _RUN.finditer(self._text, start, end):
            runs.setdefault(len(run[0]), []).append(run.start())
        while runs and (opening := _RUN_OR_ESCAPED.search(self._text, start, end)):
            start = opening.end()
            others = runs.get(len(opening[0]), []) if opening[0][0] == "`" else []
            n = bisect_left(others, start)
            if n < len(others):
                start = others[n] + len(opening[0])
                self._add(opening.start(), start)

    def _add(self, start: int, end: int) -> None:
        self._starts.append(start)
        self._ends.append(end)


def _width(before: str) -> int:
    """The columns before a fence."""
    return len(before.expandtabs(4))
