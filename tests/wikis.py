"""What the tests of the wiki share: a vault in a folder, its people, and real git beside it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from bot.wiki_words import WikiWords
from wiki.errors import NotThere
from wiki.paths import Access, Bare
from wiki.vault import By, Vault

ALICE, BOB = "google-chat:users/1001", "google-chat:users/1002"
MINE: Bare = "mine"
CURATED: Bare = "curated"
OPERATOR = Access("", is_operator=True)
AT = 1_790_000_000
"""The clock of the vaults, in seconds."""


def vault_in(folder: Path) -> Vault:
    """A vault of the folder, with a clock that stands."""
    return Vault(folder / "wiki", folder / "index.db", WikiWords(), lambda: AT)


def by(person: str = ALICE, turn: str = "t_1/1") -> By:
    """In whose name, and for which call."""
    return By(person, (f"Turn: {turn}",))


def write(vault: Vault, path: str, text: str, person: str = ALICE) -> str:
    """Writes a note as its person, or as the operator, whatever was there; returns its version."""
    access, bare = (Access(person), MINE) if person else (OPERATOR, CURATED)
    try:
        base: str | None = vault.read(access, path, bare).base
    except NotThere:
        base = None
    return vault.write(access, path, text, base, By(person), bare=bare).base


def edit(path: Path, text: str | bytes, seconds_ago: float = 60) -> None:
    """Writes a file as a person does in an editor, some time ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    at = time.time() - seconds_ago
    os.utime(path, (at, at))


def git(folder: Path, *args: str, check: bool = True) -> str:
    """Runs the real git; returns what it printed."""
    env = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Eve", "GIT_AUTHOR_EMAIL": "eve@example.test",
        "GIT_COMMITTER_NAME": "Eve", "GIT_COMMITTER_EMAIL": "eve@example.test",
    }  # fmt: skip
    done = subprocess.run(
        ["git", *args], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def is_sound(vault: Vault) -> bool:
    """Whether the real git finds nothing wrong."""
    return not unsound(vault)


def unsound(vault: Vault) -> str:
    """What the real git finds wrong; '' for nothing."""
    done = subprocess.run(
        ["git", "fsck", "--strict", "--no-dangling"], cwd=vault.root, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return f"{done.returncode or ''}{done.stdout}{done.stderr}"


def shows_heads(vault: Vault) -> bool:
    """Whether the folder is equal to the heads of all branches."""
    for area in vault.folder.areas()[0]:
        head = vault.repository.head(area.branch)
        scanned = vault.folder.files.scan(area.folder)
        files, asides = scanned or ({}, [])
        if asides or {p: s.id for p, s in files.items()} != dict(
            vault.repository.paths(head, area.folder)
        ):
            return False
    return True
