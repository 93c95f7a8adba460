"""One attempt of one turn: from the taken work to the answer that is ready to be stored.

Takes a turn's work and gives its answer; knows nothing of pools, leases or channels. Whatever
the model does has an outcome here: text, tool calls, silence, refusal, a prompt too long.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from bot import extractive, prompt, words
from bot.command_answers import recap_of
from bot.links import LinkRule
from bot.material import Material, Materials
from bot.model import (
    Call,
    ContextTooLong,
    Cut,
    Model,
    ModelAway,
    ModelRefused,
    RemoteModel,
    Reset,
    Text,
)
from bot.outgoing import Emit, Outgoing
from bot.receipts import without_forged
from bot.scope import Kind, Scope
from bot.stop import Stop, Stopped
from bot.tools import MAX_CALLS, Context, Ran, Tool, Toolbox, parse_arguments
from memory.archive import Archive
from memory.clock import Clock
from memory.confirmations import Confirmations
from memory.conversation import History, cut_arguments, prepare
from memory.errors import NotFound, StoreDown
from memory.histories import Histories
from memory.records import Message, ToolCall
from memory.text import is_blank
from memory.turn_rows import Answer, Work
from memory.turns import Turns

log = logging.getLogger(__name__)

UNKNOWN_OUTCOME = "outcome unknown: look first"
ANSWER_CHARS = 100_000
_CODE_LIKE = re.compile(r"[A-Z0-9]{4}-[A-Z0-9]{4}|cf_[\w-]+\.")
"""What a confirmation's code or token looks like."""


