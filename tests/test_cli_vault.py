"""`mfw vault` on real notes: what it prints, what it commits, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.mercury import open_stores, vault_of
from bot.settings import load
from cli.errors import Failed, translated
from cli.main import main
from memory.schema import migrate
from tests.clock import HandClock
from tests.test_cli_commands import ESCAPES, listed, mfw, on_terminal
from tests.web import kept_logging
from wiki.errors import Exists, NotAllowed, NotAPath, NotThere, Stale, TooLong, WikiDown, WikiFault
from wiki.paths import Access, folder_of
from wiki.vault import By

ALICE = ("--person", "http:alice")


@pytest.fixture(autouse=True)
def wiki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wiki's folder of the test's own, not made yet; hand edits in it need not rest first."""
    for name in os.environ:
        if name.startswith(("MERCURY", "MODEL", "DATABASE_URL", "WIKI", "VISUAL", "EDITOR")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERCURY_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("wiki.folder.YOUNG_S", 0.0)
    return tmp_path / "data" / "wiki"


def vault(*args: str, code: int = 0, stdin: str = "") -> Result:
    return mfw("vault", *args, code=code, stdin=stdin)


def shown(*args: str) -> Any:
    """What a command prints as JSON."""
    return listed("vault", *args)


def write(path: str, text: str, *args: str) -> dict[str, str]:
    """Writes a note; gives the receipt."""
    receipt: dict[str, str] = json.loads(vault("write", path, *args, "--json", stdin=text).stdout)
    return receipt


def ended(*args: str, stdin: bytes = b"") -> Result:
    """A command that may fail and print something none the less."""
    with kept_logging():
        return CliRunner().invoke(main, ["vault", *args], input=stdin, prog_name="mfw")


# -- writing and reading ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["# Rome\n", "no end of line", "a\r\nb\r\n", "", "tab\t \u202e 語 é 👩\u200d👩 \x1b[2J\n"],
)
def test_a_note_is_read_as_it_was_written(wiki: Path, text: str) -> None:
    vault("write", "travel/rome.md", stdin=text)
    assert ended("read", "travel/rome.md").stdout_bytes == text.encode()
    assert shown("read", "curated/travel/rome.md")["text"] == text
    assert (wiki / "curated/travel/rome.md").read_bytes() == text.encode()


def test_the_receipt_names_path_and_commit() -> None:
    told = vault("write", "a.md", stdin="one").stdout
    assert re.fullmatch(r"curated/a\.md \([0-9a-f]{7}\)\n", told)
    (commit,) = shown("history", "a.md")
    assert f"({commit['id'][:7]})" in told


def test_writing_the_same_again_is_no_commit() -> None:
    first = write("a.md", "one")
    again = vault("write", "a.md", stdin="one")
    assert (again.stdout, again.stderr) == ("", "curated/a.md: nothing changed\n")
    assert write("a.md", "one") == {**first, "commit": ""}
    assert len(shown("history", "a.md")) == 1


def test_a_note_is_read_with_its_base_title_and_backlinks() -> None:
    base = write("rome.md", "# The city\n")["base"]
    write("x/one.md", "[[rome]] and [[curated/rome]]")
    write("two.md", "[[paris]]")
    assert shown("read", "rome.md") == {
        "id": "curated/rome.md", "path": "curated/rome.md", "text": "# The city\n", "base": base,
        "title": "The city", "backlinks": ["curated/x/one.md"],
    }  # fmt: skip


