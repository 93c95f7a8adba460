"""The folder that shows the notes: edits by hand, merges, and what may go wrong with files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wikis import ALICE, OPERATOR, by, edit, git, is_sound, shows_heads, vault_in, write
from wiki.errors import NotThere, Stale
from wiki.files import Files
from wiki.paths import Access
from wiki.vault import By, Vault

ME = Access(ALICE)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    made = vault_in(tmp_path)
    made.ready()
    yield made
    assert is_sound(made)
    made.close()


def curated(vault: Vault) -> dict[str, str]:
    return {one.path: vault.read(OPERATOR, one.path).text for one in vault.notes(OPERATOR)}


def test_what_a_person_writes_in_the_folder_becomes_a_note(vault: Vault) -> None:
    edit(vault.root / "curated/trips/rome.md", "# Rome\n")
    edit(vault.root / "people/google-chat-1001/own.md", "mine\n")
    report = vault.sweep()
    assert sorted(report.taken) == ["curated/trips/rome.md", "people/google-chat-1001/own.md"]
    assert vault.read(ME, "own.md").text == "mine\n"
    assert vault.history(ME, "curated/trips/rome.md")[0].author == "operator"
    assert (report.waiting, report.problems) == (False, {})
    assert vault.sweep().taken == []


def test_an_edit_is_taken_in_before_a_note_is_read_or_written(vault: Vault) -> None:
    base = write(vault, "x.md", "one\n")
    edit(vault.root / "people/google-chat-1001/x.md", "one by hand\n")
    found = vault.read(ME, "x.md")
    assert found.text == "one by hand\n"
    with pytest.raises(Stale):
        vault.write(ME, "x.md", "two\n", base, by())
    edit(vault.root / "people/google-chat-1001/x.md", "again by hand\n")
    with pytest.raises(Stale) as stale:
        vault.write(ME, "x.md", "two\n", found.base, by())
    assert stale.value.text == "again by hand\n"


def test_a_file_that_may_still_be_written_waits(vault: Vault) -> None:
    write(vault, "x.md", "one\n")
    edit(vault.root / "people/google-chat-1001/x.md", "half an ed", seconds_ago=0)
    report = vault.sweep()
    assert (report.taken, report.waiting) == ([], True)
    write(vault, "x.md", "two\n")
    file = vault.root / "people/google-chat-1001/x.md"
    assert file.read_text() == "half an ed"
    edit(file, "half an edit\n")
    vault.sweep()
    texts = {one.path: vault.read(ME, one.path).text for one in vault.notes(ME)}
    conflict = next(path for path in texts if "conflict" in path)
    assert texts == {"mine/x.md": "two\n", conflict: "half an edit\n"}
    assert shows_heads(vault)


def test_edits_of_other_lines_are_merged(vault: Vault) -> None:
    lines = [f"line {n}\n" for n in range(9)]
    base = write(vault, "x.md", "".join(lines))
    file = vault.root / "people/google-chat-1001/x.md"
    lines[7] = "by hand\n"
    edit(file, "".join(lines), seconds_ago=0)
    head = list(lines)
    head[7], head[1] = "line 7\n", "by the agent\n"
    vault.write(ME, "x.md", "".join(head), base, by())
    lines[1] = "by the agent\n"
    os.utime(file, (1, 1))
    assert vault.sweep().taken == ["people/google-chat-1001/x.md"]
    assert vault.read(ME, "x.md").text == file.read_text() == "".join(lines)


def test_edits_of_one_line_are_both_kept(vault: Vault) -> None:
    base = write(vault, "curated/x.md", "one\n", "")
    file = vault.root / "curated/x.md"
    edit(file, "by hand\n", seconds_ago=0)
    vault.write(OPERATOR, "curated/x.md", "by the operator\n", base, By())
    os.utime(file, (1, 1))
    vault.sweep()
    (conflict,) = vault.conflicts()
    assert curated(vault) == {"curated/x.md": "by the operator\n", conflict: "by hand\n"}
    assert file.read_text() == "by the operator\n"
    assert (vault.root / conflict).read_text() == "by hand\n"
    vault.delete(OPERATOR, conflict, None, By())
    assert vault.conflicts() == []


def test_a_note_deleted_by_hand_is_deleted(vault: Vault) -> None:
    write(vault, "curated/a/x.md", "one\n", "")
    vault.sweep()
    (vault.root / "curated/a/x.md").unlink()
    vault.sweep()
    assert curated(vault) == {}
    with pytest.raises(NotThere):
        vault.read(OPERATOR, "curated/a/x.md")


def test_a_note_deleted_by_hand_after_it_changed_is_shown_again(vault: Vault) -> None:
    base = write(vault, "curated/x.md", "one\n", "")
    vault.sweep()
    (vault.root / "curated/x.md").unlink()
    vault.write(OPERATOR, "curated/x.md", "two\n", base, By())
    vault.sweep()
    assert (vault.root / "curated/x.md").read_text() == "two\n"


def test_a_renamed_file_is_a_renamed_note(vault: Vault) -> None:
    write(vault, "curated/x.md", "one\n", "")
    (vault.root / "curated/x.md").rename(vault.root / "curated/y.md")
    os.utime(vault.root / "curated/y.md", (1, 1))
    vault.sweep()
    assert curated(vault) == {"curated/y.md": "one\n"}


@pytest.mark.parametrize("how", ["the whole area", "more than half of it"])
def test_much_that_is_gone_at_once_is_no_deletion(vault: Vault, how: str) -> None:
    for n in range(20):
        write(vault, f"curated/{n}.md", f"{n}\n", "")
    vault.sweep()
    if how == "the whole area":
        shutil.rmtree(vault.root / "curated")
    else:
        for n in range(11):
            (vault.root / f"curated/{n}.md").unlink()
    report = vault.sweep()
    assert "mfw vault sync" in report.problems["curated"]
    assert len(curated(vault)) == 20
    write(vault, "curated/19.md", "changed meanwhile\n", "")
    assert "curated" in vault.sweep().problems
    report = vault.sweep(show_missing=True)
    assert (report.problems, report.waiting) == ({}, False)
    assert (vault.root / "curated/3.md").read_text() == "3\n"
    assert (vault.root / "curated/19.md").read_text() == "changed meanwhile\n"
    assert shows_heads(vault)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("curated/long.md", "x" * 20_001, "20,000 characters"),
        ("curated/bytes.md", b"\xff\xfe", "UTF-8"),
        ("people/somebody", None, "no person's folder"),
        ("curated/e\u0301.md", "x", "NFC"),
        ("curated/a: b.md", "x", "no path holds"),
    ],
)  # fmt: skip
def test_what_can_be_no_note_is_reported_and_left_alone(
    vault: Vault, name: str, data: str | bytes | None, why: str
) -> None:
    write(vault, "curated/good.md", "one\n", "")
    if data is None:
        (vault.root / name).mkdir()
    else:
        edit(vault.root / name, data)
    report = vault.sweep()
    assert why in report.problems[name]
    assert (vault.root / name).exists()
    for text in ("two\n", "three\n"):
        write(vault, "curated/good.md", text, "")
        vault.sweep()
        assert (vault.root / "curated/good.md").read_text() == text
    assert curated(vault) == {"curated/good.md": "three\n"}


def test_other_files_and_links_are_not_looked_at(vault: Vault, tmp_path: Path) -> None:
    edit(tmp_path / "outside/secret.md", "CANARY\n")
    edit(vault.root / "curated/picture.png", b"\x89PNG")
    edit(vault.root / "curated/.obsidian/app.md", "{}")
    (vault.root / "curated/linked").symlink_to(tmp_path / "outside")
    (vault.root / "curated/link.md").symlink_to(tmp_path / "outside/secret.md")
    report = vault.sweep()
    assert (report.taken, curated(vault)) == ([], {})
    assert (vault.root / "curated/picture.png").exists()


def test_an_edit_that_slips_in_while_a_file_is_exchanged_is_merged(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person saves between the last look at the file and the exchange."""
    base = write(vault, "x.md", "a\n\n\n\nz\n")
    file = vault.root / "people/google-chat-1001/x.md"
    put = Files.put

    def late(self: Files, path: str, expected: str | None, data: bytes | None) -> bool:
        if path.endswith("x.md") and expected is not None:
            edit(file, "a\n\n\n\nz by hand\n")
        return put(self, path, expected, data)

    monkeypatch.setattr(Files, "put", late)
    vault.write(ME, "x.md", "a by the agent\n\n\n\nz\n", base, by())
    monkeypatch.undo()
    assert any(one.name.endswith(".aside") for one in file.parent.iterdir())
    vault.sweep()
    assert vault.read(ME, "x.md").text == "a by the agent\n\n\n\nz by hand\n"
    assert shows_heads(vault)


