"""The shared remote: a folder, ssh and http; two clones at work, conflicts, a remote away."""

from __future__ import annotations

import base64
import gc
import os
import subprocess
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.wikis import ALICE, AT, BOB, OPERATOR, edit, git, is_sound, shows_heads, vault_in, write
from wiki.errors import WikiDown
from wiki.paths import Access
from wiki.remote import Remote, RemoteDown
from wiki.vault import By

TOKEN = "a-token-of-the-tests"


class Clone:
    """A vault with the remote."""

    def __init__(self, folder: Path, url: str, token: str = "") -> None:
        self.vault = vault_in(folder)
        self.vault.ready()
        self.remote = Remote(self.vault.repository, url, token, lambda: AT)

    def sync(self) -> bool:
        came = self.remote.sync()
        self.vault.sweep()
        return came

    def texts(self, person: str = ALICE) -> dict[str, str]:
        access = Access(person)
        return {
            one.path: self.vault.read(access, one.path).text for one in self.vault.notes(access)
        }


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    return tmp_path / "remote.git"


@pytest.fixture
def clones(tmp_path: Path, bare: Path) -> Iterator[list[Clone]]:
    made = [Clone(tmp_path / name, str(bare)) for name in ("one", "two")]
    yield made
    for one in made:
        assert is_sound(one.vault)
        one.vault.close()


def test_two_clones_come_to_have_the_same(clones: list[Clone], bare: Path) -> None:
    one, two = clones
    write(one.vault, "mine.md", "from one\n")
    write(one.vault, "curated/all.md", "a\n\n\n\nz\n", "")
    assert one.remote.unpushed() == ["main", "people/google-chat-1001"]
    one.sync()
    assert one.remote.unpushed() == []
    assert two.sync()
    assert two.texts() == one.texts()
    write(one.vault, "curated/all.md", "a from one\n\n\n\nz\n", "")
    write(two.vault, "curated/all.md", "a\n\n\n\nz from two\n", "")
    write(two.vault, "mine.md", "from bob\n", BOB)
    for clone in (one, two, one):
        clone.sync()
    assert two.texts() == one.texts()
    assert one.texts()["curated/all.md"] == "a from one\n\n\n\nz from two\n"
    assert one.texts(BOB)["mine/mine.md"] == "from bob\n"
    assert [
        len(c.vault.repository.parents(str(c.vault.repository.head("main")))) for c in clones
    ] == [2, 2]
    assert not one.sync()
    assert shows_heads(one.vault)
    assert shows_heads(two.vault)
    assert "mercury" not in git(bare, "for-each-ref")


def test_a_conflict_keeps_both_versions_on_both_sides(clones: list[Clone]) -> None:
    one, two = clones
    write(one.vault, "curated/all.md", "one\n", "")
    write(two.vault, "curated/all.md", "two\n", "")
    for clone in (one, two, one):
        clone.sync()
    assert one.texts() == two.texts()
    (conflict,) = one.vault.conflicts()
    assert sorted(one.texts().values()) == ["one\n", "two\n"]
    one.vault.delete(OPERATOR, conflict, None, By())
    for clone in (one, two):
        clone.sync()
    assert two.vault.conflicts() == []


def test_the_remote_may_have_begun_otherwise(
    tmp_path: Path, clones: list[Clone], bare: Path
) -> None:
    git(tmp_path, "clone", "-q", str(bare), "work")
    edit(tmp_path / "work/README.md", "Made by the server\n")
    edit(tmp_path / "work/curated/x.md", "of the server\n")
    git(tmp_path / "work", "checkout", "-qb", "main")
    git(tmp_path / "work", "add", ".")
    git(tmp_path / "work", "commit", "-qm", "Begin")
    git(tmp_path / "work", "push", "-q", "origin", "main")
    git(tmp_path / "work", "push", "-q", "origin", "main:feature")
    one = clones[0]
    write(one.vault, "curated/y.md", "of ours\n", "")
    one.sync()
    assert one.texts() == {"curated/x.md": "of the server\n", "curated/y.md": "of ours\n"}
    git(tmp_path / "work", "pull", "-q", "--no-rebase", "origin", "main")
    assert (tmp_path / "work/README.md").exists()
    assert (tmp_path / "work/curated/y.md").exists()
    assert "feature" not in one.vault.repository.branches()


def test_a_deletion_there_against_a_change_here_keeps_the_change(clones: list[Clone]) -> None:
    one, two = clones
    write(one.vault, "x.md", "one\n")
    write(one.vault, "y.md", "one\n")
    one.sync()
    two.sync()
    write(one.vault, "x.md", "changed\n")
    two.vault.delete(Access(ALICE), "x.md", None, By())
    two.vault.delete(Access(ALICE), "y.md", None, By())
    for clone in (two, one, two):
        clone.sync()
    assert one.texts() == two.texts() == {"mine/x.md": "changed\n"}