def test_notes_are_listed_and_searched() -> None:
    base = write("rome.md", "# Rome\n\nred wine\n")["base"]
    write("oslo.md", "# Oslo\n\nno wine, and red\n")
    found = {one["id"]: one for one in shown("list")}
    assert set(found) == {"curated/rome.md", "curated/oslo.md"}
    assert (found["curated/rome.md"]["title"], found["curated/rome.md"]["base"]) == ("Rome", base)
    assert found["curated/rome.md"]["updated"] > 1_500_000_000_000
    assert len(shown("list", "curated", "--limit", "1")) == 1
    assert re.search(r"^curated/rome\.md +20\S+ \S+ +Rome$", vault("list").stdout, re.MULTILINE)
    (hit,) = shown("search", '"red wine"')
    assert (hit["id"], hit["line"], hit["text"]) == ("curated/rome.md", 3, "red wine")
    assert vault("search", '"red wine"').stdout == "curated/rome.md:3: red wine\n"
    assert len(shown("search", "wine", "--limit", "1")) == 1
    nothing = vault("search", "beer")
    assert (nothing.stdout, nothing.stderr) == ("", "nothing found\n")


def test_text_that_is_not_utf8_is_refused(wiki: Path) -> None:
    told = ended("write", "a.md", stdin=b"good \xff bad")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr == (
        "Error: a note is UTF-8 text, and byte 6 of this is not: convert it first\n"
    )
    assert not wiki.exists()


@pytest.mark.parametrize("text", ["x" * 20_001, "語" * 100_000])
def test_a_text_that_is_too_long_is_refused(text: str) -> None:
    assert "at most 20,000 characters" in vault("write", "a.md", code=1, stdin=text).stderr
    write("a.md", "語" * 20_000)


def test_the_author_is_in_the_history() -> None:
    base = write("a.md", "one")["base"]
    write("a.md", "two", "--base", base, "--author", "google-chat:users/7")
    assert [(one["author"], one["subject"]) for one in shown("history", "a.md")] == [
        ("google-chat:users/7", "Change curated/a.md"),
        ("operator", "Write curated/a.md"),
    ]


# -- which version -------------------------------------------------------------------------------


def test_of_two_writers_with_one_base_the_second_is_told_the_new_one() -> None:
    base = write("a.md", "one")["base"]
    theirs = write("a.md", "two", "--base", base)["base"]
    told = vault("write", "a.md", "--base", base, code=1, stdin="three").stderr
    assert theirs in told
    assert shown("read", "a.md")["text"] == "two"
    write("a.md", "three", "--base", theirs)
    assert shown("read", "a.md")["text"] == "three"


def test_a_note_that_is_there_needs_its_base_or_force() -> None:
    base = write("a.md", "one")["base"]
    told = vault("write", "a.md", code=1, stdin="two").stderr
    assert base in told
    assert "--force" in told
    write("a.md", "two", "--force")
    write("new.md", "new", "--force")
    assert shown("read", "a.md")["text"] == "two"
    assert "--base" in vault("write", "a.md", "--force", "--base", base, code=2).stderr


def test_a_base_of_a_note_that_is_gone_is_told_so() -> None:
    base = write("a.md", "one")["base"]
    vault("delete", "a.md", "--yes")
    told = vault("write", "a.md", "--base", base, code=1, stdin="two").stderr
    assert "not there any more" in told


def test_what_is_written_beside_other_writers_is_all_kept() -> None:
    write("first.md", "one")
    beside = vault_of(load(), HandClock())
    access = Access("", is_operator=True)

    def others() -> None:
        for n in range(8):
            beside.write(access, f"curated/other-{n}.md", f"{n}", None, By())

    thread = threading.Thread(target=others)
    thread.start()
    for n in range(8):
        write(f"mine-{n}.md", f"{n}")
    thread.join()
    beside.close()
    assert len(shown("list")) == 17


# -- versions -------------------------------------------------------------------------------------


