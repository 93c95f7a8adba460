"""The wiki under everything at once: writers that are killed, hands, `mfw vault` and pushes.

Every note that Mercury or git has acknowledged must be in the head of its branch, real git must
find the repository sound at any moment, and the folder must come to show the heads by itself.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.chaos import Trial
from tests.served import ROOT
from tests.wikis import ALICE, BOB, OPERATOR, git, shows_heads, unsound, vault_in
from wiki.errors import NotThere, Stale, WikiDown
from wiki.paths import Access
from wiki.vault import By, Vault

PEOPLE = (ALICE, BOB)
_STILL = threading.Lock()
"""Held by a push, and by a look of git's at the repository."""
_WRITER = """
import sys
from pathlib import Path
from tests.chaos_wiki import write_on
write_on(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
"""


def write_on(folder: Path, name: str, first: int) -> None:
    """Writes notes of its own and changes a shared one, and says of each that it is saved."""
    vault, person = vault_in(folder), PEOPLE[len(name) % 2]
    dice = random.Random(f"{name}{first}")
    for n in range(first, 1_000_000):
        path = f"mine/{name}/{n // 50}/{n}.md"
        vault.write(Access(person), path, f"{name} {n}\n", None, By(person))
        print(f"saved {path}", flush=True)
        if dice.random() < 0.3:
            with suppress(Stale):
                now = _read(vault, "curated/shared.md")
                vault.write(
                    OPERATOR, "curated/shared.md", f"{now}{name} {n}\n"[-15_000:],
                    _base(vault, "curated/shared.md"), By(),
                )  # fmt: skip


def _read(vault: Vault, path: str) -> str:
    try:
        return vault.read(OPERATOR, path).text
    except NotThere:
        return ""


def _base(vault: Vault, path: str) -> str | None:
    try:
        return vault.read(OPERATOR, path).base
    except NotThere:
        return None


