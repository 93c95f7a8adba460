"""What is in a note: front matter, title and links; and what a write leaves byte for byte."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests import floods
from wiki.note import (
    FRONT_CHARS,
    OURS,
    TITLE_CHARS,
    Link,
    Note,
    carried,
    key_of,
    links,
    name_of,
    parse,
    resolve,
    same_but_for,
    stamped,
    title_of,
    with_links,
)

STAMPS = {"updated": "2026-02-02", "author": "google-chat:users/1001", "source": ["m_1", "m_2"]}
LINES = "updated: '2026-02-02'\nauthor: google-chat:users/1001\nsource: [m_1, m_2]\n"
EMPTY = Note("", (), "", "", (), 0)


def front(yaml: str, body: str = "") -> str:
    return f"---\n{yaml}---\n{body}"


# -- front matter -------------------------------------------------------------------------------


def test_our_keys_are_read() -> None:
    yaml = (
        "title: Plan\ntags: [a, b]\nupdated: 2026-02-02\nauthor: http:alice\nsource:\n  - m_1\n"
        "aliases: [x]\n"
    )
    text = front(yaml, "# T\n")
    expected = Note("Plan", ("a", "b"), "2026-02-02", "http:alice", ("m_1",), text.index("# T"))
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ("Plan", "Plan"), ("'Plan: B'", "Plan: B"), ('"a\\tb\\nc"', "a b c"), ("  x  # why", "x"),
        ("2026", "2026"), ("010", "010"), ("1_000", "1_000"), ("12:30", "12:30"), ("0x1F", "0x1F"),
        ("1e3", "1e3"), ("No", "No"), ("yes", "yes"), ("2026-02-02", "2026-02-02"),
        ("2026-13-77", "2026-13-77"), ("9" * 3_000, "9" * TITLE_CHARS),
        ("0x" + "f" * 3_900, "0x" + "f" * (TITLE_CHARS - 2)), (".inf", ".inf"), ("=", "="),
        ("", ""), ("~", ""), ("null", ""), ("'null'", "null"), ("''", ""), ("[a]", ""),
        ("{a: b}", ""), ("!!binary aGk=", ""), ("!!python/object:os.system x", "x"), ("!x y", "y"),
        ("&a x", "x"), ("|\n  a\n  b", "a b"), (">-\n  a\n\n  b", "a b"), ("a\n  b", "a b"),
        ("a\u2028  b", "a b"), ("'\U0001f600 漢'", "\U0001f600 漢"), ('"\\ud83d\\ude00"', ""),
    ],
)  # fmt: skip
def test_a_title_is_read_as_it_is_written(value: str, title: str) -> None:
    assert parse(front(f"title: {value}\n")).title == title


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        ("[a, b]", ("a", "b")), ("\n  - a\n  - b", ("a", "b")), ("\n- a\n- b", ("a", "b")),
        ("a, b c", ("a", "b", "c")), ("[2026, yes, 1.0]", ("2026", "yes", "1.0")),
        ("2026", ("2026",)),
        ("[a, [b], {c: d}, ~, '', e f]", ("a", "e f")), ("{a: b}", ()), ("", ()), ("[]", ()),
        ("[" + "a, " * 200 + "]", ("a",) * 100), ("[2026-02-02, 12:30]", ("2026-02-02", "12:30")),
    ],
)  # fmt: skip
def test_tags_are_a_list_however_they_are_written(value: str, tags: tuple[str, ...]) -> None:
    assert parse(front(f"tags: {value}\n")).tags == tags


@pytest.mark.parametrize(
    "text",
    [
        "", "---", "---\n", "----\na: b\n----\n", "# x\n---\na: b\n---\n", "\n---\na: b\n---\n",
        " ---\na: b\n---\n", "---\na: b\n", "---\ntitle: x\n\n# no line closes it\n",
        "--- \nx\n--\n",
        "---\na: b\n---x\n", "---\na: b\n --- \n", "---\n\nA rule, then words.\n\n---\n\nMore.\n",
        "---\n- a\n- b\n---\n", "---\nHello\n---\nmore", "---\n[not, keys]\n---\n",
        "---\n\"text\"\n---\n",
        "---\n* a\n* b\n\n---\n", "---\nWords\nand `code\n- \t[x\n---\n", "---x\na: b\n---\n",
        "---\n" + "words and words\n" * 300 + "---\n",
    ],
)  # fmt: skip
def test_a_rule_at_the_top_is_no_front_matter(text: str) -> None:
    assert parse(text) == EMPTY
    assert stamped(text, STAMPS) == f"---\n{LINES}---\n" + ("\n" * (text[:1] != "\n")) + text
    assert carried(text, "new") == "new"


@pytest.mark.parametrize(
    "opening", ["---\n", "--- \t\n", "---\r\n", "\ufeff---\n", "\ufeff---  \r\n"]
)
@pytest.mark.parametrize("closing", ["---\n", "---", "--- \n", "...\n", "---\t\r\n"])
@pytest.mark.parametrize("raw", ["", "\n", "a: b\n", "a: b\r\n", "# only\n\n", "a: 1\n\n"])
def test_the_first_and_the_last_line_stay_as_they_are(opening: str, closing: str, raw: str) -> None:
    text = opening + raw + closing
    assert (parse(text).begins, parse(text).problem) == (len(text), "")
    lines = LINES.replace("\n", "\r\n") if opening.endswith("\r\n") else LINES
    for body in ("", "# T\n", "\n# T") if closing.endswith("\n") else ("",):
        assert stamped(text + body, STAMPS) == opening + raw + lines + closing + body


def test_a_note_ends_as_it_ended() -> None:
    assert stamped("x", STAMPS) == front(LINES, "\nx")
    assert stamped("\nx", STAMPS) == front(LINES, "\nx")
    assert stamped(front("a: b\n")[:-1], STAMPS) == front(f"a: b\n{LINES}")[:-1]
    assert stamped("", STAMPS) == front(LINES, "\n")


def test_a_note_with_carriage_returns_gets_more_of_them() -> None:
    lines = LINES.replace("\n", "\r\n")
    assert stamped("x\r\ny\n", STAMPS) == f"---\r\n{lines}---\r\n\r\nx\r\ny\n"
    assert stamped("\r\nx", STAMPS) == f"---\r\n{lines}---\r\n\r\nx"
    assert stamped("---\r\na: b\r\n---\r\nx", STAMPS) == f"---\r\na: b\r\n{lines}---\r\nx"


def test_a_byte_order_mark_stays_in_front() -> None:
    assert stamped("\ufeffx\n", STAMPS) == "\ufeff" + front(LINES, "\nx\n")
    assert parse("\ufeffx").begins == 1
    assert title_of("\ufeff# T\n", "a.md") == "T"
    assert parse("\ufeff" + front("title: T\n")).title == "T"


@pytest.mark.parametrize(
    ("yaml", "problem"),
    [
        ("title: a: b\n", "mapping values are not allowed in this context in line 2"),
        ("a: [b\n", "',' or ']'"),
        ("a: 'b\n", "found unexpected end of stream in line 3"),
        ("a: b\n\tc: d\n", " in line 3"),
        ("a: *nobody\n", "found undefined alias"),
        ("a: b\nc\n", "could not find expected ':' in line 4"),
        ("a: \0\n", "not allowed"),
        ("a: \ud800\n", ""),
        ("a: " + "[" * 3_900 + "\n", ""),
        ("a: b\n%YAML 9.9\n", ""),
        ("a: " + "b" * FRONT_CHARS + "\n", "the front matter is too long"),
    ],
)
def test_broken_front_matter_is_a_problem_and_stays(yaml: str, problem: str) -> None:
    text = front(yaml, "# T\n")
    note = parse(text)
    assert note.problem
    assert problem in note.problem
    assert (note.title, note.begins) == ("", text.index("# T"))
    assert title_of(text, "a.md") == "T"
    assert stamped(text, STAMPS) == text
    assert carried(text, "new\n") == front(yaml, "\nnew\n")
    assert same_but_for(text, text, STAMPS)
    assert not same_but_for(text, text + "x", STAMPS)


def test_keys_in_one_line_are_read_and_stay() -> None:
    text = front("{title: T, a: b}\n", "x\n")
    assert parse(text).title == "T"
    assert stamped(text, STAMPS) == text


def test_of_a_key_that_stands_twice_the_last_counts_and_both_are_replaced() -> None:
    text = front("title: a\nx: 1\ntitle: b\nx: 2\n")
    assert parse(text).title == "b"
    assert stamped(text, {"title": "c"}) == front("x: 1\nx: 2\ntitle: c\n")


def test_aliases_are_never_written_out() -> None:
    note = parse(floods.NOTES["laughs"])
    assert (note.title, note.tags, note.problem) == ("", (), "")
    assert parse(front("a: &a T\ntitle: *a\nsource: [*a, *a]\n")).source == ("T", "T")


FOREIGN = """\
# about this note
aliases: [ a,b ]   # mine
"quoted key":  wide
# about the title
title: Old  # not mine
# about the text

