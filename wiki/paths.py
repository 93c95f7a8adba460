"""Where a note is: who asks and what path they say make a place, or a refusal. Pure.

This is the one door between paths that people and models write and paths in the repository.
"Not yours" and "not there" are the same refusal, and a place is made from an access only, which
is made where somebody was authenticated.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from wiki.errors import NotAPath, NotThere

CURATED, MINE, PEOPLE = "curated", "mine", "people"
MAIN = "main"
LEVELS = 4
"""Folders below an area."""
SEGMENT_BYTES = 180
"""A file name may have 255; its conflict's mark and what is set aside beside it need the rest."""
PATH_BYTES = 600
"""Below an area. Neither limit counts a conflict's mark, so that every note can have one."""
SLUG_CHARS = 40
CONFLICT = re.compile(r"\.conflict-[0-9a-f]{8}(?=\.md\Z)")
"""How the name of the other version of a note is marked."""

Bare = Literal["mine", "curated"]
"""The area of a path that names none."""

_FOLDER = re.compile(r"google-chat-[0-9]{1,32}|(?:http|cli)-[a-z0-9-]{1,40}-[0-9a-f]{8}")
_GOOGLE = re.compile(r"users/([0-9]{1,32})")
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(?:\.|\Z)", re.I
)
"""Of Windows, which looks at what stands before the first dot, and at no blanks before that."""
_SHORT_NAME = re.compile(r"~[0-9]")
_NEVER = set('\\:*?"<>|\x7f')
"""What some system or other takes for a part of its own syntax."""
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0e\uffa0"
    "\U000e0100-\U000e01ef]"
)
"""Letters and marks that show nothing: Unicode's default ignorables, and the blank of Braille."""
_EMOJI = "\ufe0f"
"""Shows nothing either, but makes an emoji of the symbol before it."""


@dataclass(frozen=True, slots=True)
class Area:
    """One area: its folder, as in the repository, and the branch that holds it."""

    folder: str
    branch: str


COMMON = Area(CURATED, MAIN)


@dataclass(frozen=True, slots=True)
class Access:
    """Who asks, and what they may see.

    Args:
        person: whose area `mine/` is; '' for an operator who acts for nobody.
        in_space: several people read the answer, so nothing private is shown.
        is_operator: changes `curated/` without being asked, and may name anybody's area.
    """

    person: str
    in_space: bool = False
    is_operator: bool = False

    @property
    def own(self) -> Area | None:
        """The person's area."""
        return area_of(self.person) if self.person else None

    def readable(self) -> list[Area]:
        """The areas that may be shown."""
        own = None if self.in_space else self.own
        return [COMMON] if own is None else [COMMON, own]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a note is, or would be.

    Args:
        area: whose it is.
        path: in the repository, from its root on.
    """

    area: Area
    path: str

    @property
    def is_common(self) -> bool:
        """Whether the place is in the common area."""
        return self.area == COMMON

    @property
    def below(self) -> str:
        """The path below the area."""
        return self.path.removeprefix(f"{self.area.folder}/")


def folder_of(person: str) -> str:
    """The name of a person's folder below `people/`, from `channel:subject`.

    A Google Chat user that is no number gets a name that `area_named` refuses.
    """
    channel, _, subject = person.partition(":")
    if channel == "google-chat" and (found := _GOOGLE.fullmatch(subject)):
        return f"google-chat-{found[1]}"
    slug = re.sub(r"[^a-z0-9]+", "-", subject.lower())[:SLUG_CHARS].strip("-") or "x"
    digest = hashlib.sha256(person.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{channel}-{slug}-{digest[:8]}"


def area_of(person: str) -> Area:
    """A person's area."""
    return area_named(folder_of(person))


def area_named(folder: str) -> Area:
    """The area of a folder below `people/`.

    Raises:
        NotThere: no person's folder has that name.
    """
    if not _FOLDER.fullmatch(folder):
        raise NotThere(folder)
    return Area(f"{PEOPLE}/{folder}", f"{PEOPLE}/{folder}")


def area_of_branch(branch: str) -> Area | None:
    """The area that a branch holds; None for a branch that is not the wiki's."""
    if branch == MAIN:
        return COMMON
    first, _, folder = branch.partition("/")
    return area_named(folder) if first == PEOPLE and _FOLDER.fullmatch(folder) else None


def area_of_path(path: str) -> Area:
    """The area of a path of the repository.

    Raises:
        NotThere: it is in nobody's.
    """
    first, _, rest = path.partition("/")
    return COMMON if first == CURATED else area_named(rest.partition("/")[0])


