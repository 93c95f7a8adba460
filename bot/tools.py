"""The tools that the model may call, and the box that runs them.

A tool is a reading or writing function over the memories, or an irreversible one that is only
ever staged for the person's confirmation. Nothing here raises into the turn: whatever goes
wrong is told to the model as `{ok: false, error}`. Tools from elsewhere can join as long as
they say which of the three they are.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.model import ToolSpec
from bot.scope import Scope
from bot.stop import Stop
from memory.archive import Archive
from memory.errors import Fenced, NotFound, StoreDown
from memory.records import Message

log = logging.getLogger(__name__)

RESULT_CHARS = 20_000
SHORTEST_CUT = 200
TOOL_S = 30.0
"""How long one tool may take; a tool that hangs costs its own thread, never the turn."""
TOOL_THREADS = 32
MAX_CALLS = 40
"""Tool calls a turn."""

STORE_DOWN = "store_down"

Effect = Literal["reads", "writes", "irreversible"]


@dataclass(frozen=True, slots=True)
class Context:
    """In whose name and for which turn a tool runs."""

    scope: Scope
    turn: str
    n: int
    check_fence: Callable[[], None]
    message: str = ""
    """The message that the turn answers."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What an irreversible tool gives back: the action that waits for a confirmation."""

    action: str
    content: dict[str, Any]


class Arguments(BaseModel):
    """The base of every tool's arguments: strict, without unknown names."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: how the model sees it, what it may do, and the function that does it.

    `run` returns the result's fields (without `ok`), or Staged; it raises ToolError to say
    what was wrong in words for the model.
    """

    name: str
    description: str
    arguments: type[Arguments]
    effect: Effect
    run: Callable[[Context, Any], Mapping[str, Any] | Staged]
    store: str = ""
    """The memory that it rests on, as people are told when that cannot be reached."""
    remembered: Callable[[Context, dict[str, Any]], dict[str, Any]] | None = None
    """How the history keeps its arguments, if not as they are."""
    look_back: Callable[[Context], Mapping[str, Any] | None] | None = None
    """What a call of an earlier attempt gave, of which only the start is known."""

    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        for prop in schema.get("properties", {}).values():
            prop.pop("title", None)
        return ToolSpec(self.name, self.description, schema)


class ToolError(Exception):
    """A tool says no; `error` is a word, `details` are further fields of the result."""

    def __init__(self, error: str, **details: Any) -> None:
        super().__init__(error)
        self.error = error
        self.details = details


@dataclass(frozen=True, slots=True)
class Ran:
    """How a call went: the JSON for the model, the outcome that is remembered, what was staged."""

    result: str
    outcome: str
    staged: Staged | None = None
    receipt: str = ""
    """What the person is told of a write."""

    @property
    def store_is_down(self) -> bool:
        """Whether the memory under the tool could not be reached."""
        return self.outcome == f"failed: {STORE_DOWN}"


class Toolbox:
    """The tools of a process, and the threads that they run in."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.specs = [tool.spec() for tool in tools]
        self._pool = ThreadPoolExecutor(TOOL_THREADS, thread_name_prefix="tool")

    def find(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def run(
        self, tool: Tool | None, name: str, arguments: str, context: Context, stop: Stop
    ) -> Ran:
        """Runs one call of the model.

        Raises:
            Stopped: the turn was stopped while the tool ran.
            Fenced: the tool found that the turn has passed to another process.
        """
        if tool is None:
            known = ", ".join(self._tools)
            return _failed(
                "unknown_tool", message=f"There is no tool {name[:64]!r}; there are: {known}."
            )
        try:
            parsed = tool.arguments.model_validate(parse_arguments(arguments))
        except (ValueError, ValidationError) as error:
            return _failed("bad_arguments", message=_why(error))
        done = threading.Event()
        future = self._pool.submit(tool.run, context, parsed)
        future.add_done_callback(lambda _: done.set())
        with stop.on_stop(done.set):
            done.wait(min(TOOL_S, stop.remaining()))
        if not future.done():
            future.cancel()
            stop.check()
            return _failed("timeout", message="The tool took too long.")
        try:
            result = future.result()
        except Fenced:
            raise
        except ToolError as error:
            return _failed(error.error, **error.details)
        except NotFound:
            return _failed("not_found")
        except StoreDown:
            return _failed(STORE_DOWN, message="This memory cannot be reached now.")
        except Exception:  # the edge between the tools and the turn
            log.exception("the tool %s failed", tool.name)
            return _failed("internal", message="The tool failed.")
        if isinstance(result, Staged):
            told = {"ok": True, "state": "waiting for confirmation"}
            return Ran(json.dumps(told), "waiting for confirmation", result)
        return ok(result)

    def look_back(self, tool: Tool, context: Context) -> Ran | None:
        """What a call of an earlier attempt gave, as far as its store can tell; else None."""
        if tool.look_back is None:
            return None
        try:
            found = tool.look_back(context)
        except Exception:  # the edge between the tools and the turn
            log.exception("what the tool %s did cannot be found out", tool.name)
            return None
        return None if found is None else ok(found)

    def close(self) -> None:
        """Takes no more calls; a tool that still runs is left to its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def parse_arguments(arguments: str) -> Any:
    """A call's arguments; models write '' for none.

    Raises:
        ValueError: no JSON object.
    """
    if len(arguments) > 100_000:
        raise ValueError("the arguments are too long")
    try:
        parsed = json.loads(arguments or "{}")
    except RecursionError:
        raise ValueError("the arguments are nested too deep") from None
    if not isinstance(parsed, dict):
        raise ValueError("the arguments are no JSON object")
    return parsed


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(place) for place in first['loc'])}: {first['msg']}"
    return f"The arguments are no JSON object: {error}"


