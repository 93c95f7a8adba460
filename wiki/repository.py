"""The git repository: objects, trees and branches, written one at a time and never half.

Every write holds one kernel lock, puts its objects on the disk, moves the branch by
compare-and-set and reads back what it wrote; a process that dies leaves nothing that has to be
mended by hand. Real git may push at any moment. Knows nothing of notes, people or the folder.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dulwich.file import FileLocked
from dulwich.graph import find_merge_base
from dulwich.object_store import DiskObjectStore
from dulwich.objects import ZERO_SHA, Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo

from wiki.damage import told
from wiki.disk import sync_folder, write_new
from wiki.errors import NotThere, WikiDown
from wiki.kernel_lock import KernelLock
from wiki.paths import CURATED, MAIN
from wiki.refs import Refs

log = logging.getLogger(__name__)

RACES = 20
"""How often a write begins anew because a branch has moved meanwhile."""
MOVED = "it moves all the time"
SAMPLE, LOOSE = "17", 4_096
"""Whose files are counted, and how many loose objects are too many."""
COMPRESSION = 1
"""Of zlib: most of what is written is small, or ids that cannot be compressed."""
LATEST = 253_402_300_799
"""Of the times that a pushed commit may claim: the end of the year 9999."""
TREES = 4_096
VERSIONS = 4_096
FLAT = 8
"""Whole areas whose paths are remembered."""
_NOTHING: tuple[int, str] = (0, "")
FILE, FOLDER = 0o100644, stat.S_IFDIR
AUTHOR = b"Mercury <mercury@mercury.invalid>"
CONFIG = {
    (b"core",): {b"bare": b"true", b"logAllRefUpdates": b"false", b"fsync": b"all"},
    (b"receive",): {
        b"denyNonFastForwards": b"true", b"denyDeletes": b"true", b"denyCurrentBranch": b"ignore",
        b"autogc": b"false", b"fsckObjects": b"true",
    },
    (b"gc",): {b"auto": b"0"},
    (b"transfer",): {b"hideRefs": b"refs/mercury"},
}  # fmt: skip
_ID = re.compile(rb"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Version:
    """One commit.

    Args:
        at: seconds since the epoch.
        author: the name of whom it was made for.
    """

    id: str
    at: int
    author: str
    message: str
    tree: str = ""
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What a write makes of one path; None takes it away."""

    path: str
    data: bytes | None


class Moved(Exception):
    """The branch is not any more where the write began."""