def test_a_push_by_real_git_is_shown(vault: Vault, tmp_path: Path) -> None:
    write(vault, "curated/x.md", "one\n", "")
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "-q", str(vault.root), "copy")
    edit(copy / "curated/x.md", "pushed\n")
    edit(copy / "curated/new.md", "new\n")
    edit(copy / "curated/picture.png", b"\x89PNG")
    edit(copy / "elsewhere/x.md", "outside of every area\n")
    git(copy, "add", ".")
    git(copy, "commit", "-qm", "By git")
    git(copy, "push", "-q", "origin", "main")
    vault.sweep()
    assert curated(vault) == {"curated/x.md": "pushed\n", "curated/new.md": "new\n"}
    assert (vault.root / "curated/x.md").read_text() == "pushed\n"
    assert not (vault.root / "curated/picture.png").exists()
    assert not (vault.root / "elsewhere").exists()
    write(vault, "curated/x.md", "and changed\n", "")
    git(copy, "pull", "-q")
    assert (copy / "elsewhere/x.md").exists()
    assert (copy / "curated/picture.png").exists()


def test_a_push_that_would_lose_commits_is_refused(vault: Vault, tmp_path: Path) -> None:
    write(vault, "curated/x.md", "one\n", "")
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "-q", str(vault.root), "copy")
    git(copy, "reset", "-q", "--hard", "HEAD~1")
    edit(copy / "curated/y.md", "other\n")
    git(copy, "add", ".")
    git(copy, "commit", "-qm", "Other")
    for push in (["--force", "origin", "main"], ["origin", ":main"]):
        git(copy, "push", "-q", *push, check=False)
        assert curated(vault) == {"curated/x.md": "one\n"}