@dataclass(slots=True)
class _Said:
    """What a turn has said and done so far.

    `results` are what its tools gave back, and `outgoing` shows its text to whoever watches.
    """

    outgoing: Outgoing
    calls: list[ToolCall]
    confirmations: list[str]
    results: list[str]
    texts: list[str] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)
    notices: list[dict[str, str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n".join(text for text in self.texts if text.strip())

    @property
    def next_call(self) -> int:
        return max((call.n for call in self.calls), default=0) + 1


@dataclass(frozen=True, slots=True)
class Leaving:
    """What may leave in an answer.

    `secrets` are texts that never do, nor do the tokens and codes that `codes` gives for a
    person; `hosts` are those whose links always may, `*` for all.
    """

    secrets: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    codes: Callable[[str], Sequence[str]] = lambda _: ()

    def without_secrets(self, person: str, text: str) -> str:
        """The text with every secret blotted out."""
        secrets = self.secrets
        if _CODE_LIKE.search(text):
            secrets = (*secrets, *self.codes(person))
        for secret in secrets:
            text = text.replace(secret, "•••")
        return text[:ANSWER_CHARS]


@dataclass(frozen=True, slots=True)
class Attempts:
    """What every attempt works with.

    `materials` fetches what is attached to a message, `titles` lists the notes that a scope may
    read; `step` is called at the points where a trial may stop the process.
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
    leaving: Leaving
    materials: Mapping[str, Materials]
    titles: Callable[[Scope], str]
    step: Callable[[str], None]

    def run(self, work: Work, stop: Stop, emit: Emit) -> tuple[Answer, History]:
        """Makes the answer, and gives the history that it was made from.

        Raises:
            Stopped: the turn was cancelled or is handed over.
            Fenced: another process has the turn.
            StoreDown: the archive cannot be reached.
        """
        history = self._history(work)
        target = json.loads(work.turn.target)
        is_bare = not target.get("quoted") and not target.get("attachments")
        if is_bare and is_blank(work.message.text):
            return Answer(words.EMPTY_MESSAGE), history
        results: list[str] = []
        said = _Said(
            Outgoing(self._cleaner(work, results), emit), list(work.calls),
            self._staged_before(work), results,
        )  # fmt: skip
        try:
            self._converse(work, history, target, said, stop, emit)
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
        text = said.outgoing.finish(said.text)
        if said.receipts and work.turn.kind == "space":
            extras["receipts"] = said.receipts  # what is private is told in private
        elif said.receipts:
            text = said.outgoing.close(text, "\n\n" + "\n".join(said.receipts))
        return Answer(text, tuple(said.calls), extras, told=tuple(said.told)), history

    def _cleaner(self, work: Work, results: list[str]) -> Callable[[str], str]:
        """How the turn's texts are cleaned; every result that comes may vouch for more links."""

        @lru_cache
        def typed(host: str) -> list[str]:
            return self.archive.typed(work.conversation.id, host, work.turn.seq)

        @lru_cache(maxsize=1)
        def rule(count: int) -> LinkRule:
            """The rule that so many results make; it remembers what they vouch for."""
            return LinkRule(
                self.leaving.hosts, lambda host: [work.message.text, *typed(host), *results]
            )

        def clean(text: str) -> str:
            kept = self.leaving.without_secrets(work.turn.person, without_forged(text))
            return rule(len(results)).clean(kept)

        return clean

    def _staged_before(self, work: Work) -> list[str]:
        """What an earlier attempt of this turn staged; it still waits."""
        if not work.calls:
            return []
        return [one.id for one in self.confirmations.of_turn(work.turn.id)]

    # -- the history and the recap ----------------------------------------------------------

    def _history(self, work: Work) -> History:
        history = self.histories.hold(work)
        if work.conversation.previous and work.conversation.recap is None:
            text = recap_of(self.archive, work.conversation.previous)
            history.recap, history.stamp = self.archive.set_recap(work.conversation.id, text)
            history.size += len(history.recap)
        return history

    # -- the model and its tools ------------------------------------------------------------

    def _converse(
        self, work: Work, history: History, target: dict[str, Any], said: _Said, stop: Stop,
        emit: Emit,
    ) -> None:  # fmt: skip
        scope = scope_of(work)
        earlier = self._looked_back(work, scope, said)
        materials = self._attached(work, target, said, stop)
        plain = prepare(work.message, shared=scope.kind == "space")[0]
        if target.get("quoted"):
            plain = prompt.with_quoted(str(target["quoted"]), plain)
        images, limit = isinstance(self.model, RemoteModel), self.limit
        titles = self._titles(work, scope, said, emit)

        def build() -> list[dict[str, Any]]:
            message = prompt.with_materials(materials, plain, images)
            return prompt.build(
                self.persona, scope, history, message, self.clock.now(), limit, earlier, titles
            )

        messages = build()
        self.step("prompted")
        while True:
            try:
                text, calls = self._ask(messages, said, stop)
            except ContextTooLong:
                if limit < self.limit or len(said.texts) > 0:
                    raise
                limit = min(history.size, self.limit) // 2
                messages = build()
                continue
            except ModelRefused:
                if not images or said.texts or not any(one.image_url for one in materials):
                    raise
                images = False
                said.notices.append({"store": "attachment", "text": words.NO_IMAGES})
                messages = build()
                continue
            said.texts.append(text)
            if not calls:
                return
            room = MAX_CALLS - len(said.calls)
            if room <= 0:
                said.texts.append(words.TOO_MANY_CALLS)
                return
            messages = [*messages, _asked(text, calls[:room])]
            for call in calls[:room]:
                ran = self._call(work, scope, call, said, stop, emit)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": ran.result})
            if text.strip():
                said.outgoing.add("\n\n")

    def _titles(self, work: Work, scope: Scope, said: _Said, emit: Emit) -> str:
        """The notes that there are; none while the wiki is away, which the person is told."""
        try:
            return self.titles(scope)
        except StoreDown:
            self._could_not_look(work, "wiki", said, emit)
            return ""

    def _looked_back(self, work: Work, scope: Scope, said: _Said) -> tuple[ToolCall, ...]:
        """The calls of an earlier attempt, those whose outcome is unknown looked up."""
        for at, call in enumerate(said.calls):
            tool = self.toolbox.find(call.name)
            if call.outcome != UNKNOWN_OUTCOME or tool is None:
                continue
            ran = self.toolbox.look_back(tool, self._context(work, scope, call.n))
            if ran is not None:
                said.calls[at] = replace(call, outcome=ran.outcome)
                said.results.append(ran.result)
                if ran.receipt:
                    said.receipts.append(ran.receipt)
                self.turns.record_call(work, said.calls[at])
        return tuple(said.calls)

    def _context(self, work: Work, scope: Scope, n: int) -> Context:
        return Context(
            scope, work.turn.id, n, lambda: self.turns.check_fence(work), work.message.id
        )

    def _attached(
        self, work: Work, target: dict[str, Any], said: _Said, stop: Stop
    ) -> list[Material]:
        """What is attached, each file remembered as a call that read it."""
        if not target.get("attachments") or work.turn.channel not in self.materials:
            return []
        materials = self.materials[work.turn.channel](work.turn, stop)
        for one in materials:
            outcome = f"failed: {one.why}" if one.why else "ok"
            arguments = cut_arguments({"name": one.name})
            said.calls.append(
                ToolCall(said.next_call, "attachment_read", arguments, outcome, reads=True)
            )
            if one.text:
                said.results.append(one.text)
            if one.why:
                text = words.attachment_failed(one.name, one.why)
                said.notices.append({"store": "attachment", "text": text})
        return materials

    def _ask(
        self, messages: list[dict[str, Any]], said: _Said, stop: Stop
    ) -> tuple[str, list[Call]]:
        """One answer of the model: its text and its calls."""
        texts: list[str] = []
        calls: list[Call] = []
        for piece in self.model.stream(messages, self.toolbox.specs, stop):
            if isinstance(piece, Text):
                texts.append(piece.delta)
                said.outgoing.add(piece.delta)
            elif isinstance(piece, Call):
                calls.append(piece)
            elif isinstance(piece, Reset):
                texts.clear()
                calls.clear()
                said.outgoing.begin_again(f"{said.text}\n\n" if said.text else "")
            elif isinstance(piece, Cut):
                said.notices.append({"store": "model", "text": words.ANSWER_CUT})
        said.outgoing.settle()
        return "".join(texts), calls

    def _call(
        self, work: Work, scope: Scope, call: Call, said: _Said, stop: Stop, emit: Emit
    ) -> Ran:
        stop.check()
        n = said.next_call
        tool = self.toolbox.find(call.name)
        context = self._context(work, scope, n)
        record = ToolCall(
            n, call.name[:64], _remembered(tool, context, call.arguments), UNKNOWN_OUTCOME,
            tool is not None and tool.effect == "reads",
        )  # fmt: skip
        emit("tool", {"n": n, "name": record.name, "arguments": json.loads(record.arguments)})
        if tool is not None and tool.effect != "reads":
            self.turns.record_call(work, record)
            self.step("tool_recorded")
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
        said.results.append(ran.result)
        if ran.receipt:
            said.receipts.append(ran.receipt)
        if tool is not None and tool.effect != "reads":
            self.turns.record_call(work, done)
        emit("tool_finished", {"n": n, "outcome": ran.outcome})
        if tool is not None and ran.store_is_down:
            self._could_not_look(work, tool.store, said, emit)
        return ran

    @staticmethod
    def _could_not_look(work: Work, store: str, said: _Said, emit: Emit) -> None:
        """Tells of a memory that is away, once in a conversation."""
        if not store or store in work.conversation.told or store in said.told:
            return
        said.told.append(store)
        said.notices.append({"store": store, "text": words.AWAY[store]})
        emit("notice", said.notices[-1])

    # -- when there is no whole answer --------------------------------------------------------

    def _give_up(
        self, work: Work, said: _Said, emit: Emit, sentence: str, why: str, look: bool
    ) -> None:
        """Puts one plain sentence, and what the memories hold, in the place of an answer."""
        text = sentence
        if look and (found := self._found(work)):
            said.results += found
            text += "\n\n" + found[0]
            arguments = cut_arguments({"query": extractive.keywords(work.message.text)})
            said.calls.append(ToolCall(said.next_call, "archive_search", arguments, "ok", True))
        said.texts[:] = [text]
        notice = {"store": "model", "text": sentence}
        said.notices.append(notice)
        said.outgoing.begin_again(text)
        emit("notice", notice)
        log.warning("a turn ended without the model: %s", why)

    def _found(self, work: Work) -> list[str]:
        """Quotes of what the archive holds on the question, and the texts that they are from."""
        query = extractive.keywords(work.message.text)
        if not query:
            return []
        try:
            page = self.archive.search(scope_of(work), query, 3, without_turn=work.turn.id)
        except (StoreDown, NotFound):
            return []
        quotes = extractive.quotes(query, [_hit(message) for message in page.items])
        return [quotes, *(message.text for message in page.items)] if quotes else []


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


def _remembered(tool: Tool | None, context: Context, arguments: str) -> str:
    try:
        parsed = parse_arguments(arguments)
        if tool is not None and tool.remembered is not None:
            parsed = tool.remembered(context, parsed)
        return cut_arguments(parsed)
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
