"""What becomes of a note that changed in two places: merged by line, or both are kept."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests import floods
from wiki.errors import NotAPath
from wiki.merge import LARGEST, Merged, conflict_path, is_conflict, merge
from wiki.paths import COMMON, PATH_BYTES, SEGMENT_BYTES, area_of, checked, is_note

LONG = "".join(f"line {n}\n" for n in range(300))
UPDATED = re.compile(rb"updated:")


def edited(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def merged(base: str | None, ours: str | None, theirs: str | None) -> tuple[str | None, ...]:
    """`merge` of texts: what is kept at the path, and beside it if anything is."""
    found = merge(*(None if text is None else text.encode() for text in (base, ours, theirs)))
    kept = (found.ours,) if found.theirs is None else (found.ours, found.theirs)
    return tuple(None if data is None else data.decode() for data in kept)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "kept"),
    [
        # unchanged, or changed on one side
        ("a\n", "a\n", "a\n", ("a\n",)),
        ("a\n", "b\n", "a\n", ("b\n",)),
        ("a\n", "a\n", "b\n", ("b\n",)),
        ("a\n", "b\n", "b\n", ("b\n",)),
        (None, None, None, (None,)),
        # new, and gone
        (None, None, "a\n", ("a\n",)),
        (None, "a\n", None, ("a\n",)),
        (None, "a\n", "a\n", ("a\n",)),
        (None, "a\n", "b\n", ("a\n", "b\n")),
        ("a\n", None, None, (None,)),
        ("a\n", None, "a\n", (None,)),
        ("a\n", "a\n", None, (None,)),
        ("a\n", None, "b\n", ("b\n",)),
        ("a\n", "b\n", None, ("b\n",)),
        # an empty note is a note
        ("a\n", "", "a\n", ("",)),
        ("a\n", "", None, ("",)),
        ("", None, "", (None,)),
        (None, "", None, ("",)),
        ("", "a\n", "b\n", ("a\n", "b\n")),
        # other lines
        ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", ("A\nb\nC\n",)),
        ("a\nb\nc\n", "b\nc\n", "a\nb\nc\nd\n", ("b\nc\nd\n",)),
        ("a\nb\nc\n", "a\nb\nc\nd\n", "new\na\nb\nc\n", ("new\na\nb\nc\nd\n",)),
        ("a\nb\nc\n", "A\nb\nC\n", "a\nb\nC\n", ("A\nb\nC\n",)),
        # the same lines, and lines that touch
        ("a\nb\nc\n", "a\nB\nc\n", "a\nX\nc\n", ("a\nB\nc\n", "a\nX\nc\n")),
        ("a\nb\n", "A\nb\n", "a\nB\n", ("A\nb\n", "a\nB\n")),
        ("a\n", "a\nb\n", "a\nc\n", ("a\nb\n", "a\nc\n")),
        ("a\nb\nc\n", "a\nc\n", "a\nB\nc\n", ("a\nc\n", "a\nB\nc\n")),
        # the end of the last line
        ("a\nb\nc", "A\nb\nc", "a\nb\nC", ("A\nb\nC",)),
        ("a\nb\nc", "A\nb\nc", "a\nb\nc\nd", ("A\nb\nc\nd",)),
        ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nc", ("A\nb\nc",)),
        ("a", "a\n", "a\nb", ("a\n", "a\nb")),
        # ends of lines
        ("a\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\nC\r\n", ("A\r\nb\r\nC\r\n",)),
        ("a\nb\nc\n", "A\nb\nc\n", "a\r\nb\r\nc\r\n", ("A\nb\nc\n", "a\r\nb\r\nc\r\n")),
        ("a\rb\rc\r", "A\rb\rc\r", "a\rb\rC\r", ("A\rb\rC\r",)),
        ("é\nb\u2028c\nd\n", "É\nb\u2028c\nd\n", "é\nb\u2028c\nD\n", ("É\nb\u2028c\nD\n",)),
        # what is no text, or no note
        ("a\nb\nc\n", "A\nb\n\0c\n", "a\nb\nC\n", ("A\nb\n\0c\n", "a\nb\nC\n")),
        ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\0\n", ("A\nb\nc\n", "a\nb\nC\0\n")),
        ("\0", "\0", "\0\0", ("\0\0",)),
        (
            "a\n" + "x" * LARGEST, "A\n" + "x" * LARGEST, "a\n" + "x" * LARGEST + "\nc",
            ("A\n" + "x" * LARGEST, "a\n" + "x" * LARGEST + "\nc"),
        ),
    ],
)  # fmt: skip
def test_what_is_kept(
    base: str | None, ours: str | None, theirs: str | None, kept: tuple[str | None, ...]
) -> None:
    assert merged(base, ours, theirs) == kept


def test_bytes_that_are_no_text_are_merged_and_kept_as_they_are() -> None:
    assert merge(b"\xff\nb\n\xfe\n", b"\xff1\nb\n\xfe\n", b"\xff\nb\n\xfe2\n") == Merged(
        b"\xff1\nb\n\xfe2\n"
    )
    assert merge(b"\xff\n", b"\xfe\n", b"\xfd\n") == Merged(b"\xfe\n", b"\xfd\n")


def test_many_edits_all_over_a_long_note_come_together() -> None:
    ours = edited(LONG, ("line 3\n", "ours 3\n"), ("line 150\n", ""), ("line 299\n", "ours 299\n"))
    theirs = edited(LONG, ("line 1\n", "theirs\nand more\n"), ("line 200\n", "line 200!\n"))
    both = edited(ours, ("line 1\n", "theirs\nand more\n"), ("line 200\n", "line 200!\n"))
    assert merged(LONG, ours, theirs) == (both,)


def test_what_moves_and_what_is_edited_elsewhere_come_together() -> None:
    blank = "\n\n- a\n\n\n- b\n\n"
    base = f"{blank}# One\n{blank}# Two\n{blank}# Three\n{blank}"
    ours = edited(base, ("# Two\n", "# Zwei\n"))
    theirs = edited(base, ("# Three\n", "# Drei\n"), ("# One\n", f"# Null\n{blank}# One\n"))
    both = edited(ours, ("# Three\n", "# Drei\n"), ("# One\n", f"# Null\n{blank}# One\n"))
    assert merged(base, ours, theirs) == (both,)


# -- when it was updated ------------------------------------------------------------------------


def dated(date: str, body: str = "a\nb\nc\n", before: str = "---\n", after: str = "---\n") -> str:
    return f"{before}title: T\nupdated: {date}\nauthor: x\n{after}{body}"


@pytest.mark.parametrize("before", ["---\n", "---\r\n", "\ufeff---  \n"])
@pytest.mark.parametrize("after", ["---\n", "...\n", "---\r\n"])
def test_dates_alone_are_no_conflict(before: str, after: str) -> None:
    base, ours, theirs = (dated(day, before=before, after=after) for day in "123")
    assert merged(base, ours, theirs) == (ours,)
    assert merged(base, ours, theirs + "d\n") == (ours + "d\n",)
    assert merged(base, ours + "d\n", theirs) == (ours + "d\n",)
    assert merged(None, ours, theirs) == (ours,)
    assert merged(base, base, theirs) == (theirs,)


def test_dates_are_brought_together_and_lines_merged() -> None:
    ours, theirs = dated("2", "A\nb\nc\n"), dated("3", "a\nb\nC\n")
    assert merged(dated("1"), ours, theirs) == (dated("2", "A\nb\nC\n"),)


def test_what_is_kept_of_theirs_has_their_date() -> None:
    ours, theirs = dated("2", "x\n"), dated("3", "y\n")
    assert merged(dated("1"), ours, theirs) == (ours, theirs)


def test_a_date_with_carriage_returns_is_a_date() -> None:
    base, ours, theirs = (dated(day).replace("\n", "\r\n") for day in "123")
    assert merged(base, ours, theirs) == (ours,)


@pytest.mark.parametrize(
    "form",
    [
        "updated: {}\na\n",  # no front matter
        "---\nupdated: {}\na\n",  # no line closes it
        "---\na\n---\nupdated: {}\n",
        "---\na: b\n...\nupdated: {}\n---\n",
        "# x\n---\nupdated: {}\n---\n",
        "---\na:\n  updated: {}\n---\n",
        "---\nnot updated: {}\n---\n",
        "---\nupdated:\n  {}\n---\n",
        "---\nupdated: |\n  {}\n---\n",
    ],
)
def test_what_looks_like_a_date_elsewhere_is_text(form: str) -> None:
    ours, theirs = form.format("ours"), form.format("theirs")
    assert merged(form.format("base"), ours, theirs) == (ours, theirs)


def test_a_date_of_several_lines_is_not_taken_apart() -> None:
    base, ours = "---\nupdated: 0\n---\nx\n", "---\nupdated: 1\n---\nx\n"
    theirs = "---\nupdated:\n  2\n---\nx\n"
    assert merged(base, ours, theirs) == (theirs,)
    assert merged(base, theirs, ours) == (theirs, ours)


# -- whatever it is -----------------------------------------------------------------------------

LINE = st.sampled_from(
    [b"a\n", b"b\n", b"c\n", b"\n", b"\n", b"# h\n", b"d\r\n", b"---\n", b"updated: 1\n",
     b"updated: 2\n", b"e\r", b"\xff\n", b"x"]
)  # fmt: skip
TEXT = st.lists(LINE, max_size=12).map(b"".join)
VERSION = st.none() | TEXT


@st.composite
def versions(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    """A text of some length, and two that were made from it by a few edits."""
    lines = [b"%d\n" % n for n in range(draw(st.integers(0, 150)))]
    lines += draw(st.lists(LINE, max_size=12))
    texts = [b"".join(lines)]
    for _ in range(2):
        changed = list(lines)
        for _ in range(draw(st.integers(0, 4))):
            at = draw(st.integers(0, len(changed)))
            changed[at : at + draw(st.integers(0, 3))] = draw(st.lists(LINE, max_size=3))
        texts.append(b"".join(changed))
    return texts[0], texts[1], texts[2]


ANY = versions() | st.tuples(VERSION, VERSION, VERSION)


@given(VERSION, VERSION)
@settings(max_examples=300, deadline=None)
def test_a_side_that_did_not_change_takes_the_other(base: bytes | None, new: bytes | None) -> None:
    assert merge(base, new, base) == Merged(new)
    assert merge(base, base, new) == Merged(new)
    assert merge(base, new, new) == Merged(new)


@given(ANY)
@settings(max_examples=400, deadline=None)
def test_no_line_is_lost(given_: tuple[bytes | None, bytes | None, bytes | None]) -> None:
    base, ours, theirs = given_
    found = merge(base, ours, theirs)
    if found.theirs is not None:
        assert (found.ours, found.theirs) == (ours, theirs)
        return
    assert found.ours is not None or None in (ours, theirs) or theirs == ours
    kept = lines_of(found.ours)
    known = {*lines_of(ours), *lines_of(theirs)}
    assert set(kept) <= known | {b""}
    if ours is not None and theirs is not None:
        old = set(lines_of(base))
        new = [line for line in (*lines_of(ours), *lines_of(theirs)) if line not in old]
        assert {line for line in new if not UPDATED.match(line)} <= set(kept)


def lines_of(text: bytes | None) -> list[bytes]:
    return (text or b"").splitlines(keepends=True)


@given(ANY)
@example((b"a\nb\n", b"b\n", b"a\n"))
@settings(max_examples=400, deadline=None)
def test_it_is_the_same_whoever_is_first(
    given_: tuple[bytes | None, bytes | None, bytes | None],
) -> None:
    base, ours, theirs = (text and text.replace(b"updated", b"u") for text in given_)
    one, other = merge(base, ours, theirs), merge(base, theirs, ours)
    if one.theirs is None:
        assert one == other
    else:
        assert (one.ours, one.theirs) == (other.theirs, other.ours)


@given(ANY)
@settings(max_examples=300, deadline=None)
def test_a_merge_that_is_merged_again_changes_nothing(
    given_: tuple[bytes | None, bytes | None, bytes | None],
) -> None:
    base, ours, theirs = given_
    found = merge(base, ours, theirs)
    if found.theirs is None:
        assert merge(theirs, found.ours, theirs) == found
        assert merge(ours, ours, found.ours) == found


@given(st.lists(st.integers(0, 9), max_size=400), st.lists(st.integers(0, 9), max_size=400))
@settings(max_examples=100, deadline=None)
def test_long_texts_of_few_lines_are_merged_or_kept(one: list[int], other: list[int]) -> None:
    ours, theirs = (b"".join(b"%d\n" % n for n in lines) for lines in (one, other))
    base = ours[: len(ours) // 2] + theirs[len(theirs) // 2 :]
    found = merge(base, ours, theirs)
    assert found == Merged(ours, theirs) or found.theirs is None
    assert merge(base, ours, base + b"new\n").theirs in (None, base + b"new\n")


@pytest.mark.parametrize("name", floods.LINES)
def test_a_flood_is_merged_or_kept(name: str) -> None:
    base, ours, theirs = ("".join(lines).encode() for lines in floods.LINES[name])
    found = merge(base, ours, theirs)
    assert found.theirs in (None, theirs)
    assert merge(base, ours, base) == Merged(ours)


def test_edits_far_apart_in_a_text_of_equal_lines_come_together() -> None:
    base = ["\n"] * 5_000 + ["x\n"] + ["- [ ] milk\n"] * 5_000
    ours, theirs = ["ours\n", *base], [*base, "theirs\n"]
    both = ["ours\n", *base, "theirs\n"]
    assert merged("".join(base), "".join(ours), "".join(theirs)) == ("".join(both),)


# -- where the other version is kept --------------------------------------------------------------


def test_the_same_version_is_always_at_the_same_path() -> None:
    path = conflict_path("curated/a/x.md", b"theirs\n")
    assert path == "curated/a/x.conflict-ed9c86a6.md"
    assert conflict_path("curated/a/x.md", b"theirs\n") == path
    assert conflict_path("curated/a/x.md", b"theirs") != path
    assert conflict_path(path, b"theirs\n") == path
    assert conflict_path(path, b"other\n") == conflict_path("curated/a/x.md", b"other\n")


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("curated/x.conflict-0123abcd.md", True),
        ("curated/a.conflict-0123abcd.conflict-00000000.md", True),
        ("curated/x.md", False),
        ("curated/x.conflict-0123ABCD.md", False),
        ("curated/x.conflict-0123abc.md", False),
        ("curated/x.conflict-0123abcd.md.md", False),
        ("curated/x.conflict-0123abcd.md\n", False),
        ("curated/x.conflict-0123abcd.md/y.md", False),
        ("curated/conflict-0123abcd.md", False),
    ],
)
def test_a_path_shows_that_it_is_another_version(path: str, is_one: bool) -> None:
    assert is_conflict(path) is is_one


NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=60
) | st.sampled_from(["x" * 177, "é" * 88, "漢" * 59, "x" * 177 + ".conflict-0123abcd"])  # fmt: skip


@given(st.lists(NAMES, min_size=1, max_size=5), st.binary(max_size=9), st.binary(max_size=9))
@example(["a" * 180, "b" * 180, "c" * 180, "d" * 52, "x"], b"", b"x")
@example(["x" * (SEGMENT_BYTES - 3)], b"", b"x")
@settings(max_examples=250, deadline=None)
def test_every_note_has_a_place_for_its_other_version(
    names: list[str], theirs: bytes, other: bytes
) -> None:
    try:
        below = checked("/".join(names) + ".md")
    except NotAPath:
        below = "x" * (PATH_BYTES // 4) + ".md"
    for area in (COMMON, area_of("google-chat:users/" + "1" * 32), area_of("http:" + "a" * 128)):
        path = f"{area.folder}/{below}"
        conflict = conflict_path(path, theirs)
        assert is_note(area, conflict)
        assert is_conflict(conflict)
        assert conflict.rpartition("/")[0] == path.rpartition("/")[0]
        again = conflict_path(conflict, other)
        assert is_note(area, again)
        assert again == conflict_path(path, other)
        assert (again == conflict) == (theirs == other)