def test_two_clones_at_work_at_once_lose_nothing(clones: list[Clone]) -> None:
    failed: list[Exception] = []

    def work(clone: Clone, name: str) -> None:
        for n in range(15):
            write(clone.vault, f"{name}{n}.md", f"{n}\n")
            write(clone.vault, "curated/shared.md", f"{name} {n}\n", "")
            try:
                clone.sync()
            except RemoteDown as error:
                failed.append(error)

    threads = [
        threading.Thread(target=work, args=(c, n)) for c, n in zip(clones, "ab", strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for clone in (*clones, *clones):
        clone.sync()
    one, two = clones
    assert one.texts() == two.texts()
    assert {f"mine/{name}{n}.md" for name in "ab" for n in range(15)} <= set(one.texts())
    assert [str(error) for error in failed if "moves" not in str(error)] == []


def test_a_remote_that_is_away_costs_nothing_but_a_word(
    tmp_path: Path, clones: list[Clone]
) -> None:
    one = clones[0]
    away = Remote(one.vault.repository, str(tmp_path / "nowhere.git"), "", lambda: AT)
    write(one.vault, "x.md", "one\n")
    with pytest.raises(RemoteDown, match="cannot be fetched"):
        away.sync()
    assert isinstance(RemoteDown("x"), WikiDown)
    assert one.texts() == {"mine/x.md": "one\n"}
    assert away.unpushed() == ["people/google-chat-1001"]
    assert one.sync() is False
    assert one.remote.unpushed() == []


def test_a_remote_that_takes_nothing_is_said(clones: list[Clone], bare: Path) -> None:
    one = clones[0]
    hook = bare / "hooks/pre-receive"
    refusing = Remote(one.vault.repository, f"ssh://host.example.test{bare}", "", lambda: AT)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    write(one.vault, "x.md", "one\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_SSH_COMMAND", str(_ssh_of(bare.parent)))
        with pytest.raises(RemoteDown, match="hook declined"):
            refusing.sync()
        hook.unlink()
        refusing.sync()
    assert refusing.unpushed() == []


def test_ssh_goes_through_the_systems_own_program(
    tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", str(_ssh_of(tmp_path)))
    url = f"git@host.example.test:{bare}"
    one, two = Clone(tmp_path / "one", url), Clone(tmp_path / "two", url)
    write(one.vault, "x.md", "one\n")
    write(one.vault, "curated/x.md", "one\n", "")
    one.sync()
    two.sync()
    assert two.texts() == one.texts()
    assert "host.example.test" in (tmp_path / "asked").read_text()
    for clone in (one, two):
        clone.vault.close()


def test_https_takes_a_token(tmp_path: Path, bare: Path) -> None:
    git(bare, "config", "http.receivepack", "true")
    with _HttpGit(tmp_path) as url:
        wrong = Clone(tmp_path / "one", f"{url}/remote.git", "wrong")
        write(wrong.vault, "x.md", "one\n")
        assert "wrong" not in refusal_of(wrong)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # dulwich leaves a refusal's connection to the collector
            gc.collect()
        one = Remote(wrong.vault.repository, f"{url}/remote.git", TOKEN, lambda: AT)
        one.sync()
        two = Clone(tmp_path / "two", f"{url}/remote.git", TOKEN)
        two.sync()
        assert two.texts() == {"mine/x.md": "one\n"}
        wrong.vault.close()
        two.vault.close()


def refusal_of(clone: Clone) -> str:
    """What is said of a remote that refuses us."""
    with pytest.raises(RemoteDown) as refused:
        clone.sync()
    return str(refused.value)


def _ssh_of(folder: Path) -> Path:
    """A program in the place of `ssh`, which runs on this machine what it is asked to run there."""
    script = folder / "ssh"
    script.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >> "{folder}/asked"\n'
        'for last in "$@"; do :; done\nexec sh -c "$last"\n'
    )
    script.chmod(0o755)
    return script


class _HttpGit:
    """git's own http backend behind a server that wants a token."""

    def __init__(self, root: Path) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer()

            do_POST = do_GET

            def answer(self) -> None:
                wanted = base64.b64encode(f"mercury:{TOKEN}".encode()).decode()
                body = self._body()
                if self.headers.get("Authorization") != f"Basic {wanted}":
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="git"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                path, _, query = self.path.partition("?")
                done = subprocess.run(
                    ["git", "http-backend"], input=body, capture_output=True, check=True,
                    env={
                        "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(root),
                        "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
                        "REQUEST_METHOD": self.command, "REMOTE_USER": "mercury",
                        "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                        "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                        "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    },
                )  # fmt: skip
                head, _, content = done.stdout.partition(b"\r\n\r\n")
                lines = dict(line.split(": ", 1) for line in head.decode().splitlines())
                self.send_response(int(lines.pop("Status", "200 OK").split()[0]))
                for name, value in lines.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                whole = b""
                while size := int(self.rfile.readline(), 16):
                    whole += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return whole

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
