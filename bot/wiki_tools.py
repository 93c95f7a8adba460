"""The agent's tools over the notes.

In a space the agent reads the common area only, and writes only new notes for the asker. What
would change the common area is staged for a confirmation. Every write gives a receipt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from bot import words
from bot.notes import Notes, access_of, told
from bot.tools import Arguments, Context, Staged, Tool, ToolError, rfc3339
from memory.clock import Clock
from memory.text import clean_for_model, mend
from wiki import note
from wiki.errors import Exists, NotAllowed, NotAPath, NotThere, Stale, TooLong
from wiki.files import blob_id
from wiki.paths import CURATED
from wiki.vault import By, Saved

LISTED = 200
SOURCES = 20
"""Messages that a note names as those it rests on; the oldest are let go."""


class ListArguments(Arguments):
    area: Literal["curated", "mine"] | None = Field(
        default=None, description="`curated` is everybody's, `mine` the person's; both without it."
    )


class PathArguments(Arguments):
    path: str = Field(description="Such as mine/plan.md or curated/travel.md.", max_length=1_000)


class NoteSearchArguments(Arguments):
    query: str = Field(description='Words, and exact quotes "like this".', max_length=1_000)
    limit: int = Field(default=8, ge=1, le=20)


class WriteArguments(Arguments):
    path: str = Field(
        description="mine/….md, at most four folders deep; one note a subject.", max_length=1_000
    )
    text: str = Field(
        description="The whole note in Markdown, beginning with a heading; link with [[name]].",
        max_length=100_000,
    )
    base: str | None = Field(
        default=None, description="For a note that exists: the `base` that wiki_read gave."
    )


class PromoteArguments(Arguments):
    path: str = Field(description="The person's note, mine/….md.", max_length=1_000)
    to: str = Field(description="Where it goes, curated/….md.", max_length=1_000)


def wiki_tools(notes: Notes, clock: Clock) -> list[Tool]:
    """`wiki_list`, `wiki_read`, `wiki_search`, `wiki_write` and `wiki_promote`."""
    vault = notes.vault

    def list_notes(context: Context, given: ListArguments) -> dict[str, Any]:
        with told(), refused():
            found = vault.notes(access_of(context.scope), given.area or "", LISTED)
        return {
            "notes": [
                {"path": one.path, "title": one.title, "updated": rfc3339(one.updated * 1000)}
                for one in found
            ]
        }

    def read(context: Context, given: PathArguments) -> dict[str, Any]:
        with told(), refused():
            found = vault.read(access_of(context.scope), given.path)
        return {"path": found.path, "text": found.text, "base": found.base}

    def search(context: Context, given: NoteSearchArguments) -> dict[str, Any]:
        with told(), refused():
            hits = vault.search(access_of(context.scope), given.query, given.limit)
        return {
            "hits": [
                {"path": hit.path, "line": hit.line, "text": hit.text,
                 "at": rfc3339(hit.updated * 1000)}
                for hit in hits
            ]
        }  # fmt: skip

    def write(context: Context, given: WriteArguments) -> dict[str, Any] | Staged:
        path, text = given.path, clean_for_model(mend(given.text))
        if path.startswith(f"{CURATED}/"):
            with told(), refused():
                return notes.change(context.scope, path, text, given.base)
        by = By(context.scope.person, (f"Turn: {context.turn}/{context.n}",), context.check_fence)
        with told(), refused():
            saved = notes.write(
                access_of(context.scope), path, text, given.base, by,
                stamps=lambda old: stamps_of(context, old, clock.now()),
                is_new=context.scope.kind == "space",
            )  # fmt: skip
        return wrote(saved)

    def look_back(context: Context) -> dict[str, Any] | None:
        saved = vault.wrote(context.scope.person, f"Turn: {context.turn}/{context.n}")
        return None if saved is None else wrote(saved)

    def promote(context: Context, given: PromoteArguments) -> Staged:
        with refused():
            return notes.promotion(context.scope, given.path, given.to)

    return [
        Tool(
            "wiki_list", "Lists the notes, those first that were changed last.",
            ListArguments, "reads", list_notes, "wiki",
        ),
        Tool(
            "wiki_read", "Reads a note. `base` is its version, which wiki_write wants.",
            PathArguments, "reads", read, "wiki",
        ),
        Tool(
            "wiki_search", "Finds notes by words; gives the best line of each.",
            NoteSearchArguments, "reads", search, "wiki",
        ),
        Tool(
            "wiki_write",
            "Writes a note for the person. Search first, and change the note on a subject rather "
            "than writing another. A path under curated/ is proposed to the person instead.",
            WriteArguments, "writes", write, "wiki", remembered=remembered, look_back=look_back,
        ),
        Tool(
            "wiki_promote",
            "Proposes to move a note of the person's to the common area; the person is asked.",
            PromoteArguments, "irreversible", promote, "wiki",
        ),
    ]  # fmt: skip


@contextmanager
def refused() -> Iterator[None]:
    """Turns the wiki's refusals into words for the model."""
    try:
        yield
    except Stale as error:
        raise ToolError("conflict", text=error.text, base=error.base) from error
    except Exists as error:
        raise ToolError("exists", message="There is a note already.") from error
    except (NotAPath, TooLong, NotAllowed) as error:
        raise ToolError("refused", message=str(error)) from error
    except NotThere as error:
        raise ToolError("not_found") from error


def wrote(saved: Saved) -> dict[str, Any]:
    """What `wiki_write` gives back, and the receipt for the person."""
    return {
        "path": saved.path, "base": saved.base, "commit": saved.commit,
        **({} if saved.is_shared else {"unsaved": "it is kept, and saved when it can be shared"}),
        "receipt": words.receipt(saved.path, saved.commit, saved.is_shared),
    }  # fmt: skip


def stamps_of(context: Context, old: str | None, now: int) -> dict[str, str | list[str]]:
    """The front matter of a note that the agent writes."""
    sources = [*note.parse(old or "").source, context.message]
    return {
        "updated": f"{datetime.fromtimestamp(now // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "author": context.scope.person,
        "source": list(dict.fromkeys(one for one in sources if one))[-SOURCES:],
    }


def remembered(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a write as the history keeps them: no text; in a space no path either."""
    text = str(arguments.get("text", ""))
    kept = {**arguments, "text": f"{len(text)} characters, blob {blob_id(mend(text).encode())}"}
    if context.scope.kind == "space" and not str(arguments.get("path")).startswith(f"{CURATED}/"):
        kept["path"] = "a note of the person's own"
    return kept
