"""The vault: notes as people and the agent read and write them, each within an access.

Takes an access and a path, gives texts, versions and receipts. What reaches the common area has
to come from an operator or through `settle`, by a confirmation. Knows nothing of channels, tools
and the archive.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wiki import note, paths
from wiki.errors import Exists, NotAllowed, NotAPath, NotThere, Stale, TooLong, WikiDown
from wiki.files import Files, blob_id
from wiki.folder import OPERATOR, Folder, Report
from wiki.links import Links
from wiki.merge import conflict_path, is_conflict, merge
from wiki.paths import Access, Area, Bare, Place
from wiki.repository import Change, Repository, Version, signature
from wiki.search import Hit, Index, Listed, Words

log = logging.getLogger(__name__)

Stamps = Callable[[str | None], Mapping[str, str | Sequence[str]]]
"""Front matter for a note that was or was not there before."""

LOOK_BACK = 5_000
"""Commits that are looked through for a note's history or a trailer."""
README = """# The notes of Mercury

This folder shows the notes that Mercury keeps; it opens in Obsidian or any editor.

- `curated/` is the common area: everybody who talks to Mercury can read it there. The agent
  changes nothing here unless a person has confirmed it.
- `people/` has a folder for each person, with the notes that the agent took for them.

Edit the notes as you like: within some seconds a change is a commit in the git repository in
`.git`, which you can also clone, pull from and push to. Where two people changed the same lines,
the other version lies beside the note as `<name>.conflict-<8 digits>.md`.

Whoever can read this folder or its repository can read everybody's notes.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A note as it was read; `base` names this very version."""

    path: str
    text: str
    base: str


@dataclass(frozen=True, slots=True)
class Saved:
    """What was written; `commit` is '' when the note was the same already."""

    path: str
    base: str
    commit: str
    is_shared: bool = True
    """Whether every machine has it, where there are several."""


@dataclass(frozen=True, slots=True)
class By:
    """In whose name a change is made, and what its commit says of it.

    Args:
        person: '' for the operator.
        trailers: such as `Turn: <turn>/<n>`.
        check: called last before the branch moves; raises to change nothing.
    """

    person: str = ""
    trailers: Sequence[str] = ()
    check: Callable[[], None] | None = None

    @property
    def signature(self) -> str:
        """The author of the commit."""
        if not self.person:
            return OPERATOR
        return signature(self.person, f"{paths.folder_of(self.person)}@mercury.invalid")

    def message(self, subject: str) -> str:
        """The commit's message."""
        return subject + "\n" + ("\n" + "\n".join(self.trailers) + "\n" if self.trailers else "")


@dataclass(frozen=True, slots=True)
class Offer:
    """A change of the common area, as it waits for a confirmation.

    Args:
        path: the note that it comes from, as its person names it; '' for none.
        to: where it goes, `curated/…`.
        data: what will stand there; None for nothing.
        blob: of `data`; '' for nothing.
        base: what stands there now; '' for nothing.
        text, diff: the whole new text, or the whole difference; one of them is ''.
        source: the path in the repository that is dropped afterwards; '' for none.
    """

    path: str
    to: str
    data: str | None
    blob: str
    base: str
    text: str
    diff: str
    source: str = ""


