"""Where a note may be: every path is a place below its area or a refusal, and nothing between."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.shared import SHARED, needs_shared
from tests.wikis import ALICE, BOB, CURATED, MINE, OPERATOR
from wiki.errors import NotAPath, NotThere
from wiki.files import ASIDE, DRAFT
from wiki.merge import conflict_path
from wiki.paths import (
    COMMON,
    PATH_BYTES,
    SEGMENT_BYTES,
    Access,
    Area,
    Place,
    area_named,
    area_of,
    area_of_branch,
    checked,
    folder_of,
    is_note,
    place,
    shown,
)

ME = Access(ALICE)
ACTING = Access(ALICE, is_operator=True)
INPUTS = SHARED / "hostile" / "inputs.jsonl"
BLOB = "0" * 40


def refused_rows() -> list[Any]:
    """The paths that the hostile rows give to a tool."""
    lines = INPUTS.read_text(encoding="utf-8").splitlines() if INPUTS.is_file() else []
    rows = [row for row in map(json.loads, lines) if row["id"].startswith("path-")]
    return [pytest.param(row, id=row["id"]) for row in rows if row["input"]["k"] == "tool"]


# -- persons ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("person", "folder"),
    [
        ("google-chat:users/1001", "google-chat-1001"),
        ("google-chat:users/007", "google-chat-007"),
        ("http:alice", "http-alice-9b04cac3"),
        ("http:Alice", "http-alice-4e2e9294"),
        ("http:a@b.example", "http-a-b-example-b1d8ffba"),
        ("http:..", "http-x-c80b9cf7"),
        ("cli:alice", "cli-alice-85238bc0"),
        ("http:" + "a-" * 60, "http-" + ("a-" * 20)[:-1] + "-2768b1f1"),
    ],
)
def test_a_person_s_folder(person: str, folder: str) -> None:
    assert folder_of(person) == folder
    area = area_of(person)
    assert area == Area(f"people/{folder}", f"people/{folder}")
    assert area_of_branch(area.branch) == area


@pytest.mark.parametrize(
    "person",
    [
        "google-chat:users/1001/../1002", "google-chat:1001", "google-chat:users/", "google-chat:",
        "google-chat:users/१००१", "google-chat:users/1 ", "google-chat:users/1\n",
        "google-chat:users/" + "1" * 33, "google-chat:users/1001:x", "google-chat", "", "x:y",
        "../x:y", "HTTP:alice", "http/x:alice", "space:spaces/S", "people:x", "google-chat:\ud800",
    ],
)  # fmt: skip
def test_what_is_no_person_has_no_area(person: str) -> None:
    with pytest.raises(NotThere):
        area_of(person)
    with pytest.raises((NotThere, NotAPath)):
        place(Access(person), "x.md")


def test_nobody_but_the_common_area_is_readable_without_a_person() -> None:
    assert Access("").readable() == [COMMON]
    assert Access(ALICE).readable() == [COMMON, area_of(ALICE)]
    assert Access(ALICE, in_space=True).readable() == [COMMON]


SUBJECTS = st.from_regex(r"[A-Za-z0-9._@-]{1,128}", fullmatch=True)
ALIKE = st.text("aA.-_@1", min_size=1, max_size=60)
PERSONS = st.one_of(
    st.from_regex(r"google-chat:users/[0-9]{1,32}", fullmatch=True),
    st.tuples(st.sampled_from(["http:", "cli:"]), SUBJECTS | ALIKE).map("".join),
)


@given(PERSONS, PERSONS)
@example("http:alice", "http:Alice")
@example("http:alice", "cli:alice")
@example("http:a.b", "http:a-b")
@example("http:" + "a" * 41, "http:" + "a" * 42)
@example("google-chat:users/1", "google-chat:users/01")
@settings(max_examples=200, deadline=None)
def test_two_persons_never_share_a_folder(one: str, other: str) -> None:
    assert (area_of(one) == area_of(other)) == (one == other)
    assert area_named(folder_of(one)) == area_of(one)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "alice", "1001", "google-chat-", "google-chat-1/x", "google-chat-1\n",
     "http-alice", "http-alice-0F37D3E0", "cli--0f37d3e0", "http-" + "a" * 41 + "-0f37d3e0",
     "google-chat-１", "GOOGLE-CHAT-1"],
)  # fmt: skip
def test_what_is_no_person_s_folder(name: str) -> None:
    with pytest.raises(NotThere):
        area_named(name)
    assert area_of_branch(f"people/{name}") is None


def test_the_branches_that_are_the_wiki_s() -> None:
    assert area_of_branch("main") == COMMON
    for name in ("curated", "main/x", "people", "people/google-chat-1/x", "other", "MAIN"):
        assert area_of_branch(name) is None


# -- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("access", "path", "bare", "kept"),
    [
        (ME, "x.md", MINE, "people/google-chat-1001/x.md"),
        (ME, "x.md", CURATED, "curated/x.md"),
        (ME, "mine/a/b/c/d/x.md", CURATED, "people/google-chat-1001/a/b/c/d/x.md"),
        (ME, "curated/x.md", MINE, "curated/x.md"),
        (ME, "Curated/x.md", MINE, "people/google-chat-1001/Curated/x.md"),
        (ME, "curated.md", MINE, "people/google-chat-1001/curated.md"),
        (ME, "curated/curated/mine/x.md", MINE, "curated/curated/mine/x.md"),
        (OPERATOR, "x.md", CURATED, "curated/x.md"),
        (OPERATOR, "people/google-chat-1002/x.md", CURATED, "people/google-chat-1002/x.md"),
        (ACTING, "mine/x.md", CURATED, "people/google-chat-1001/x.md"),
        (ACTING, "people/google-chat-1001/x.md", MINE, "people/google-chat-1001/x.md"),
    ],
)
def test_a_path_stands_for_a_place(access: Access, path: str, bare: Any, kept: str) -> None:
    at = place(access, path, bare)
    assert at.path == kept
    assert at.is_common == kept.startswith("curated/")
    assert f"{at.area.folder}/{at.below}" == kept
    assert is_note(at.area, at.path)


@pytest.mark.parametrize(
    "path",
    ["people/google-chat-1002/x.md", "people/google-chat-1001/x.md", "people/1002/secret.md",
     "people/google-chat-9/x.md", "people/..", "people/", "people/x", "people/\ud800"],
)  # fmt: skip
def test_not_yours_and_not_there_are_one_answer(path: str) -> None:
    for access in (ME, Access(BOB), Access(""), Access(ALICE, in_space=True)):
        with pytest.raises(NotThere) as refused:
            place(access, path)
        assert type(refused.value) is NotThere


@pytest.mark.parametrize("path", ["people/1002/x.md", "people/nobody/x.md", "mine/x.md"])
def test_an_operator_too_finds_no_area_that_is_none(path: str) -> None:
    with pytest.raises(NotThere):
        place(OPERATOR, path)


@pytest.mark.parametrize(
    ("access", "path", "name"),
    [
        (ME, "people/google-chat-1001/a/x.md", "mine/a/x.md"),
        (ACTING, "people/google-chat-1001/x.md", "mine/x.md"),
        (OPERATOR, "people/google-chat-1001/x.md", "people/google-chat-1001/x.md"),
        (ACTING, "people/google-chat-1002/x.md", "people/google-chat-1002/x.md"),
        (ME, "curated/x.md", "curated/x.md"),
    ],
)
def test_a_place_is_shown_as_its_reader_names_it(access: Access, path: str, name: str) -> None:
    area = COMMON if path.startswith("curated/") else area_named(path.split("/")[1])
    at = Place(area, path)
    assert shown(access, at) == name
    assert place(access, name) == at


@needs_shared
@pytest.mark.parametrize("row", refused_rows())
def test_hostile_row(row: dict[str, Any]) -> None:
    given = row["input"]
    person = {"alice": ALICE}.get(given["as"], f"google-chat:{given['as']}")
    with pytest.raises((NotAPath, NotThere)):
        place(Access(person), given["args"]["path"])


# -- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["x.md", "a b.md", "C#.md", "-.md", "a..b.md", "~.md", "a~b.md", "budget~x2.md", "x.md.md",
     "日本語/会議　計画.md", "Ελληνικά.md", "क्षेत्र.md", "👍🏽 ❤️.md", "🇩🇪.md",
     "$100 & 50%.md", "[a] {b}.md", "console.md", "auxiliary.md", "com10.md", "nullify/x.md",
     "git/x.md", "a.git/x.md", "e\u0301.md", "½.md", "and so on/x.md", "a.b/c.d.md",
     "x.conflict-0123abcd.md"],
)  # fmt: skip
def test_ordinary_names_are_taken(path: str) -> None:
    assert checked(path) == unicodedata.normalize("NFC", path)


@pytest.mark.parametrize(
    "path",
    [
        "", "/", ".md", "a/.md", "x", "x.MD", "x.md/", "x.md ", "x.md.", "x.txt", "x.md\n",
        "/x.md", "//x.md", "a//x.md", "a/ /x.md", "C:/x.md", "C:x.md", "\\\\host\\x.md", "a\\x.md",
        "~1/x.md", "git~1/x.md", "GITMOD~1.md", "git～1/x.md", "x~9.md",
        "..", "../x.md", "a/../x.md", "a/..", "./x.md", "a/./x.md", ".../x.md", "a/.b/x.md",
        ".git/x.md", ".GIT/x.md", ".git /x.md", ".git./x.md", ".git::$INDEX_ALLOCATION/x.md",
        ".g\u200cit/x.md", "\u200c.git/x.md", "\ufeff.git/x.md", "．git/x.md", "․git/x.md",
        "﹒git/x.md",
        "x.md:stream", "x:y.md", "x?.md", "x*.md", 'x".md', "x<.md", "x>.md", "x|.md",
        "x：y.md", "x？.md", "x＊.md", "x＂.md", "x＜.md", "x＞.md", "x｜.md", "x＼y.md",
        "x﹨y.md",
        "a／x.md", "．．／x.md", "‥/x.md", "℀.md", "a℅b.md",
        "con.md", "CON.md", "Con.x.md", "con .md", "con /x.md", "nul/x.md", "nul.d/x.md", "aux.md",
        "prn.md", "com1.md", "COM9.x.md", "com¹.md", "lpt³.md", "lpt0/x.md", "conin$.md",
        "CONOUT$.md",
        "ｃｏｎ.md", "ⓝⓤⓛ.md", "a/b/con.md",
        "a./x.md", "a /x.md", " a/x.md", " x.md", "a\u00a0/x.md", "a\u3000/x.md", "a\u1680/x.md",
        "\u2003x.md", "a。．/x.md", "a…/x.md",
        "a\u202eb.md", "a\u2066b.md", "a\u200eb.md", "a\u061cb.md", "a\u200bb.md", "a\u200db.md",
        "a\u2060b.md", "a\ufeffb.md", "a\u00adb.md", "a\U000e0041b.md", "a\u034fb.md",
        "a\u3164b.md",
        "a\u115fb.md", "a\uffa0b.md", "a\u2800b.md", "a\ufe0fb.md", "a\ufe00b.md",
        "a\U000e0100b.md",
        "\ufe0f.md", "a\u180eb.md",
        "a\0b.md", "a\x01b.md", "a\x7fb.md", "a\x85b.md", "a\tb.md", "a\nb.md", "a\r.md",
        "a\u2028b.md",
        "a\ud800b.md", "\udcff.md", "a\ue000b.md", "a\U0010ffffb.md", "a\u0378b.md",
        "a.md/x.md", "a.MD/x.md", "a/b/c/d/e/x.md",
    ],
)  # fmt: skip
def test_what_some_system_would_read_as_something_else_is_refused(path: str) -> None:
    with pytest.raises(NotAPath):
        checked(path)
    assert not is_note(COMMON, f"curated/{path}")
    for access in (ME, ACTING):
        with pytest.raises(NotAPath):
            place(access, f"curated/{path}")


def test_a_name_is_kept_in_its_composed_form() -> None:
    decomposed, composed = "Cafe\u0301/u\u0308ber.md", "Café/über.md"
    assert decomposed != composed
    assert checked(decomposed) == checked(composed) == composed
    assert place(ME, decomposed) == place(ME, composed)
    assert is_note(COMMON, f"curated/{composed}")
    assert not is_note(COMMON, f"curated/{decomposed}")


@pytest.mark.parametrize(
    ("path", "is_taken"),
    [
        ("x" * (SEGMENT_BYTES - 3) + ".md", True),
        ("x" * (SEGMENT_BYTES - 2) + ".md", False),
        ("é" * 88 + "x.md", True),
        ("é" * 89 + ".md", False),
        ("\U0001d160" * 14 + ".md", True),  # composes into three times its length
        ("\U0001d160" * 15 + ".md", False),
        ("/".join(["a" * 180, "b" * 180, "c" * 180, "d" * 52, "x.md"]), True),
        ("/".join(["a" * 180, "b" * 180, "c" * 180, "d" * 53, "x.md"]), False),
        ("/".join(["\U0001d160" * 14] * 4) + "/x.md", False),
        ("x" * (SEGMENT_BYTES - 3) + ".conflict-0123abcd.md", True),
        ("x" * (SEGMENT_BYTES - 2) + ".conflict-0123abcd.md", False),
        ("x" * (SEGMENT_BYTES - 3) + ".conflict-0123ABCD.md", False),
        ("x" * 170 + ".conflict-0123abcd/x.md", False),
    ],
)
def test_lengths_are_counted_in_the_bytes_that_are_kept(path: str, is_taken: bool) -> None:
    if is_taken:
        assert checked(checked(path)) == checked(path)
    else:
        with pytest.raises(NotAPath):
            checked(path)


def test_a_flood_of_marks_is_refused_before_it_is_put_in_order() -> None:
    with pytest.raises(NotAPath):
        place(ME, "e" + "\u0301\u0323" * 1_000_000 + ".md")


def test_only_paths_of_the_area_are_its_notes() -> None:
    own = area_of(ALICE)
    assert is_note(own, "people/google-chat-1001/x.md")
    for path in (
        "people/google-chat-1002/x.md", "people/google-chat-10011/x.md", "x.md", "curated/x.md",
        "people/google-chat-1001", "people/google-chat-1001/", "people/google-chat-1001/x.png",
        "people/google-chat-1001/.x.md", "people/google-chat-1001//x.md",
    ):  # fmt: skip
        assert not is_note(own, path)


PIECES = st.sampled_from(
    ["/", "/", ".", "..", "~1", "~", ".md", ".md", "curated", "mine", "people", "google-chat-1002",
     ".git", "con", " ", "\\", ":", "\0", "\n", "\u200d", "\u202e", "\ud800", "\ufe0f", "❤", "．",
     "／", "\u0301", "\u0323", "e", "ﷺ", "\U0001d160", "x" * 60, "漢" * 30, "\U0001f600" * 20,
     ".conflict-0123abcd", "\u3164", "İ", "ß", "\u1680"]
)  # fmt: skip
PATHS = st.one_of(
    st.text(max_size=80),
    st.text(max_size=30).map(lambda text: f"{text}.md"),
    st.lists(PIECES, max_size=12).map("".join),
    st.lists(PIECES, max_size=12).map(lambda pieces: "".join([*pieces, ".md"])),
    st.lists(st.text("aé漢 .-", min_size=1, max_size=70), min_size=1, max_size=5).map(
        lambda names: "/".join(names) + ".md"
    ),
)


@given(PATHS, st.sampled_from([ME, OPERATOR, ACTING, Access(ALICE, in_space=True)]))
@settings(max_examples=1_000, deadline=None)
def test_any_text_is_a_place_below_its_area_or_refused(text: str, access: Access) -> None:
    try:
        at = place(access, text)
    except (NotAPath, NotThere):
        return
    folders = [area.folder for area in (COMMON, access.own) if area is not None]
    assert at.area.folder in folders or (access.is_operator and "people/" in text)
    assert at.path == f"{at.area.folder}/{at.below}"
    assert PurePosixPath(os.path.normpath(at.path)) == PurePosixPath(at.path)
    assert at.path == unicodedata.normalize("NFC", at.path)
    assert checked(at.below) == at.below
    assert place(access, shown(access, at)) == at
    assert is_note(at.area, at.path)
    parts = at.below.split("/")
    assert len(parts) <= 5
    assert parts[-1].endswith(".md")
    assert not any(part.startswith(".") for part in parts)
    assert len(at.below.encode()) <= PATH_BYTES + len(".conflict-12345678")
    conflict = conflict_path(at.path, text.encode("utf-8", "replace"))
    assert is_note(at.area, conflict)
    for part in (*parts, conflict.rpartition("/")[2]):
        for beside in (f".{part}.{BLOB}.aside", f".{part}.new.aside", f".{part}{DRAFT}"):
            assert len(beside.encode()) <= 255
    beside = f".{parts[-1]}.{BLOB}.aside"
    named = ASIDE.fullmatch(beside)
    assert named is not None
    assert (named["name"], named["base"]) == (parts[-1], BLOB)
    assert not is_note(at.area, f"{at.area.folder}/{beside}")
