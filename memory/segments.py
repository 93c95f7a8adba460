"""Where a conversation is cut into segments. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memory.records import Message

SEGMENT_CHARS = 8_000


def close(
    turns: Sequence[Sequence[Message]],
    closing: bool,
    size: Callable[[Message], int],
    limit: int = SEGMENT_CHARS,
) -> list[tuple[int, int]]:
    """The segments that can be closed, as the first and the last place (`seq`) of each.

    Args:
        turns: the messages that no segment describes yet, grouped by turn, in order.
        closing: whether the rest that is still short is closed too (the end, or idle).
        size: a message's length as the model gets it.
        limit: characters at which a segment is closed, at the end of that turn.
    """
    closed: list[tuple[int, int]] = []
    first: int | None = None
    length = 0
    for turn in turns:
        first = turn[0].seq if first is None else first
        length += sum(size(message) for message in turn)
        if length >= limit:
            closed.append((first, turn[0].seq))
            first, length = None, 0
    if closing and first is not None:
        closed.append((first, turns[-1][0].seq))
    return closed
