"""Every fixed text that Mercury says to people, in one place."""

from __future__ import annotations

from collections.abc import Mapping

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

NO_IMAGES = "The language model does not take images, so it has not seen yours."
"""The notice when images could not be given to the model."""

AWAY = {
    "archive": "I could not look into what was said earlier.",
    "wiki": "I could not look into the notes.",
    "memory": "I could not look into my long-term memory.",
}
"""The notice when a memory could not be reached, by its name; once in a conversation."""

ANSWER_WITHHELD = "The language model's server held back its answer to this (its content filter)."
"""The answer when a content filter took the model's."""

WORKING = "Working on it…"
"""What stands in the place of an answer that takes long."""

NOTHING_TO_SHOW = "The answer has nothing in it that could be shown."
"""The answer of which the channel can show nothing."""

TOO_LONG_TO_SHOW = (
    "Chat finds this part of the answer too long. It is kept; ask me for it in pieces."
)
"""What stands in the place of a part that Chat does not take, however it is cut."""

CARD_TITLE = "Please confirm"
"""The title of a card that asks for a confirmation."""

ON_A_PAGE = "This is too long to be shown here. Please read it on its page and decide there."
"""On a card whose content does not fit."""

BEING_DONE = "Confirmed; it is being done."
"""On the page of what was confirmed and has not ended yet."""

TOO_LONG_FOR_A_CARD = (
    "This is too long to be shown here, and Mercury has no page (PUBLIC_URL) to show it on."
)
"""On a card whose content does not fit when there is no page."""

QUESTIONS = {
    "wiki.promote": "Put {path} into the common area, as {to}? Everybody will read it there.",
    "wiki.write": "Write {to}, in the common area? Everybody reads it there.",
    "wiki.delete": "Delete {to} from the common area?",
}
"""What a confirmation asks, by its action."""

SETTLED = {
    "wiki.promote": "Put into the common area",
    "wiki.write": "Written in the common area",
    "wiki.delete": "Deleted from the common area",
}
"""How a confirmed action is named afterwards."""

WHY = {"changed": "it has changed meanwhile, so nothing was done; please ask again"}
"""Why an action failed, by what the archive keeps of it."""

WELCOME = (
    "Hello, I am Mercury, an assistant with memory.\n\n"
    "Write to me in a direct message, or mention me in a space; every thread is a conversation. "
    "`/help` says what else I understand.\n\n"
    "I keep what is said to me, word for word, so that I can find it again: what you say in "
    "private is used for you alone, what is said in a space stays in that space. `/memory` and "
    "`/forget` say what you can see of it and take back. Nothing becomes common knowledge unless "
    "somebody confirms it."
)
"""Said once when Mercury is added to a space or a direct message; at most 600 characters."""

HELP = (
    "Just write to me. I also understand:\n\n"
    "- `/new`: begin a new conversation\n"
    "- `/recap`: what was said last, in short\n"
    "- `/memory`: what I remember\n"
    "- `/forget`: make me forget\n"
    "- `/web`: a link to the web pages\n"
    "- `/stop`: stop what I am doing\n"
    "- `/help`: this list\n\n"
    "In a space, mention me with it."
)
"""The answer to `/help`."""

NEW_CONVERSATION = (
    "Your next message begins a new conversation. A short recap of this one goes with it; "
    "everything said stays in the archive."
)
"""The answer to `/new`."""

NOTHING_TO_STOP = "I am not working on anything of yours here."
"""The answer to `/stop` when nothing runs."""

NOTHING_TO_RECAP = "Nothing has been said here yet."
"""The answer to `/recap` before the first message."""

NO_LONG_TERM_MEMORY = (
    "This version has no long-term memory yet. What was said here is in the archive, word for "
    "word; just ask me for it."
)
"""The answer to `/memory`."""

NO_FORGETTING = "This version cannot forget yet; the operator can remove what must go."
"""The answer to `/forget`."""

NO_WEB_PAGES = "This version has no web pages yet."
"""The answer to `/web`."""

NOT_YET = {"memory": NO_LONG_TERM_MEMORY, "forget": NO_FORGETTING, "web": NO_WEB_PAGES}
"""The answers to the commands whose memory does not exist in this version."""

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


def receipt(path: str, commit: str, is_shared: bool = True) -> str:
    """What a person is told of a note that was written for them.

    Args:
        path: as its person names it.
        commit: '' for a note that said the same already.
        is_shared: whether every machine has it.
    """
    if not is_shared:
        return f"Kept: `{path}`. It is saved as soon as the shared repository can be reached."
    return f"Saved: `{path}` ({commit[:7]})" if commit else f"Unchanged: `{path}`"


def or_type(code: str) -> str:
    """On a card, how to decide by typing."""
    return f"Or type: confirm {code}, cancel {code}"


def question(action: str, content: Mapping[str, object]) -> str:
    """What a confirmation asks, in one line."""
    asked = QUESTIONS.get(action)
    if asked is not None:
        return asked.format(path=content.get("path", ""), to=content.get("to", ""))
    told = " → ".join(str(content[name]) for name in ("path", "to") if content.get(name))
    return f"{action}: {told}" if told else f"{action}?"


def card_settled(action: str, state: str, outcome: str) -> str:
    """What a settled card says."""
    named = SETTLED.get(action, action)
    if state == "done":
        return f"✅ {named}: {outcome}"
    if state == "cancelled":
        return f"Cancelled: {named}"
    if state == "expired":
        return f"Expired: {named}. Please ask again."
    return f"❌ {named}: {WHY.get(outcome, outcome)}"


def attachment_failed(name: str, why: str) -> str:
    """The notice for an attached file that could not be read."""
    return f"I could not read {name}: {why}."


def settled(action: str, outcome: str) -> str:
    """What became of a staged action, for its person and for the history."""
    why = WHY.get(outcome.removeprefix("failed: "))
    return f"{SETTLED.get(action, action)}: {f'failed: {why}' if why else outcome}"
