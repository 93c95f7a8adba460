"""The folder that shows the notes, and takes in what people change in it.

A ref `refs/mercury/shown/<branch>` names the commit that the files were last made equal to: the
branch's head, or a snapshot where some files could not follow. With S the version shown, H the
one at the head and F the file: F = H needs nothing, F = S is brought up to H, and anything else
was edited by hand and is merged into the branch.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from wiki import paths
from wiki.errors import WikiDown, WikiFault
from wiki.files import ASIDE, Files, Seen, blob_id
from wiki.merge import Merged, conflict_path, merge
from wiki.note import LONGEST
from wiki.paths import Area
from wiki.repository import Change, Repository, signature

log = logging.getLogger(__name__)

YOUNG_S = 1.0
"""A file that was changed this lately may still be being written."""
MANY_GONE = 10
"""More than this, and more than half of an area, gone at once is no deletion."""
OPERATOR = signature("operator", "operator@mercury.invalid")


@dataclass(slots=True)
class Report:
    """What a look at the folder found.

    Args:
        taken: paths whose edits were merged into the branch.
        waiting: whether something is left to be done at the next look.
        problems: what a person has to mend, by path.
    """

    taken: list[str] = field(default_factory=list)
    waiting: bool = False
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Look:
    """The three versions of an area's notes at one moment."""

    head: str | None
    shown: str | None
    at_head: Mapping[str, str]
    were_shown: dict[str, str]
    files: dict[str, Seen]
    asides: list[str]
    odd: dict[str, str]
    """Files whose names no note can have, and why."""
    is_there: bool
    taken: dict[str, str] = field(default_factory=dict)
    """The edits that were merged, by path: the blob that the file was."""