class Repository:
    """A bare repository in a folder.

    Args:
        path: of the repository.
        lock: the file whose kernel lock all writers of this machine take.
    """

    def __init__(self, path: Path, lock: Path) -> None:
        self.path = path
        self.lock = KernelLock(lock)
        self.refs = Refs(path, self.lock, self._packed)
        self._opening = threading.RLock()
        self._opened: Repo | None = None
        self._tree = lru_cache(maxsize=TREES)(self._read_tree)
        self._version = lru_cache(maxsize=VERSIONS)(self._read_version)
        self._flat = lru_cache(maxsize=FLAT)(self._read_flat)

    # -- opening ------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether there is a repository."""
        return (self.path / "HEAD").exists()

    def create(self) -> None:
        """Makes the repository, whole or not at all; nothing when it is there.

        Raises:
            WikiDown: the folder cannot be written.
        """
        with self.lock.holding():
            if self.exists():
                return
            draft = self.path.with_name(f"{self.path.name}.new")
            with told("cannot be made"):
                shutil.rmtree(draft, ignore_errors=True)
                with Repo.init_bare(draft, mkdir=True, default_branch=b"main") as repo:
                    config = repo.get_config()
                    for section, values in CONFIG.items():
                        for name, value in values.items():
                            config.set(section, name, value)
                    config.write_to_path()
                    shutil.rmtree(draft / "hooks", ignore_errors=True)
                    root = _root()
                    for one in (root[0], root[1]):
                        repo.object_store.add_object(one)
                    repo.refs.set_if_equals(_ref(MAIN), ZERO_SHA, root[1].id)
                os.replace(draft, self.path)
                sync_folder(self.path.parent)

    @property
    def root(self) -> str:
        """The commit that every branch begins with."""
        return str(_root()[1].id.decode())

    def _packed(self, name: bytes) -> bytes | None:
        with self._opening:
            return self._repo().refs.get_packed_refs().get(Ref(name))

    def close(self) -> None:
        """Frees what is open."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _repo(self) -> Repo:
        if self._opened is None:
            if not self.exists():
                raise WikiDown("the wiki's repository is not there")
            self._opened = self._open()
        return self._opened

    def _open(self) -> Repo:
        repo = Repo(str(self.path))
        if isinstance(repo.object_store, DiskObjectStore):
            repo.object_store.fsync_object_files = True  # packs: what is fetched, what is tidied
        return repo

    @contextmanager
    def _using(self) -> Iterator[Repo]:
        """The repository for one thread at a time; what dulwich raises becomes WikiDown."""
        with self._opening, told("is damaged"):
            yield self._repo()

    # -- reading ------------------------------------------------------------------------------

    def branches(self) -> dict[str, str]:
        """Every branch and its head."""
        with self._using() as repo:
            found = {}
            for name, id_ in repo.refs.as_dict(Ref(b"refs/heads")).items():
                found[name.decode("utf-8", "replace")] = id_.decode()
            return found

    def head(self, branch: str) -> str | None:
        """The head of a branch; None where there is no such branch."""
        return self.ref(f"refs/heads/{branch}")

    def ref(self, name: str) -> str | None:
        """What a ref names; one that was torn by a crash is mended first."""
        if not self.exists():
            raise WikiDown("the wiki's repository is not there")
        found = self.refs.read(name)
        if found is None:
            return None
        if _ID.fullmatch(found):
            return found.decode()
        return self._mended(name)

    def _mended(self, name: str) -> str | None:
        """Writes a torn ref again: a branch is the newest commit that the store has for it.

        A commit whose write was not finished may be found; one that was acknowledged cannot be
        missed, since its objects were on the disk before the branch moved.
        """
        with self.lock.holding():
            branch = name.removeprefix("refs/heads/")
            tip = self._newest(branch) if name.startswith("refs/heads/") else None
            log.error("the ref %s was torn by a crash; it is %s now", name, tip or "gone")
            self.refs.drop(name)
            if tip is not None:
                self.refs.move(name, None, tip)
            return tip

    def _newest(self, branch: str) -> str | None:
        """The commit of a branch that no other one rests on."""
        folder = branch if "/" in branch else CURATED
        with self._using() as repo:
            commits = [found for id_ in repo.object_store if isinstance(found := repo[id_], Commit)]
        mine = [
            commit for commit in commits
            if commit.parents and self._only_folder(commit.tree.decode(), folder)
        ]  # fmt: skip
        older = {parent for commit in mine for parent in commit.parents}
        tips = [commit for commit in mine if commit.id not in older]
        return max(tips, key=lambda one: one.commit_time).id.decode() if tips else self.root

    def _only_folder(self, tree: str, folder: str) -> bool:
        """Whether a tree has files below a folder, and the areas of nobody else."""
        first, _, rest = folder.partition("/")
        found = self._tree(tree)
        if not rest:
            return first in found or not set(found) - {first}
        return first in found and set(self._tree(found[first][1])) == {rest}

    def path_id(self, commit: str | None, path: str) -> str | None:
        """The blob that a commit has at a path; None for nothing, or anything but a file."""
        folder, _, name = path.rpartition("/")
        tree = self._folder(commit, folder)
        mode, id_ = self._tree(tree).get(name, _NOTHING) if tree else _NOTHING
        return id_ if stat.S_ISREG(mode) else None

    def paths(self, commit: str | None, folder: str) -> Mapping[str, str]:
        """Every file below a folder, with its blob."""
        tree = self._folder(commit, folder)
        return {} if tree is None else self._flat(tree, folder)

    def _read_flat(self, tree: str, folder: str) -> Mapping[str, str]:
        found: dict[str, str] = {}
        self._walk(tree, folder, found)
        return MappingProxyType(found)

    def _walk(self, tree: str, folder: str, found: dict[str, str]) -> None:
        for name, (mode, id_) in self._tree(tree).items():
            if mode == FOLDER:
                self._walk(id_, f"{folder}/{name}", found)
            elif stat.S_ISREG(mode):
                found[f"{folder}/{name}"] = id_

    def siblings(self, commit: str | None, folder: str) -> list[str]:
        """The names in a folder."""
        tree = self._folder(commit, folder)
        return [] if tree is None else list(self._tree(tree))

    def changed(self, old: str | None, new: str | None, folder: str) -> dict[str, str | None]:
        """The paths below a folder that differ between two commits, with the new blob."""
        found: dict[str, str | None] = {}
        before, after = self._folder(old, folder), self._folder(new, folder)
        self._compare(before, after, folder, found)
        return found

    def _compare(
        self, old: str | None, new: str | None, folder: str, found: dict[str, str | None]
    ) -> None:
        """Walks only what differs."""
        if old == new:
            return
        before = self._tree(old) if old else {}
        after = self._tree(new) if new else {}
        for name in {**before, **after}:
            (mode, id_), (new_mode, new_id) = before.get(name, _NOTHING), after.get(name, _NOTHING)
            path = f"{folder}/{name}" if folder else name
            if FOLDER in (mode, new_mode):
                inner = id_ if mode == FOLDER else None
                self._compare(inner, new_id if new_mode == FOLDER else None, path, found)
            was, is_ = stat.S_ISREG(mode), stat.S_ISREG(new_mode)
            if (was or is_) and (id_ if was else None) != (new_id if is_ else None):
                found[path] = new_id if is_ else None

    def _folder(self, commit: str | None, folder: str) -> str | None:
        """The tree that a commit has at a folder."""
        if commit is None:
            return None
        tree: str | None = self._tree_of(commit)
        for part in folder.split("/") if folder else ():
            mode, tree = self._tree(tree).get(part, _NOTHING) if tree else _NOTHING
            if mode != FOLDER:
                return None
        return tree

    def blob(self, id_: str) -> bytes:
        """The bytes of a blob.

        Raises:
            NotThere: there is no such blob.
        """
        with self._using() as repo:
            oid = ObjectID(id_.encode())
            if oid not in repo.object_store:
                raise NotThere(id_)
            found = repo.object_store[oid]
            if not isinstance(found, Blob):
                raise NotThere(id_)
            return found.data

    def version(self, commit: str) -> Version:
        """One commit."""
        return self._version(commit)

    def parents(self, commit: str) -> list[str]:
        """The commits that a commit rests on."""
        return list(self._version(commit).parents)

    def lineage(self, commit: str | None) -> Iterator[str]:
        """A commit and its first parents, the newest first."""
        while commit is not None:
            yield commit
            commit = next(iter(self.parents(commit)), None)

    def has_ancestor(self, commit: str, ancestor: str) -> bool:
        """Whether a commit rests on another, or is it."""
        seen: set[str] = set()
        left = [commit]
        while left:
            id_ = left.pop()
            if id_ == ancestor:
                return True
            if id_ not in seen:
                seen.add(id_)
                left += self._version(id_).parents
        return False

    def merge_base(self, one: str, other: str) -> str | None:
        """The newest commit that both rest on; None where there is none."""
        with self._using() as repo:
            ids = [ObjectID(one.encode()), ObjectID(other.encode())]
            found = find_merge_base(repo, ids)
            return found[0].decode() if found else None

    def _tree_of(self, commit: str) -> str:
        return self._version(commit).tree

    def _read_version(self, id_: str) -> Version:
        with self._using() as repo:
            found = repo.object_store[ObjectID(id_.encode())]
            if not isinstance(found, Commit):
                raise WikiDown("the wiki's repository is damaged: a branch names no commit")
            return Version(
                id_, int(found.commit_time),
                found.author.decode("utf-8", "replace").partition(" <")[0],
                found.message.decode("utf-8", "replace"), found.tree.decode(),
                tuple(parent.decode() for parent in found.parents),
            )  # fmt: skip

    def _read_tree(self, id_: str) -> Mapping[str, tuple[int, str]]:
        with self._using() as repo:
            found = repo.object_store[ObjectID(id_.encode())]
            if not isinstance(found, Tree):
                raise WikiDown("the wiki's repository is damaged: a tree is none")
            return {
                item.path.decode("utf-8", "surrogateescape"): (item.mode, item.sha.decode())
                for item in found.iteritems()
            }

    # -- writing ------------------------------------------------------------------------------

    def commit(
        self,
        branch: str,
        decide: Callable[[str | None], tuple[list[Change], str]],
        author: str,
        at: int,
        check: Callable[[], None] | None = None,
        also: tuple[str, ...] = (),
    ) -> str | None:
        """Commits what is decided on the head of a branch, and reads it back.

        Args:
            decide: gets the head, gives the changes and the message; may raise to write nothing,
                and may be called again when the branch moves. No changes: no commit.
            author: `Name <address>`.
            at: seconds since the epoch.
            check: called last before the branch moves; raises to write nothing.
            also: further parents.

        Returns:
            The commit, or None when there was nothing to change.

        Raises:
            WikiDown: nothing was committed.
        """
        with self.lock.holding():
            for _ in range(RACES):
                head = self.head(branch)
                changes, message = decide(head)
                if not changes and not also:
                    return None
                try:
                    return self._commit(branch, head, changes, message, author, at, check, also)
                except Moved:
                    continue
            raise WikiDown(f"branch {branch} moves all the time")

    def _commit(
        self, branch: str, head: str | None, changes: list[Change], message: str, author: str,
        at: int, check: Callable[[], None] | None, also: tuple[str, ...],
    ) -> str:  # fmt: skip
        blobs = {c.path: None if c.data is None else Blob.from_string(c.data) for c in changes}
        with self._using() as repo:
            parent = head
            if parent is None:
                tree, root = _root()
                self._add(tree)
                self._add(root)
                parent = root.id.decode()
            for blob in blobs.values():
                if blob is not None:
                    self._add(blob)
            tree_id = self._changed_tree(
                repo, self._tree_of(parent),
                {
                    tuple(path.split("/")): None if blob is None else blob.id.decode()
                    for path, blob in blobs.items()
                },
            )  # fmt: skip
            made = Commit()
            made.tree = ObjectID((tree_id or _root()[0].id.decode()).encode())
            made.parents = [ObjectID(id_.encode()) for id_ in (parent, *also)]
            made.author = made.committer = author.encode()
            made.author_time = made.commit_time = at
            made.author_timezone = made.commit_timezone = 0
            made.encoding = b"UTF-8"
            made.message = message.encode()
            self._add(made)
        if check is not None:
            check()
        new = made.id.decode()
        if not self.refs.move(f"refs/heads/{branch}", head, new):
            raise Moved
        for path, blob in blobs.items():
            wanted = None if blob is None else blob.id.decode()
            if self.path_id(new, path) != wanted or (wanted and self.blob(wanted) != blob.data):  # type: ignore[union-attr]
                raise WikiDown(f"{path} was not found where it was written")
        return new

    def snapshot(self, commit: str, blobs: Mapping[str, str | None]) -> str:
        """A commit under no branch, with the files of another one but for some."""
        with self.lock.holding(), self._using() as repo:
            changed = {tuple(path.split("/")): id_ for path, id_ in blobs.items()}
            tree = self._changed_tree(repo, self._tree_of(commit), changed)
            made, root = Commit(), _root()[1]
            made.tree = ObjectID(tree.encode()) if tree else root.tree
            made.author = made.committer = AUTHOR
            made.author_time = made.commit_time = 0
            made.author_timezone = made.commit_timezone = 0
            made.message = b"What the folder shows\n"
            self._add(made)
        return made.id.decode()

    def fetch(self, client: Any, path: str, wanted: Callable[[str], bool]) -> dict[str, str]:
        """Fetches branches from another repository; returns them, without moving any of ours.

        Args:
            client: of dulwich; what it raises is let through.
            wanted: says of a ref's name whether it is.
        """
        found: dict[str, str] = {}

        def wants(refs: Mapping[Ref, ObjectID], depth: int | None = None) -> list[ObjectID]:
            """Notes what is fetched now: the other side may move before it answers."""
            for ref, id_ in refs.items():
                name = ref.decode("utf-8", "replace")
                if id_ is not None and wanted(name):
                    found[name] = id_.decode()
            ids = {ObjectID(id_.encode()) for id_ in found.values()}
            return [id_ for id_ in ids if id_ not in repo.object_store]

        with self._open() as repo:  # one of its own: this takes long, and other threads go on
            client.fetch(path, repo, determine_wants=wants)
        return found

    def push(
        self, client: Any, path: str, heads: Mapping[str, str], known: Mapping[str, str]
    ) -> str:
        """Pushes branches, all of them or none; returns why it was not done, '' when it was.

        Args:
            client: of dulwich; what it raises is let through.
            heads: the branches to push.
            known: where they were on the other side when they were last looked at.
        """
        moved = False

        def updates(refs: Mapping[Ref, ObjectID]) -> dict[Ref, ObjectID]:
            nonlocal moved
            for branch in heads:
                now = refs.get(_ref(branch))
                moved |= (now.decode() if now else None) != known.get(branch)
            if moved:
                return {}
            return {_ref(branch): ObjectID(head.encode()) for branch, head in heads.items()}

        try:
            with self._open() as repo:
                sent = client.send_pack(
                    path, updates, repo.generate_pack_data, atomic=len(heads) > 1
                )
        except FileLocked:
            return MOVED  # in a folder: another clone pushes just now
        refused = [str(why) for why in (sent.ref_status or {}).values() if why]
        return MOVED if moved else "; ".join(refused)

    def tidy(self) -> int:
        """Packs loose objects when there are many; returns how many were packed.

        How many there are is guessed from one of their 256 folders, as git does for its own gc.
        """
        try:
            found = len(os.listdir(self.path / "objects" / SAMPLE))
        except FileNotFoundError:
            return 0
        if found * 256 < LOOSE:
            return 0
        with self.lock.holding(), self._using() as repo:
            store = repo.object_store
            packed = store.pack_loose_objects() if isinstance(store, DiskObjectStore) else 0
        log.info("%d objects of the wiki were packed", packed)
        return packed

    def add_blob(self, data: bytes) -> str:
        """Keeps bytes under no path yet; returns their id."""
        blob = Blob.from_string(data)
        with self.lock.holding(), self._using():
            self._add(blob)
        return blob.id.decode()

    def _add(self, made: ShaFile) -> None:
        """Puts a loose object on the disk under git's own rules, so that `git fsck` is content.

        Its bytes are on the disk before it has its name; the name is, as with git, at the latest
        when the branch that needs it has moved, since file systems keep names in their order.
        Not by dulwich, whose lock files beside objects are damage to git when a writer is killed;
        a file `tmp_obj_…` is nothing to it. What a killed writer left is taken away first.
        """
        loose = self.path / "objects" / made.id[:2].decode() / made.id[2:].decode()
        loose.parent.mkdir(exist_ok=True)
        loose.with_name(f"{loose.name}.lock").unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            if loose.stat().st_size:
                os.utime(loose)  # young again, for whoever prunes by age
                return
            log.warning("an empty object of the wiki was written again")
        draft = loose.with_name(f"tmp_obj_{secrets.token_hex(6)}")
        write_new(draft, made.as_legacy_object(COMPRESSION), 0o444)
        os.replace(draft, loose)

    def _changed_tree(
        self, repo: Repo, tree: str | None, blobs: Mapping[tuple[str, ...], str | None]
    ) -> str | None:
        """A tree with changed files in it, written; None when nothing is left in it."""
        entries = dict(self._tree(tree)) if tree else {}
        below: dict[str, dict[tuple[str, ...], str | None]] = {}
        for (name, *rest), blob in blobs.items():
            if rest:
                below.setdefault(name, {})[tuple(rest)] = blob
            elif blob is None:
                entries.pop(name, None)
            else:
                entries[name] = (FILE, blob)
        for name, inner in below.items():
            mode, old = entries.get(name, (0, None))
            made = self._changed_tree(repo, old if mode == FOLDER else None, inner)
            if made is None:
                entries.pop(name, None)
            else:
                entries[name] = (FOLDER, made)
        if not entries:
            return None
        new = Tree()
        for name, (mode, id_) in entries.items():
            new.add(name.encode("utf-8", "surrogateescape"), mode, ObjectID(id_.encode()))
        self._add(new)
        return new.id.decode()


def signature(name: str, address: str) -> str:
    """An author as git writes it; what would end the line or the name is taken out."""
    plain = "".join(char for char in name if char not in "<>\n\r\0").strip() or "somebody"
    return f"{plain} <{address}>"


def _root() -> tuple[Tree, Commit]:
    """The first commit, the same in every wiki, so that two machines' branches meet."""
    tree, root = Tree(), Commit()
    root.tree = tree.id
    root.author = root.committer = AUTHOR
    root.author_time = root.commit_time = 0
    root.author_timezone = root.commit_timezone = 0
    root.encoding = b"UTF-8"
    root.message = b"The wiki begins\n"
    return tree, root


def _ref(branch: str) -> Ref:
    return Ref(f"refs/heads/{branch}".encode())
