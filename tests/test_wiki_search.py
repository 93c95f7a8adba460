"""The index of the notes: found by words in any script, within an access, kept by commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wikis import ALICE, AT, BOB, OPERATOR, edit, git, vault_in, write
from wiki.errors import WikiDown
from wiki.paths import Access
from wiki.vault import Vault

ME, YOU = Access(ALICE), Access(BOB)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    made = vault_in(tmp_path)
    made.ready()
    yield made
    made.close()


def found(vault: Vault, query: str, access: Access = ME) -> list[tuple[str, int, str]]:
    return [(hit.path, hit.line, hit.text) for hit in vault.search(access, query, 10)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The crates are GREEN", "green crate's crates"),
        ("Der Schlüssel liegt im Büro", "schlussel"),
        ("来週の会議は十時です", "会議"),
        ("预算已经批准", "预算"),
        ("목요일에 만나요", "목요일"),
        ("Встреча в четверг", "четверг"),
        ("اجتماع يوم الخميس", "الخميس"),
        ("ประชุมวันพฤหัส", "ประชุม"),
        ("a rocket 🚀 here", "🚀"),
        ('he said "hold the door" twice', '"hold the door"'),
    ],
)
def test_a_note_is_found_by_its_words_in_any_script(vault: Vault, text: str, query: str) -> None:
    write(vault, "x.md", f"# Title\n\nnothing here\n{text}\n")
    write(vault, "y.md", "# Other\n\nsomething else\n")
    assert found(vault, query)[0] == ("mine/x.md", 4, " ".join(text.split()))


def test_the_line_with_most_of_the_words_is_shown(vault: Vault) -> None:
    write(vault, "x.md", "green\nthe crates\nthe green crates\n")
    assert found(vault, "green crates") == [("mine/x.md", 3, "the green crates")]


def test_a_title_or_a_name_is_found_too(vault: Vault) -> None:
    write(vault, "harbour-master.md", "---\ntitle: Who to call\n---\n\nAda.\n")
    assert [one[0] for one in found(vault, "harbour")] == ["mine/harbour-master.md"]
    assert [one[0] for one in found(vault, "call")] == ["mine/harbour-master.md"]


def test_a_quote_that_is_not_there_is_not_found(vault: Vault) -> None:
    write(vault, "x.md", "hold on to the door\n")
    assert found(vault, '"hold the door"') == []
    assert found(vault, "hold door") != []


@pytest.mark.parametrize("query", ["", "?!", '"', "AND OR NOT", "a*", "terms:zz", "(", "x" * 5_000])
def test_no_query_is_an_error(vault: Vault, query: str) -> None:
    write(vault, "x.md", "hello\n")
    assert found(vault, query) == []


def test_the_index_follows_every_kind_of_change(vault: Vault, tmp_path: Path) -> None:
    write(vault, "curated/x.md", "alpha\n", "")
    assert found(vault, "alpha")
    write(vault, "curated/x.md", "beta\n", "")
    assert (found(vault, "alpha"), len(found(vault, "beta"))) == ([], 1)
    edit(vault.root / "curated/x.md", "gamma\n")
    vault.sweep()
    assert (found(vault, "beta"), len(found(vault, "gamma"))) == ([], 1)
    git(tmp_path, "clone", "-q", str(vault.root), "copy")
    edit(tmp_path / "copy/curated/x.md", "delta\n")
    git(tmp_path / "copy", "commit", "-qam", "By git")
    git(tmp_path / "copy", "push", "-q", "origin", "main")
    assert (found(vault, "gamma"), len(found(vault, "delta"))) == ([], 1)
    vault.sweep()
    (vault.root / "curated/x.md").unlink()
    vault.sweep()
    assert found(vault, "delta") == found(vault, "gamma") == []


def test_notes_are_listed_by_when_they_were_changed(vault: Vault) -> None:
    write(vault, "old.md", "---\nupdated: 2020-05-05\n---\n# Old\n")
    write(vault, "new.md", "---\nupdated: 2037-05-05T10:00:00Z\ntitle: New\n---\n")
    write(vault, "now.md", "no date\n")
    assert [(one.path, one.title) for one in vault.notes(ME)] == [
        ("mine/new.md", "New"), ("mine/now.md", "now"), ("mine/old.md", "Old"),
    ]  # fmt: skip
    assert vault.notes(ME)[1].updated == AT
    assert [one.path for one in vault.notes(ME, limit=1)] == ["mine/new.md"]


def test_an_index_made_anew_is_the_same(vault: Vault, tmp_path: Path) -> None:
    for n in range(5):
        write(vault, f"{n}.md", f"word{n} shared\n")
    write(vault, "2.md", "changed shared\n")
    before = vault.notes(ME), vault.search(ME, "shared", 10)
    vault.close()
    for one in tmp_path.glob("index.db*"):
        one.unlink()
    again = vault_in(tmp_path)
    assert (again.notes(ME), again.search(ME, "shared", 10)) == before
    again.close()


def test_a_damaged_index_is_made_anew(vault: Vault, tmp_path: Path) -> None:
    write(vault, "x.md", "hello\n")
    assert found(vault, "hello")
    vault.close()
    for one in tmp_path.glob("index.db*"):
        one.unlink()
    (tmp_path / "index.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(WikiDown):
        found(vault, "hello")
    assert found(vault, "hello")


def test_an_index_of_another_form_is_made_anew(vault: Vault, tmp_path: Path) -> None:
    import apsw

    write(vault, "x.md", "hello\n")
    assert found(vault, "hello")
    vault.close()
    other = apsw.Connection(str(tmp_path / "index.db"))
    other.execute("PRAGMA user_version = 99; DROP TABLE notes")
    other.close()
    again = vault_in(tmp_path)
    assert found(again, "hello")
    again.close()


def test_two_vaults_of_one_folder_share_the_index(vault: Vault, tmp_path: Path) -> None:
    other = vault_in(tmp_path)
    write(vault, "x.md", "hello\n")
    assert found(other, "hello")
    write(other, "x.md", "goodbye\n")
    assert (found(vault, "hello"), len(found(vault, "goodbye"))) == ([], 1)
    other.close()


def test_nobody_finds_anothers_words(vault: Vault) -> None:
    write(vault, "x.md", "canary\n")
    write(vault, "x.md", "canary\n", BOB)
    assert [one[0] for one in found(vault, "canary")] == ["mine/x.md"]
    assert found(vault, "canary", Access(ALICE, in_space=True)) == []
    assert found(vault, "canary", OPERATOR) == []
    assert vault.backlinks(ME, "x.md") == []
