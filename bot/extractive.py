"""The extractive responder: answers without a model, in quotes of what the memories hold.

It goes the way of every model: it asks for the tools that are offered, and answers from their
results. Its first line is fixed, then comes `> quote` and `— source, date` for each hit. It
needs no key and no network, so a first run works at once; the same quotes stand in when a
model is away. How a question becomes search words is `bot/search_words.py`'s.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import regex

from bot import words
from bot.model import Call, Piece, Prompt, Text, ToolSpec
from bot.prompt import SPACE_RULES
from bot.search_words import keywords
from bot.stop import Stop
from memory.terms import fold, tokens

Hit = Mapping[str, Any]
"""What a tool found: `text`; `at` (RFC 3339 or milliseconds), `author`, `path`, `line` if known."""

HITS = 5
"""Quotes in an answer; more are not read."""
LOOK = 8
"""Hits asked for in each memory, of which the best are quoted."""
QUOTE_CHARS = 300
SOURCE_CHARS = 80
SEARCHES = ("memory_search", "archive_search", "wiki_search")
_OURS = (
    words.NO_MODEL, words.MODEL_AWAY, words.NOTE_TAKEN, words.NOTE_FAILED, words.KEPT_WITHOUT_WIKI,
)  # fmt: skip
"""How answers begin that only repeat what is found anyway."""
_NOTE = regex.compile(
    r"\s*(?:/note\b\s*:?"
    r"|(?:please[, ]+)?(?:remember|note|don[’']t\s+forget|do\s+not\s+forget)(?:\s+that\b|\s*:)"
    r"|(?:bitte[, ]+)?(?:merke?\s+dir|notiere?(?:\s+dir)?|vergiss\s+nicht)"
    r"(?:\s+bitte)?(?:\s*,\s*dass\b|\s+dass\b|\s*[:,])"
    r"|(?:per\s+favore[, ]+)?(?:ricorda(?:ti)?|annota(?:ti)?|non\s+dimenticare)(?:\s+che\b|\s*:)"
    r"|(?:s[’']il\s+te\s+pla[iî]t[, ]+)?"
    r"(?:souviens-toi|rappelle-toi|retiens|note|n[’']oublie\s+pas)(?:\s+que\b|\s+qu[’']|\s*:)"
    r"|(?:por\s+favor[, ]+)?(?:recuerda|acu[eé]rdate(?:\s+de)?|anota|no\s+olvides)(?:\s+que\b|\s*:)"
    r")\s*(\S.*)",
    regex.IGNORECASE | regex.DOTALL,
)
_QUOTING = regex.compile(r"(?:\((?:quoting a message|attached [^\n]*):\n(?:>[^\n]*\n)*\)\n)+")
_SPEAKER = regex.compile(r"[^:\n]{1,100}: ")
_PIECE = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
    r"|[\p{L}\p{N}\p{M}]+"
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
        offered = {tool.name for tool in tools}
        question, after = _asked(prompt)
        note = _NOTE.fullmatch(question)
        if note is not None and not question.rstrip().endswith(("?", "？")):
            yield from _take_note(note[1].strip(), _results(after, ("wiki_write",)), offered)
            return
        searches = [name for name in SEARCHES if name in offered]
        results = [found for text in _results(after, SEARCHES) if (found := _parsed(text))]
        query = keywords(question)
        if query and searches and not results:
            for name in searches:
                yield Call(f"look_{name}", name, _json({"query": query, "limit": LOOK}))
            return
        hits = [hit for result in results for hit in _hits(result)]
        failed = any(result.get("ok") is not True for result in results)
        if failed and not hits:
            yield Text(f"{words.NO_MODEL}\n\n{words.COULD_NOT_LOOK}")
        else:
            yield Text(answer_from(question, hits))


def answer_from(question: str, hits: Sequence[Hit]) -> str:
    """The whole answer: the fixed line, and the quotes or a word that there are none.

    Args:
        question: the question, or its keywords.
        hits: what the tools found, in any order.
    """
    return f"{words.NO_MODEL}\n\n{quotes(question, hits) or words.NOTHING_FOUND}"


def quotes(question: str, hits: Sequence[Hit]) -> str:
    """The best hits as `> quote` and `— source, date`; '' without any.

    A text is quoted once; the question itself, whenever it was asked, and our own answers of
    quotes are left out.
    """
    wanted = frozenset(tokens(keywords(question) or question))
    shown: dict[str, str] = {}
    for hit in _best(question, wanted, hits):
        quote = _around(str(hit["text"]), wanted)
        shown.setdefault(fold(quote), f"> {quote}\n— {_source(hit)}{_day(hit.get('at'))}")
    return "\n\n".join(list(shown.values())[:HITS])


# -- which hits -----------------------------------------------------------------------------


def _best(question: str, wanted: frozenset[str], hits: Sequence[Hit]) -> list[Hit]:
    """The hits that say something on the question, those with most of its words first.

    What shares less than half as many words as the best is unrelated, unless it was found by
    meaning.
    """
    told = [hit for hit in hits if _tells(question, wanted, str(hit.get("text") or ""))]
    scores = [len(wanted.intersection(tokens(str(hit["text"])))) for hit in told]
    floor = max(scores, default=0) / 2
    kept = [
        (score, hit)
        for score, hit in zip(scores, told, strict=True)
        if "memory" in hit or (score and score >= floor)
    ]
    return [hit for _, hit in sorted(kept, key=lambda one: -one[0])]


def _tells(question: str, wanted: frozenset[str], text: str) -> bool:
    """Whether a text is more than the question asked again, or an answer of ours to it."""
    plain = text.strip()
    if not plain or plain.startswith(_OURS) or fold(plain) == fold(question.strip()):
        return False
    asks = plain.endswith(("?", "？"))
    return not (asks and wanted.issuperset(tokens(keywords(plain))))


# -- how a hit is shown ---------------------------------------------------------------------


def _around(text: str, wanted: frozenset[str]) -> str:
    """A readable piece of a text, on one line, where most of the words stand."""
    line = " ".join(text.split())
    if len(line) <= QUOTE_CHARS:
        return line
    first, last = _densest(line, wanted)
    begin = max(0, min((first + last - QUOTE_CHARS) // 2, len(line) - QUOTE_CHARS))
    end = begin + QUOTE_CHARS
    if begin:
        gap = line.find(" ", begin, min(begin + 25, max(first, begin)))
        begin = gap + 1 if gap >= 0 else begin
    if end < len(line):
        gap = line.rfind(" ", max(end - 25, last), end)
        end = gap if gap >= 0 else end
    return f"{'… ' if begin else ''}{line[begin:end].strip()}{' …' if end < len(line) else ''}"


def _densest(line: str, wanted: frozenset[str]) -> tuple[int, int]:
    """Where the stretch begins and ends that holds most different words within a quote's length."""
    found = [
        (match.start(), match.end(), term)
        for match in _PIECE.finditer(line)
        for term in tokens(match[0])
        if term in wanted
    ]
    best, place = 0, (0, 0)
    for at, (start, _, _) in enumerate(found):
        seen: set[str] = set()
        end = start
        for _, stop, term in found[at:]:
            if stop - start > QUOTE_CHARS:
                break
            if term not in seen:
                seen.add(term)
                end = stop
            if len(seen) == len(wanted):
                break
        if len(seen) > best:
            best, place = len(seen), (start, end)
        if best == len(wanted):
            break
    return place


