"""Every fixed text that Mercury says to people, in one place."""

from __future__ import annotations

EMPTY_MESSAGE = "There was nothing to read in that message. What would you like to know?"
"""The answer to a message with nothing visible in it."""

APOLOGY = (
    "Sorry, I could not answer this message. It is kept, and the operator can see that it failed."
)
"""The answer of a turn that is set aside."""

STOPPED = "Stopped."
"""What stands in the place of a cancelled turn's answer."""

MODEL_AWAY = "The language model cannot be reached right now, so I cannot answer properly."
"""The plain sentence when the model is away."""

TOOK_TOO_LONG = "This took too long, so I stopped. Please ask again, or ask for less at once."
"""The plain sentence when an attempt's time is over."""

TOO_MUCH_TEXT = (
    "This is more text than the language model can read at once. Please send it in parts."
)
"""The plain sentence when even a shortened prompt is too long."""

TOO_MANY_CALLS = "I looked in many places and could not finish; this is what I have so far."
"""Ends an answer when the model keeps calling tools."""

ANSWER_CUT = "The answer was cut off because it became too long."
"""The notice beside an answer that ended before it was finished."""

ANSWER_WITHHELD = "The language model's server held back its answer to this (its content filter)."
"""The answer when a content filter took the model's."""

NOTHING_TO_CONFIRM = "There is nothing waiting for that confirmation."
"""The reply to a typed code when nothing waits."""

WRONG_CODE = "That code does not fit. After five wrong codes a request expires."
"""The reply to a typed code that fits nothing that waits."""

NO_MODEL = "No language model is configured; I can only quote what my memories hold."
"""The extractive responder's first line."""

NOTHING_FOUND = (
    "They hold nothing on that yet; whatever you tell me is kept and can be found. "
    "For real answers, set MODEL_URL and MODEL to a language model."
)
"""The extractive responder's answer without a hit."""

COULD_NOT_LOOK = "I could not look everywhere just now. Please ask again in a while."
"""The extractive responder's answer without a hit, when a memory could not be reached."""

NOTE_TAKEN = "I have taken a note of that."
"""The extractive responder's receipt for a note."""

NOTE_FAILED = "I could not take a note of that; your message itself is kept and can be found."
"""The extractive responder's answer when a note was not saved."""

KEPT_WITHOUT_WIKI = (
    "I have no notes yet, but your message is kept word for word and can be found again."
)
"""The extractive responder's answer to a note when there is no wiki."""


def settled(action: str, outcome: str) -> str:
    """What became of a staged action, for its person and for the history."""
    return f"{action}: {outcome}"
