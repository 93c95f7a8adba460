"""What is answered to the commands that take their place among the messages."""

from __future__ import annotations

from bot import words
from bot.commands import command_of
from memory import recap
from memory.archive import Archive
from memory.turn_rows import Work

RECAP_EXCHANGES = 6
"""How many last exchanges a recap may draw on when no line describes them yet."""


class CommandAnswers:
    """Answers commands, without a model.

    Args:
        archive: what was said.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def answer(self, work: Work) -> str:
        """The answer to a command.

        Raises:
            StoreDown: the archive cannot be reached.
        """
        command = command_of(f"/{work.turn.command}")
        if command is not None and command.name == "recap":
            return self._recap(work.conversation.id)
        fixed = {"new": words.NEW_CONVERSATION, **words.NOT_YET}
        return fixed.get(command.name if command else "", words.HELP)

    def _recap(self, conversation: str) -> str:
        if not conversation:
            return words.NOTHING_TO_RECAP
        return recap_of(self._archive, conversation) or words.NOTHING_TO_RECAP


def recap_of(archive: Archive, conversation: str) -> str:
    """The recap of a conversation as it stands now; '' when nothing was said in it."""
    found = archive.conversation(None, conversation)
    exchange = archive.last_exchanges(conversation, RECAP_EXCHANGES)
    if not exchange:
        return ""
    ended = max([found.started_at, *(message.at for message in exchange)])
    return recap.compose(archive.lines(found), exchange, found.started_at, ended)