text: |
  a
  # no comment
  title: no key
list:
- a
-   b

# the end
"""


def test_the_lines_of_other_keys_stay_where_they_are() -> None:
    for newline in ("\n", "\r\n"):
        old = FOREIGN.replace("\n", newline)
        text = f"---{newline}{old}---{newline}x"
        new = old.replace(f"title: Old  # not mine{newline}", "") + f"title: New{newline}"
        assert stamped(text, {"title": "New"}) == f"---{newline}{new}---{newline}x"
        again = carried(text, front("title: New\n", "y"))
        assert again == f"---{newline}{new}---{newline}y"


@pytest.mark.parametrize(
    ("yaml", "left"),
    [
        ("title: a\n# c\nx: 1\n", "# c\nx: 1\n"),
        ("x: 1\ntitle: |\n  a\n  # in the text\n# c\n", "x: 1\n# c\n"),
        ("tags:\n- a\n- b\n\nx: 1\n", "\nx: 1\n"),
        ("tags:\n  - a\n  # of the tags\nx: 1\n", "x: 1\n"),
        ("title:\nx: 1\n", "x: 1\n"),
        ("title: a\rx: 1\n", "x: 1\n"),
        ("é: 1\ntitle: '\u2028\u0085'\nx: 1\n", "é: 1\nx: 1\n"),
        ("\U0001f600: 1\ntitle: \U0001f600\nx: 1\n", "\U0001f600: 1\nx: 1\n"),
        ("'title': a\n\"updated\": b\nx: 1\n", "x: 1\n"),
        ("!!str title: a\n&k x: *k\n", "&k x: *k\n"),
        ("title: a\n<<: {b: c}\n", "<<: {b: c}\n"),
        ("title: 'a\n\n  # b'\nx: 1\n", "x: 1\n"),
        ("title: [a,\n b]\nx: 1\n", "x: 1\n"),
        ("Title: a\nTAGS: b\n", "Title: a\nTAGS: b\n"),
    ],
)
def test_what_is_replaced_ends_where_its_value_ends(yaml: str, left: str) -> None:
    values = {"title": "T", "tags": ["t"], "updated": "u"}
    assert stamped(front(yaml), values) == front(f"{left}title: T\ntags: [t]\nupdated: u\n")


@pytest.mark.parametrize(
    "yaml", ["title: &t X\nx: *t\n", "updated: &t\n  a: b\nx:\n  <<: *t\n", "? title\n: a\n",
             "  title: a\n  x: 1\n", "[a]: b\ntitle: c\n", "? [a]\n: b\n",
             "x: " + "y" * (FRONT_CHARS - 20) + "\n"]
)  # fmt: skip
def test_what_could_not_be_read_afterwards_is_not_changed(yaml: str) -> None:
    text = front(yaml, "# T\n")
    values = {"title": "T" * 50, "updated": "u"}
    assert stamped(text, values) == text
    new = "".join(f"{key}: {value}\n" for key, value in values.items())
    assert carried(text, front(new, "y")) == front(yaml, "y")


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ("x", "y", "y"),
        ("x", "---\ntitle: T\n---\ny", "---\ntitle: T\n---\ny"),
        ("---\na: b\n---\nx", "y", "---\na: b\n---\n\ny"),
        ("---\na: b\n---\nx", "\ny", "---\na: b\n---\n\ny"),
        ("---\na: b\n---", "y", "---\na: b\n---\ny"),
        ("---\na: b\n---", "---\nc: d\n---\ny", "---\na: b\nc: d\n---\ny"),
        ("---\na: b\n---\nx", "\ufeffy", "---\na: b\n---\n\ny"),
        ("\ufeff---\r\na: b\r\n---\r\nx", "y", "\ufeff---\r\na: b\r\n---\r\n\r\ny"),
        ("\ufeff---\r\na: b\r\n...\r\nx", "---\nc: d\n---\ny",
         "\ufeff---\r\na: b\r\nc: d\r\n...\r\ny"),
        ("---\ntitle: T\ntags: [t]\na: 1\n---\n", "---\ntitle: U\na: 2\nc: 3\n---\ny",
         "---\na: 1\ntitle: U\nc: 3\n---\ny"),
        ("---\na: b\n---\n", "---\nc: d: e\n---\ny", "---\na: b\n---\ny"),
        ("---\na: b\n---\n", "---\n{c: d}\n---\ny", "---\na: b\n---\ny"),
        ("---\n{a: b}\n---\n", "---\nc: d\n---\ny", "---\n{a: b}\n---\ny"),
        ("---\na: b: c\n---\n", "---\nd: e\n---\ny", "---\nd: e\n---\ny"),
        ("---\n---\nx", "---\na: b\n---\ny", "---\na: b\n---\ny"),
        ("---\n# c\n---\nx", "---\n# d\na: b\n---\ny", "---\n# c\na: b\n---\ny"),
        ("---\na: b\n---\nx", "---\n---\ny", "---\na: b\n---\ny"),
        ("---\na: b\n---\nx", "", "---\na: b\n---\n\n"),
    ],
)  # fmt: skip
def test_a_new_text_keeps_the_old_one_s_foreign_keys(old: str, new: str, result: str) -> None:
    assert carried(old, new) == result


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("x", "x", True),
        ("x", "y", False),
        ("x", front(LINES, "\nx"), True),
        (front("updated: 1\na: b\n", "x"), front("a: b\nupdated: 2\n", "x"), True),
        (front("updated: 1\na: b\n", "x"), front("a: c\nupdated: 1\n", "x"), False),
        (front("updated: 1\n", "x"), front("updated: 2\n", "x "), False),
        (front("title: 1\n", "x"), front("title: 2\n", "x"), False),
        (front("a: 1: 2\n", "x"), front("a: 1: 3\n", "x"), False),
    ],
)
def test_two_texts_that_differ_in_stamps_only(old: str, new: str, same: bool) -> None:
    assert same_but_for(old, new, STAMPS) is same
    assert same_but_for(new, old, iter(STAMPS)) is same


VALUES = st.one_of(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=5))
ODD = st.sampled_from(
    ["---", "...", "yes", "null", "~", "2026-02-02", "a: b", "# c", "- d", "{", "[", "*a", "&a",
     "!x", "%", "@", "`", "'", '"', "a\u2028b", "\x85", "\ufeff", "\U0001f600", "a\r\nb", " x ",
     "|", ">", "?", ":", "=", "<<", "\t", "x #y", "\u0378", "\ue000"]
)  # fmt: skip


@given(VALUES | ODD, VALUES | ODD | st.lists(ODD, max_size=4))
@settings(max_examples=300, deadline=None)
def test_what_is_stamped_is_read_back(title: str | list[str], tags: str | list[str]) -> None:
    text = stamped("# T\n", {"title": title, "tags": tags})
    if text == "# T\n":  # it holds what YAML cannot
        assert any("\ud800" <= c <= "\udfff" for c in "".join([*title, *tags]))
        return
    note = parse(text)
    assert note.problem == ""
    assert text[note.begins :] == "\n# T\n"
    if isinstance(title, str):
        assert note.title == " ".join(title.split())[:TITLE_CHARS]
    if isinstance(tags, list):
        assert note.tags == tuple(words for tag in tags if (words := " ".join(tag.split())))
    assert len(text[: note.begins].splitlines()) == 4 or "\ufeff" in text


KEYS = st.sampled_from(
    ["a", "cssclass", "key of mine", "'q'", '"d"', "é", "名", "Title", "1", "&x k"]
)
SCALARS = st.sampled_from(
    [" b", "  wide   # why", " 'it''s'", ' "\\u00e9"', " [ a,b ]", " {c: d}", "",
     " |\n  x\n  # y\n\n", " >-\n  folded\n  text", "\n  - a\n  -   b # c", "\n- a\n- title: no",
     "\n  title: deep\n  e: f", " 2026-02-02", " 漢字", " \U0001f600", " two\n  lines",
     " 'a\n\n  # b'", " !t x", " &anchor z"]
)  # fmt: skip
PADDING = st.sampled_from(["", "", "\n", "# a comment\n", "#\n\n# two\n", "  # within\n"])
OWN = st.sampled_from(
    ["title: Old\n", "updated: 2026-01-01  # when\n", "tags:\n- a\n\n", "source:\n  - m_0\n",
     "author: |\n  x\n"]
)  # fmt: skip
BLOCKS = st.tuples(KEYS, SCALARS, PADDING).map(
    lambda parts: f"{parts[0]}:{parts[1]}".rstrip(" ") + "\n" + parts[2]
)


@given(
    st.lists(st.tuples(BLOCKS, st.booleans()) | st.tuples(OWN, st.just(True)), max_size=7),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
    st.sampled_from(["---", "---\n", "--- \n", "...\n"]),
    st.sampled_from(["", "x", "\n# T\n\nx\n", "---\nnot: front\n---\n"]),
)
@settings(max_examples=400, deadline=None)
def test_foreign_keys_stay_byte_for_byte(
    drawn: list[tuple[str, bool]], newline: str, mark: str, closing: str, body: str
) -> None:
    blocks: list[str] = []
    seen: set[str] = set()
    for block, _ in drawn:  # a key or an anchor that stands there twice is another test's
        names = {block.split(":")[0].strip("'\"")} | {"&anchor"} & set(block.split())
        if not names & seen:
            seen |= names
            blocks.append(block)
    own = ("title:", "updated:", "tags:", "source:", "author:")
    foreign = "".join(one for one in blocks if not one.startswith(own)).replace("\n", newline)
    opening = f"{mark}---{newline}"
    text = opening + "".join(blocks).replace("\n", newline) + closing
    text += body if closing.endswith("\n") else ""
    assume(parse(text).problem == "")
    new = stamped(text, dict.fromkeys(OURS, "new"))
    expected = [f"{key}: new" for key in OURS]
    kept, _, rest = new.partition(newline.join(expected) + newline)
    assert without_blanks(kept) == without_blanks(opening + foreign)
    assert rest == text[len(text) - len(rest) :]
    assert rest.startswith(closing)
    assert stamped(new, dict.fromkeys(OURS, "new")) == new
    assert same_but_for(text, new, OURS)
    for one in ("y", front("title: new\n", "y"), front("title: new\na: given\nb: 1\n", "y")):
        after = carried(text, one)
        assert after.endswith("y")
        assert parse(after).problem == ""
        kept = after[: parse(after).begins]
        assert kept.startswith(opening)
        for block in blocks:
            if not block.startswith(own):
                assert block.replace("\n", newline) in kept


def without_blanks(text: str) -> list[str]:
    """Its lines, but for empty ones, which belong to no key."""
    return [line for line in text.splitlines(keepends=True) if line.strip()]


@given(st.text("-a: \n\r\ufeff#.[]{}'\"|>&*!%?,\t\x85\u2028é", max_size=60), st.text(max_size=20))
@example("---\n%\n---\n", "")
@settings(max_examples=700, deadline=None)
def test_whatever_stands_at_the_top_is_read_and_lost_nowhere(top: str, new: str) -> None:
    text = f"---\n{top}\n---\nbody"
    for old in (text, top):
        note = parse(old)
        assert 0 <= note.begins <= len(old)
        changed = stamped(old, STAMPS)
        assert changed.endswith(old[note.begins :])
        assert parse(changed).problem == note.problem
        assert changed == old or parse(changed).source == ("m_1", "m_2")
        assert stamped(changed, STAMPS) == changed
        assert carried(old, new).endswith(new.removeprefix("\ufeff")) or parse(new).begins
        assert carried(old, old) == old or parse(old).begins


# -- titles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (front("title: Of the front\n", "# T"), "Of the front"),
        (front("title: ''\n", "# T"), "T"),
        (front("# No heading\n", "# T"), "T"),
        ("# T", "T"), ("words\n\n### T ###\n", "T"), ("#  a\tb  \n", "a b"), ("# T\r\n", "T"),
        ("# C#", "C#"), ("# C# #", "C#"), ("# #", "plan"), ("#\n# T", "T"), ("#T\n# U", "U"),
        ("####### T\n###### U", "U"), ("    # T\n   # U", "U"), ("- # T\n", "plan"),
        ("```\n# T\n```\n# U", "U"), ("~~~\n# T\n~~~~\n# U", "U"), ("```\n# T\n", "plan"),
        ("`a\n# T`\n# U", "U"), ("T\n===\n", "T"), ("T \r\n= \r\n", "T"),
        ("a\nT\n=", "T"), ("\n===\n", "plan"), ("> T\n===\n# U", "U"), ("- T\n===\n# U", "U"),
        ("T\n=x\n", "plan"), ("    T\n===\n", "plan"), ("```\nT\n===\n```\n", "plan"),
        ("T\n---\n", "plan"), ("", "plan"), ("no heading", "plan"),
        ("# " + "x" * 900, "x" * TITLE_CHARS),
    ],
)  # fmt: skip
def test_a_title_is_the_front_matter_s_or_the_first_heading_or_the_name(
    text: str, title: str
) -> None:
    assert title_of(text, "mine/days/plan.md") == title


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/b.md", "b"), ("b.md", "b"), ("a/b.c.md", "b.c"), ("a.md/b", "b"), ("b.md.md", "b.md")],
)
def test_a_name_is_the_file_s(path: str, name: str) -> None:
    assert name_of(path) == name


# -- links --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("[[a]] and [[b/c|shown]]", ["a", "b/c"]),
        ("![[a]] [[a#h]] [[a#h|s]] [[a^b]] [[a#^b]] [[ a b ]]", ["a", "a", "a", "a", "a", "a b"]),
        ("| [[a\\|s]] | [[b#h\\|s]] |", ["a", "b"]),
        ("[[#here]] [[]] [[ ]] [[|x]] [[a\nb]] [a] [[a] [[a]b]]", []),
        ("[[[a]]] [[a]]] [[b]][[c]]", ["a", "a", "b", "c"]),
        ("[[[[a]] x]]", ["a"]),
        ("`[[a]]` [[b]] ``[[c]] ` [[d]]`` [[e]]", ["b", "e"]),
        ("\\`[[a]]` [[b]]", ["a", "b"]),
        ("`\\` [[a]] `", ["a"]),
        ("`[[a]]\n[[b]]` [[c]]", ["c"]),
        ("`[[a]]\n\n[[b]]`", ["a", "b"]),
        ("```\n[[a]]\n```\n[[b]]", ["b"]),
        ("```js `x`\n[[a]]", ["a"]),
        ("```a``` [[b]]\n\n[[c]]", ["b", "c"]),
        ("~~~ `\n[[a]]\n```\n[[b]]\n~~~~\n[[c]]", ["c"]),
        ("````\n[[a]]\n```\n[[b]]\n````\n[[c]]", ["c"]),
        ("```\n[[a]]\n    ```\n[[b]]\n```\n[[c]]", ["c"]),
        ("```\n[[a]]\n``` x\n[[b]]", []),
        ("- x\n\n  ```\n  [[a]]\n\n  [[b]]\n  ```\n- [[c]]", ["c"]),
        ("- ```\n  [[a]]\n  ```\n- [[b]]", ["b"]),
        ("1. x\n\n       ~~~\n       [[a]]\n       ~~~\n\n[[b]]", ["b"]),
        ("> ```\n> [[a]]\n>\n> [[b]]\n> ```\n> [[c]]", ["c"]),
        ("> ```\n> [[a]]\n\n[[b]]", ["b"]),
        ("```\r\n[[a]]\r\n```\r\n[[b]]\r\n", ["b"]),
        ("a ~~~ b [[a]] ~~~", ["a"]),
        ("[[" + "a" * 400 + "]] [[" + "b" * 401 + "]]", ["a" * 400]),
    ],
)
def test_the_links_of_a_note(text: str, targets: list[str]) -> None:
    found = links(text)
    assert [link.target for link in found] == targets
    assert all(text[link.start : link.end] == link.target for link in found)


def test_where_a_link_stands() -> None:
    assert links("x ![[ a b |s]]") == [Link(6, 9, "a b")]


def test_links_are_replaced_and_the_rest_of_the_note_stays() -> None:
    text = "[[a]] ![[ a |x]] [[a#h|y]] `[[a]]` [[b]] | [[a\\|z]] |\r\n[[A]]"
    renamed = with_links(text, {"a": "c/d"}.get)
    assert renamed == "[[c/d]] ![[ c/d |x]] [[c/d#h|y]] `[[a]]` [[b]] | [[c/d\\|z]] |\r\n[[A]]"


@pytest.mark.parametrize("name", ["", " ", "C#", "a|b", "[x]", "a^b", "a\nb", " a", "x" * 401])
def test_a_name_that_cannot_stand_in_a_link_replaces_none(name: str) -> None:
    assert with_links("[[a]]", lambda target: name) == "[[a]]"


MARKS = st.sampled_from(
    ["[[", "]]", "[[a]]", "[[b|c]]", "![[d#e]]", "[", "]", "|", "#", "^", "\\", "`", "``", "```",
     "```\n", "~~~\n", "\n", "\r\n", "\n\n", "> ", "- ", "    ", " ", "a", "é", "# ", "---\n",
     "=\n"]
)  # fmt: skip
MARKDOWN = st.lists(MARKS, max_size=30).map("".join)


@given(MARKDOWN)
@settings(max_examples=700, deadline=None)
def test_a_note_in_which_nothing_is_renamed_stays_as_it_is(text: str) -> None:
    assert with_links(text, lambda target: None) == text
    assert with_links(text, lambda target: target) == text
    found = links(text)
    spans = [(link.start, link.end) for link in found]
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    new = with_links(text, lambda target: f"{target}x")
    assert [link.target for link in links(new)] == [f"{link.target}x" for link in found]
    assert with_links(new, lambda target: target[:-1]) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Plan", "plan.md"), ("Days/One.md", "days/one"), ("Cafe\u0301", "café"),
        ("STRASSE", "straße"), (" /a/b/ ", "a/b"), ("\u03aa\u0301", "\u0390"),
        ("ΣΑΣ", "σας"), ("ﬁn", "FIN"),
    ],
)  # fmt: skip
def test_targets_are_compared_whatever_their_case_and_form(one: str, other: str) -> None:
    assert key_of(one) == key_of(other)
    assert key_of(key_of(one)) == key_of(one)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("one", "curated/one.md"),
        ("One.md", "curated/one.md"),
        ("mine/one", "mine/one.md"),
        ("days/one", "mine/days/one.md"),
        ("mine/days/one", "mine/days/one.md"),
        ("curated/one", "curated/one.md"),
        ("curated/two", "curated/two.md"),
        ("two", "curated/two.md"),
        ("three", "curated/a/three.md"),
        ("b/three", "mine/a/b/three.md"),
        ("a/three", "curated/a/three.md"),
        ("hree", None),
        ("four", None),
        ("mine/two", None),
        ("", None),
        ("/", None),
        (".md", None),
    ],
)
def test_what_a_link_names(target: str, path: str | None) -> None:
    paths = [
        "mine/a/b/three.md", "mine/days/one.md", "mine/one.md", "curated/days/two.md",
        "mine/curated/one.md", "curated/one.md", "curated/two.md", "curated/a/three.md",
    ]  # fmt: skip
    assert {resolve(target, order) for order in (paths, paths[::-1], sorted(paths))} == {path}


# -- floods -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", floods.NOTES)
def test_a_flood_is_read_and_written_too(name: str) -> None:
    text = floods.NOTES[name]
    note = parse(text)
    assert title_of(text, "a/plan.md")
    found = links(text)
    assert len(with_links(text, lambda target: f"{target}x")) == len(text) + len(found)
    new = stamped(text, STAMPS)
    assert new == text or parse(new).source == ("m_1", "m_2")
    assert new.endswith(text[note.begins :])
    assert carried(text, "y").endswith("y")
    assert same_but_for(text, new, STAMPS) or note.begins == 0
