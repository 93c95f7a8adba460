"""Where conversations are cut: whole turns, at a length, and the rest at the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.records import Message
from memory.segments import SEGMENT_CHARS, close
from tests.test_history import message

SIZES = st.lists(st.integers(0, 20_000), max_size=40)


def turns(sizes: list[int]) -> list[list[Message]]:
    return [
        [message("x" * (size // 2), seq), message("y" * (size - size // 2), seq, 1)]
        for seq, size in enumerate(sizes, 1)
    ]


def size(one: Message) -> int:
    return len(one.text)


@given(sizes=SIZES)
def test_segments_follow_one_another_and_are_whole_turns(sizes: list[int]) -> None:
    closed = close(turns(sizes), closing=True, size=size)
    covered = [seq for first, last in closed for seq in range(first, last + 1)]
    assert covered == list(range(1, len(sizes) + 1))


@given(sizes=SIZES)
def test_a_segment_ends_with_the_turn_that_fills_it(sizes: list[int]) -> None:
    for first, last in close(turns(sizes), closing=False, size=size):
        assert sum(sizes[first - 1 : last]) >= SEGMENT_CHARS
        assert sum(sizes[first - 1 : last - 1]) < SEGMENT_CHARS


@given(sizes=SIZES)
def test_what_is_closed_early_does_not_depend_on_what_follows(sizes: list[int]) -> None:
    whole = close(turns(sizes), closing=False, size=size)
    assert whole[:1] == close(turns(sizes[: whole[0][1]] if whole else []), False, size)