def test_versions_are_listed_compared_and_restored() -> None:
    base = write("a.md", "# T\n\nred\n")["base"]
    write("a.md", "# T\n\nblue\n", "--base", base)
    newest, oldest = (one["id"] for one in shown("history", "a.md"))
    assert vault("history", "a.md").stdout.splitlines()[1].startswith(newest[:7])
    assert [one["id"] for one in shown("history", "a.md", "--limit", "1")] == [newest]
    changed = vault("diff", "a.md", oldest[:7]).stdout
    assert "\n-red\n+blue\n" in changed
    assert shown("diff", "a.md", newest, oldest)["diff"].endswith("-blue\n+red")
    same = vault("diff", "a.md", newest)
    assert (same.stdout, same.stderr) == ("", "no difference\n")
    assert vault("restore", "a.md", oldest[:7]).stdout.startswith("curated/a.md (")
    assert shown("read", "a.md")["text"] == "# T\n\nred\n"
    assert len(shown("history", "a.md")) == 3
    assert "nothing changed" in vault("restore", "a.md", oldest).stderr


def test_a_deleted_note_has_its_history_and_comes_back() -> None:
    write("a.md", "one")
    commit = shown("history", "a.md")[0]["id"]
    vault("delete", "a.md", "--yes")
    assert "there is no note curated/a.md" in vault("read", "a.md", code=3).stderr
    gone, _ = shown("history", "a.md")
    assert gone["subject"] == "Delete curated/a.md"
    assert "was not there" in vault("restore", "a.md", gone["id"], code=3).stderr
    vault("restore", "a.md", commit)
    assert shown("read", "a.md")["text"] == "one"


def test_a_version_or_note_that_is_not_there_is_3() -> None:
    write("a.md", "one")
    commit = shown("history", "a.md")[0]["id"]
    told = vault("diff", "a.md", "abcdef1", code=3).stderr
    assert told.startswith("Error: the note has no version abcdef1: ")
    assert "abcdef1" in vault("restore", "a.md", "abcdef1", code=3).stderr
    for args in (("read", "b.md"), ("history", "b.md"), ("diff", "b.md", commit),
                 ("delete", "b.md", "--yes"), ("move", "b.md", "c.md")):  # fmt: skip
        told = vault(*args, code=3).stderr
        assert told.startswith("Error: there is no note curated/b.md: `mfw vault list` "), args


# -- deleting, moving, promoting ------------------------------------------------------------------


def test_a_note_is_deleted_only_with_a_yes(wiki: Path) -> None:
    base = write("a.md", "one")["base"]
    write("b.md", "[[a]]")
    assert "--yes" in vault("delete", "a.md", code=2, stdin="y\n").stderr
    dry = vault("delete", "a.md", "--dry-run")
    assert dry.stdout == ""
    assert dry.stderr == "curated/b.md links to it\ncurated/a.md would be deleted\n"
    assert base in vault("delete", "a.md", "--yes", "--base", "0" * 40, code=1).stderr
    assert (wiki / "curated/a.md").exists()
    assert vault("delete", "a.md", "--yes", "--base", base).stdout.startswith("curated/a.md (")
    assert not (wiki / "curated/a.md").exists()


def test_on_a_terminal_a_deletion_is_asked_for() -> None:
    write("a.md", "one")
    told, code = on_terminal("vault", "delete", "a.md", stdin="n\n")
    assert (code, "Delete curated/a.md?" in told) == (1, True)
    assert len(shown("list")) == 1
    assert on_terminal("vault", "delete", "a.md", stdin="y\n")[1] == 0
    assert shown("list") == []


def test_a_moved_note_takes_its_links_along() -> None:
    write("a.md", "one")
    write("b.md", "see [[a]]")
    told = vault("move", "a.md", "x/c.md").stdout
    assert re.fullmatch(
        r"curated/x/c\.md \([0-9a-f]{7}\)\n  its links follow in curated/b\.md\n", told
    )
    assert shown("read", "b.md")["text"] == "see [[c]]"
    moved = json.loads(vault("move", "x/c.md", "d.md", "--json").stdout)
    assert (moved["path"], moved["links"]) == ("curated/d.md", ["curated/b.md"])
    assert set(moved) == {"path", "base", "commit", "links"}
    assert {one["id"] for one in shown("list")} == {"curated/d.md", "curated/b.md"}