class Folder:
    """The folder of a wiki.

    Args:
        clock: seconds since the epoch, for commits.
    """

    def __init__(self, files: Files, repository: Repository, clock: Callable[[], int]) -> None:
        self.files = files
        self._repository = repository
        self._clock = clock
        self._sweeping = threading.Lock()
        self._notes = lru_cache(maxsize=8)(self._list_notes)

    # -- a whole area -----------------------------------------------------------------------

    def areas(self) -> tuple[list[Area], dict[str, str]]:
        """Every area that has a branch or a folder, and the folders that are nobody's."""
        found = {
            area.folder: area
            for branch in self._repository.branches()
            if (area := paths.area_of_branch(branch)) is not None
        }
        found.setdefault(paths.CURATED, paths.COMMON)
        strange: dict[str, str] = {}
        people = self.files.root / paths.PEOPLE
        for one in sorted(people.iterdir()) if people.is_dir() else ():
            name = f"{paths.PEOPLE}/{one.name}"
            area = paths.area_of_branch(name)
            if area is not None and one.is_dir() and not one.is_symlink():
                found.setdefault(name, area)
            elif area is None and not one.name.startswith("."):
                strange[name] = "this is no person's folder; its name has another form"
        return list(found.values()), strange

    def sweep(self, show_missing: bool = False, area: Area | None = None) -> Report:
        """Makes every area's files and branch equal.

        Args:
            show_missing: writes again what was taken away in bulk.
            area: only this one.
        """
        report = Report()
        areas, report.problems = self.areas()
        with self._sweeping:
            for one in areas if area is None else [area]:
                try:
                    self._settle(one, show_missing, report)
                except (WikiFault, OSError) as error:
                    report.waiting = True
                    report.problems[one.folder] = str(error)
        return report

    def _settle(self, area: Area, show_missing: bool, report: Report) -> None:
        look = self._look(area)
        report.problems.update(look.odd)
        if look.is_there and not look.asides and look.head == look.shown and self._equal(look):
            return
        with self._repository.lock.holding():
            look = self._look(area)
            self._take_asides(area, look, report)
            look = self._look(area)
            problems: dict[str, str] = {}
            missing = self._missing(area, look, problems, show_missing)
            made = self._commit(area, look, missing, report, problems)
            head = made or look.head
            if head is None:
                return
            at_head = self._notes(area, head)
            behind = dict.fromkeys(missing)
            for path in sorted({*at_head, *look.files, *look.were_shown} - missing):
                if not self._show(path, look, at_head.get(path), problems):
                    behind[path] = None
            self._remember(area, look.shown, head, at_head, {
                path: look.were_shown.get(path) for path in behind
            })  # fmt: skip
            report.waiting |= bool(behind)
            report.problems.update(problems)

    def _remember(
        self, area: Area, shown: str | None, head: str, at_head: Mapping[str, str],
        behind: Mapping[str, str | None],
    ) -> None:  # fmt: skip
        """Notes what is shown now: the head, but for those that are behind it."""
        differing = {path: id_ for path, id_ in behind.items() if at_head.get(path) != id_}
        now = self._repository.snapshot(head, differing) if differing else head
        if now != shown:
            self._repository.refs.move(self._shown_ref(area), shown, now)

    def _look(self, area: Area) -> _Look:
        head = self._repository.head(area.branch)
        shown = self._repository.ref(self._shown_ref(area))
        at_head = self._notes(area, head)
        scanned = self.files.scan(area.folder)
        files, asides = scanned or ({}, [])
        odd = {
            path: why
            for path in files
            if path not in at_head and (why := paths.why_no_note(area, path))
        }
        files = {path: seen for path, seen in files.items() if path not in odd}
        were_shown = dict(self._notes(area, shown))
        return _Look(head, shown, at_head, were_shown, files, asides, odd, scanned is not None)

    def _list_notes(self, area: Area, commit: str | None) -> Mapping[str, str]:
        found = self._repository.paths(commit, area.folder)
        return {path: id_ for path, id_ in found.items() if paths.is_note(area, path)}

    @staticmethod
    def _equal(look: _Look) -> bool:
        return {path: seen.id for path, seen in look.files.items()} == look.at_head

    @staticmethod
    def _missing(area: Area, look: _Look, problems: dict[str, str], show_missing: bool) -> set[str]:
        """What is gone in bulk and therefore not taken for a deletion."""
        gone = {path for path in look.were_shown if path not in look.files}
        in_bulk = len(gone) > MANY_GONE and len(gone) > len(look.were_shown) / 2
        if not gone or (look.is_there and not in_bulk):
            return set()
        if show_missing:
            for path in gone:
                look.were_shown.pop(path)
            return set()
        problems[area.folder] = (
            f"{len(gone)} notes are gone from the folder at once; `mfw vault sync` shows them again"
        )
        return gone

    def _commit(
        self, area: Area, look: _Look, missing: set[str], report: Report,
        problems: dict[str, str],
    ) -> str | None:  # fmt: skip
        """Merges what was edited by hand into the branch."""

        def decide(head: str | None) -> tuple[list[Change], str]:
            look.head, look.at_head = head, self._notes(area, head)
            changes: dict[str, bytes | None] = {}
            for path in sorted({*look.files, *look.were_shown} - missing):
                changes |= self._edit(path, look, problems)
            return _commitment(changes)

        made = self._repository.commit(area.branch, decide, OPERATOR, self._clock())
        if made is not None:
            report.taken += sorted(self._repository.changed(look.head, made, area.folder))
        return made

    def _edit(self, path: str, look: _Look, problems: dict[str, str]) -> dict[str, bytes | None]:
        """What a person's edit of one file makes of the branch."""
        file, head, shown = look.files.get(path), look.at_head.get(path), look.were_shown.get(path)
        if file is None:
            if shown is None or head is None:
                return {}
            if head != shown:
                log.warning("%s was deleted by hand after it had changed; it is shown again", path)
                return {}
            return {path: None}
        if file.id in (head, shown) or self._is_young(file):
            return {}
        data = self._readable(path, problems)
        if data is None:
            return {}
        look.taken[path] = blob_id(data)
        return self._merged(path, shown, head, data)

    def _readable(self, path: str, problems: dict[str, str]) -> bytes | None:
        """A file's bytes as a note; None, and a problem, when it is none."""
        try:
            data = self.files.read(path)
            if len(data.decode()) <= LONGEST:
                return data
            problems[path] = f"a note has at most {LONGEST:,} characters"
        except UnicodeDecodeError:
            problems[path] = "a note is UTF-8 text"
        except OSError as error:
            problems[path] = error.strerror or "it cannot be read"
        return None

    def _merged(
        self, path: str, shown: str | None, head: str | None, data: bytes
    ) -> dict[str, bytes | None]:
        ours = self._blob(head)
        merged: Merged = merge(self._blob(shown), ours, data)
        changes: dict[str, bytes | None] = {}
        if merged.ours != ours:
            changes[path] = merged.ours
        if merged.theirs is not None:
            changes[conflict_path(path, merged.theirs)] = merged.theirs
            log.warning("%s was changed in two places; both versions are kept", path)
        return changes

    def _blob(self, id_: str | None) -> bytes | None:
        return None if id_ is None else self._repository.blob(id_)

    def _is_young(self, file: Seen) -> bool:
        return 0 <= time.time() - file.at < YOUNG_S

    def _show(self, path: str, look: _Look, head: str | None, problems: dict[str, str]) -> bool:
        """Brings one file up to the head; whether it is there now."""
        file = look.files.get(path)
        here = None if file is None else file.id
        if here == head:
            return True
        if here not in (look.were_shown.get(path), look.taken.get(path), None):
            return False
        try:
            return self._put(path, here, head)
        except OSError as error:
            problems[path] = error.strerror or "it cannot be written"
            return False

    def _is_kept(self, id_: str | None) -> bool:
        """Whether git has these bytes, so that nothing is lost with the file."""
        try:
            return bool(id_) and self._repository.blob(str(id_)) is not None
        except WikiFault:
            return False

    def _take_asides(self, area: Area, look: _Look, report: Report) -> None:
        """Merges what came out of the folder when a file was exchanged under an edit."""
        for aside in look.asides:
            name = ASIDE.fullmatch(aside.rpartition("/")[2])
            seen = self.files.look(aside)
            if name is None or seen is None:
                continue
            if not self._is_kept(seen.id):
                path = f"{aside.rpartition('/')[0]}/{name['name']}"
                data = self._readable(aside, report.problems)
                if data is None or not paths.is_note(area, path):
                    continue
                base = None if name["base"] == "new" else name["base"]
                self._keep(area, path, base, data)
                report.taken.append(path)
            self.files.drop(aside)

    def _keep(self, area: Area, path: str, base: str | None, data: bytes) -> None:
        def decide(head: str | None) -> tuple[list[Change], str]:
            at_head = self._repository.path_id(head, path)
            return _commitment(self._merged(path, base, at_head, data))

        self._repository.commit(area.branch, decide, OPERATOR, self._clock())

    # -- one note ---------------------------------------------------------------------------

    def take(self, area: Area, path: str) -> None:
        """Merges an edit by hand of one note into its branch, if there is one.

        A file that is missing is left to the sweep, which sees whether others are missing too.
        """
        file = self.files.look(path)
        if file is None or file.id == self._repository.path_id(
            self._repository.head(area.branch), path
        ):
            return
        with self._repository.lock.holding():
            shown = self._repository.path_id(self._repository.ref(self._shown_ref(area)), path)
            if file.id == shown or self._is_young(file):
                return
            data = self._readable(path, {})
            if data is None:
                return
            self._keep(area, path, shown, data)
            head = self._repository.head(area.branch)
            if head is not None and self._brought_up(path, blob_id(data), head):
                self._remember_one(area, path, head)

    def show(self, area: Area, changed: Collection[str], commit: str) -> None:
        """Brings the files of a new commit up to it; what fails is left to the sweep."""
        try:
            shown = self._repository.ref(self._shown_ref(area))
            now = {
                path: head
                for path in changed
                if self._follows(path, shown, head := self._repository.path_id(commit, path))
            }
            before = shown or self._repository.root
            if [before] == self._repository.parents(commit) and set(now) == set(changed):
                self._repository.refs.move(self._shown_ref(area), shown, commit)
            elif now:
                snapshot = self._repository.snapshot(before, now)
                self._repository.refs.move(self._shown_ref(area), shown, snapshot)
        except (OSError, WikiDown) as error:
            log.error("the wiki's folder could not be brought up to date: %s", error)

    def _follows(self, path: str, shown: str | None, head: str | None) -> bool:
        """Brings one file up to a commit, unless it was edited; whether it is there now."""
        file = self.files.look(path)
        here = None if file is None else file.id
        if here == head:
            return True
        if here != self._repository.path_id(shown, path):
            return False
        return self._put(path, here, head)

    def _put(self, path: str, here: str | None, head: str | None) -> bool:
        """Brings a file from one version to another; whether that one is there now."""
        done = self.files.put(path, here, self._blob(head))
        if head is None:
            self.files.prune(path.rpartition("/")[0])
        if done:
            return True
        now = self.files.look(path)  # an edit that slipped in may have been put aside
        return head is not None and now is not None and now.id == head

    def _brought_up(self, path: str, here: str, commit: str) -> bool:
        head = self._repository.path_id(commit, path)
        return here == head or self._put(path, here, head)

    def _remember_one(self, area: Area, path: str, commit: str) -> None:
        """Notes that one file shows what a commit has."""
        shown = self._repository.ref(self._shown_ref(area))
        blob = {path: self._repository.path_id(commit, path)}
        snapshot = self._repository.snapshot(shown or self._repository.root, blob)
        self._repository.refs.move(self._shown_ref(area), shown, snapshot)

    @staticmethod
    def _shown_ref(area: Area) -> str:
        return f"refs/mercury/shown/{area.branch}"


def _commitment(changes: dict[str, bytes | None]) -> tuple[list[Change], str]:
    """Changes made by hand, and what their commit says."""
    many = len(changes) > 1
    subject = (
        f"Edit {len(changes)} notes by hand" if many else f"Edit {next(iter(changes), '')} by hand"
    )
    return [Change(path, data) for path, data in changes.items()], f"{subject}\n"
