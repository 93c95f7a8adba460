"""Every row of `hostile/inputs.jsonl` whose parts exist here, tried and held against its `expect`.

A row is run by the function for it in `hostile_runs.py` or `hostile_alone.py`, which notes what
it saw; then each word of `expect` is checked here. A row whose part does not exist yet is
skipped, and says which.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import regex

from bot import words
from bot.markdown import to_chat
from bot.tools import MAX_CALLS, RESULT_CHARS
from memory.text import is_blank
from tests import hostile_alone as alone
from tests import hostile_cards as cards
from tests import hostile_redis as redis
from tests import hostile_runs as runs
from tests import hostile_wiki as wiki
from tests.hostile import Rig, Seen
from tests.shared import SHARED
from tests.world import World
from wiki.paths import Access

INPUTS = SHARED / "hostile" / "inputs.jsonl"
FORMS = ("addon", "classic")
ADDON_ONLY = ("auth-03", "auth-04", "auth-06", "auth-08", "auth-16")
"""Rows about claims that only tokens of the add-on form have."""
MISSING = {
    "memory_read": "the long-term memory", "memory_write": "the long-term memory",
    "qdrant": "the long-term index",
    "proc-03": "a row of its own: tests/test_processes.py, and make chaos with 10,000 turns",
}  # fmt: skip
"""What a surface, or one row, waits for."""
TIMED = {"max_s", "extra_s_max", "ready_s_max", "recovers_s_max"}
TRIES = 3
UNCLOSED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""What dulwich leaves to the collector on a full disk."""


def rows() -> list[Any]:
    """The rows as parameters: of what comes from Chat, one in each form of event."""
    if not INPUTS.is_file():
        return []
    found: list[Any] = []
    for line in INPUTS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        missing = MISSING.get(row["id"]) or MISSING.get(row["surface"])
        if missing:
            mark = pytest.mark.skip(
                reason=missing if "tests/" in missing else f"not here yet: {missing}"
            )
            found.append(pytest.param(row, "addon", id=row["id"], marks=mark))
            continue
        both = row["surface"] in ("chat_auth", "chat_event") and row["id"] not in ADDON_ONLY
        both = both and row["id"] not in alone.SERVED and "gen" not in row["input"]
        marks = UNCLOSED if row["id"] == "disk-07" else ()
        found += [
            pytest.param(row, form, id=f"{row['id']}-{form}" if both else row["id"], marks=marks)
            for form in (FORMS if both else FORMS[:1])
        ]
    return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One served Mercury for the rows that need a socket."""
    with World(tmp_path_factory.mktemp("hostile"), "addon") as opened:
        yield opened


@pytest.mark.skipif(not INPUTS.is_file(), reason="put the folder `shared` beside the repository")
@pytest.mark.parametrize(("row", "form"), rows())
def test_hostile_row(
    row: dict[str, Any], form: str, tmp_path: Path, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A row that names seconds is tried up to three times: a busy machine can only add to them."""
    for tries_left in reversed(range(TRIES if TIMED & row["expect"].keys() else 1)):
        folder = tmp_path / str(tries_left)
        folder.mkdir()
        try:
            with monkeypatch.context() as patch:
                run_row(row, form, folder, request, patch)
        except AssertionError:
            if not tries_left:
                raise
        else:
            return