def test_a_name_that_is_taken_is_1() -> None:
    write("a/b.md", "one")
    write("c.md", "two")
    told = vault("move", "c.md", "a/b.md", code=1).stderr
    assert told == "Error: there is a note at curated/a/b.md already: choose another path\n"
    for path in ("a/B.md", "A/b.md"):
        told = vault("write", path, code=1, stdin="x").stderr
        assert "differ only in case" in told
        assert "write it curated/a/b.md" in told


def test_a_note_is_promoted_at_once_when_the_operator_says_so(wiki: Path) -> None:
    write("plan.md", "# Plan\n\nsecret\n", *ALICE)
    args = ("promote", "plan.md", "plans/new.md", *ALICE)
    dry = vault(*args, "--dry-run")
    assert dry.stdout == "# Plan\n\nsecret\n"
    assert dry.stderr == "mine/plan.md would become curated/plans/new.md\n"
    assert "--yes" in vault(*args, code=2, stdin="y\n").stderr
    assert shown("list") == []
    assert vault(*args, "--yes").stdout.startswith("curated/plans/new.md (")
    assert shown("read", "plans/new.md")["text"] == "# Plan\n\nsecret\n"
    assert "mine/plan.md" in vault("read", "plan.md", *ALICE, code=3).stderr
    assert not (wiki / "people" / folder_of("http:alice") / "plan.md").exists()
    (commit,) = shown("history", "plans/new.md")
    assert commit["author"] == "operator"
    assert re.search(r"^Confirmation: cf_\S{16}$", commit["message"], re.MULTILINE)


def test_promoting_over_a_note_shows_what_changes() -> None:
    write("plan.md", "one\ntwo\n")
    write("plan.md", "one\nthree\n", *ALICE)
    args = ("promote", "plan.md", "curated/plan.md", *ALICE)
    assert vault(*args, "--dry-run").stdout.endswith(" one\n-two\n+three\n")
    vault(*args, "--yes", "--author", "http:alice")
    assert shown("read", "plan.md")["text"] == "one\nthree\n"
    assert shown("history", "plan.md")[0]["author"] == "http:alice"


def test_promoting_what_is_there_already_only_takes_the_person_s_note_away() -> None:
    write("a.md", "same")
    write("a.md", "same", *ALICE)
    told = vault("promote", "a.md", "a.md", "--yes", *ALICE)
    assert told.stdout == ""
    assert "mine/a.md said the same" in told.stderr
    assert [one["id"] for one in shown("list", *ALICE)] == ["curated/a.md"]


def test_on_a_terminal_a_promotion_shows_the_whole_text_and_asks() -> None:
    write("plan.md", "first line\nlast line\n", *ALICE)
    told, code = on_terminal("vault", "promote", "plan.md", "p.md", *ALICE, stdin="n\n")
    assert code == 1
    assert "first line" in told
    assert "last line" in told
    assert shown("list") == []
    assert on_terminal("vault", "promote", "plan.md", "p.md", *ALICE, stdin="y\n")[1] == 0
    assert [one["id"] for one in shown("list")] == ["curated/p.md"]


# -- whose notes ----------------------------------------------------------------------------------


def test_with_a_person_a_path_is_in_their_area() -> None:
    folder = f"people/{folder_of('http:alice')}"
    assert write("a.md", "hers", *ALICE)["path"] == "mine/a.md"
    write("a.md", "everybody's")
    assert shown("read", "a.md", *ALICE)["text"] == "hers"
    assert shown("read", "mine/a.md", *ALICE)["text"] == "hers"
    assert shown("read", "curated/a.md", *ALICE)["text"] == "everybody's"
    assert shown("read", f"{folder}/a.md")["text"] == "hers"
    assert shown("read", f"{folder}/a.md")["id"] == f"{folder}/a.md"
    assert [one["id"] for one in shown("list", "mine", *ALICE)] == ["mine/a.md"]
    assert {one["id"] for one in shown("list", *ALICE)} == {"mine/a.md", "curated/a.md"}
    assert [one["id"] for one in shown("list", folder)] == [f"{folder}/a.md"]
    assert shown("list", "people") == [{"id": folder, "notes": 1}]
    assert [one["id"] for one in shown("search", "hers", *ALICE)] == ["mine/a.md"]


