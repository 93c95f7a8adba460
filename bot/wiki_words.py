"""How the wiki's index cuts texts into words: the archive's own rules, given to the wiki. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from memory import terms
from memory.search_sqlite import expression


class WikiWords:
    """The words of notes; see `wiki.search.Words`."""

    def indexed(self, text: str, owner: str) -> list[str]:
        """The terms of a text, each with the key of the area that it belongs to."""
        return terms.scoped(terms.tokens(text), terms.scope_key(owner))

    def expressions(self, query: str, owners: Sequence[str]) -> list[str]:
        """What to look for in these areas: first every word and quote, then any word."""
        parsed = terms.parse_query(query)
        keys = [terms.scope_key(owner) for owner in owners]
        ways = [[way(parsed, key) for key in keys] for way in (terms.all_of, terms.any_of)]
        return [expression(_any_owner(way)) for way in ways if way[0]]

    def holds(self, text: str, query: str) -> bool:
        """Whether a text holds every exact quote of the query."""
        return all(terms.holds_quote(text, quote) for quote in terms.parse_query(query).quotes)

    def has_quotes(self, query: str) -> bool:
        """Whether a query has exact quotes."""
        return bool(terms.parse_query(query).quotes)

    def wanted(self, query: str) -> frozenset[str]:
        """The single words that a query is made of."""
        parsed = terms.parse_query(query)
        runs = [*parsed.words, *(tuple(terms.tokens(quote)) for quote in parsed.quotes)]
        return frozenset(term for run in runs for term in run)

    def of(self, line: str) -> list[str]:
        """The words of a line."""
        return terms.tokens(line)


def _any_owner(way: Sequence[terms.Clauses]) -> terms.Clauses:
    """The same clauses for several owners as one: each holds for any of them."""
    return tuple(tuple(run for ors in clause for run in ors) for clause in zip(*way, strict=True))
