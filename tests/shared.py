"""The vectors and fixtures that lie in the folder `shared` beside the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = (Path(__file__).resolve().parent.parent / ".." / "shared").resolve()
CHAT = SHARED / "google-chat"

needs_shared = pytest.mark.skipif(
    not CHAT.is_dir(),
    reason="the shared fixtures are not here: put the folder `shared` beside the repository",
)


def load(path: str) -> Any:
    """A fixture by its path below the folder, such as `google-chat/addon/dm_message.json`."""
    return json.loads((SHARED / path).read_text(encoding="utf-8"))


def names(folder: str) -> list[str]:
    """The fixtures of a folder, none where the folder is not here."""
    return sorted(path.stem for path in (SHARED / folder).glob("*.json"))


def cases(path: str, key: str | None = None) -> list[Any]:
    """The cases that a fixture lists, as parameters named after themselves; none without it."""
    if not (SHARED / path).is_file():
        return []
    found = load(path)
    return [pytest.param(case, id=case["name"]) for case in (found[key] if key else found)]