def test_without_a_person_nobody_s_notes_are_listed_or_found() -> None:
    write("a.md", "hers", *ALICE)
    bob = ("--person", "http:bob")
    assert shown("list") == shown("search", "hers") == shown("search", "hers", *bob) == []
    assert "mine/a.md" in vault("read", "a.md", *bob, code=3).stderr
    assert "hers" not in vault("list", "people").stdout


@pytest.mark.parametrize(
    "args",
    [
        ("read", "mine/a.md"), ("write", "mine/a.md"), ("list", "mine"), ("list", "mine/"),
        ("move", "a.md", "mine/a.md"), ("promote", "a.md", "b.md"), ("promote", "x/a.md", "b.md"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_mine_without_a_person_asks_for_one(wiki: Path, args: tuple[str, ...]) -> None:
    assert "--person" in vault(*args, code=2).stderr
    assert not wiki.parent.exists()


def test_an_area_that_is_not_there_is_3() -> None:
    for area in ("secret", "people/nobody", "people/../curated", "curated/x"):
        assert "there is no area" in vault("list", area, code=3).stderr


# -- wrong uses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../../../etc/passwd", "../../../etc/passwd.md", "/etc/passwd", "/etc/passwd.md",
        "curated/../../etc/passwd.md", "people/../../etc/passwd.md", "mine/../x.md",
        ".git/config.md", "curated/.git/HEAD.md", "..\\..\\etc\\passwd.md", "a.md/b.md", "a",
        "a\x1b[2J.md", "con.md", "a/b/c/d/e/f.md", "",
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["read", "write", "history", "delete", "edit"])
def test_a_path_that_leads_elsewhere_is_refused(
    wiki: Path, monkeypatch: pytest.MonkeyPatch, path: str, command: str
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    told = vault(command, path, *ALICE, code=2, stdin="text")
    assert "root:" not in told.stdout + told.stderr
    assert "\x1b" not in told.stderr
    assert not wiki.parent.exists()


@pytest.mark.parametrize(
    "args",
    [
        ("nothing",), ("read",), ("read", "a.md", "--person", "bob"), ("move", "a.md"),
        ("write", "a.md", "--author", "nobody"), ("list", "--limit", "0"),
        ("diff", "a.md", "HEAD"), ("diff", "a.md", "abcdef"), ("restore", "a.md", "--help-me"),
        ("promote", "curated/a.md", "b.md", "--person", "http:alice"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_wrong_use_is_2_and_makes_nothing(wiki: Path, args: tuple[str, ...]) -> None:
    vault(*args, code=2)
    assert not wiki.parent.exists()


def test_before_the_first_note_reading_finds_nothing_and_makes_nothing(wiki: Path) -> None:
    for args in (("list",), ("list", "people"), ("list", *ALICE), ("search", "x"), ("conflicts",)):
        assert shown(*args) == []
        assert "nothing" in vault(*args).stderr
    assert "nothing" in vault("sync").stderr
    for missing in (
        "read a.md", "history a.md", "diff a.md abcdef1", "restore a.md abcdef1",
        "delete a.md --yes", "move a.md b.md", "promote a.md b.md --yes --person http:alice",
    ):  # fmt: skip
        assert "there is no note" in vault(*missing.split(), code=3).stderr
    assert not wiki.parent.exists()


def test_wrong_settings_are_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "eighty")
    for args in (("list",), ("write", "a.md"), ("sync",)):
        assert "PORT=eighty" in vault(*args, code=4).stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WikiDown("the wiki is away"), 5), (NotThere("a.md"), 3), (NotAPath("no note"), 2),
        (NotAllowed("not you"), 4), (Exists("a.md"), 1), (Stale("x", "abc"), 1),
        (Stale(None, ""), 1), (TooLong("too long"), 1),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_each_of_the_wiki_s_errors_has_its_exit_code(error: WikiFault, code: int) -> None:
    with pytest.raises(Failed) as caught, translated():
        raise error
    assert caught.value.exit_code == code
    assert caught.value.message.count("\n") == 0


def test_a_repository_that_is_gone_is_5_and_nothing_is_written(wiki: Path) -> None:
    write("a.md", "one")
    shown("list")
    shutil.rmtree(wiki / ".git")
    for args in (("list",), ("read", "a.md"), ("write", "b.md"), ("delete", "a.md", "--yes"),
                 ("history", "a.md"), ("search", "one"), ("sync",), ("conflicts",)):  # fmt: skip
        told = vault(*args, code=5, stdin="two").stderr
        assert "is gone" in told
        assert len(told.strip().splitlines()) == 1
    assert not (wiki / ".git").exists()
    assert (wiki / "curated/a.md").read_text() == "one"


def test_a_damaged_repository_is_5_in_one_sentence(wiki: Path) -> None:
    write("a.md", "one")
    for loose in (wiki / ".git/objects").glob("??/*"):
        loose.chmod(0o600)
        loose.write_bytes(b"")
    for args in (("read", "a.md"), ("write", "b.md"), ("history", "a.md")):
        told = vault(*args, code=5, stdin="two").stderr
        assert "damaged" in told
        assert len(told.strip().splitlines()) == 1


# -- edits by hand --------------------------------------------------------------------------------


def test_what_was_edited_in_the_folder_is_taken_in(wiki: Path) -> None:
    write("a.md", "one\n")
    (wiki / "curated/a.md").write_text("one\ntwo\n")
    (wiki / "curated/by hand.md").write_text("# By hand\n")
    told = vault("sync")
    assert told.stdout == "curated/a.md\ncurated/by hand.md\n"
    assert told.stderr == "2 taken in\n"
    assert shown("sync") == {"taken": [], "waiting": False, "problems": []}
    assert shown("read", "a.md")["text"] == "one\ntwo\n"
    assert [one["id"] for one in shown("search", "hand")] == ["curated/by hand.md"]
    assert shown("history", "a.md")[0]["author"] == "operator"


def test_a_note_is_read_as_it_was_just_edited_by_hand(wiki: Path) -> None:
    base = write("a.md", "one\n")["base"]
    (wiki / "curated/a.md").write_text("two\n")
    assert shown("read", "a.md")["text"] == "two\n"
    vault("write", "a.md", "--base", base, code=1, stdin="three\n")


def test_a_file_that_was_only_just_written_is_given_time_and_taken(
    wiki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.md", "one\n")
    monkeypatch.setattr("wiki.folder.YOUNG_S", 0.05)
    (wiki / "curated/a.md").write_text("two\n")
    assert vault("sync").stdout == "curated/a.md\n"


def test_what_a_sync_cannot_mend_is_told_and_is_1(wiki: Path) -> None:
    write("a.md", "one\n")
    (wiki / "curated/a.md").write_text("two\n")
    (wiki / "curated/bad.md").write_bytes(b"\xff")
    (wiki / "people/bob").mkdir()
    told = ended("sync")
    assert (told.exit_code, told.stdout) == (1, "curated/a.md\n")
    assert "curated/bad.md: a note is UTF-8 text\n" in told.stderr
    assert "people/bob: " in told.stderr
    again = ended("sync", "--json")
    assert again.exit_code == 1
    found = json.loads(again.stdout)
    assert found["taken"] == []
    assert {one["id"] for one in found["problems"]} == {"curated/bad.md", "people/bob"}


def test_notes_that_are_gone_in_bulk_are_shown_again(wiki: Path) -> None:
    for n in range(12):
        write(f"{n}.md", f"{n}")
    shutil.rmtree(wiki / "curated")
    vault("sync")
    assert len(list((wiki / "curated").glob("*.md"))) == len(shown("list")) == 12


def test_both_versions_of_a_conflict_are_listed(
    wiki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown("conflicts") == []
    base = write("a.md", "one\n")["base"]
    monkeypatch.setattr("wiki.folder.YOUNG_S", 1e9)  # still being written
    (wiki / "curated/a.md").write_text("by hand\n")
    write("a.md", "by command\n", "--base", base)
    monkeypatch.setattr("wiki.folder.YOUNG_S", 0.0)
    assert "mfw vault conflicts" in vault("sync").stderr
    (one,) = shown("conflicts")
    assert one["note"] == "curated/a.md"
    assert re.fullmatch(r"curated/a\.conflict-[0-9a-f]{8}\.md", one["id"])
    assert one["id"] in vault("conflicts").stdout
    assert shown("read", "a.md")["text"] == "by command\n"
    assert shown("read", one["id"])["text"] == "by hand\n"
    vault("delete", one["id"], "--yes")
    assert shown("conflicts") == []


# -- the editor -----------------------------------------------------------------------------------


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that is the person's editor; it gets the file's path."""
    script = tmp_path / "editor.py"
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
    return script


APPEND = "import sys; open(sys.argv[1], 'ab').write(b'edited\\n')"


def drafts(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("mfw-*/*"))


def test_an_edited_note_is_saved(editor: Path, tmp_path: Path) -> None:
    editor.write_text(APPEND)
    write("a.md", "one\r\nno end")
    assert vault("edit", "a.md").stdout.startswith("curated/a.md (")
    assert shown("read", "a.md")["text"] == "one\r\nno endedited\n"
    made = json.loads(vault("edit", "new.md", *ALICE, "--json").stdout)
    assert (made["path"], set(made)) == ("mine/new.md", {"path", "base", "commit"})
    assert shown("read", "new.md", *ALICE)["text"] == "edited\n"
    assert drafts(tmp_path) == []


def test_an_editor_that_changes_nothing_makes_nothing(editor: Path, tmp_path: Path) -> None:
    editor.write_text("")
    write("a.md", "one")
    for path in ("a.md", "new.md"):
        assert vault("edit", path).stderr == f"curated/{path}: nothing changed\n"
    assert [one["id"] for one in shown("list")] == ["curated/a.md"]
    assert drafts(tmp_path) == []


def test_an_edit_of_a_note_that_changed_meanwhile_is_not_lost(
    editor: Path, tmp_path: Path, wiki: Path
) -> None:
    write("a.md", "one\n")
    theirs = f"import pathlib; pathlib.Path({str(wiki / 'curated/a.md')!r}).write_text('theirs')"
    editor.write_text(f"{APPEND}; {theirs}")
    told = vault("edit", "a.md", code=1).stderr
    (draft,) = drafts(tmp_path)
    assert str(draft) in told
    assert shown("read", "a.md")["base"] in told
    assert draft.read_text() == "one\nedited\n"
    assert draft.parent.stat().st_mode & 0o077 == 0
    assert shown("read", "a.md")["text"] == "theirs"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (f"{APPEND}; sys.exit(1)", "Editing failed"),
        ("import sys; open(sys.argv[1], 'wb').write(b'\\xff')", "UTF-8"),
        ("import sys; open(sys.argv[1], 'w').write('x' * 20_001)", "20,000"),
    ],
)
def test_an_edit_that_cannot_be_saved_is_kept(
    editor: Path, tmp_path: Path, script: str, why: str
) -> None:
    editor.write_text(script)
    told = vault("edit", "a.md", code=1).stderr
    (draft,) = drafts(tmp_path)
    assert why in told
    assert str(draft) in told
    assert shown("list") == []


def test_an_editor_that_takes_the_file_away_changes_nothing(editor: Path, tmp_path: Path) -> None:
    editor.write_text("import os, sys; os.unlink(sys.argv[1])")
    write("a.md", "one")
    assert "nothing is changed" in vault("edit", "a.md", code=1).stderr
    assert shown("read", "a.md")["text"] == "one"
    assert list(tmp_path.glob("mfw-*")) == []


def test_without_terminal_and_editor_it_says_what_to_do() -> None:
    assert "EDITOR" in vault("edit", "a.md", code=2).stderr


# -- terminals ------------------------------------------------------------------------------------


def test_nothing_in_a_note_reaches_a_terminal_raw() -> None:
    hostile = f"# T{ESCAPES}\n\nwine{ESCAPES}\r\n"
    base = write("a.md", hostile, *ALICE)["base"]
    write("a.md", hostile + "more\n", *ALICE, "--base", base)
    oldest = shown("history", "a.md", *ALICE)[-1]["id"]
    for args in (
        ("read", "a.md"), ("list",), ("search", "wine"), ("history", "a.md"),
        ("diff", "a.md", oldest), ("read", "a.md", "--json"), ("search", "wine", "--json"),
        ("promote", "a.md", "b.md", "--dry-run"),
    ):  # fmt: skip
        told, code = on_terminal("vault", *args, *ALICE)
        assert code == 0, told
        assert "a.md" in told or "pwned" in told
        for raw in ("\x1b", "\x07", "\x9b", "\u202e"):
            assert raw not in told, (args, raw)
        assert not re.search(r"\r(?!\n)", told)


def test_lines_that_end_as_on_windows_are_shown_plainly() -> None:
    write("a.md", "one\r\ntwo\r\n")
    assert on_terminal("vault", "read", "a.md")[0] == "one\r\ntwo\r\n"


def test_json_on_a_terminal_is_the_same_value() -> None:
    write("a.md", f"wine{ESCAPES}")
    assert json.loads(on_terminal("vault", "read", "a.md", "--json")[0]) == shown("read", "a.md")


# -- status ---------------------------------------------------------------------------------------


@pytest.fixture
def archive(wiki: Path) -> None:
    """An archive, which `mfw status` needs."""
    opened = open_stores(load(), HandClock())
    migrate(opened.database)
    opened.database.close()


@pytest.mark.usefixtures("archive")
def test_status_counts_notes_areas_and_conflicts(wiki: Path) -> None:
    write("a.md", "one")
    write("b.md", "two", *ALICE)
    assert listed("status")["wiki"] == {
        "path": str(wiki), "state": "ok", "notes": 1, "people": 1, "conflicts": 0, "problems": [],
        "unpushed": [],
    }  # fmt: skip
    assert re.search(r"^wiki +1 note in curated/, areas of 1 person, ", mfw("status").stdout, re.M)
    write("a.conflict-0123abcd.md", "three")
    (wiki / "people/bob").mkdir()
    found = listed("status")["wiki"]
    assert (found["conflicts"], [one["id"] for one in found["problems"]]) == (1, ["people/bob"])
    told = mfw("status").stdout
    assert "mfw vault conflicts" in told
    assert "mfw vault sync" in told


@pytest.mark.usefixtures("archive")
def test_status_of_a_wiki_that_was_never_made_makes_none(wiki: Path) -> None:
    assert listed("status")["wiki"]["state"] == "none"
    assert re.search(r"^wiki +none yet", mfw("status").stdout, re.MULTILINE)
    assert not wiki.exists()


@pytest.mark.usefixtures("archive")
def test_status_says_that_the_wiki_is_down(wiki: Path) -> None:
    write("a.md", "one")
    shown("list")
    shutil.rmtree(wiki / ".git")
    found = listed("status")["wiki"]
    assert (found["state"], found["notes"]) == ("down", None)
    assert re.search(r"^wiki +down: .* is gone", mfw("status").stdout, re.MULTILINE)