def run_row(
    row: dict[str, Any], form: str, tmp_path: Path, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if row["id"] in alone.ALONE:
        seen = Seen()
        alone.ALONE[row["id"]](tmp_path, row["input"], seen)
        check(row, None, seen)
        return
    if row["id"] in alone.SERVED:
        seen = Seen()
        alone.SERVED[row["id"]](request.getfixturevalue("world"), row["input"], seen)
        check(row, None, seen)
        return
    stop = threading.Event()
    with ExitStack() as stack:
        stack.callback(stop.set)
        promotions = cards.Promotions()
        given = runs.parts(row["id"], stop)
        if row["id"] in cards.CARDS:
            given |= cards.parts(promotions)
        place = redis.Place(stack) if row["id"] in redis.REDIS else None
        if place is not None:
            given |= place.parts()
        rig = Rig(tmp_path, form, stack).start(**given)
        monkeypatch.setenv("MERCURY_DATA", str(rig.settings.mercury_data))
        monkeypatch.chdir(tmp_path)
        before, begun = rig.state(), time.monotonic()
        if row["id"] in cards.CARDS:
            cards.run(rig, row, promotions)
        elif (run_wiki := wiki.runner(row)) is not None:
            run_wiki(rig, row["input"])
        elif place is not None:
            redis.REDIS[row["id"]](rig, row["input"], place)
        else:
            runs.run(rig, row)
        rig.seen.seconds = time.monotonic() - begun
        if "state" in row["expect"]:
            rig.seen.facts.setdefault("unchanged", rig.state() == before)
        check(row, rig, rig.seen)
        assert rig.chat.violations == []
        assert rig.model.violations == []
        assert "Traceback" not in rig.left()


# -- what the words of `expect` mean ------------------------------------------------------------

SHOWN_BY_RUN = {
    "accept without verifying", "recreate empty", "change the damaged file",
}  # fmt: skip
"""Things that never happen, which the row's own function holds."""


def check(row: dict[str, Any], rig: Rig | None, seen: Seen) -> None:
    """Holds every word of a row's `expect` against what was seen."""
    for word, wanted in row["expect"].items():
        if word == "note":
            continue
        if word in CHECKS:
            assert rig is not None or word in ("status", "reply", "never_in_TEAM"), word
            CHECKS[word](rig, seen, wanted, row)
        else:
            check_fact(seen, word, wanted)


def check_fact(seen: Seen, word: str, wanted: Any) -> None:
    """A figure that the run has measured, by its name."""
    if word in seen.facts:
        assert seen.facts[word] == wanted or word == "after_compaction", word
    else:
        name = word.removesuffix("_max")
        assert name in seen.facts, f"nobody looks at {word}"
        limit = {"limit": MAX_CALLS, "tool share": RESULT_CHARS}.get(wanted, wanted)
        assert seen.facts[name] <= limit, (word, seen.facts[name])


def status(rig: Any, seen: Seen, wanted: Any, row: dict[str, Any]) -> None:
    allowed = wanted if isinstance(wanted, list) else [wanted]
    assert seen.statuses
    assert set(seen.statuses) <= set(allowed), seen.statuses


def state(rig: Rig, seen: Seen, wanted: str, row: dict[str, Any]) -> None:
    name = "unchanged" if wanted == "unchanged" else "same"
    assert seen.facts.get(wanted, seen.facts.get(name)) is True


def never(rig: Rig, seen: Seen, wanted: list[str], row: dict[str, Any]) -> None:
    for text in wanted:
        if text == "500":
            assert not any(code >= 500 for code in seen.statuses)
        elif text not in SHOWN_BY_RUN:
            assert text not in rig.left()


def log_never(rig: Rig, seen: Seen, wanted: list[str], row: dict[str, Any]) -> None:
    for text in wanted:
        assert str(runs.replaced(text, seen.facts)) not in "\n".join(rig.log)


def sent_never(rig: Rig, seen: Seen, wanted: list[str], row: dict[str, Any]) -> None:
    sent = "\n".join([*(json.dumps(r.body, ensure_ascii=False) for r in rig.chat.log), *rig.log])
    for text in wanted:
        assert str(runs.replaced(text, seen.facts)) not in sent


def body_never(rig: Rig, seen: Seen, wanted: list[str], row: dict[str, Any]) -> None:
    for text in wanted:
        assert text not in "\n".join(seen.bodies)


def body(rig: Rig, seen: Seen, wanted: Any, row: dict[str, Any]) -> None:
    assert [json.loads(text) for text in seen.bodies] == [wanted]


def is_alive(rig: Rig, seen: Seen, wanted: bool, row: dict[str, Any]) -> None:
    assert rig.alive() is wanted


def reply(rig: Rig | None, seen: Seen, wanted: str, row: dict[str, Any]) -> None:
    shown: list[str] = seen.facts.get("shown", [] if rig is None else rig.replies())
    told = row["input"].get("while", row["input"])
    text = str(told.get("text", "x")) if isinstance(told, dict) else "x"
    if "reply" in seen.facts:
        assert seen.facts["reply"] == wanted
    elif wanted == "none":
        assert shown == []
    elif wanted == "short hint or none":
        assert shown in ([], [words.EMPTY_MESSAGE])
    elif wanted == "one plain apology":
        assert shown == [words.MODEL_AWAY]
    elif wanted == "retry or marked as cut":
        assert shown == ["Hello."] or words.ANSWER_CUT in shown[0]
    elif wanted == "cut with notice":
        assert words.ANSWER_CUT in "".join(shown)
        assert all(len(one.encode()) <= 32_000 for one in shown)
    elif wanted == "says what it could not finish":
        assert len(shown) == 1
        assert shown[0].endswith(words.TOO_MANY_CALLS)
    elif is_blank(text):
        assert shown == [words.EMPTY_MESSAGE]
    else:
        assert wanted.startswith("normal")
        assert len(shown) == 1
        normal = ("You said: ", "Hello.", "Looked.", words.NEW_CONVERSATION)
        assert shown[0].startswith(normal)
        if text.isascii() and text.isprintable():
            said = to_chat(f"You said: {text}")
            assert shown[0] in (said, "Hello.", "Looked.", words.NEW_CONVERSATION)


def stored(rig: Rig, seen: Seen, wanted: str, row: dict[str, Any]) -> None:
    assert rig.stored() == [row["input"]["text"] if wanted == "byte for byte" else wanted]


def model_sees_never(rig: Rig, seen: Seen, wanted: list[str], row: dict[str, Any]) -> None:
    if "$TOKEN" in wanted:
        assert seen.facts["$TOKEN"] not in rig.prompts()
        return
    assert wanted == ["tag characters U+E0000-E007F"]
    assert not any(0xE0000 <= ord(char) <= 0xE007F for char in rig.prompts() + rig.left())


def wiki_text_never(rig: Rig, seen: Seen, wanted: list[str], row: dict[str, Any]) -> None:
    """Nothing that the model gets holds it, and neither does what it writes."""
    assert wanted == ["U+202E"]
    written = {"path": "bidi.md", "text": row["input"]["text"]}
    assert wiki.use(rig, "wiki_write", written)["ok"] is True
    assert "\u202e" not in rig.mercury.notes.vault.read(Access(wiki.ALICE), "bidi.md").text
    assert "\u202e" not in rig.prompts()


def cut(rig: Rig, seen: Seen, wanted: str, row: dict[str, Any]) -> None:
    unit = row["input"]["gen"]["unit"]
    for text in rig.replies():
        text.encode("utf-16")
        shown = text.removeprefix("You said: ")
        strange = {g for g in regex.findall(r"\X", shown) if not g.isascii() and g != "…"}
        assert strange <= {unit}, strange


def figures(of: Callable[[Rig, Seen], float]) -> Callable[..., None]:
    """A check that a figure is the one wanted."""
    return lambda rig, seen, wanted, row: _equal(of(rig, seen), wanted)


def limits(of: Callable[[Rig, Seen], float]) -> Callable[..., None]:
    """A check that a figure is at most the one wanted."""
    return lambda rig, seen, wanted, row: _at_most(of(rig, seen), wanted)


def _equal(found: float, wanted: float) -> None:
    assert found == wanted


def _at_most(found: float, wanted: float) -> None:
    assert found <= wanted


def max_s(rig: Rig, seen: Seen, wanted: Any, row: dict[str, Any]) -> None:
    deadline = rig.settings.turn_timeout_s + 2
    assert seen.seconds <= (deadline if wanted == "turn deadline + 2" else wanted)


def history(rig: Rig, seen: Seen, wanted: str, row: dict[str, Any]) -> None:
    if wanted in seen.facts:
        assert seen.facts[wanted] is True
        return
    assert wanted == "user message kept"
    assert rig.stored() == [row["input"]["while"]["text"]]


def history_never(rig: Rig, seen: Seen, wanted: list[str], row: dict[str, Any]) -> None:
    assert wanted == ["half answer stored as whole"]
    assert not any("half" in str(text) for text in rig.rows("SELECT text FROM messages"))


def recap_never(rig: Rig, seen: Seen, wanted: list[str], row: dict[str, Any]) -> None:
    assert not any(text in seen.facts["recaps"] for text in wanted)


def stdout_never(rig: Rig, seen: Seen, wanted: list[str], row: dict[str, Any]) -> None:
    for text in wanted:
        shown = "\x1b" if text == "raw ESC when stdout is a terminal" else text
        assert shown not in seen.facts["stdout"]


def never_in_team(rig: Any, seen: Seen, wanted: list[str], row: dict[str, Any]) -> None:
    assert not any(text in seen.facts["TEAM"] for text in wanted)


CHECKS: dict[str, Callable[..., None]] = {
    "status": status, "state": state, "never": never, "log_never": log_never,
    "reply_never": sent_never, "sent_never": sent_never, "body_never": body_never, "body": body,
    "alive": is_alive, "reply": reply, "stored": stored, "model_sees_never": model_sees_never,
    "wiki_text_never": wiki_text_never, "cut": cut, "max_s": max_s, "history": history,
    "history_never": history_never, "recap_never": recap_never, "stdout_never": stdout_never,
    "never_in_TEAM": never_in_team,
    "model_calls": figures(lambda rig, seen: len(rig.model.requests)),
    "model_calls_max": limits(lambda rig, seen: len(rig.model.requests)),
    "replies": figures(lambda rig, seen: len(rig.replies())),
    "replies_shown": figures(lambda rig, seen: len(rig.replies())),
    "reply_bytes_max": limits(lambda rig, seen: max(len(x.encode()) for x in rig.replies())),
}  # fmt: skip
