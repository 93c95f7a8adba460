"""Words as the search index knows them. Pure; shared by indexing and by queries.

A term is a folded word, one character of a script that is written without spaces, or one emoji.
In the index each term begins with the short key of the memory that it belongs to, so that the
scope is a part of the term itself. `tokens` decides what a term is; change it, and the index has
to be built anew.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import regex

WORD_CHARS = 64
"""A longer run of letters is cut into terms of this length."""
TEXT_TERMS = 20_000
QUERY_WORDS = 32
QUERY_QUOTES = 8

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_WORD = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー]\p{M}*"
    r"|(?:\p{Extended_Pictographic}|\p{Regional_Indicator})(?:[\u200d\ufe0f\U0001f3fb-\U0001f3ff]"
    r"|(?<=\u200d)\p{Extended_Pictographic}|\p{Regional_Indicator})*"
    r"|[\p{L}\p{N}\p{M}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}"
    r"\p{Myanmar}\p{Tibetan}]]+"
    r"|[\p{So}\p{Sc}\p{Sm}]",
    regex.VERSION1,
)
_MARKED = regex.compile(r"([\p{Latin}\p{Greek}\p{Cyrillic}])\p{M}+")
_POINTS = regex.compile(
    r"[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670\u0640]"
)
_FLOOD = regex.compile(r"(\p{M}{8})\p{M}+")
"""Normalising sorts the marks of one letter, in time that grows with their square."""
_SPACELESS = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
)
_QUOTED = regex.compile(r'"([^"]*)(?:"|$)|“([^”]*)(?:”|$)|„([^“”]*)(?:[“”]|$)|«([^»]*)(?:»|$)')


Clauses = tuple[tuple[tuple[str, ...], ...], ...]
"""What a message has to hold: every clause, that is any of its phrases, that is their scoped
terms one after the other."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for: words (each a run of terms that follow one another) and exact quotes."""

    words: tuple[tuple[str, ...], ...]
    quotes: tuple[str, ...]


def tokens(text: str) -> list[str]:
    """The terms of a text, in order.

    Folded by NFKC and case; marks of Latin, Greek and Cyrillic letters, Hebrew points and Arabic
    vowel signs go, those of other scripts stay.
    """
    if text.isascii():
        found = _ASCII_WORD.findall(text.lower())
        if len(text) > WORD_CHARS and any(len(word) > WORD_CHARS for word in found):
            found = [piece for word in found for piece in _pieces(word)]
        return found[:TEXT_TERMS]
    found = [piece for word in _WORD.findall(fold(text)) for piece in _pieces(word)]
    return found[:TEXT_TERMS]


def fold(text: str) -> str:
    """The form in which letters are compared."""
    text = _FLOOD.sub(r"\1", text)
    folded = unicodedata.normalize("NFKC", text).casefold()
    bare = _MARKED.sub(r"\1", unicodedata.normalize("NFD", folded))
    return unicodedata.normalize("NFKC", _POINTS.sub("", bare))


def _pieces(word: str) -> list[str]:
    return [word[at : at + WORD_CHARS] for at in range(0, len(word), WORD_CHARS)]


@lru_cache(maxsize=10_000)
def scope_key(owner: str) -> str:
    """The short key of a memory: ten letters and digits of a hash.

    Two memories with one key would only cost time: the owner is checked on every hit.
    """
    digest = hashlib.blake2b(owner.encode(), digest_size=7).digest()
    return base64.b32encode(digest)[:10].decode().lower()


def scoped(terms: list[str], key: str) -> list[str]:
    """What is indexed: every term with the key in front of it."""
    return [key + term for term in terms]


def parse_query(text: str) -> Query:
    """What a person or a model typed as a query; quotes of several languages are known."""
    quotes = []
    for groups in _QUOTED.findall(text[:2_000]):
        quote = " ".join("".join(groups).split())
        if tokens(quote):
            quotes.append(quote)
    rest = _QUOTED.sub(" ", text[:2_000])
    words = [run for word in rest.split() for run in _runs(word)]
    return Query(tuple(dict.fromkeys(words))[:QUERY_WORDS], tuple(quotes[:QUERY_QUOTES]))


def _runs(word: str) -> list[tuple[str, ...]]:
    """A typed word as runs of terms: characters of a spaceless script stay together."""
    runs: list[tuple[str, ...]] = []
    for term in tokens(word):
        together = runs and _SPACELESS.match(term) and _SPACELESS.match(runs[-1][-1])
        if together:
            runs[-1] = (*runs[-1], term)
        else:
            runs.append((term,))
    return runs


def all_of(query: Query, key: str) -> Clauses:
    """Clauses for messages that hold every word and quote; none for nothing."""
    return tuple((_phrase(run, key),) for run in _all_runs(query))


def any_of(query: Query, key: str) -> Clauses:
    """Clauses for messages that hold any of the words, and every quote; none for one word."""
    if len(query.words) < 2:
        return ()
    quotes = tuple((_phrase(tuple(tokens(quote)), key),) for quote in query.quotes)
    return (*quotes, tuple(_phrase(run, key) for run in query.words))


def _all_runs(query: Query) -> list[tuple[str, ...]]:
    return [*query.words, *(tuple(tokens(quote)) for quote in query.quotes)]


def _phrase(run: tuple[str, ...], key: str) -> tuple[str, ...]:
    """Scoped terms that follow one another."""
    return tuple(key + term for term in run)


def holds_quote(text: str, quote: str) -> bool:
    """Whether the text holds the quote, but for case and the length of runs of white space."""
    return _plain(quote) in _plain(text)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", _FLOOD.sub(r"\1", text)).casefold().split())
