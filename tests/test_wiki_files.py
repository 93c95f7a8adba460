"""Files that people may edit at any moment: nothing they wrote is lost, and no file is half."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wiki import files as module
from wiki.files import ASIDE, DRAFT, DRAFT_STALE_S, LARGEST, Files, blob_id

OLD, NEW, EDIT = b"old\n", b"new\n", b"edited by hand\n"
NOTE = "curated/a/x.md"
BESIDE = "curated/a/.x.md"
STEPS = ("open", "chmod", "fsync", "link", "rename", "replace", "unlink")
"""What `os` is asked for while a file is put in place."""


@pytest.fixture(params=["exchanged", "by names"])
def files(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Files:
    """The files of a folder, where renameat2 is known and where it is not."""
    if request.param == "by names":
        monkeypatch.setattr(module, "_libc", SimpleNamespace())
    return Files(tmp_path / "wiki")


def save(files: Files, path: str, data: bytes) -> Path:
    file = files.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def aside(data: bytes | None, note: str = BESIDE) -> str:
    return f"{note}.{'new' if data is None else blob_id(data)}.aside"


def id_of(data: bytes | None) -> str | None:
    return None if data is None else blob_id(data)


def scanned(files: Files, folder: str) -> tuple[dict[str, str], list[str]]:
    found = files.scan(folder)
    assert found is not None
    return {path: seen.id for path, seen in found[0].items()}, sorted(found[1])


# -- looking ------------------------------------------------------------------------------------


def test_a_blob_s_id_is_git_s() -> None:
    assert blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def test_a_scan_finds_every_note_and_what_was_set_aside(files: Files) -> None:
    for path in (
        "curated/x.md", "curated/a/b/c.md", "curated/a/.hidden.md", "curated/.obsidian/x.md",
        "curated/picture.png", "curated/X.MD", "curated/md", "people/google-chat-1/x.md",
        aside(OLD), aside(None), "curated/.x.md.aside", f"{aside(OLD)}.tmp",
    ):  # fmt: skip
        save(files, path, OLD)
    (files.root / "curated/folder.md").mkdir()
    old = blob_id(OLD)
    notes = {"curated/x.md": old, "curated/a/b/c.md": old}
    assert scanned(files, "curated") == (notes, sorted([aside(OLD), aside(None)]))
    assert scanned(files, "people/google-chat-1") == ({"people/google-chat-1/x.md": old}, [])


def test_links_and_what_is_no_file_are_not_looked_at(files: Files, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_bytes(b"CANARY")
    save(files, NOTE, OLD)
    (files.root / "curated/linked").symlink_to(outside)
    (files.root / "curated/link.md").symlink_to(outside / "secret.md")
    (files.root / "curated/gone.md").symlink_to(outside / "nothing.md")
    (files.root / f"{aside(NEW)}").symlink_to(outside / "secret.md")
    (files.root / "people").symlink_to(outside)
    (outside / "google-chat-1").mkdir()
    (outside / "google-chat-1/x.md").write_bytes(b"CANARY")
    os.mkfifo(files.root / "curated/pipe.md")
    assert scanned(files, "curated") == ({NOTE: blob_id(OLD)}, [])
    assert files.scan("people/google-chat-1") is None
    for path in (
        "curated/link.md", "curated/gone.md", "curated/linked/secret.md", "curated/pipe.md",
        "curated/a", "curated/nothing.md", f"{NOTE}/y.md", "people/google-chat-1/x.md",
    ):  # fmt: skip
        assert files.look(path) is None
    for path in ("curated/link.md", "curated/a", aside(NEW)):
        with pytest.raises(OSError):
            files.read(path)


def test_a_folder_that_is_not_there_is_told_from_an_empty_one(files: Files) -> None:
    assert files.scan("curated") is None
    (files.root / "curated").mkdir(parents=True)
    assert scanned(files, "curated") == ({}, [])
    save(files, "people", b"a file")
    assert files.scan("people/google-chat-1") is None
    assert files.scan("people") is None


def test_a_file_that_is_too_large_is_seen_and_not_read(files: Files) -> None:
    save(files, "curated/large.md", b"x" * (LARGEST + 1))
    save(files, "curated/most.md", b"x" * LARGEST)
    assert scanned(files, "curated")[0] == {
        "curated/large.md": "", "curated/most.md": blob_id(b"x" * LARGEST),
    }  # fmt: skip
    assert len(files.read("curated/most.md")) == LARGEST
    with pytest.raises(OSError) as refused:
        files.read("curated/large.md")
    assert refused.value.errno == errno.EFBIG


def test_a_file_that_may_not_be_read_hides_no_other(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(files, "curated/x.md", OLD)
    save(files, "curated/secret.md", OLD)
    with denied(monkeypatch, "secret.md"):
        assert scanned(files, "curated")[0] == {
            "curated/x.md": blob_id(OLD), "curated/secret.md": "",
        }  # fmt: skip
        with pytest.raises(PermissionError):
            files.read("curated/secret.md")
    assert scanned(files, "curated")[0]["curated/secret.md"] == blob_id(OLD)


@contextmanager
def denied(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """The system opens no file of that name, as for anybody but its owner and root."""
    opened = os.open

    def refused(path: Any, *args: Any, **kwargs: Any) -> int:
        if os.fspath(path).endswith(name):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refused)
        yield


def test_an_edit_that_leaves_size_and_time_as_they_were_is_seen(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save(files, NOTE, b"one\n")
    os.utime(file, (1, 1))
    later = time.time() + 60
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: later))
    assert scanned(files, "curated")[0] == {NOTE: blob_id(b"one\n")}
    changed = file.stat().st_ctime_ns
    while file.stat().st_ctime_ns == changed:  # until the clock of the disk has moved
        file.write_bytes(b"two\n")
        os.utime(file, (1, 1))
    assert scanned(files, "curated")[0] == {NOTE: blob_id(b"two\n")}


def test_a_file_is_not_read_again_as_long_as_it_stays(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(files, NOTE, OLD)
    later = time.time() + 60
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: later))
    assert scanned(files, "curated")[0] == {NOTE: blob_id(OLD)}
    with denied(monkeypatch, "x.md"):
        assert scanned(files, "curated")[0] == {NOTE: blob_id(OLD)}


def test_names_that_are_no_text_are_seen(files: Files) -> None:
    save(files, "curated/\udcff.md", OLD)
    assert scanned(files, "curated")[0] == {"curated/\udcff.md": blob_id(OLD)}


# -- putting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("here", "expected", "data", "done", "left"),
    [
        (None, None, NEW, True, {NOTE: NEW}),
        (OLD, OLD, NEW, True, {NOTE: NEW}),
        (OLD, OLD, None, True, {}),
        (None, OLD, None, True, {}),
        (None, None, None, True, {}),
        (OLD, OLD, b"", True, {NOTE: b""}),
        (b"", b"", NEW, True, {NOTE: NEW}),
        (NEW, NEW, NEW, True, {NOTE: NEW}),
        # not what was expected
        (EDIT, None, NEW, False, {NOTE: EDIT}),
        (EDIT, None, None, False, {NOTE: EDIT}),
        (None, OLD, NEW, False, {}),
        (EDIT, OLD, NEW, False, {NOTE: NEW, aside(OLD): EDIT}),
        (EDIT, OLD, None, False, {aside(OLD): EDIT}),
    ],
)
def test_a_file_is_put_in_place_if_it_is_what_was_expected(
    files: Files, here: bytes | None, expected: bytes | None, data: bytes | None, done: bool,
    left: dict[str, bytes],
) -> None:  # fmt: skip
    if here is not None:
        save(files, NOTE, here)
    files.scan("curated")
    assert files.put(NOTE, id_of(expected), data) is done
    assert contents(files.root) == left
    seen = files.look(NOTE)
    assert (None if seen is None else seen.id) == id_of(left.get(NOTE))


@pytest.mark.parametrize("data", [NEW, None])
def test_what_was_set_aside_is_never_written_over(files: Files, data: bytes | None) -> None:
    save(files, NOTE, OLD)
    save(files, aside(OLD), EDIT)
    assert files.put(NOTE, blob_id(OLD), data) is False
    assert contents(files.root) == {NOTE: OLD, aside(OLD): EDIT}
    files.drop(aside(OLD))
    files.drop(aside(OLD))
    assert files.put(NOTE, blob_id(OLD), data) is True
    assert contents(files.root) == ({} if data is None else {NOTE: NEW})


def test_what_was_set_aside_names_its_note_and_what_it_was_before(files: Files) -> None:
    save(files, NOTE, EDIT)
    files.put(NOTE, blob_id(OLD), NEW)
    (left,) = scanned(files, "curated")[1]
    name = ASIDE.fullmatch(left.rpartition("/")[2])
    assert name is not None
    assert (name["name"], name["base"]) == ("x.md", blob_id(OLD))


@pytest.mark.parametrize("data", [NEW, None])
@pytest.mark.parametrize("expected", [blob_id(OLD), None])
@pytest.mark.parametrize("kind", ["folder", "link", "broken link", "pipe"])
def test_what_is_no_file_stays(
    files: Files, tmp_path: Path, kind: str, expected: str | None, data: bytes | None
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_bytes(OLD)
    target = files.root / NOTE
    if kind == "folder":
        save(files, f"{NOTE}/y.md", OLD)
    else:
        target.parent.mkdir(parents=True)
        if kind == "pipe":
            os.mkfifo(target)
        else:
            target.symlink_to(outside if kind == "link" else tmp_path / "nothing.md")
    before = target.lstat()
    assert files.put(NOTE, expected, data) is False
    assert (target.lstat().st_ino, target.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert [path.name for path in target.parent.iterdir()] == ["x.md"]
    assert outside.read_bytes() == OLD


@pytest.mark.parametrize("data", [NEW, None])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_nothing_is_put_where_a_folder_is_a_link_or_a_file(
    files: Files, tmp_path: Path, kind: str, data: bytes | None
) -> None:
    outside = tmp_path / "outside"
    (outside / "a").mkdir(parents=True)
    (outside / "a/x.md").write_bytes(OLD)
    files.root.mkdir()
    if kind == "link":
        (files.root / "curated").symlink_to(outside)
    else:
        (files.root / "curated").write_bytes(OLD)
    for expected in (None, blob_id(OLD)):
        assert files.is_linked(NOTE)
        assert files.put(NOTE, expected, data) is False
    assert contents(outside) == {"a/x.md": OLD}


def test_folders_are_made_for_a_new_file_only(files: Files) -> None:
    assert files.put("people/google-chat-1/a/b/c/d/x.md", None, NEW)
    assert contents(files.root) == {"people/google-chat-1/a/b/c/d/x.md": NEW}
    assert files.put("curated/a/x.md", blob_id(OLD), None)
    assert not (files.root / "curated").exists()


def test_a_file_that_is_replaced_keeps_who_may_read_it(files: Files) -> None:
    file = save(files, NOTE, OLD)
    for mode in (0o600, 0o640, 0o444):
        file.chmod(mode)
        assert files.put(NOTE, blob_id(file.read_bytes()), os.urandom(9))
        assert file.stat().st_mode & 0o777 == mode


def test_a_draft_that_was_left_is_written_over_and_in_time_taken_away(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = f"{BESIDE}{DRAFT}"
    save(files, draft, b"half of a no")
    save(files, "curated/other.md", OLD)
    assert scanned(files, "curated") == ({"curated/other.md": blob_id(OLD)}, [])
    assert files.put(NOTE, None, NEW)
    assert contents(files.root) == {NOTE: NEW, "curated/other.md": OLD}
    save(files, draft, b"half of a no")
    later = time.time() + DRAFT_STALE_S + 1
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: later))
    scanned(files, "curated")
    assert contents(files.root) == {NOTE: NEW, "curated/other.md": OLD}


def test_the_longest_name_has_room_beside_it(files: Files) -> None:
    path = "curated/" + "x" * 177 + ".conflict-0123abcd.md"
    assert files.put(path, None, OLD)
    save(files, path, EDIT)
    assert files.put(path, blob_id(OLD), NEW) is False
    assert sorted(contents(files.root).values()) == sorted([NEW, EDIT])


# -- when the disk does not take it, a process dies, or somebody edits ----------------------------


def test_a_file_in_place_of_the_folder_is_an_error(files: Files) -> None:
    files.root.write_bytes(OLD)
    for path in ("x.md", NOTE):
        assert files.look(path) is None
    with pytest.raises(OSError):
        files.put("x.md", None, NEW)
    assert files.root.read_bytes() == OLD


def test_a_full_disk_leaves_the_file_as_it_was(files: Files) -> None:
    save(files, NOTE, OLD)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        for path, expected in ((NOTE, blob_id(OLD)), ("curated/new.md", None)):
            with pytest.raises(OSError):
                files.put(path, expected, b"x" * 5_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert contents(files.root) == {NOTE: OLD}


class Killed(BaseException):
    """The process ends here."""


class Steps:
    """Lets something happen before the nth thing that the system is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, what: Callable[[], None]) -> None:
        self.left = at
        self.what = what
        for name in STEPS:
            monkeypatch.setattr(os, name, self.before(getattr(os, name)))
        libc: Any = module._libc
        if hasattr(libc, "renameat2"):
            exchange = self.before(libc.renameat2, is_c=True)
            monkeypatch.setattr(module, "_libc", SimpleNamespace(renameat2=exchange))

    def before(self, call: Callable[..., Any], is_c: bool = False) -> Callable[..., Any]:
        def stepped(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                try:
                    self.what()
                except OSError as error:
                    if not is_c:
                        raise
                    ctypes.set_errno(error.errno or 0)
                    return -1
            return call(*args, **kwargs)

        return stepped


def tried(
    files: Files, monkeypatch: pytest.MonkeyPatch, at: int, what: Callable[[], None],
    expected: bytes | None, data: bytes | None,
) -> tuple[object, bool]:  # fmt: skip
    """Puts a file in place with an event at one step; how it went, and whether it came so far."""
    with monkeypatch.context() as patched:
        steps = Steps(patched, at, what)
        try:
            done: object = files.put(NOTE, id_of(expected), data)
        except (OSError, Killed) as error:
            done = error
        return done, steps.left <= 0


def fresh(files: Files, at: int, here: bytes | None) -> Files:
    """The same folder anew, for the next step."""
    again = Files(files.root / str(at))
    (again.root / "curated/a").mkdir(parents=True)
    if here is not None:
        save(again, NOTE, here)
    return again


CHANGES = pytest.mark.parametrize(("here", "data"), [(None, NEW), (OLD, NEW), (OLD, None)])


@CHANGES
def test_whatever_fails_the_file_is_as_it_was_or_as_it_should_be(
    files: Files, monkeypatch: pytest.MonkeyPatch, here: bytes | None, data: bytes | None
) -> None:
    def fails() -> None:
        raise OSError(errno.EIO, "Input/output error")

    for at in range(1, 40):
        folder = fresh(files, at, here)
        done, came_so_far = tried(folder, monkeypatch, at, fails, here, data)
        if not came_so_far:
            assert done is True
            break
        left = contents(folder.root)
        kept = left.pop(NOTE, None)
        assert kept in ((data,) if done is True else (here, data))
        assert set(left.values()) <= {here, data}  # in git, and dropped by the next sweep
        finish(folder, {here, data})
        assert folder.put(NOTE, id_of(kept), data)
        assert contents(folder.root) == ({} if data is None else {NOTE: data})
    else:
        pytest.fail("it never ends")


@CHANGES
def test_a_process_that_dies_leaves_nothing_half(
    files: Files, monkeypatch: pytest.MonkeyPatch, here: bytes | None, data: bytes | None
) -> None:
    def dies() -> None:
        raise Killed

    for at in range(1, 40):
        folder = fresh(files, at, here)
        done, came_so_far = tried(folder, monkeypatch, at, dies, here, data)
        if not came_so_far:
            assert done is True
            break
        left = contents(folder.root)
        assert left.get(NOTE) in (here, data, None)
        assert left.get(NOTE) is not None or here in (None, *left.values()) or data is None
        for path in scanned(folder, "curated")[1]:
            assert left[path] in (here, data)
        finish(folder, {here, data})
        kept = contents(folder.root).get(NOTE)
        assert folder.put(NOTE, id_of(kept), data)
        whole = {k: v for k, v in contents(folder.root).items() if not k.endswith(DRAFT)}
        assert whole == ({} if data is None else {NOTE: data})
    else:
        pytest.fail("it never ends")


@CHANGES
@pytest.mark.parametrize("how", ["written", "replaced", "deleted"])
def test_an_edit_at_whatever_moment_is_at_its_place_or_aside(
    files: Files, monkeypatch: pytest.MonkeyPatch, here: bytes | None, data: bytes | None, how: str
) -> None:
    rename, unlink = os.rename, os.unlink
    for at in range(1, 40):
        folder = fresh(files, at, here)
        note, other = folder.root / NOTE, folder.root / "curated/a/.editor"

        def edits(note: Path = note, other: Path = other) -> None:
            if how == "deleted":
                if note.exists():
                    unlink(note)
                return
            (other if how == "replaced" else note).write_bytes(EDIT)
            if how == "replaced":
                rename(other, note)

        done, came_so_far = tried(folder, monkeypatch, at, edits, here, data)
        assert not isinstance(done, BaseException)
        left = contents(folder.root)
        if not came_so_far:
            assert done is True
            break
        if how != "deleted":
            asides = scanned(folder, "curated")[1]
            assert EDIT in [left.get(NOTE), *(left[path] for path in asides)]
            if left.get(NOTE) != EDIT:
                assert done is False
        finish(folder, {here, data})
        assert set(contents(folder.root).values()) <= {EDIT, data}
    else:
        pytest.fail("it never ends")


def finish(files: Files, in_git: set[bytes | None]) -> None:
    """What the next sweep does with what was set aside: what git has is taken away."""
    for path in scanned(files, "curated")[1]:
        if files.read(path) in in_git:
            files.drop(path)


# -- folders that hold nothing --------------------------------------------------------------------


def test_empty_folders_are_taken_away_up_to_the_area(files: Files) -> None:
    for path in ("curated/a/b/c/x.md", "people/google-chat-1/a/b/x.md", "curated/d/e/x.md"):
        save(files, path, OLD).unlink()
    save(files, "curated/d/y.md", OLD)
    for folder in ("curated/a/b/c", "people/google-chat-1/a/b", "curated/d/e", "curated/nothing"):
        files.prune(folder)
    folders = [str(path.relative_to(files.root)) for path in files.root.rglob("*") if path.is_dir()]
    assert sorted(folders) == ["curated", "curated/d", "people", "people/google-chat-1"]
    for folder in ("curated", "people/google-chat-1"):
        files.prune(folder)
        assert (files.root / folder).is_dir()


def test_a_folder_that_is_a_link_is_not_taken_away(files: Files, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (files.root / "curated").mkdir(parents=True)
    (files.root / "curated/a").symlink_to(tmp_path / "outside")
    files.prune("curated/a")
    assert (files.root / "curated/a").is_symlink()
