"""What watchers of a turn see: everything in order, and after resets the same text."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.streams import BUFFER_CHARS, BUFFER_EVENTS, KEPT, Event, Live, Outcome, Streams
from tests.test_history import message

PIECES = ["The ", "logo ", "is ", "green", "."]


def text_of(events: list[Event], lost: bool, shown: str = "") -> str:
    shown = "" if lost else shown
    for event in events:
        if event.kind == "reset":
            shown = ""
        elif event.kind == "text":
            shown += event.data["delta"]
    return shown


def said(live: Live, pieces: list[str]) -> None:
    for piece in pieces:
        live.put("text", {"delta": piece})


def test_events_come_in_order_under_their_attempt() -> None:
    live = Live("t")
    live.begin(7)
    said(live, PIECES)
    events, lost, ended = live.after((0, 0), 0)
    assert [event.id for event in events] == ["7.1", "7.2", "7.3", "7.4", "7.5"]
    assert (lost, ended) == (False, False)
    live.end()
    assert live.after((7, 5), 0) == ([], False, True)


@pytest.mark.parametrize("count", [len(PIECES), BUFFER_EVENTS + 500])
def test_resuming_at_any_place_gives_the_same_text(count: int) -> None:
    live = Live("t")
    live.begin(3)
    pieces = (PIECES * count)[:count]
    said(live, pieces)
    live.end()
    for n in [*range(0, count, max(1, count // 200)), count]:
        place = (3, n) if n else (0, 0)
        events, lost, _ = live.after(place, 0)
        assert text_of(events, lost, "".join(pieces[:n])) == "".join(pieces)


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(
        st.one_of(st.text(min_size=1, max_size=9), st.sampled_from([0, 1])), max_size=60
    ),
    looks=st.sets(st.integers(0, 60)),
)
def test_a_watcher_who_looks_now_and_then_ends_with_the_same_text(
    steps: list[str | int], looks: set[int]
) -> None:
    live = Live("t")
    live.begin(1)
    attempt, place, shown, whole = 1, (0, 0), "", ""
    for n, step in enumerate(steps):
        if step == 0:
            live.reset()
            whole = ""
        elif step == 1:
            attempt += 1
            live.begin(attempt)
            whole = ""
        else:
            live.put("text", {"delta": step})
            whole += str(step)
        if n in looks:
            events, lost, _ = live.after(place, 0)
            shown = text_of(events, lost, shown)
            place = (events[-1].attempt, events[-1].n) if events else place
    live.put("notice", {})
    events, lost, _ = live.after(place, 0)
    assert text_of(events, lost, shown) == whole


def test_a_buffer_is_bounded_by_count_and_by_size() -> None:
    live = Live("t")
    live.begin(1)
    said(live, ["x"] * 100_000)
    events, lost, _ = live.after((0, 0), 0)
    assert len(events) <= BUFFER_EVENTS
    assert text_of(events, lost) == "x" * 100_000
    said(live, ["y" * 10_000] * 500)
    assert live.chars <= BUFFER_CHARS
    _, lost, _ = live.after((1, 5), 0)
    assert lost


def test_ended_buffers_are_kept_for_a_while() -> None:
    streams = Streams()
    first = streams.open("t0")
    first.outcome = Outcome(message("ok", part=1), {})
    streams.close("t0")
    assert streams.find("t0") is first
    assert first.ended
    for n in range(1, KEPT + 1):
        streams.open(f"t{n}")
        streams.close(f"t{n}")
    assert streams.find("t0") is None
    assert streams.find(f"t{KEPT}") is not None


def test_large_ended_buffers_leave_first() -> None:
    streams = Streams()
    for n in range(150):
        live = streams.open(f"t{n}")
        live.begin(1)
        said(live, ["x" * 190_000])
        streams.close(f"t{n}")
    held = [n for n in range(150) if streams.find(f"t{n}")]
    assert held == list(range(150 - len(held), 150))
    assert len(held) <= 106


def test_many_watchers_see_the_same() -> None:
    live = Live("t")
    live.begin(1)
    seen: list[str] = []

    def watch() -> None:
        shown, place = "", (0, 0)
        while True:
            events, lost, ended = live.after(place, 5)
            shown = text_of(events, lost, shown)
            place = (events[-1].attempt, events[-1].n) if events else place
            if ended and not live.after(place, 0)[0]:
                seen.append(shown)
                return

    watchers = [threading.Thread(target=watch) for _ in range(20)]
    for watcher in watchers:
        watcher.start()
    said(live, PIECES * 200)
    live.end()
    for watcher in watchers:
        watcher.join(20)
    assert seen == ["".join(PIECES * 200)] * 20
