"""The shapes in which conversations, messages and turns leave over HTTP."""

from __future__ import annotations

import json
from typing import Any

from bot.tools import rfc3339
from memory.records import Message, ToolCall
from memory.rows import Conversation


def conversation(one: Conversation) -> dict[str, Any]:
    """`{id, channel, title, at, writable}`."""
    return {
        "id": one.name,
        "channel": one.channel,
        "title": one.title,
        "at": rfc3339(one.last_at),
        "writable": one.writable,
    }


def message(one: Message, name: str) -> dict[str, Any]:
    """`{id, conversation, turn, role, author, at, text, tools}`; `name` is the conversation's."""
    return {
        "id": one.id,
        "conversation": name,
        "turn": one.turn,
        "role": one.role,
        "author": one.name or one.author,
        "at": rfc3339(one.at),
        "text": one.text,
        "tools": tools(one.tools),
    }


def tools(calls: tuple[ToolCall, ...]) -> list[dict[str, Any]]:
    """`{name, arguments, outcome}` a call."""
    return [
        {"name": call.name, "arguments": json.loads(call.arguments), "outcome": call.outcome}
        for call in calls
    ]


def confirmation(shown: dict[str, Any]) -> dict[str, Any]:
    """A confirmation as `Settling.shown` gives it, its times in RFC 3339."""
    return {**shown, "expires_at": rfc3339(shown["expires_at"])}


def turn(
    turn_id: str,
    name: str,
    message_id: str,
    answer: Message | None,
    cancelled: bool,
    extras: dict[str, Any],
    confirmations: list[dict[str, Any]],
) -> dict[str, Any]:
    """A turn's JSON: `{conversation, turn, message, answer, tools, confirmations, memories,
    notices}`; the answer of a cancelled turn is null."""
    return {
        "conversation": name,
        "turn": turn_id,
        "message": message_id,
        "answer": None if answer is None or cancelled else answer.text,
        "tools": [] if answer is None else tools(answer.tools),
        "confirmations": [confirmation(one) for one in confirmations],
        "memories": extras.get("memories", []),
        "notices": extras.get("notices", []),
    }
