"""The shared remote: fetched, merged and pushed, never by force.

Whoever pushes has merged what was there: a branch that moved meanwhile is fetched and merged
again. Speaks to a folder, to ssh through the system's own `ssh` and its configuration, and to
https with a token. `refs/mercury/remote/<branch>` names what the remote is known to have.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wiki import paths
from wiki.errors import WikiDown
from wiki.merge import conflict_path, merge
from wiki.repository import AUTHOR, Change, Repository

log = logging.getLogger(__name__)

ROUNDS = 5
PAUSE_S = 0.2
TIMEOUT_S = 20.0
SSH = "ssh -oBatchMode=yes -oConnectTimeout=10 -oServerAliveInterval=5 -oServerAliveCountMax=3"
"""Unless GIT_SSH_COMMAND or core.sshCommand says otherwise; never asks anybody for a password."""
USER = "mercury"
"""With a token the name does not matter to the usual servers, but has to be there."""


class RemoteDown(WikiDown):
    """The remote cannot be reached, refuses us, or moves all the time; the notes are safe here."""


class Remote:
    """One remote.

    Args:
        url: a folder, `ssh://…`, `user@host:path` or `https://…`.
        token: for https; '' for none.
        clock: seconds since the epoch, for merges.
    """

    def __init__(
        self, repository: Repository, url: str, token: str, clock: Callable[[], int]
    ) -> None:
        self._repository = repository
        self._url = url
        self._token = token
        self._clock = clock
        self._lock = threading.Lock()

    def unpushed(self) -> list[str]:
        """The branches whose head the remote is not known to have."""
        return [
            branch
            for branch, head in sorted(self._repository.branches().items())
            if paths.area_of_branch(branch) is not None
            and head not in (self._known(branch), self._repository.root)
        ]

    def sync(self) -> bool:
        """Brings both sides to the same; whether anything came from there.

        Raises:
            RemoteDown: it did not work; what is here stays as it is.
        """
        came, why = False, ""
        with self._lock:
            for n in range(ROUNDS):
                self._pause(n)
                theirs = self._fetch()
                came |= self._take_in(theirs)
                why = self._push(theirs)
                if not why:
                    return came
        raise RemoteDown(f"the remote took nothing in {ROUNDS} tries: {why}")

    @staticmethod
    def _pause(n: int) -> None:
        """Lets another clone finish, a little longer each time."""
        if n:
            threading.Event().wait(random.uniform(0, PAUSE_S) * n)  # noqa: S311  no secret

    def _fetch(self) -> dict[str, str]:
        """The remote's branches, with all that they hold."""
        with self._asked("fetched") as (client, path):
            refs = self._repository.fetch(client, path, _wanted)
        found = {}
        for name, id_ in refs.items():
            branch = name.removeprefix("refs/heads/")
            if branch != name and paths.area_of_branch(branch) is not None:
                found[branch] = id_
        return found

    def _take_in(self, theirs: Mapping[str, str]) -> bool:
        """Moves our branches forward, or merges; whether any moved."""
        moved = False
        for branch, head in theirs.items():
            ours = self._repository.head(branch)
            if ours is None:
                moved |= self._repository.refs.move(f"refs/heads/{branch}", None, head)
            elif not self._repository.has_ancestor(ours, head):
                moved = True
                self._join(branch, head)
            self._remember(branch, head)
        return moved

    def _join(self, branch: str, theirs: str) -> None:
        """Fast forward where nothing is new here, else a merge with two parents."""
        with self._repository.lock.holding():
            ours = self._repository.head(branch)
            is_behind = ours is not None and self._repository.has_ancestor(theirs, ours)
            if is_behind and self._repository.refs.move(f"refs/heads/{branch}", ours, theirs):
                return
            self._repository.commit(
                branch, lambda head: self._merged(branch, head, theirs), AUTHOR.decode(),
                self._clock(), also=(theirs,),
            )  # fmt: skip

    def _merged(self, branch: str, ours: str | None, theirs: str) -> tuple[list[Change], str]:
        """What their changes since the last common commit make of our files."""
        base = None if ours is None else self._repository.merge_base(ours, theirs)
        changes: dict[str, bytes | None] = {}
        for path, id_ in self._repository.changed(base, theirs, "").items():
            here = self._repository.path_id(ours, path)
            if id_ == here:
                continue
            old = self._repository.path_id(base, path)
            merged = merge(self._blob(old), self._blob(here), self._blob(id_))
            if merged.ours != self._blob(here):
                changes[path] = merged.ours
            if merged.theirs is not None and path.endswith(".md"):
                changes[conflict_path(path, merged.theirs)] = merged.theirs
                log.warning("%s was changed here and at the remote; both versions are kept", path)
        return [Change(path, data) for path, data in changes.items()], f"Merge {branch}\n"

    def _blob(self, id_: str | None) -> bytes | None:
        return None if id_ is None else self._repository.blob(id_)

    def _push(self, theirs: Mapping[str, str]) -> str:
        """Pushes what is ahead; returns why it was not done, '' when it was."""
        ours = self._repository.branches()
        ahead = {
            branch: head
            for branch, head in ours.items()
            if paths.area_of_branch(branch) is not None and theirs.get(branch) != head
        }
        if not ahead:
            return ""
        with self._asked("pushed") as (client, path):
            why = self._repository.push(client, path, ahead, theirs)
        for branch in () if why else ahead:
            self._remember(branch, ahead[branch])
        return why

    def _known(self, branch: str) -> str | None:
        return self._repository.ref(f"refs/mercury/remote/{branch}")

    def _remember(self, branch: str, head: str) -> None:
        known = self._known(branch)
        if known != head:
            self._repository.refs.move(f"refs/mercury/remote/{branch}", known, head)

    def _asked(self, what: str) -> AbstractContextManager[tuple[Any, str]]:
        return _client_of(self._url, self._token, what)


def _wanted(name: str) -> bool:
    branch = name.removeprefix("refs/heads/")
    return branch != name and paths.area_of_branch(branch) is not None


@contextmanager
def _client_of(url: str, token: str, what: str) -> Iterator[tuple[Any, str]]:
    """A client of the remote for a while, and the path there; what it raises becomes RemoteDown.

    No text of an error carries the token: it is given to the client, not to the address.
    """
    from dulwich.client import Urllib3HttpGitClient, get_transport_and_path
    from dulwich.config import StackedConfig

    try:
        client, path = get_transport_and_path(
            _address(url), config=StackedConfig.default(), username=USER if token else None,
            password=token or None, ssh_command=os.environ.get("GIT_SSH_COMMAND") or _ssh(),
        )  # fmt: skip
        try:
            if isinstance(client, Urllib3HttpGitClient):
                client._timeout = TIMEOUT_S  # nothing in between hands one on
            yield client, path
        finally:
            client.close()
            if isinstance(client, Urllib3HttpGitClient):
                client.pool_manager.clear()
    except WikiDown:
        raise
    except Exception as error:
        raise RemoteDown(f"the remote cannot be {what}: {_why(error)}") from error


def _ssh() -> str | None:
    from dulwich.config import StackedConfig

    try:
        StackedConfig.default().get((b"core",), b"sshCommand")
    except KeyError:
        return SSH
    return None


def _address(url: str) -> str:
    if url.startswith("file://"):
        return urlsplit(url).path
    return str(Path(url).expanduser()) if url.startswith(("/", "./", "../", "~/")) else url


def _why(error: Exception) -> str:
    """What went wrong in a few words: the kind, and the first line of what was said."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}{f' ({said[0][:200]})' if said else ''}"