class Vault:
    """All notes.

    Args:
        root: the folder; made when it is first used.
        index: the file of the index.
        clock: seconds since the epoch.
        step: called at the points where a trial may stop the process.
    """

    def __init__(
        self, root: Path, index: Path, words: Words, clock: Callable[[], int],
        step: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.root = root
        self.repository = Repository(root / ".git", root / ".mercury.lock")
        self.folder = Folder(Files(root), self.repository, clock)
        self.index = Index(index, self.repository, words)
        self.links = Links(self.index, self.repository)
        self._clock = clock
        self._step = step

    def is_there(self) -> bool:
        """Whether there is a vault; False where there has never been one.

        Raises:
            WikiDown: there was one, and it is gone.
        """
        if self.repository.exists():
            return True
        if self.index.heads():
            raise WikiDown(f"the wiki's repository {self.repository.path} is gone; restore it")
        return False

    def ready(self) -> None:
        """Makes the vault where there has never been one.

        Raises:
            WikiDown: it is gone, or cannot be made here.
        """
        if self.is_there():
            return
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.repository.create()
            readme = self.root / "README.md"
            for folder in (paths.CURATED, paths.PEOPLE):
                (self.root / folder).mkdir(exist_ok=True)
            if not readme.exists():
                readme.write_text(README, encoding="utf-8")
            self.index.refresh([paths.COMMON])  # from now on it is known that there is a wiki
        except OSError as error:
            raise WikiDown(f"the wiki cannot be made: {error.strerror}") from error

    def close(self) -> None:
        """Frees what is open."""
        self.index.close()
        self.repository.close()

    # -- reading ------------------------------------------------------------------------------

    def read(self, access: Access, path: str, bare: Bare = "mine") -> Found:
        """A note.

        Raises:
            NotThere: there is none, or it is somebody else's.
            NotAPath: there can be none.
            WikiDown: the wiki cannot be read.
        """
        at = self._readable(access, path, bare)
        if not self.is_there():
            raise NotThere(path)
        self._take(at)
        head = self.repository.head(at.area.branch)
        id_ = self.repository.path_id(head, at.path)
        if id_ is None:
            raise NotThere(path)
        return Found(paths.shown(access, at), self._text(id_), id_)

    def notes(self, access: Access, area: str = "", limit: int | None = None) -> list[Listed]:
        """The notes that this access may see, those first that were changed last.

        Args:
            area: `curated` or `mine`; '' for both.
        """
        areas = self._areas(access, area)
        found = self.index.notes(areas, limit) if self.is_there() else []
        return [
            Listed(self._shown(access, one.path), one.blob, one.title, one.updated)
            for one in found
        ]  # fmt: skip

    def count(self, access: Access) -> int:
        """How many notes this access may see."""
        return self.index.count(access.readable()) if self.is_there() else 0

    def search(self, access: Access, query: str, limit: int, area: str = "") -> list[Hit]:
        """The best notes for a query, each with its best line."""
        areas = self._areas(access, area)
        found = self.index.search(areas, query, limit) if self.is_there() else []
        return [
            Hit(self._shown(access, hit.path), hit.title, hit.line, hit.text, hit.updated)
            for hit in found
        ]

    def backlinks(self, access: Access, path: str, bare: Bare = "mine") -> list[str]:
        """The paths of the notes that link to a note, of those that this access may see."""
        at = self._readable(access, path, bare)
        if not self.is_there():
            return []
        areas = list(dict.fromkeys([*access.readable(), at.area]))
        linking = [
            self._shown(access, one)
            for one, _ in self.links.leading_to(areas, at.path)
            if one != at.path
        ]
        return list(dict.fromkeys(linking))

    def history(
        self, access: Access, path: str, limit: int = 50, bare: Bare = "mine"
    ) -> list[Version]:
        """The commits that changed a note, the newest first.

        Raises:
            NotThere: it never was there, or is somebody else's.
        """
        at = self._readable(access, path, bare)
        if not self.is_there():
            raise NotThere(path)
        self._take(at)
        found = [
            self.repository.version(commit)
            for commit, before in self._pairs(at)
            if self.repository.path_id(commit, at.path) != self.repository.path_id(before, at.path)
        ]
        if not found:
            raise NotThere(path)
        return found[:limit]

    def version(self, access: Access, path: str, commit: str, bare: Bare = "mine") -> str | None:
        """A note's text as of a commit of its branch; None when it was not there then.

        Args:
            commit: its id, or at least seven digits of it.

        Raises:
            NotThere: the branch has no such commit.
        """
        at = self._readable(access, path, bare)
        if not self.is_there():
            raise NotThere(path)
        id_ = self.repository.path_id(self._commit(at.area, commit), at.path)
        return None if id_ is None else self._text(id_)

    def diff(self, access: Access, path: str, old: str, new: str = "", bare: Bare = "mine") -> str:
        """What changed in a note between two commits; '' for the newest.

        Raises:
            NotThere: there is no such note or commit.
        """
        before = self.version(access, path, old, bare)
        after = self.version(access, path, new, bare) if new else self._now(access, path, bare)
        if before is None and after is None:
            raise NotThere(path)
        return difference(before or "", after or "", old[:7], new[:7] or "now")

    def _now(self, access: Access, path: str, bare: Bare) -> str | None:
        with suppress(NotThere):
            return self.read(access, path, bare).text
        return None

    # -- writing ------------------------------------------------------------------------------

    def write(
        self,
        access: Access,
        path: str,
        text: str,
        base: str | None,
        by: By,
        stamps: Stamps | None = None,
        is_new: bool = False,
        bare: Bare = "mine",
    ) -> Saved:
        """Writes a note.

        Args:
            base: the version that the text was made from; None for a note that is not there yet.
            stamps: gives the front matter that is set; the note's foreign keys are kept then.
            is_new: an existing note is not told, only that it exists.

        Raises:
            NotAPath, NotThere, NotAllowed, TooLong: nothing can be written there, or not this.
            Exists: a note is there already, or one whose name differs only in its case.
            Stale: another version is there than `base`.
            WikiDown: nothing was written.
        """
        at = self._writable(access, path, bare)
        self.ready()
        self._take(at)
        wrote: list[str] = []

        def decide(head: str | None) -> tuple[list[Change], str]:
            id_ = self.repository.path_id(head, at.path)
            old = None if id_ is None else self._text(id_)
            new, is_same = self._made(old, text, stamps)
            wrote[:] = [new]
            if old is not None and is_same:
                wrote[:] = [old]
                return [], ""
            if old is not None and is_new:
                raise Exists(paths.shown(access, at))
            if (id_ or None) != (base or None):
                raise Stale(old, id_ or "")
            if old is None:
                self._must_fit(access, at, head)
            verb = "Write" if old is None else "Change"
            change = Change(at.path, new.encode("utf-8", "replace"))
            return [change], by.message(f"{verb} {at.path}")

        commit = self._committed(at, decide, by)
        return Saved(paths.shown(access, at), blob_id(wrote[0].encode("utf-8", "replace")), commit)

    def delete(
        self, access: Access, path: str, base: str | None, by: By, bare: Bare = "mine"
    ) -> Saved:
        """Takes a note away; its versions stay in the history.

        Args:
            base: the version that was read; None for whichever is there.

        Raises:
            NotThere, NotAPath, NotAllowed, Stale, WikiDown: as `write`.
        """
        at = self._writable(access, path, bare)
        if not self.is_there():
            raise NotThere(path)
        self._take(at)

        def decide(head: str | None) -> tuple[list[Change], str]:
            id_ = self.repository.path_id(head, at.path)
            if id_ is None:
                raise NotThere(path)
            if base is not None and base != id_:
                raise Stale(self._text(id_), id_)
            return [Change(at.path, None)], by.message(f"Delete {at.path}")

        return Saved(paths.shown(access, at), "", self._committed(at, decide, by))

    def move(
        self, access: Access, path: str, to: str, by: By, bare: Bare = "mine"
    ) -> tuple[Saved, list[str]]:
        """Moves a note, and rewrites the links that named it; returns the notes that had them.

        Raises:
            NotThere, NotAPath, NotAllowed, Exists, WikiDown: as `write`.
        """
        source, target = self._writable(access, path, bare), self._writable(access, to, bare)
        if not self.is_there():
            raise NotThere(path)
        if source == target:
            raise Exists(paths.shown(access, target))
        self._take(source)
        self._take(target)
        areas = self.folder.areas()[0] if access.is_operator else access.readable()
        renamed = self.links.renamed(areas, source, target)
        found: list[str] = []

        def into(head: str | None) -> tuple[list[Change], str]:
            id_ = self.repository.path_id(self.repository.head(source.area.branch), source.path)
            if id_ is None:
                raise NotThere(path)
            if self.repository.path_id(head, target.path) is not None:
                raise Exists(paths.shown(access, target))
            self._must_fit(access, target, head)
            found[:] = [id_]
            moved = note.with_links(self._text(id_), renamed.get(source.path, {}).get)
            changes = [Change(target.path, moved.encode())]
            if source.area == target.area:
                changes.append(Change(source.path, None))
            changes += self.links.changes(head, target.area, source.path, renamed)
            return changes, by.message(f"Move {source.path} to {target.path}")

        def out(head: str | None) -> tuple[list[Change], str]:
            changes = self.links.changes(head, source.area, source.path, renamed)
            if self.repository.path_id(head, source.path) == found[0]:
                changes.append(Change(source.path, None))
            return changes, by.message(f"Move {source.path} to {target.path}")

        commit = self._committed(target, into, by)
        if source.area != target.area:
            self._committed(source, out, by)
        for area in {paths.area_of_path(linking) for linking in renamed} - {
            source.area,
            target.area,
        }:
            self._committed(
                Place(area, area.folder),
                lambda head, area=area: (  # type: ignore[misc]
                    self.links.changes(head, area, source.path, renamed),
                    by.message(f"Follow {target.path}"),
                ),
                by,
            )  # fmt: skip
        id_ = self.repository.path_id(self.repository.head(target.area.branch), target.path)
        changed = sorted(self._shown(access, one) for one in renamed if one != source.path)
        return Saved(paths.shown(access, target), id_ or "", commit), changed

    def restore(
        self, access: Access, path: str, commit: str, base: str | None, by: By, bare: Bare = "mine"
    ) -> Saved:
        """Writes a note as it was at a commit.

        Args:
            base: the version that is there now; None for none.

        Raises:
            NotThere: it was not there then, or there is no such commit.
        """
        text = self.version(access, path, commit, bare)
        if text is None:
            raise NotThere(path)
        return self.write(access, path, text, base, by, bare=bare)

    def merge_in(self, person: str, path: str, base: str, text: str, by: By) -> None:
        """Merges a version of a person's note that was made elsewhere, once.

        Args:
            base: the version that it was made from; '' for none.
            by: its last trailer is the version's own, by which it is known again.
        """
        at = self._writable(Access(person), path, "mine")
        self.ready()
        theirs = text.encode("utf-8", "replace")

        def decide(head: str | None) -> tuple[list[Change], str]:
            if self._with_trailer(at.area, by.trailers[-1]) is not None:
                return [], ""
            here = self.repository.path_id(head, at.path)
            if here == blob_id(theirs):
                return [], ""
            old = self._blob(base) if base else None
            merged = merge(old, self._blob(here) if here else None, theirs)
            changes = [Change(at.path, merged.ours)]
            if merged.theirs is not None:
                changes.append(Change(conflict_path(at.path, merged.theirs), merged.theirs))
            return changes, by.message(f"Write {at.path}")

        self._committed(at, decide, by)

    def _blob(self, id_: str) -> bytes | None:
        """A version's bytes; None for one that this machine does not have."""
        try:
            return self.repository.blob(id_)
        except NotThere:
            return None

    def wrote(self, person: str, trailer: str) -> Saved | None:
        """The write of a person's that carries a trailer; None when there is none.

        It is how a later attempt of a turn finds out what an earlier one did.
        """
        area = paths.area_of(person)
        commit = self._with_trailer(area, trailer) if self.is_there() else None
        if commit is None:
            return None
        before = next(iter(self.repository.parents(commit)), None)
        for path, id_ in self.repository.changed(before, commit, area.folder).items():
            return Saved(self._shown(Access(person), path), id_ or "", commit)
        return None

    # -- the common area, by confirmation -------------------------------------------------------

    def offer(self, access: Access, path: str, to: str) -> Offer:
        """A note of the person's as it would stand in the common area.

        Raises:
            NotThere, NotAPath: as `read`; and `to` has to be in `curated/`.
        """
        source = paths.place(access, path)
        if source.is_common:
            raise NotAPath("the note is in the common area already")
        if not self.is_there():
            raise NotThere(path)
        self._take(source)
        id_ = self.repository.path_id(self.repository.head(source.area.branch), source.path)
        if id_ is None:
            raise NotThere(path)
        text = self._text(id_)
        return self._offered(access, to, text, paths.shown(access, source), source.path)

    def offer_text(self, access: Access, to: str, text: str | None, base: str | None) -> Offer:
        """A text for the common area, or None to take a note away.

        Args:
            base: the version that the text was made from; None for a note that is not there yet.

        Raises:
            Stale: another version is there; also for a text that is there already.
        """
        offered = self._offered(access, to, text, "", "")
        if (base or "") != offered.base:
            raise Stale(self._text(offered.base) if offered.base else None, offered.base)
        if text is None and not offered.base:
            raise NotThere(to)
        return offered

    def _offered(self, access: Access, to: str, text: str | None, path: str, source: str) -> Offer:
        if text is not None and len(text) > note.LONGEST:
            raise TooLong(f"a note has at most {note.LONGEST:,} characters")
        target = paths.place(access, to, "curated")
        if not target.is_common:
            raise NotAPath("the common area is curated/")
        self._must_be_real(target)
        self.ready()
        self._take(target)
        head = self.repository.head(target.area.branch)
        base = self.repository.path_id(head, target.path)
        if base is None:
            self._must_fit(access, target, head)
        old = "" if base is None else self._text(base)
        blob = "" if text is None else self.repository.add_blob(text.encode("utf-8", "replace"))
        diff = difference(old, text or "", "now", "new") if base else ""
        return Offer(
            path, target.path, text, blob, base or "", "" if base else text or "", diff, source
        )

    def settle(self, offer: Offer, confirmation: str, since: int, by: By) -> Saved:
        """Does what was offered and confirmed, once, however often it is called.

        Args:
            confirmation: its id, which the commit names.
            since: when it was asked for, in seconds since the epoch.

        Raises:
            Stale: the target has changed since it was shown.
            WikiDown: to be called again later.
        """
        self.ready()
        at = Place(paths.COMMON, offer.to)
        trailer = f"Confirmation: {confirmation}"
        self._take(at)

        def decide(head: str | None) -> tuple[list[Change], str]:
            if self._with_trailer(paths.COMMON, trailer, since) is not None:
                return [], ""  # done before a crash
            now = self.repository.path_id(head, at.path) or ""
            if now != offer.base:
                raise Stale(None, now)
            if not now:
                self._must_fit(Access("", is_operator=True), at, head)
            data = None if offer.data is None else offer.data.encode("utf-8", "replace")
            if (blob_id(data) if data is not None else "") != offer.blob:
                raise Stale(None, now)
            verb = "Delete" if data is None else "Promote" if offer.source else "Write"
            changes = [Change(at.path, data)] if offer.blob != now else []
            return changes, By(by.person, (*by.trailers, trailer)).message(f"{verb} {at.path}")

        commit = self._committed(at, decide, by)
        self._step("promoted")
        if offer.source:
            self._drop(offer, by)
        commit = commit or self._with_trailer(paths.COMMON, trailer, since) or ""
        return Saved(offer.to, offer.blob, commit)

    def _drop(self, offer: Offer, by: By) -> None:
        """Takes the promoted note out of the person's area, if it is still that very one."""
        area = paths.area_of_path(offer.source)

        def decide(head: str | None) -> tuple[list[Change], str]:
            if self.repository.path_id(head, offer.source) != offer.blob:
                return [], ""
            return [Change(offer.source, None)], by.message(f"Moved to {offer.to}")

        self._take(Place(area, offer.source))
        self._committed(Place(area, offer.source), decide, by)

    # -- keeping up -----------------------------------------------------------------------------

    def sweep(self, show_missing: bool = False) -> Report:
        """Takes in what people changed in the folder, and shows what it does not show yet."""
        if not self.is_there():
            if not any((self.root / folder).is_dir() for folder in (paths.CURATED, paths.PEOPLE)):
                return Report()
            self.ready()
        report = self.folder.sweep(show_missing)
        self.index.refresh(self.folder.areas()[0])
        self.repository.tidy()
        return report

    def problems(self) -> dict[str, str]:
        """The notes that cannot be read as they were meant, and why."""
        return self.index.problems(self.folder.areas()[0]) if self.is_there() else {}

    def conflicts(self) -> list[str]:
        """Every other version of a note that waits for a person to choose."""
        found: list[str] = []
        for area in self.folder.areas()[0] if self.is_there() else ():
            head = self.repository.head(area.branch)
            found += [
                path for path in self.repository.paths(head, area.folder) if is_conflict(path)
            ]
        return sorted(found)

    # -- below ----------------------------------------------------------------------------------

    def _areas(self, access: Access, area: str) -> list[Area]:
        if not area:
            return access.readable()
        named = {paths.CURATED: paths.COMMON, paths.MINE: access.own}.get(area.strip("/"))
        if named is None and access.is_operator and area.startswith(f"{paths.PEOPLE}/"):
            return [paths.area_named(area.strip("/").partition("/")[2])]
        if named is None or named not in access.readable():
            raise NotThere(area)
        return [named]

    def _readable(self, access: Access, path: str, bare: Bare) -> Place:
        at = paths.place(access, path, bare)
        if not access.is_operator and at.area not in access.readable():
            raise NotThere(path)
        return at

    def _writable(self, access: Access, path: str, bare: Bare) -> Place:
        at = paths.place(access, path, bare)
        if at.is_common and not access.is_operator:
            raise NotAllowed("a change of curated/ has to be confirmed by a person")
        self._must_be_real(at)
        return at

    def _must_be_real(self, at: Place) -> None:
        if self.folder.files.is_linked(at.path):
            raise NotAPath("a part of the path is a link in the folder")

    def _must_fit(self, access: Access, at: Place, head: str | None) -> None:
        """Names of one folder that differ only in their case are one on many systems."""
        parts = at.path.split("/")
        for n, part in enumerate(parts):
            folder = "/".join(parts[:n])
            siblings = self.repository.siblings(head, folder) if folder else ()
            wanted = "" if part in siblings else note.key_of(part)
            for sibling in siblings if wanted else ():
                if note.key_of(sibling) == wanted:
                    path = "/".join((folder, sibling, *parts[n + 1 :]))
                    raise Exists(self._shown(access, path))

    def _take(self, at: Place) -> None:
        """Takes in an edit by hand; a folder that cannot be read is no reason to fail."""
        try:
            self.folder.take(at.area, at.path)
        except (OSError, WikiDown) as error:
            log.warning("the wiki's folder could not be looked at: %s", error)

    def _committed(
        self, at: Place, decide: Callable[[str | None], tuple[list[Change], str]], by: By
    ) -> str:
        """Commits, and shows it in the folder; '' when nothing changed."""
        changed: list[str] = []

        def deciding(head: str | None) -> tuple[list[Change], str]:
            changes, message = decide(head)
            changed[:] = [change.path for change in changes]
            return changes, message

        with self.repository.lock.holding():
            commit = self.repository.commit(
                at.area.branch, deciding, by.signature, self._clock(), by.check
            )
            if commit is None:
                return ""
            self._step("wiki_ref")
            self.folder.show(at.area, changed, commit)
        return commit

    @staticmethod
    def _made(old: str | None, text: str, stamps: Stamps | None) -> tuple[str, bool]:
        """What is written, and whether the note says it already."""
        if stamps is None:
            new, is_same = text, old == text
        else:
            values = stamps(old)
            carried = text if old is None else note.carried(old, text)
            new = note.stamped(carried, values)
            is_same = old is not None and note.same_but_for(old, new, values)
        if len(new) > note.LONGEST:
            raise TooLong(f"a note has at most {note.LONGEST:,} characters")
        return new, is_same

    def _text(self, id_: str) -> str:
        return self.repository.blob(id_).decode("utf-8", "replace")

    def _pairs(self, at: Place) -> Iterator[tuple[str, str | None]]:
        """The commits of a branch, each with the one before it."""
        newer: str | None = None
        for n, commit in enumerate(self.repository.lineage(self.repository.head(at.area.branch))):
            if newer is not None:
                yield newer, commit
            newer = commit
            if n > LOOK_BACK:
                return

    def _commit(self, area: Area, commit: str) -> str:
        """The whole id of a commit of a branch; others' commits are not there."""
        if len(commit) >= 7:
            head = self.repository.head(area.branch)
            for n, id_ in enumerate(self.repository.lineage(head)):
                if id_.startswith(commit.lower()):
                    return id_
                if n > LOOK_BACK:
                    break
        raise NotThere(commit)

    def _with_trailer(self, area: Area, trailer: str, since: int = 0) -> str | None:
        """The commit of a branch whose message ends with a trailer; merged ones too."""
        head = self.repository.head(area.branch)
        left, seen = [head] if head else [], {head}
        while left and len(seen) < LOOK_BACK:
            version = self.repository.version(left.pop(0))
            if trailer in version.message.splitlines():
                return version.id
            if version.at >= since - 86_400:
                new = [id_ for id_ in self.repository.parents(version.id) if id_ not in seen]
                seen.update(new)
                left += new
        return None

    def _shown(self, access: Access, path: str) -> str:
        return paths.shown(access, Place(paths.area_of_path(path), path))


def difference(old: str, new: str, old_name: str, new_name: str) -> str:
    """A unified difference, with every line of what changed, and the end of the last one too."""
    before, after = _lines(old), _lines(new)
    if before and after and old.endswith("\n") != new.endswith("\n"):
        (after if old.endswith("\n") else before)[-1] += "\n\\ No newline at end of file"
    return "\n".join(difflib.unified_diff(before, after, old_name, new_name, lineterm="", n=3))


def _lines(text: str) -> list[str]:
    """The lines of a text, parted where git parts them and nowhere else."""
    return text.removesuffix("\n").split("\n") if text else []
