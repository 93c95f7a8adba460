"""The repository under faults: locks, empty and torn files, full and read-only disks, kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wikis import ALICE, git, is_sound, shows_heads, vault_in, write
from wiki import repository
from wiki.errors import WikiDown
from wiki.paths import Access
from wiki.vault import By, Vault

ME = Access(ALICE)
OWN = "refs/heads/people/google-chat-1001"


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    made = vault_in(tmp_path)
    write(made, "first.md", "first\n")
    yield made
    made.close()


def texts(vault: Vault) -> dict[str, str]:
    return {one.path: vault.read(ME, one.path).text for one in vault.notes(ME)}


def age(path: Path, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(path, (at, at))


def test_the_lock_of_a_killed_push_is_removed_when_it_is_old(vault: Vault) -> None:
    lock = vault.root / f".git/{OWN}.lock"
    lock.write_bytes(b"")
    age(lock, 6)
    write(vault, "a.md", "x\n")
    assert texts(vault)["mine/a.md"] == "x\n"
    assert not lock.exists()
    assert is_sound(vault)


def test_the_lock_of_a_push_that_runs_is_left_alone(vault: Vault) -> None:
    lock = vault.root / f".git/{OWN}.lock"
    lock.write_bytes(b"")
    with pytest.raises(WikiDown, match="locked by another program"):
        write(vault, "a.md", "x\n")
    assert lock.exists()
    lock.unlink()
    assert write(vault, "a.md", "x\n")


def test_the_locks_of_a_killed_writer_are_no_hindrance(vault: Vault) -> None:
    id_ = write(vault, "b.md", "same\n")
    write(vault, "b.md", "other\n")
    objects = vault.root / ".git/objects"
    blob = objects / id_[:2] / id_[2:]
    blob.unlink()
    Path(f"{blob}.lock").write_bytes(b"half")
    write(vault, "c.md", "same\n")
    assert texts(vault)["mine/c.md"] == "same\n"
    assert not Path(f"{blob}.lock").exists()
    assert is_sound(vault)


def test_an_empty_object_is_written_again(vault: Vault) -> None:
    id_ = write(vault, "b.md", "same\n")
    vault.delete(ME, "b.md", None, By(ALICE))
    path = vault.root / ".git/objects" / id_[:2] / id_[2:]
    path.chmod(0o644)
    path.write_bytes(b"")
    vault.close()
    write(vault, "c.md", "same\n")
    assert texts(vault)["mine/c.md"] == "same\n"
    assert is_sound(vault)


@pytest.mark.parametrize("torn", [b"", b"\0" * 41, b"12ab"])
def test_a_torn_branch_is_found_again(vault: Vault, torn: bytes) -> None:
    for n in range(3):
        write(vault, f"{n}.md", f"{n}\n")
    head = vault.repository.head("people/google-chat-1001")
    (vault.root / ".git" / OWN).write_bytes(torn)
    assert vault.repository.head("people/google-chat-1001") == head
    write(vault, "more.md", "x\n")
    assert len(texts(vault)) == 5
    assert is_sound(vault)


def test_a_torn_branch_that_was_ahead_of_the_folder_is_found_again(vault: Vault) -> None:
    shown = git(vault.root, "rev-parse", "refs/mercury/shown/people/google-chat-1001").strip()
    write(vault, "ahead.md", "x\n")
    git(vault.root, "update-ref", "refs/mercury/shown/people/google-chat-1001", shown)
    head = vault.repository.head("people/google-chat-1001")
    (vault.root / ".git" / OWN).write_bytes(b"")
    assert vault.repository.head("people/google-chat-1001") == head


def test_a_branch_that_names_nothing_is_left_as_it_is(vault: Vault) -> None:
    ref = vault.root / ".git" / OWN
    ref.write_bytes(b"1" * 40 + b"\n")
    vault.close()
    for ask in (lambda: write(vault, "a.md", "x\n"), lambda: texts(vault)):
        with pytest.raises(WikiDown):
            ask()
    assert ref.read_bytes() == b"1" * 40 + b"\n"
    assert write(vault, "a.md", "x\n", "google-chat:users/1002")


def test_hooks_are_never_run(vault: Vault, tmp_path: Path) -> None:
    hooks = vault.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-commit", "post-update", "reference-transaction", "update"):
        hook = hooks / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
        hook.chmod(0o755)
    write(vault, "a.md", "x\n")
    vault.sweep()
    assert not (tmp_path / "ran").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_loses_nothing_and_mends_itself(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(WikiDown, match="no space is left"):
            write(vault, "a.md", "x\n")
    assert texts(vault) == {"mine/first.md": "first\n"}
    write(vault, "a.md", "x\n")
    assert texts(vault)["mine/a.md"] == "x\n"
    assert is_sound(vault)


def loose(vault: Vault) -> int:
    return sum(len(list(one.iterdir())) for one in (vault.root / ".git/objects").glob("??"))


def test_many_loose_objects_are_packed(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "LOOSE", 256)
    other = vault_in(vault.root.parent)
    (vault.root / ".git/objects/17").mkdir(exist_ok=True)
    for n in range(30):
        write(vault, f"{n}.md", f"{n}\n")
    (vault.root / ".git/objects/17/counted").write_bytes(b"")
    before = texts(vault)
    assert texts(other) == before
    vault.sweep()
    (vault.root / ".git/objects/17/counted").unlink()
    assert loose(vault) == 0
    assert is_sound(vault)
    assert texts(vault) == texts(other) == before
    write(other, "more.md", "x\n")
    assert len(texts(vault)) == len(before) + 1
    other.close()


def test_real_git_may_collect_and_pack_at_any_time(vault: Vault) -> None:
    for n in range(10):
        write(vault, f"{n}.md", f"{n}\n")
    before = texts(vault)
    git(vault.root, "gc", "-q", "--prune=now")
    git(vault.root, "pack-refs", "--all")
    assert not (vault.root / ".git" / OWN).exists()
    assert texts(vault) == before
    write(vault, "5.md", "changed\n")
    write(vault, "curated/new.md", "new\n", "")
    vault.sweep()
    assert texts(vault)["mine/5.md"] == "changed\n"
    assert len(vault.history(ME, "5.md")) == 2
    assert shows_heads(vault)
    assert is_sound(vault)


WRITER = """
import sys
from pathlib import Path
from tests.wikis import vault_in, write
vault = vault_in(Path(sys.argv[1]))
for n in range(100_000):
    write(vault, f"k{sys.argv[2]}-{n % 50}.md", f"text {n}\\n")
    print(n, flush=True)
"""


def test_a_killed_writer_leaves_nothing_to_mend(vault: Vault, tmp_path: Path) -> None:
    for round_ in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(round_)], stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert writer.stdout is not None
        for _ in range(5 + round_):
            said = writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = [line for line in writer.stdout.read().splitlines() if line]
        writer.wait()
        writer.stdout.close()
        last = int((rest or [said])[-1])
        found = vault.read(ME, f"k{round_}-{last % 50}.md").text
        assert int(found.split()[1]) in (last, last + 50)
        write(vault, f"after{round_}.md", "x\n")
    assert is_sound(vault)
    vault.sweep()
    vault.sweep()
    assert shows_heads(vault)
    assert vault.conflicts() == []
