"""What the wiki costs: a write beside the git command line, search, and the start on many notes."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import Figure, Sizes, at_most, bounded
from benchmarks.start import Mfw
from tests.wikis import ALICE, OPERATOR, by, git, vault_in
from wiki.paths import Access
from wiki.repository import Change
from wiki.vault import By, Vault

FOLDER = 100
"""Notes of one folder."""
MILLI = 1e3
PROSE = (
    "the harbour opens at seven and the crates are green when the ship leaves on friday with "
    "lamps ropes and paint for the hall behind the office of ada and ben"
)
QUERIES = ("the", "the and crates green", '"crates are green"', "note4711", "harbour note77", "zzz")
"""Words of every note, a quote, one of a single note, a mixture, and nothing."""


def measure(sizes: Sizes) -> Iterator[Figure]:
    """A write and its commit; a search of each kind; the start."""
    many, few = sizes.of(10_000, 2_000), sizes.of(1_000, 200)
    rounds = sizes.of(60, 20)
    large = _filled(sizes.new_folder("wiki-many"), many)
    small = _filled(sizes.new_folder("wiki-few"), few)
    clone = _clone(sizes.new_folder("wiki-git"), many)
    ours = [_once(lambda n=n: _write(large, n)) for n in range(rounds)]  # type: ignore[misc]
    theirs = [_once(lambda n=n: _by_git(clone, n)) for n in range(rounds // 4)]  # type: ignore[misc]
    less = [_once(lambda n=n: _write(small, n)) for n in range(rounds)]  # type: ignore[misc]
    cost, git_cost = statistics.median(ours) * MILLI, statistics.median(theirs) * MILLI
    note = f"into {many:,} notes, beside git add and git commit"
    yield at_most("writing a note", [(cost, git_cost)], 0.3, "ms", note)
    yield bounded("writing a note", cost, 10, "ms", "with its file in the folder")
    growth = (cost, statistics.median(less) * MILLI)
    yield at_most("writing a note", [growth], 1.5, "ms", f"{many:,} notes beside {few:,}")
    access = Access(ALICE)
    large.search(access, "warm", 10)
    slowest = max(
        statistics.median(_once(lambda q=q: large.search(access, q, 10)) for _ in range(rounds))  # type: ignore[misc]
        for q in QUERIES
    )
    yield bounded("searching the notes", slowest * MILLI, 10, "ms", f"{many:,}; the slowest query")
    changed = []
    for n in range(rounds // 2):
        _write(large, n)
        changed.append(_once(lambda: large.search(access, "crates", 10)))
    after = statistics.median(changed) * MILLI
    yield bounded("searching after a write", after, 20, "ms", "the index follows; our own mark")
    titles = [_once(lambda: large.notes(access, limit=60)) for _ in range(rounds)]
    yield bounded(
        "listing for a prompt", statistics.median(titles) * MILLI, 5, "ms", "our own mark"
    )
    large.close()
    small.close()
    again = vault_in(sizes.folder / "wiki-many")
    opened = _once(lambda: (again.search(access, "crates", 10), again.notes(access, limit=60)))
    yield bounded("first look at the notes", opened, 1.0, "s", f"{many:,} notes, index there")
    again.close()
    with Mfw(large.root.parent, {"WIKI_PATH": str(large.root)}) as server:
        yield bounded("mfw serve on many notes", server.ready_after_s, 1.5, "s", "until ready")
    (sizes.folder / "wiki-many" / "index.db").unlink()
    anew = vault_in(sizes.folder / "wiki-many")
    built = _once(lambda: anew.search(access, "crates", 10))
    yield bounded("making the index anew", built, 15, "s", f"{many:,} notes; our own mark")
    swept = statistics.median(_once(anew.sweep) for _ in range(5))
    yield bounded("a look at the folder", swept * MILLI, 250, "ms", "every 5 s; our own mark")
    anew.close()


def _filled(folder: Path, count: int) -> Vault:
    """A vault with so many notes of a person's, in folders of a hundred."""
    vault = vault_in(folder)
    vault.ready()
    area = Access(ALICE).own
    assert area is not None
    changes = [Change(f"{area.folder}/{_path(n)}", _text(n).encode()) for n in range(count)]
    vault.repository.commit(area.branch, lambda head: (changes, "Fill\n"), By().signature, 1)
    vault.sweep()
    vault.search(OPERATOR, "warm", 1)
    return vault


def _clone(folder: Path, count: int) -> Path:
    """The same notes in a working tree of real git."""
    git(folder, "init", "-q")
    for n in range(count):
        path = folder / _path(n)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(n))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Fill")
    return folder


def _path(n: int) -> str:
    return f"t{n // FOLDER}/n{n}.md"


def _text(n: int) -> str:
    """A note of about 800 characters."""
    known = PROSE.split()
    words = [known[(n * 7 + k * (1 + n % 5)) % len(known)] for k in range(140)]
    lines = [" ".join(words[at : at + 14]) for at in range(0, 140, 14)]
    return f"# Note {n}\n\nnote{n}: the crates are green\n" + "\n".join(lines) + "\n"


def _write(vault: Vault, n: int) -> None:
    """A new note, as the agent writes it."""
    path = f"t{n % 10}/new{n}-{time.perf_counter_ns()}.md"
    vault.write(Access(ALICE), path, _text(n), None, by())


def _by_git(folder: Path, n: int) -> None:
    """The same by the command line."""
    path = folder / f"t{n % 10}/new{n}.md"
    path.write_text(_text(n))
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1",
           "GIT_AUTHOR_NAME": "E", "GIT_AUTHOR_EMAIL": "e@example.test",
           "GIT_COMMITTER_NAME": "E", "GIT_COMMITTER_EMAIL": "e@example.test"}  # fmt: skip
    for command in (["git", "add", str(path)], ["git", "commit", "-qm", "Write"]):
        subprocess.run(command, cwd=folder, env=env, check=True)


def _once(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
