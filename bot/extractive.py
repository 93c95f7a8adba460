"""The extractive responder: answers without a model, in quotes of what the memories hold.

It goes the way of every model: it asks for the tools that are offered, and answers from their
results. Its first line is fixed, then comes `> quote` and `— source, date` for each hit. It
needs no key and no network, so a first run works at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import regex

from bot import words
from bot.model import Call, Piece, Prompt, Text, ToolSpec
from bot.stop import Stop
from memory.terms import fold

HITS = 5
QUOTE_CHARS = 300
SEARCHES = ("memory_search", "archive_search", "wiki_search")
_NOTE = regex.compile(
    r"\s*(?:/note\b[:,]?|(?:please\s+)?remember(?:\s+that)?\b[:,]?|(?:bitte\s+)?merk(?:e)?\s+dir,?(?:\s+dass)?\b[:,]?"
    r"|souviens-toi(?:\s+que)?\b[:,]?|ricorda(?:ti)?(?:\s+che)?\b[:,]?|recuerda(?:\s+que)?\b[:,]?)\s*(\S.*)",
    regex.IGNORECASE | regex.DOTALL,
)
_WORD = regex.compile(r'"[^"]+"|[\p{L}\p{N}\p{M}][\p{L}\p{N}\p{M}\'’_.@-]*')
_STOP = frozenset(
    fold(word)
    for word in (
        "a an and any are as at be but by can could did do does for from had has have he her his "
        "how i in is it its me my of on or our please said say she should so tell than that the "
        "their them then there these they this to us was we were what when where which who why "
        "will with would you your about again remember know "
        "aber als am an auch auf aus bei bin bis bist da das dass dein dem den der des die dir du "
        "ein eine einem einen einer er es für hat habe haben ich ihr im in ist ja kann mein mich "
        "mir mit nach nicht noch oder sich sie sind so über um und uns unser von vom war waren "
        "was wann warum wer wie wir wird wo zu zum zur gesagt sagte "
        "au aux avec ce ces cette dans de des du elle en est et il je la le les leur lui ma mais "
        "me mes moi mon ne nous on ou par pas pour qu que quel quelle qui quoi quand sa se ses "
        "son sur ta te tes toi ton tu un une vos votre vous avons dit où comment pourquoi "
        "al alla che chi ci come con cosa cui da dal del della di dove e ed gli ha ho hai i il in "
        "io la le lo ma mi mio mia nel non o per perché più quale quando quanto questo se sei si "
        "sono su sul tra tu tuo un una uno abbiamo detto "
        "como con cual cuando de del donde el ella en es esta este ha he la las le lo los me mi "
        "mis no o para pero por porque que quien se si sin sobre son su sus te tu un una y ya yo"
    ).split()
)


class ExtractiveModel:
    """Answers from the tools' results; see the module."""

    @property
    def name(self) -> str:
        """`extractive`."""
        return "extractive"

    def stream(self, prompt: Prompt, tools: Sequence[ToolSpec], stop: Stop) -> Iterator[Piece]:
        """Asks for one search in each memory, then answers; see `bot.model.Model`."""
        stop.check()
        place = _last_of(prompt, "user")
        question = str(prompt[place]["content"]) if place is not None else ""
        results = [message for message in prompt[(place or 0) + 1 :] if message["role"] == "tool"]
        offered = {tool.name for tool in tools}
        if (note := _NOTE.fullmatch(question)) and not question.rstrip().endswith("?"):
            yield from _take_note(note[1], results, offered)
            return
        query = keywords(question)
        searches = [name for name in SEARCHES if name in offered]
        if query and searches and not results:
            for n, name in enumerate(searches):
                arguments = json.dumps({"query": query, "limit": HITS}, ensure_ascii=False)
                yield Call(f"look{n}", name, arguments)
            return
        yield Text(answer_from(query, [hit for result in results for hit in _hits(result)]))


def keywords(question: str) -> str:
    """The words of a question that are worth looking for; quotes stay quotes.

    A question of nothing but everyday words is looked for as it stands.
    """
    question = question.removeprefix("\ufeff")[:2_000]
    found = _WORD.findall(question)
    kept = [word for word in found if word.startswith('"') or fold(word.strip("'’.")) not in _STOP]
    return " ".join(dict.fromkeys(kept or found))[:400]


def answer_from(query: str, hits: Sequence[Mapping[str, Any]]) -> str:
    """The whole answer: the fixed line, and the quotes or a word that there are none."""
    found = quotes(query, hits)
    return f"{words.NO_MODEL}\n\n{found or words.NOTHING_FOUND}"


def quotes(query: str, hits: Sequence[Mapping[str, Any]]) -> str:
    """The best hits as `> quote` and `— source, date`; '' without any.

    A hit has `text` and `at`, and `author` or `path`; each text is quoted once.
    """
    shown: dict[str, str] = {}
    for hit in hits:
        quote = _around(str(hit.get("text", "")), query)
        if quote and quote not in shown:
            source = str(hit.get("path") or hit.get("author") or "memory")
            shown[quote] = f"> {quote}\n— {' '.join(source.split())[:80]}{_day(hit.get('at'))}"
    return "\n\n".join(list(shown.values())[:HITS])


def _take_note(
    text: str, results: Sequence[Mapping[str, Any]], offered: set[str]
) -> Iterator[Piece]:
    if "wiki_write" not in offered:
        yield Text(words.KEPT_WITHOUT_WIKI)
        return
    if not results:
        title = " ".join(text.split()[:6])
        slug = regex.sub(r"[^\p{L}\p{N}]+", "-", title.lower()).strip("-")[:60] or "note"
        arguments = {"path": f"{slug}.md", "text": f"# {title}\n\n{text.strip()}\n"}
        yield Call("note", "wiki_write", json.dumps(arguments, ensure_ascii=False))
        return
    result = _parsed(results[-1])
    if result.get("ok"):
        yield Text(f"{words.NOTE_TAKEN} ({result.get('path')}, {str(result.get('commit'))[:7]})")
    else:
        yield Text(words.NOTE_FAILED)


def _hits(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = _parsed(result).get("hits", [])
    return [hit for hit in found if isinstance(hit, dict)] if isinstance(found, list) else []


def _parsed(result: Mapping[str, Any]) -> dict[str, Any]:
    try:
        parsed = json.loads(str(result["content"]))
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _around(text: str, query: str) -> str:
    """A readable piece of a text, on one line, around the first word that was looked for."""
    line = " ".join(text.split())
    if len(line) <= QUOTE_CHARS:
        return line
    folded = fold(line)
    places = [folded.find(fold(word.strip('"'))) for word in query.split()]
    first = min((place for place in places if place >= 0), default=0)
    begin = max(0, min(first - QUOTE_CHARS // 4, len(line) - QUOTE_CHARS))
    piece = line[begin : begin + QUOTE_CHARS]
    if begin:
        piece = "… " + piece.partition(" ")[2]
    if begin + QUOTE_CHARS < len(line):
        piece = piece.rpartition(" ")[0] + " …"
    return piece


def _day(at: Any) -> str:
    if isinstance(at, int):
        return f", {datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d}"
    return f", {str(at)[:10]}" if at else ""


def _last_of(prompt: Prompt, role: str) -> int | None:
    places = [place for place, message in enumerate(prompt) if message["role"] == role]
    return places[-1] if places else None