def ok(result: Mapping[str, Any]) -> Ran:
    """A call that went well; its receipt is for the person, not for the model."""
    told = {name: value for name, value in result.items() if name != "receipt"}
    return Ran(_bounded(told), "ok", receipt=str(result.get("receipt", "")))


def _failed(error: str, **details: Any) -> Ran:
    return Ran(json.dumps({"ok": False, "error": error, **details}), f"failed: {error}")


def _bounded(result: Mapping[str, Any]) -> str:
    """A result as JSON of at most RESULT_CHARS: the longest texts are cut, then the last hits."""
    whole = {"ok": True, **result}
    text = json.dumps(whole, ensure_ascii=False)
    if len(text) <= RESULT_CHARS:
        return text
    told = {**whole, "note": "Cut for its length; ask for less at once."}
    longest = RESULT_CHARS
    while len(text) > RESULT_CHARS and longest > SHORTEST_CUT:
        longest //= 2
        text = json.dumps(_shortened(told, longest), ensure_ascii=False)
    while len(text) > RESULT_CHARS:
        told = {key: _half(value) for key, value in told.items()}
        text = json.dumps(_shortened(told, longest), ensure_ascii=False)
    return text


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:longest]} … [{len(value) - longest} more characters]"
    if isinstance(value, list):
        return [_shortened(one, longest) for one in value]
    if isinstance(value, Mapping):
        return {key: _shortened(one, longest) for key, one in value.items()}
    return value


def _half(value: Any) -> Any:
    return value[: len(value) // 2] if isinstance(value, list) else value


# -- the archive's tools --------------------------------------------------------------------


class SearchArguments(Arguments):
    query: str = Field(description='Words, and exact quotes "like this".', max_length=1_000)
    limit: int = Field(default=8, ge=1, le=20)
    before: str | None = Field(default=None, description="Only before this date, YYYY-MM-DD.")
    after: str | None = Field(default=None, description="Only from this date on, YYYY-MM-DD.")


class ReadArguments(Arguments):
    message: str = Field(description="A message's id, as archive_search gave it.", max_length=64)
    around: int = Field(default=4, ge=0, le=10, description="How many messages on each side.")


def archive_tools(archive: Archive) -> list[Tool]:
    """`archive_search` and `archive_read` over the asker's own archive."""

    def search(context: Context, given: SearchArguments) -> dict[str, Any]:
        found = archive.search(
            context.scope, given.query, given.limit, "best",
            since=_day(given.after, "after"), until=_day(given.before, "before"),
            without_turn=context.turn,
        )  # fmt: skip
        return {"hits": [shown(message) for message in found.items]}

    def read(context: Context, given: ReadArguments) -> dict[str, Any]:
        messages = archive.message(context.scope, given.message, given.around)
        return {"messages": [shown(message) for message in messages]}

    return [
        Tool(
            "archive_search",
            "Searches every past message of this conversation partner, word for word. Use it "
            "whenever something said earlier may matter and is not in view.",
            SearchArguments, "reads", search, "archive",
        ),
        Tool(
            "archive_read",
            "Reads a message found by archive_search with the messages around it.",
            ReadArguments, "reads", read, "archive",
        ),
    ]  # fmt: skip


def shown(message: Message) -> dict[str, Any]:
    """A message as a tool shows it: data with its source."""
    return {
        "message": message.id,
        "conversation": message.conversation,
        "at": rfc3339(message.at),
        "author": message.name or message.author,
        "text": message.text,
    }


def rfc3339(at: int) -> str:
    """Milliseconds since the epoch as RFC 3339 in UTC."""
    return (
        datetime.fromtimestamp(at / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _day(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    try:
        day = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ToolError("bad_arguments", message=f"{name}: not a date, want YYYY-MM-DD") from None
    return int((day if day.tzinfo else day.replace(tzinfo=UTC)).timestamp() * 1000)
