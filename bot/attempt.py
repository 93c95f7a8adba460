"""One attempt of one turn: from the taken work to the answer that is ready to be stored.

Takes a turn's work and gives its answer; knows nothing of pools, leases or channels. Whatever
the model does has an outcome here: text, tool calls, silence, refusal, a prompt too long.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bot import extractive, prompt, words
from bot.model import (
    Call,
    ContextTooLong,
    Cut,
    Model,
    ModelAway,
    ModelRefused,
    Reset,
    Text,
)
from bot.scope import Kind, Scope
from bot.stop import Stop, Stopped
from bot.tools import MAX_CALLS, Context, Ran, Toolbox, parse_arguments
from memory import recap
from memory.archive import Archive
from memory.clock import Clock
from memory.confirmations import Confirmations
from memory.conversation import History, cut_arguments, prepare
from memory.errors import NotFound, StoreDown
from memory.histories import Histories
from memory.records import Message, ToolCall
from memory.text import is_blank
from memory.turns import Answer, Turns, Work

log = logging.getLogger(__name__)

Emit = Callable[[str, dict[str, Any]], None]

UNKNOWN_OUTCOME = "outcome unknown: look first"
RECAP_EXCHANGES = 6
"""How many last exchanges a recap may draw on when no line describes them yet."""
ANSWER_CHARS = 100_000


@dataclass(slots=True)
class _Said:
    """What a turn has said and done so far."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    confirmations: list[str] = field(default_factory=list)
    notices: list[dict[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n".join(text for text in self.texts if text.strip())


@dataclass(frozen=True, slots=True)
class Attempts:
    """What every attempt works with.

    `secrets` are texts that never leave; `step` is called at the points where a trial may stop
    the process.
    """

    archive: Archive
    histories: Histories
    turns: Turns
    confirmations: Confirmations
    model: Model
    toolbox: Toolbox
    clock: Clock
    persona: str
    limit: int
    secrets: tuple[str, ...]
    step: Callable[[str], None]

    def run(self, work: Work, stop: Stop, emit: Emit) -> tuple[Answer, History]:
        """Makes the answer, and gives the history that it was made from.

        Raises:
            Stopped: the turn was cancelled or is handed over.
            Fenced: another process has the turn.
            StoreDown: the archive cannot be reached.
        """
        history = self._history(work)
        if is_blank(work.message.text):
            return Answer(words.EMPTY_MESSAGE), history
        said = _Said(calls=list(work.calls), confirmations=self._staged_before(work))
        try:
            self._converse(work, history, said, stop, emit)
        except Stopped as stopped:
            if stopped.why != "deadline":
                raise
            self._give_up(work, said, emit, words.TOOK_TOO_LONG, "deadline", look=False)
        except ModelRefused as error:
            log.error("the model refuses us: %s", error)
            self._give_up(work, said, emit, words.MODEL_AWAY, "refused", look=True)
        except ModelAway as error:
            log.warning("the model is away: %s", error)
            self._give_up(work, said, emit, words.MODEL_AWAY, "away", look=True)
        except ContextTooLong:
            self._give_up(work, said, emit, words.TOO_MUCH_TEXT, "too long", look=True)
        extras = {"confirmations": said.confirmations, "notices": said.notices, "memories": []}
        return Answer(self._without_secrets(said.text), tuple(said.calls), extras), history

    def _staged_before(self, work: Work) -> list[str]:
        """What an earlier attempt of this turn staged; it still waits."""
        if not work.calls:
            return []
        return [one.id for one in self.confirmations.of_turn(work.turn.id)]

    # -- the history and the recap ----------------------------------------------------------

    def _history(self, work: Work) -> History:
        history = self.histories.hold(work)
        if work.conversation.previous and work.conversation.recap is None:
            text = self._recap(work.conversation.previous)
            history.recap, history.stamp = self.archive.set_recap(work.conversation.id, text)
            history.size += len(history.recap)
        return history

    def _recap(self, previous: str) -> str:
        before = self.archive.conversation(None, previous)
        exchange = self.archive.last_exchanges(previous, RECAP_EXCHANGES)
        ended = max([before.started_at, *(message.at for message in exchange)])
        return recap.compose(self.archive.lines(before), exchange, before.started_at, ended)

    # -- the model and its tools ------------------------------------------------------------

    def _converse(self, work: Work, history: History, said: _Said, stop: Stop, emit: Emit) -> None:
        scope = scope_of(work)
        message = prepare(work.message, shared=scope.kind == "space")[0]
        quoted = json.loads(work.turn.target).get("quoted")
        if quoted:
            message = prompt.quoted_message(work.message, quoted, message)
        limit, earlier = self.limit, tuple(said.calls)

        def build() -> list[dict[str, Any]]:
            return prompt.build(
                self.persona, scope, history, message, self.clock.now(), limit, earlier
            )

        messages = build()
        self.step("prompted")
        while True:
            try:
                text, calls = self._ask(messages, said, stop, emit)
            except ContextTooLong:
                if limit < self.limit or len(said.texts) > 0:
                    raise
                limit = min(history.size, self.limit) // 2
                messages = build()
                continue
            said.texts.append(text)
            if not calls:
                return
            room = MAX_CALLS - len(said.calls)
            if room <= 0:
                said.texts.append(words.TOO_MANY_CALLS)
                emit("text", {"delta": "\n\n" + words.TOO_MANY_CALLS})
                return
            messages = [*messages, _asked(text, calls[:room])]
            for call in calls[:room]:
                ran = self._call(work, scope, call, said, stop, emit)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": ran.result})
            if text.strip():
                emit("text", {"delta": "\n\n"})

    def _ask(
        self, messages: list[dict[str, Any]], said: _Said, stop: Stop, emit: Emit
    ) -> tuple[str, list[Call]]:
        """One answer of the model: its text and its calls."""
        texts: list[str] = []
        calls: list[Call] = []
        for piece in self.model.stream(messages, self.toolbox.specs, stop):
            if isinstance(piece, Text):
                texts.append(piece.delta)
                emit("text", {"delta": piece.delta})
            elif isinstance(piece, Call):
                calls.append(piece)
            elif isinstance(piece, Reset):
                texts.clear()
                calls.clear()
                emit("reset", {})
                if said.text:
                    emit("text", {"delta": said.text + "\n\n"})
            elif isinstance(piece, Cut):
                said.notices.append({"store": "model", "text": words.ANSWER_CUT})
        return "".join(texts), calls

    def _call(
        self, work: Work, scope: Scope, call: Call, said: _Said, stop: Stop, emit: Emit
    ) -> Ran:
        stop.check()
        n = len(said.calls) + 1
        tool = self.toolbox.find(call.name)
        record = ToolCall(
            n, call.name[:64], _remembered(call.arguments), UNKNOWN_OUTCOME,
            tool is not None and tool.effect == "reads",
        )  # fmt: skip
        emit("tool", {"n": n, "name": record.name, "arguments": json.loads(record.arguments)})
        if tool is not None and tool.effect != "reads":
            self.turns.record_call(work, record)
            self.step("tool_recorded")
        context = Context(scope, work.turn.id, n, lambda: self.turns.check_fence(work))
        ran = self.toolbox.run(tool, call.name, call.arguments, context, stop)
        if ran.staged is not None:
            confirmation = self.confirmations.stage(
                scope.person, work.turn.key, work.turn.conversation, work.turn.id,
                ran.staged.action, ran.staged.content,
            )  # fmt: skip
            said.confirmations.append(confirmation.id)
            emit("confirmation", {"id": confirmation.id})
        done = ToolCall(n, record.name, record.arguments, ran.outcome, record.reads)
        said.calls.append(done)
        if tool is not None and tool.effect != "reads":
            self.turns.record_call(work, done)
        emit("tool_finished", {"n": n, "outcome": ran.outcome})
        return ran

    # -- when there is no whole answer --------------------------------------------------------

    def _give_up(
        self, work: Work, said: _Said, emit: Emit, sentence: str, why: str, look: bool
    ) -> None:
        """Puts one plain sentence, and what the memories hold, in the place of an answer."""
        text = sentence
        if look and (found := self._found(work)):
            text += "\n\n" + found
            n = len(said.calls) + 1
            arguments = cut_arguments({"query": extractive.keywords(work.message.text)})
            said.calls.append(ToolCall(n, "archive_search", arguments, "ok", True))
        said.texts[:] = [text]
        notice = {"store": "model", "text": sentence}
        said.notices.append(notice)
        emit("reset", {})
        emit("text", {"delta": text})
        emit("notice", notice)
        log.warning("a turn ended without the model: %s", why)

    def _found(self, work: Work) -> str:
        query = extractive.keywords(work.message.text)
        if not query:
            return ""
        try:
            page = self.archive.search(scope_of(work), query, 3, without_turn=work.turn.id)
        except (StoreDown, NotFound):
            return ""
        return extractive.quotes(query, [_hit(message) for message in page.items])

    def _without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "•••")
        return text[:ANSWER_CHARS]


def scope_of(work: Work) -> Scope:
    """The scope of the person whose turn it is, as the channel authenticated it."""
    kind: Any = work.turn.kind
    scope_kind: Kind = kind
    return Scope(work.turn.person, scope_kind, work.turn.space)


def _asked(text: str, calls: list[Call]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _valid(call.arguments)},
            }
            for call in calls
        ],
    }


def _valid(arguments: str) -> str:
    """Arguments that a server's template can read; malformed ones are given back as text."""
    try:
        parse_arguments(arguments)
    except ValueError:
        return json.dumps({"malformed": arguments[:1_000]})
    return arguments or "{}"


def _remembered(arguments: str) -> str:
    try:
        return cut_arguments(parse_arguments(arguments))
    except ValueError:
        return cut_arguments({"malformed": arguments[:300]})


def _hit(message: Message) -> dict[str, Any]:
    return {
        "message": message.id,
        "conversation": message.conversation,
        "at": message.at,
        "author": message.name or message.author,
        "text": message.text,
    }