def test_a_head_and_a_push_and_a_hand_meet_on_one_note(vault: Vault, tmp_path: Path) -> None:
    write(vault, "curated/x.md", "a\n\n\nm\n\n\nz\n", "")
    vault.sweep()
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "-q", str(vault.root), "copy")
    edit(copy / "curated/x.md", "a pushed\n\n\nm\n\n\nz\n")
    git(copy, "commit", "-qam", "By git")
    edit(vault.root / "curated/x.md", "a\n\n\nm\n\n\nz by hand\n")
    git(copy, "push", "-q", "origin", "main")
    vault.sweep()
    assert curated(vault) == {"curated/x.md": "a pushed\n\n\nm\n\n\nz by hand\n"}
    assert shows_heads(vault)


def test_a_folder_that_was_away_is_filled_again(vault: Vault, tmp_path: Path) -> None:
    """As after a clone of the repository alone: nothing was ever shown."""
    write(vault, "curated/a/x.md", "one\n", "")
    write(vault, "own.md", "mine\n")
    for ref in ("main", "people/google-chat-1001"):
        git(vault.root, "update-ref", "-d", f"refs/mercury/shown/{ref}")
    shutil.rmtree(vault.root / "curated")
    shutil.rmtree(vault.root / "people")
    report = vault.sweep()
    assert (report.problems, report.waiting) == ({}, False)
    assert shows_heads(vault)


def test_an_edit_back_to_an_older_version_is_an_edit(vault: Vault) -> None:
    write(vault, "curated/x.md", "one\n", "")
    write(vault, "curated/x.md", "two\n", "")
    edit(vault.root / "curated/x.md", "one\n")
    vault.sweep()
    assert curated(vault) == {"curated/x.md": "one\n"}
