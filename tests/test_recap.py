"""The recap: short, dated, quoted, never empty, and without what only a tool said."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.recap import RECAP_CHARS, SIDE_CHARS, compose
from memory.records import Line, ToolCall
from tests.test_history import message

DAY = 86_400_000
BEGIN = 1_795_165_200_000


def line(kind: str, text: str, day: int = 0) -> Line:
    return Line(kind, text, ("m",), BEGIN + day * DAY)  # type: ignore[arg-type]


def test_it_says_when_what_and_how_it_ended() -> None:
    exchange = [message("And the logo?", 3), message("Green.", 3, 1)]
    told = compose([line("decided", "The logo is green.")], exchange, BEGIN, BEGIN + 3_600_000)
    assert told.splitlines() == [
        "From 2026-11-20 09:00 to 2026-11-20 10:00 (UTC).",
        "2026-11-20 decided: The logo is green.",
        "Alice said: And the logo?",
        "The answer was: Green.",
    ]


def test_what_was_decided_and_wished_comes_first_newest_first() -> None:
    lines = [
        line("said", "a", 0), line("decided", "b", 1), line("asked", "c", 2), line("rule", "d", 3),
    ]  # fmt: skip
    told = compose(lines, [message("x")], BEGIN, BEGIN)
    assert [row.split()[1] for row in told.splitlines()[1:5]] == [
        "rule:",
        "decided:",
        "asked:",
        "said:",
    ]


def test_without_lines_the_last_exchanges_stand_in() -> None:
    exchange = [m for n in range(1, 5) for m in (message(f"q{n}", n), message(f"a{n}", n, 1))]
    told = compose([], exchange, BEGIN, BEGIN)
    assert [row.split(": ")[1] for row in told.splitlines()[1:]] == [
        "q1", "a1", "q2", "a2", "q3", "a3", "q4", "a4",
    ]  # fmt: skip


def test_an_answer_that_rests_on_tools_is_told_as_its_calls() -> None:
    call = ToolCall(1, "archive_search", "{}", "ok", True)
    exchange = [message("What is the code?"), message("CANARY-7f3a", 1, 1, tools=(call,))]
    told = compose([], exchange, BEGIN, BEGIN)
    assert "CANARY-7f3a" not in told
    assert "archive_search (ok)" in told


@settings(max_examples=200)
@given(
    texts=st.lists(st.text(max_size=400), max_size=40),
    sides=st.lists(st.text(max_size=6_000), max_size=6),
)
def test_it_is_never_empty_nor_too_long(texts: list[str], sides: list[str]) -> None:
    lines = [line("said", text, n) for n, text in enumerate(texts)]
    exchange = [message(side, n // 2 + 1, n % 2) for n, side in enumerate(sides)]
    told = compose(lines, exchange, BEGIN, BEGIN)
    assert 0 < len(told) <= RECAP_CHARS
    assert compose(lines, exchange, BEGIN, BEGIN) == told


def test_a_long_side_is_cut() -> None:
    told = compose([], [message("x" * 5_000), message("y" * 5_000, 1, 1)], BEGIN, BEGIN)
    assert told.count("x") <= SIDE_CHARS
    assert told.count("y") <= SIDE_CHARS