def _source(hit: Hit) -> str:
    """Who said it, or the note and its line, or that it is a summary of ours."""
    source = str(hit.get("author") or hit.get("path") or "memory")
    if hit.get("path") and isinstance(hit.get("line"), int):
        source = f"{source}, line {hit['line']}"
    return " ".join(source.split())[:SOURCE_CHARS]


def _day(at: object) -> str:
    if isinstance(at, int):
        return f", {datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d}"
    return f", {str(at)[:10]}" if at else ""


# -- notes ----------------------------------------------------------------------------------


def _take_note(text: str, results: Sequence[str], offered: set[str]) -> Iterator[Piece]:
    """Writes a note through the tool, and says how it went.

    The path is a function of the text, and the same text written twice is one note; so a write
    of which an earlier attempt does not know how it went is simply made again.
    """
    if "wiki_write" not in offered:
        yield Text(words.KEPT_WITHOUT_WIKI)
        return
    if not results or results[-1].startswith("outcome unknown"):
        title = " ".join(text.split()[:8])[:80]
        arguments = {"path": _path(title, text), "text": f"# {title}\n\n{text}\n"}
        yield Call("write_note", "wiki_write", _json(arguments))
        return
    result = _parsed(results[-1]) or {}
    if result.get("ok") is True:
        yield Text(words.NOTE_TAKEN)
    else:
        yield Text(words.NOTE_TAKEN if results[-1] == "ok" else words.NOTE_FAILED)


def _path(title: str, text: str) -> str:
    slug = regex.sub(r"[^\p{L}\p{N}\p{M}]+", "-", unicodedata.normalize("NFC", title).lower())
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{slug[:40].strip('-') or 'note'}-{digest}.md"


# -- the prompt -----------------------------------------------------------------------------


def _asked(prompt: Prompt) -> tuple[str, Prompt]:
    """The person's last message as they wrote it, and what came after it."""
    places = [place for place, message in enumerate(prompt) if message["role"] == "user"]
    if not places:
        return "", ()
    text = str(prompt[places[-1]]["content"] or "")
    if quoting := _QUOTING.match(text):
        text = text[quoting.end() :]
    if SPACE_RULES in str(prompt[0]["content"]) and (speaker := _SPEAKER.match(text)):
        text = text[speaker.end() :]
    return text, prompt[places[-1] + 1 :]


def _results(after: Prompt, names: Sequence[str]) -> list[str]:
    """What the calls of these tools gave, in order."""
    called: dict[str, str] = {}
    found = []
    for message in after:
        for call in message.get("tool_calls") or ():
            called[call["id"]] = call["function"]["name"]
        if message["role"] == "tool" and called.get(message["tool_call_id"]) in names:
            found.append(str(message["content"]))
    return found


def _parsed(result: str) -> dict[str, Any] | None:
    """A tool's result; None for what is no result but only the outcome of an earlier one."""
    try:
        parsed = json.loads(result)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _hits(result: Mapping[str, Any]) -> list[Hit]:
    found = result.get("hits")
    return [hit for hit in found if isinstance(hit, dict)] if isinstance(found, list) else []


def _json(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False)


__all__ = ["ExtractiveModel", "answer_from", "keywords", "quotes"]