def place(access: Access, path: str, bare: Bare = "mine") -> Place:
    """The place that somebody's path stands for.

    Args:
        path: `curated/…`, `mine/…`, for an operator also `people/<folder>/…`, or without area.
        bare: the area of a path without one.

    Raises:
        NotAPath: no note can have it.
        NotThere: it is in an area that this access does not know.
    """
    composed = _composed(path)
    first, slash, rest = composed.partition("/")
    if not slash or first not in (CURATED, MINE, PEOPLE):
        first, rest = bare, composed
    if first == PEOPLE and not access.is_operator:
        raise NotThere(path)
    below = checked(rest if first != PEOPLE else rest.partition("/")[2])
    if first == PEOPLE:
        area: Area | None = area_named(rest.partition("/")[0])
    else:
        area = COMMON if first == CURATED else access.own
    if area is None:
        raise NotThere(path)
    return Place(area, f"{area.folder}/{below}")


def shown(access: Access, at: Place) -> str:
    """A place as this access names it: `curated/…`, `mine/…` or `people/…`."""
    if at.area == access.own:
        return f"{MINE}/{at.below}"
    return at.path


def is_note(area: Area, path: str) -> bool:
    """Whether a path of the repository is that of a note of the area."""
    return path.startswith(f"{area.folder}/") and not why_no_note(area, path)


def why_no_note(area: Area, path: str) -> str:
    """Why a file of an area's folder is no note by its name; '' when it can be one."""
    below = path.removeprefix(f"{area.folder}/")
    try:
        if checked(below) == below:
            return ""
    except NotAPath as error:
        return f"{error}; rename the file"
    return "its name is not in the composed form of Unicode (NFC); rename the file"


def checked(below: str) -> str:
    """A path below its area, as it is kept.

    Raises:
        NotAPath: no note can have it.
    """
    below = _composed(below)
    if _length(below) > PATH_BYTES:
        raise NotAPath(f"the path is longer than {PATH_BYTES} bytes")
    if not below.endswith(".md"):
        raise NotAPath("a note's path ends in a name with .md")
    segments = below.split("/")
    if len(segments) > LEVELS + 1:
        raise NotAPath(f"a note is at most {LEVELS} folders below its area")
    if unicodedata.normalize("NFKC", below).count("/") != len(segments) - 1:
        raise NotAPath("the path holds a character that looks like a slash")
    for segment in segments:
        if why := _why_no_name(segment):
            raise NotAPath(why)
    if any(segment.lower().endswith(".md") for segment in segments[:-1]):
        raise NotAPath("only a note's own name ends in .md")
    return below


def _composed(path: str) -> str:
    """A path in NFC; what is long beyond doubt is refused before, since composing takes long."""
    if len(path) > 4 * PATH_BYTES:
        raise NotAPath(f"the path is longer than {PATH_BYTES} bytes")
    return unicodedata.normalize("NFC", path)


def _length(text: str) -> int:
    """The bytes that count of a path or a name."""
    return len(CONFLICT.sub("", text).encode("utf-8", "surrogatepass"))


def _why_no_name(segment: str) -> str:
    """Why a name cannot be that of a note or a folder; '' when it can."""
    if not segment:
        return "the path has an empty part"
    for form in (segment, unicodedata.normalize("NFKC", segment)):
        if form.startswith("."):
            return "no part of a path begins with a dot"
        if form.endswith(".") or form != form.strip():
            return "no part of a path begins or ends with a blank, or ends with a dot"
        if _NEVER.intersection(form):
            return 'no path holds any of \\ : * ? " < > |'
        if _DEVICE.match(form):
            return f"{form!r} is the name of a device"
        if _SHORT_NAME.search(form):
            return "no path holds a tilde before a digit"
    if _is_unseen(segment):
        return "the path holds a character that cannot be seen"
    if _length(segment) > SEGMENT_BYTES:
        return f"a part of the path is longer than {SEGMENT_BYTES} bytes"
    return ""


def _is_unseen(segment: str) -> bool:
    """Whether a name holds a character that shows nothing, or turns others round."""
    if _IGNORED.search(segment) or any(unicodedata.category(c) in _UNSEEN for c in segment):
        return True
    return any(
        char == _EMOJI and unicodedata.category(before)[0] != "S"
        for before, char in zip(f".{segment}", segment, strict=False)
    )