class Writer:
    """A writing process that is killed and started again; `saved` is what it acknowledged."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.person = PEOPLE[len(name) % 2]
        self.saved: list[str] = []
        self.failures: list[str] = []
        self._next = 0

    def run(self, seconds: float, count: int = 1) -> None:
        """Lets it write so many notes and then for a while, and kills it whatever it does."""
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(self.folder), self.name, str(self._next)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        first = "".join(process.stdout.readline() for _ in range(count))
        time.sleep(seconds)
        process.kill()
        out, err = process.communicate()
        if "Traceback" in err:
            self.failures.append(f"{self.name}: {err.strip().splitlines()[-1]}")
        self.saved += re.findall(r"^saved (\S+\.md)$", first + out, re.MULTILINE)
        if self.saved:
            self._next = int(self.saved[-1].rpartition("/")[2].removesuffix(".md")) + 2


def trial(folder: Path, writes: int, kills: int, seed: int) -> Trial:
    """Two writers killed again and again, while a hand, the command line and git write too.

    Args:
        writes: what each writer writes before it is killed for the first time.
        kills: of both together.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
    vault = vault_in(folder)
    vault.ready()
    ended = threading.Event()
    saved: dict[str, list[str]] = {"hand": [], "mfw": [], "git": []}
    failures: list[str] = []
    seen: Counter[str] = Counter()
    others = [
        threading.Thread(target=_guarded, args=(work, vault, folder, ended, saved, failures))
        for work in (_by_hand, _by_mfw, _by_git, _sweeping)
    ]
    for thread in others:
        thread.start()
    writers = [Writer(folder, "one"), Writer(folder, "four")]
    begun = time.monotonic()
    turns = [
        threading.Thread(target=_kill_on, args=(w, writes, kills // 2, dice.random()))
        for w in writers
    ]
    for thread in turns:
        thread.start()
    for thread in turns:
        thread.join()
    took = time.monotonic() - begun
    ended.set()
    for thread in others:
        thread.join()
    _come_to_rest(vault, failures)
    for writer in writers:
        seen[writer.name] = len(writer.saved)
        failures += writer.failures
        access = Access(writer.person)
        there = {one.path for one in vault.notes(access)}
        failures += [f"{path} is lost" for path in writer.saved if path not in there]
    common = {one.path for one in vault.notes(OPERATOR)}
    for kind, paths in saved.items():
        seen[kind] = len(paths)
        failures += [f"{path} by {kind} is lost" for path in paths if path not in common]
    if min(seen.values()) == 0:
        failures.append(f"not everybody wrote: {dict(seen)}")
    vault.close()
    figure = f"{took:.0f} s, {kills} kills, acknowledged: {dict(seen)}"
    return Trial("13 an acknowledged note is in its branch", kills, failures, figure, "0")


def _kill_on(writer: Writer, writes: int, kills: int, seed: float) -> None:
    dice = random.Random(seed)
    writer.run(0.0, writes)
    for _ in range(kills):
        writer.run(dice.uniform(0.0, 0.12))


def _guarded(work, vault, folder, ended, saved, failures) -> None:  # type: ignore[no-untyped-def]
    """The edge of each thread."""
    try:
        work(vault, folder, ended, saved)
    except Exception as error:  # noqa: BLE001  told at the end
        failures.append(f"{work.__name__}: {type(error).__name__} {error}")


def _by_hand(
    vault: Vault, folder: Path, ended: threading.Event, saved: dict[str, list[str]]
) -> None:
    """New files, and lines added to the shared note, as an editor saves them."""
    place = vault.root / "curated/hand"
    place.mkdir(parents=True, exist_ok=True)
    n = 0
    while not ended.wait(0.05):
        draft = place / f".{n}.tmp"
        draft.write_text(f"by hand {n}\n")
        draft.rename(place / f"{n}.md")
        saved["hand"].append(f"curated/hand/{n}.md")
        n += 1


def _by_mfw(
    vault: Vault, folder: Path, ended: threading.Event, saved: dict[str, list[str]]
) -> None:
    """`mfw vault write` beside everybody else."""
    env = {"PATH": "/usr/bin:/bin", "MERCURY_DATA": str(folder / "data"),
           "WIKI_PATH": str(vault.root), "LANG": "C.UTF-8"}  # fmt: skip
    n = 0
    while not ended.wait(0.2):
        path = f"curated/mfw/{n}.md"
        done = subprocess.run(
            [sys.executable, "-m", "cli", "vault", "write", path], input=f"by mfw {n}\n",
            env=env, text=True, capture_output=True, check=False, cwd=ROOT,
        )  # fmt: skip
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        saved["mfw"].append(path)
        n += 1


def _by_git(
    vault: Vault, folder: Path, ended: threading.Event, saved: dict[str, list[str]]
) -> None:
    """A clone of real git, which pulls and pushes until it is taken."""
    git(folder, "clone", "-q", str(vault.root), "clone")
    clone = folder / "clone"
    git(clone, "config", "pull.rebase", "true")
    n = 0
    while not ended.wait(0.1):
        file = clone / f"curated/git/{n}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"by git {n}\n")
        git(clone, "add", ".")
        git(clone, "commit", "-qm", f"By git {n}")
        for _ in range(50):
            git(clone, "pull", "-q", "origin", "main", check=False)
            with _STILL:
                done = subprocess.run(
                    ["git", "push", "-q", "origin", "HEAD:main"], cwd=clone, capture_output=True,
                    check=False,
                )  # fmt: skip
            if done.returncode == 0:
                saved["git"].append(f"curated/git/{n}.md")
                break
        n += 1


def _sweeping(
    vault: Vault, folder: Path, ended: threading.Event, saved: dict[str, list[str]]
) -> None:
    """The look at the folder, and real git's at the repository, again and again."""
    n = 0
    while not ended.wait(0.2):
        with suppress(WikiDown):
            vault.sweep()
        n += 1
        if n % 10 == 0:
            # git looks at objects first and at branches later: what comes between seems missing
            with _STILL, vault.repository.lock.holding():
                why = unsound(vault)
            if why:
                raise AssertionError(f"git finds the repository unsound: {why}")


def _come_to_rest(vault: Vault, failures: list[str]) -> None:
    """The folder comes to show the heads, by looks alone."""
    for _ in range(50):
        report = vault.sweep()
        if not report.waiting and shows_heads(vault):
            break
        time.sleep(0.2)
    else:
        failures.append(f"the folder does not show the heads: {report.problems}")
    if why := unsound(vault):
        failures.append(f"git finds the repository unsound: {why}")
