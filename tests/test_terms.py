"""What a term is, tried on a real full-text index."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory import search_sqlite, terms
from memory.database import SqliteDatabase
from memory.schema import migrate
from tests import floods

KEY = terms.scope_key("person:http:alice")
OTHER = terms.scope_key("person:http:bob")
WRITTEN = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n\t"), max_size=120
)


class Index:
    """The table as the archive declares it, with one text at a time."""

    def __init__(self, folder: Path) -> None:
        self._database = SqliteDatabase(folder / "a.db")
        migrate(self._database)
        self._n = 0

    def add(self, text: str, key: str = KEY) -> int:
        self._n += 1
        scoped = terms.scoped(terms.tokens(text), key)
        self._database.write(lambda tx: search_sqlite.index(tx, self._n, scoped))
        return self._n

    def find(self, clauses: terms.Clauses) -> list[int]:
        if not clauses:
            return []
        return self._database.read(lambda tx: search_sqlite.best(tx, clauses, 0, 10_000))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index(tmp_path_factory.mktemp("terms"))


@settings(max_examples=300, deadline=None)
@given(text=WRITTEN)
def test_every_word_of_a_text_finds_it_and_nobody_else_s(index: Index, text: str) -> None:
    n = index.add(text)
    index.add(text, OTHER)
    for word in terms.tokens(text)[:20]:
        found = index.find(terms.all_of(terms.Query(((word,),), ()), KEY))
        assert n in found
        assert n + 1 not in found


@settings(max_examples=300, deadline=None)
@given(text=WRITTEN, data=st.data())
def test_a_quote_of_whole_words_finds_its_text(
    index: Index, text: str, data: st.DataObject
) -> None:
    words = text.replace('"', " ").split()
    first = data.draw(st.integers(0, max(0, len(words) - 1)))
    quote = " ".join(words[first : first + 5])
    if not terms.tokens(quote) or any(mark in quote for mark in "“”„«»"):
        return
    clean = " ".join(words)
    query = terms.parse_query(f'"{quote}"')
    n = index.add(clean)
    assert n in index.find(terms.all_of(query, KEY))
    assert all(terms.holds_quote(clean, one) for one in query.quotes)


@settings(max_examples=300, deadline=None)
@given(query=st.text(max_size=200))
def test_no_query_is_an_expression(index: Index, query: str) -> None:
    parsed = terms.parse_query(query)
    for clauses in (terms.all_of(parsed, KEY), terms.any_of(parsed, KEY)):
        index.find(clauses)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's Ada's café, naïve.", ["it", "s", "ada", "s", "cafe", "naive"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("明日の会議", ["明", "日", "の", "会", "議"]),
        ("목요일", ["목", "요", "일"]),
        ("東京Tower2", ["東", "京", "tower2"]),
        ("ประชุม", []),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("مُحَمَّد", ["محمد"]),
        ("שָׁלוֹם", ["שלום"]),
        ("Ο ΣΊΣΥΦΟΣ", ["ο", "σισυφοσ"]),
        ("ship 🚀👩‍👩‍👧 €5", ["ship", "🚀", "👩‍👩‍👧", "€", "5"]),
        ("... --- !!!", []),
    ],
)
def test_scripts_are_cut_into_their_words(text: str, words: list[str]) -> None:
    if text == "ประชุม":
        assert "".join(terms.tokens(text)) == unicodedata.normalize("NFKC", text)
        assert len(terms.tokens(text)) > 3
    else:
        assert terms.tokens(text) == words


@pytest.mark.parametrize("text", ["résumé", "über", "Ångström", "йод", "が", "한글"])
def test_the_composed_and_the_decomposed_form_are_one_word(text: str) -> None:
    forms = {tuple(terms.tokens(unicodedata.normalize(form, text))) for form in ("NFC", "NFD")}
    assert len(forms) == 1


def test_queries_know_words_runs_and_quotes() -> None:
    query = terms.parse_query('budget “red, green” 会議 "open to the end')
    assert query.words == (("budget",), ("会", "議"))
    assert query.quotes == ("red, green", "open to the end")
    assert terms.parse_query("?!") == terms.Query((), ())
    assert terms.all_of(terms.parse_query(""), KEY) == ()
    many = terms.parse_query(" ".join(f"w{n}" for n in range(100)))
    assert len(many.words) == terms.QUERY_WORDS


def test_words_are_bounded_and_texts_too() -> None:
    assert [len(word) for word in terms.tokens("a" * 150)] == [64, 64, 22]
    assert [len(word) for word in terms.tokens("é" * 150)] == [64, 64, 22]
    assert len(terms.tokens("a " * 50_000)) == terms.TEXT_TERMS


@pytest.mark.parametrize("unit", floods.TERMS)
def test_a_flood_of_anything_is_cut_and_quoted(unit: str) -> None:
    text = "e" + floods.repeated(unit, 500_000)
    assert 0 < len(terms.tokens(text)) <= terms.TEXT_TERMS
    assert not terms.holds_quote(text, "z")


def test_a_quote_is_held_word_for_word_but_for_case_and_spaces() -> None:
    assert terms.holds_quote("He said:  Like\nThis, please", "like this,")
    assert not terms.holds_quote("like, this", "like this")


def test_keys_are_short_and_tell_owners_apart() -> None:
    keys = {terms.scope_key(f"person:http:u{n}") for n in range(10_000)}
    assert len(keys) == 10_000
    assert all(
        len(key) == 10 and key.isalnum() and key.islower() for key in keys if not key.isdigit()
    )
