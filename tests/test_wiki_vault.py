"""The vault: notes as people and the agent read and write them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wikis import (
    ALICE,
    AT,
    BOB,
    CURATED,
    OPERATOR,
    by,
    git,
    is_sound,
    shows_heads,
    vault_in,
    write,
)
from wiki.errors import Exists, NotAllowed, NotAPath, NotThere, Stale, TooLong, WikiDown
from wiki.paths import Access
from wiki.vault import By, Vault

ME, YOU = Access(ALICE), Access(BOB)
SPACE = Access(ALICE, in_space=True)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    made = vault_in(tmp_path)
    yield made
    assert not made.is_there() or is_sound(made)
    made.close()


# -- reading and writing ------------------------------------------------------------------------


def test_a_note_that_was_written_is_read_back_word_for_word(vault: Vault) -> None:
    text = "# Plan\r\n\nÄ 会議 👩‍💻\ttab\n\n\n"
    saved = vault.write(ME, "plan.md", text, None, by())
    assert (saved.path, len(saved.commit)) == ("mine/plan.md", 40)
    found = vault.read(ME, "mine/plan.md")
    assert (found.text, found.base) == (text, saved.base)
    file = vault.root / "people/google-chat-1001/plan.md"
    assert file.read_bytes() == text.encode()
    told = git(vault.root, "log", "-1", "--format=%an|%B", "people/google-chat-1001")
    assert told.startswith(f"{ALICE}|Write people/google-chat-1001/plan.md")
    assert "Turn: t_1/1" in told.splitlines()


def test_nothing_is_made_before_the_first_note(vault: Vault) -> None:
    assert (vault.notes(ME), vault.search(ME, "x", 5), vault.conflicts()) == ([], [], [])
    with pytest.raises(NotThere):
        vault.read(ME, "x.md")
    vault.sweep()
    assert not vault.root.exists()
    write(vault, "x.md", "x")
    assert "README.md" in {one.name for one in vault.root.iterdir()}
    assert (vault.root / "curated").is_dir()


def test_the_folder_is_a_bare_repository_that_git_works_on(vault: Vault, tmp_path: Path) -> None:
    write(vault, "x.md", "x")
    assert git(vault.root, "config", "core.bare").strip() == "true"
    assert git(vault.root, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert subprocess.run(["git", "add", "."], cwd=vault.root, capture_output=True).returncode
    git(tmp_path, "clone", "-q", str(vault.root), "copy")
    assert git(tmp_path / "copy", "ls-files") == ""
    refs = git(tmp_path / "copy", "for-each-ref", "--format=%(refname)").split()
    assert "refs/remotes/origin/people/google-chat-1001" in refs
    assert not any("mercury" in ref for ref in refs)


def test_two_new_wikis_begin_with_the_same_commit(tmp_path: Path) -> None:
    roots = []
    for name in ("one", "two"):
        vault = vault_in(tmp_path / name)
        vault.ready()
        roots.append(vault.repository.head("main"))
        vault.close()
    assert roots[0] == roots[1] == vault.repository.root


def test_a_note_that_exists_wants_the_version_that_was_read(vault: Vault) -> None:
    first = write(vault, "x.md", "one")
    with pytest.raises(Stale) as stale:
        vault.write(ME, "x.md", "two", None, by())
    assert (stale.value.text, stale.value.base) == ("one", first)
    with pytest.raises(Stale):
        vault.write(ME, "x.md", "two", "0" * 40, by())
    second = vault.write(ME, "x.md", "two", first, by())
    assert vault.read(ME, "x.md").base == second.base != first
    with pytest.raises(Stale) as gone:
        vault.write(ME, "y.md", "two", first, by())
    assert (gone.value.text, gone.value.base) == (None, "")


def test_the_same_text_again_is_no_commit(vault: Vault) -> None:
    base = write(vault, "x.md", "one")
    again = vault.write(ME, "x.md", "one", None, by())
    assert (again.base, again.commit) == (base, "")
    assert len(vault.history(ME, "x.md")) == 1


def test_the_agents_stamps_are_no_change_of_their_own(vault: Vault) -> None:
    def stamps(at: str, message: str) -> dict[str, str | list[str]]:
        return {"updated": at, "author": ALICE, "source": [message]}

    vault.write(ME, "x.md", "# X\n\none\n", None, by(), lambda old: stamps("2026-01-01", "m_1"))
    base = vault.read(ME, "x.md").base
    vault.write(ME, "x.md", "# X\n\none\n", base, by(), lambda old: stamps("2026-02-02", "m_2"))
    assert vault.read(ME, "x.md").base == base
    vault.write(ME, "x.md", "# X\n\ntwo\n", base, by(), lambda old: stamps("2026-02-02", "m_2"))
    text = vault.read(ME, "x.md").text
    assert "updated: '2026-02-02'" in text
    assert text.endswith("# X\n\ntwo\n")


def test_the_agent_keeps_keys_that_are_not_ours(vault: Vault) -> None:
    foreign = "---\naliases: [ a,b ]   # mine\ntitle: Old\ncssclass:  wide\n---\n# X\n"
    base = write(vault, "x.md", foreign)
    vault.write(ME, "x.md", "# X\n\nnew\n", base, by(), lambda old: {"updated": "2026-02-02"})
    text = vault.read(ME, "x.md").text
    assert "aliases: [ a,b ]   # mine\n" in text
    assert "cssclass:  wide\n" in text
    assert text.endswith("new\n")


def test_a_note_that_is_too_long_is_refused(vault: Vault) -> None:
    with pytest.raises(TooLong):
        vault.write(ME, "x.md", "x" * 20_001, None, by())
    assert vault.notes(ME) == []


def test_names_that_differ_in_case_only_are_one(vault: Vault) -> None:
    write(vault, "Plans/Day.md", "x")
    for path in ("plans/other.md", "Plans/DAY.md"):
        with pytest.raises(Exists):
            vault.write(ME, path, "y", None, by())


def test_deleting_keeps_the_history(vault: Vault) -> None:
    base = write(vault, "x.md", "one")
    with pytest.raises(Stale):
        vault.delete(ME, "x.md", "0" * 40, by())
    vault.delete(ME, "x.md", base, by())
    with pytest.raises(NotThere):
        vault.read(ME, "x.md")
    assert not (vault.root / "people/google-chat-1001/x.md").exists()
    removed, written = vault.history(ME, "x.md")
    assert vault.restore(ME, "x.md", written.id[:8], None, by()).base == base
    diff = vault.diff(ME, "x.md", removed.id)
    assert diff.startswith(f"--- {removed.id[:7]}\n+++ now\n@@ -0,0 +1 @@\n+one")


# -- who sees what ------------------------------------------------------------------------------


def test_nobody_sees_anothers_notes(vault: Vault) -> None:
    write(vault, "secret.md", "CANARY of alice")
    write(vault, "curated/all.md", "for all CANARY", "")
    commit = vault.history(ME, "secret.md")[0].id
    assert [hit.path for hit in vault.search(YOU, "canary", 9)] == ["curated/all.md"]
    assert [one.path for one in vault.notes(YOU)] == ["curated/all.md"]
    for path in ("secret.md", "people/google-chat-1001/secret.md", "mine/secret.md"):
        with pytest.raises(NotThere):
            vault.read(YOU, path)
    for ask in (
        lambda: vault.version(YOU, "secret.md", commit),
        lambda: vault.diff(YOU, "secret.md", commit),
        lambda: vault.restore(YOU, "x.md", commit, None, by(BOB)),
    ):
        with pytest.raises(NotThere):
            ask()


def test_a_space_sees_the_common_area_only(vault: Vault) -> None:
    write(vault, "secret.md", "CANARY of alice")
    write(vault, "curated/all.md", "for all CANARY [[secret]]", "")
    assert [one.path for one in vault.notes(SPACE)] == ["curated/all.md"]
    assert [hit.path for hit in vault.search(SPACE, "canary", 9)] == ["curated/all.md"]
    for path in ("secret.md", "mine/secret.md"):
        with pytest.raises(NotThere):
            vault.read(SPACE, path)
    with pytest.raises(NotThere):
        vault.notes(SPACE, "mine")
    with pytest.raises(Exists):
        vault.write(SPACE, "secret.md", "x", None, by(), is_new=True)
    assert vault.write(SPACE, "new.md", "x", None, by(), is_new=True).path == "mine/new.md"


def test_only_an_operator_changes_the_common_area(vault: Vault) -> None:
    base = write(vault, "curated/all.md", "for all", "")
    for change in (
        lambda: vault.write(ME, "curated/all.md", "x", base, by()),
        lambda: vault.delete(ME, "curated/all.md", base, by()),
        lambda: vault.move(ME, "curated/all.md", "mine/x.md", by()),
        lambda: vault.restore(
            ME, "curated/all.md", vault.history(ME, "curated/all.md")[0].id, base, by()
        ),
    ):
        with pytest.raises(NotAllowed):
            change()
    assert vault.read(ME, "curated/all.md").text == "for all"


# -- links --------------------------------------------------------------------------------------


def test_moving_a_note_rewrites_the_links_to_it(vault: Vault) -> None:
    write(vault, "days/one.md", "# One\n[[days/one]] itself")
    linking = "[[one]] [[days/one|shown]] ![[mine/days/one#top]] `[[one]]` [[two]]"
    write(vault, "plan.md", linking)
    write(vault, "curated/other.md", "[[one]]", "")
    saved, rewritten = vault.move(ME, "days/one.md", "archive/first.md", by())
    assert (saved.path, rewritten) == ("mine/archive/first.md", ["mine/plan.md"])
    assert vault.read(ME, "plan.md").text == (
        "[[first]] [[archive/first|shown]] ![[mine/archive/first#top]] `[[one]]` [[two]]"
    )
    assert vault.read(ME, "archive/first.md").text == "# One\n[[archive/first]] itself"
    assert vault.read(ME, "curated/other.md").text == "[[one]]"
    assert vault.backlinks(ME, "archive/first.md") == ["mine/plan.md"]
    assert shows_heads(vault)
    with pytest.raises(Exists):
        vault.move(ME, "archive/first.md", "plan.md", by())


def test_the_operator_moves_for_all(vault: Vault) -> None:
    write(vault, "curated/faq.md", "# FAQ", "")
    write(vault, "mine.md", "see [[curated/faq]]")
    write(vault, "mine.md", "see [[faq]]", BOB)
    _, rewritten = vault.move(OPERATOR, "faq.md", "help/questions.md", By(), CURATED)
    assert len(rewritten) == 2
    assert vault.read(ME, "mine.md").text == "see [[curated/help/questions]]"
    assert vault.read(YOU, "mine.md").text == "see [[questions]]"


# -- the common area by confirmation --------------------------------------------------------------


def test_a_promoted_note_is_that_very_blob_and_leaves_its_person(vault: Vault) -> None:
    base = write(vault, "plan.md", "# Plan\n")
    offer = vault.offer(ME, "plan.md", "curated/plans/plan.md")
    assert (offer.text, offer.diff, offer.blob) == ("# Plan\n", "", base)
    assert vault.notes(YOU) == []
    saved = vault.settle(offer, "cf_1", AT, By(ALICE))
    assert vault.read(YOU, "curated/plans/plan.md").base == base
    with pytest.raises(NotThere):
        vault.read(ME, "plan.md")
    assert "Confirmation: cf_1" in git(vault.root, "log", "-1", "--format=%B", "main").splitlines()
    assert vault.settle(offer, "cf_1", AT, By(ALICE)) == saved
    assert git(vault.root, "rev-list", "--count", "main").strip() == "2"


def test_a_promotion_shows_the_whole_difference(vault: Vault) -> None:
    write(vault, "curated/plan.md", "one\ntwo\n", "")
    write(vault, "plan.md", "one\n2\n")
    offer = vault.offer(ME, "plan.md", "curated/plan.md")
    assert offer.diff == "--- now\n+++ new\n@@ -1,2 +1,2 @@\n one\n-two\n+2"
    vault.settle(offer, "cf_1", AT, By(ALICE))
    assert vault.read(YOU, "curated/plan.md").text == "one\n2\n"


def test_a_target_that_changed_moves_nothing(vault: Vault) -> None:
    write(vault, "plan.md", "mine")
    offer = vault.offer(ME, "plan.md", "curated/plan.md")
    write(vault, "curated/plan.md", "another's", "")
    with pytest.raises(Stale):
        vault.settle(offer, "cf_1", AT, By(ALICE))
    assert vault.read(ME, "plan.md").text == "mine"
    assert vault.read(ME, "curated/plan.md").text == "another's"


def test_a_note_that_its_person_changed_meanwhile_stays(vault: Vault) -> None:
    write(vault, "plan.md", "shown")
    offer = vault.offer(ME, "plan.md", "curated/plan.md")
    write(vault, "plan.md", "changed since")
    vault.settle(offer, "cf_1", AT, By(ALICE))
    assert vault.read(ME, "curated/plan.md").text == "shown"
    assert vault.read(ME, "plan.md").text == "changed since"


def test_what_is_committed_is_what_was_shown(vault: Vault) -> None:
    write(vault, "plan.md", "shown")
    offer = vault.offer(ME, "plan.md", "curated/plan.md")
    with pytest.raises(Stale):
        vault.settle(replace(offer, data="another"), "cf_1", AT, By(ALICE))
    assert vault.notes(YOU) == []


def test_writing_and_deleting_in_the_common_area_are_offered_too(vault: Vault) -> None:
    offer = vault.offer_text(ME, "curated/new.md", "new", None)
    vault.settle(offer, "cf_1", AT, By(ALICE))
    with pytest.raises(Stale):
        vault.offer_text(ME, "curated/new.md", "newer", None)
    base = vault.read(ME, "curated/new.md").base
    vault.settle(vault.offer_text(ME, "curated/new.md", None, base), "cf_2", AT, By(ALICE))
    assert vault.notes(ME) == []
    with pytest.raises(NotThere):
        vault.offer_text(ME, "curated/new.md", None, None)
    with pytest.raises(NotAPath):
        vault.offer(ME, "curated/new.md", "curated/other.md")


# -- a turn that is tried again ------------------------------------------------------------------


def test_what_a_turn_wrote_is_found_by_its_trailer(vault: Vault) -> None:
    saved = vault.write(ME, "x.md", "one", None, by(turn="t_7/3"))
    for n in range(5):
        write(vault, f"{n}.md", "later")
    assert vault.wrote(ALICE, "Turn: t_7/3") == saved
    assert vault.wrote(ALICE, "Turn: t_7/4") is None
    assert vault.wrote(BOB, "Turn: t_7/3") is None


def test_a_turn_that_lost_its_lease_writes_nothing(vault: Vault) -> None:
    def fenced() -> None:
        raise RuntimeError("fenced")

    write(vault, "x.md", "one")
    with pytest.raises(RuntimeError):
        vault.write(ME, "y.md", "two", None, By(ALICE, (), fenced))
    assert [one.path for one in vault.notes(ME)] == ["mine/x.md"]
    assert write(vault, "y.md", "two")


# -- many writers ------------------------------------------------------------------


def test_writers_in_threads_and_processes_lose_nothing(vault: Vault, tmp_path: Path) -> None:
    vault.ready()
    code = (
        "import sys; from pathlib import Path; from tests.wikis import vault_in, write;"
        "v = vault_in(Path(sys.argv[1])); [write(v, f'p{n}.md', f'p{n}') for n in range(40)]"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: write(vault, f"t{n}.md", f"t{n}"), range(40)))
        list(pool.map(lambda n: write(vault, f"b{n}.md", f"b{n}", BOB), range(20)))
    assert process.wait(60) == 0
    found = {one.path for one in vault.notes(ME)}
    assert found == {f"mine/{kind}{n}.md" for kind in "pt" for n in range(40)}
    assert len(vault.notes(YOU)) == 20
    assert shows_heads(vault)


# -- a wiki that is gone ------------------------------------------------------------------


def test_a_repository_that_is_gone_is_not_made_anew(vault: Vault) -> None:
    write(vault, "x.md", "x")
    vault.notes(ME)
    (vault.root / ".git").rename(vault.root.parent / "elsewhere")
    vault.close()
    for ask in (lambda: vault.notes(ME), lambda: write(vault, "y.md", "y"), vault.sweep):
        with pytest.raises(WikiDown):
            ask()
    (vault.root.parent / "elsewhere").rename(vault.root / ".git")
    assert write(vault, "y.md", "y")
