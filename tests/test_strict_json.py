"""Bodies: what is strict JSON, and what a model makes of it."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from flask import Flask, Request
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from werkzeug.test import EnvironBuilder

from bot.http.body import parse, read_json
from bot.http.problems import Problem
from bot.http.strict import DEPTH, NotStrict, loads
from tests import floods


@pytest.mark.parametrize(
    "body",
    [b"{}", b"[]", b"null", b"0", b'"text"', b' {"a": [1, -2.5e3, true, null, "\\u00e9"]}\n',
     b"[" * DEPTH + b"]" * DEPTH, b'"' + b"[" * 1000 + b'"', b'["\\"[[["' + b"]",
     b"[" + b",".join([b"[{}]"] * 100) + b"]"],
)  # fmt: skip
def test_strict_json_is_what_json_says(body: bytes) -> None:
    assert loads(body) == json.loads(body)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(values)
def test_every_json_value_comes_back(value: Any) -> None:
    assert loads(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_not_strict(body: bytes) -> None:
    try:
        loads(body)
    except NotStrict:
        return


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{}{}", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'"a\nb"', "not JSON"),
        (b"01", "not JSON"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"text":"\xff\xfe"}', "not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b'{"text": NaN}', "NaN is no JSON"),
        (b"[Infinity]", "Infinity is no JSON"),
        (b"[-Infinity]", "-Infinity is no JSON"),
        (b"1e999", "out of range"),
        (b"-1e999", "out of range"),
        (b"1" * 5000, "too many digits"),
        (b'{"n": -' + b"9" * 401 + b"}", "too many digits"),
        (b"0." + b"1" * 5000, "too many digits"),
        (b'{"a": 1, "a": 2}', "same key twice"),
        (b'[{"x": {"a": 1, "\\u0061": 2}}]', "same key twice"),
        (b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1), "deeper than 32"),
        (b'{"a":' * (DEPTH + 1) + b"1" + b"}" * (DEPTH + 1), "deeper than 32"),
        (b'["\\"", ' + b"[" * DEPTH + b"]" * DEPTH + b"]", "deeper than 32"),
    ],
)
def test_what_is_not_strict_says_why(body: bytes, why: str) -> None:
    with pytest.raises(NotStrict, match=why):
        loads(body)


def test_a_lone_surrogate_is_let_through_to_be_mended_later() -> None:
    assert loads(b'"\\ud800"') == "\ud800"


@pytest.mark.parametrize("body", floods.JSON)
def test_a_hostile_mebibyte_is_refused(body: bytes) -> None:
    with pytest.raises(NotStrict):
        loads(body)


# -- from the request -------------------------------------------------------------------------


def request(body: bytes, **more: Any) -> Request:
    more.setdefault("content_type", "application/json")
    builder = EnvironBuilder(method="POST", data=body, **more)
    return Flask("test").request_class(builder.get_environ())


def refused(given: Request, **options: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        read_json(given, **options)
    return caught.value


@pytest.mark.parametrize(
    "kind",
    ["application/json", "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'],
)
def test_json_is_read_with_or_without_its_charset(kind: str) -> None:
    assert read_json(request(b'{"a": 1}', content_type=kind)) == {"a": 1}


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "", "application/x-www-form-urlencoded", "application/json; charset=latin-1",
     "application/problem+json", "multipart/form-data; boundary=x"],
)  # fmt: skip
def test_another_content_type_is_415(kind: str) -> None:
    assert refused(request(b"{}", content_type=kind)).status == 415


def test_a_packed_body_is_415_and_never_unpacked() -> None:
    problem = refused(request(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}))
    assert (problem.status, problem.code) == (415, "unsupported_encoding")


def test_a_body_over_the_limit_is_413() -> None:
    assert read_json(request(b'"' + b"a" * 98 + b'"'), max_bytes=100)
    problem = refused(request(b'"' + b"a" * 99 + b'"'), max_bytes=100)
    assert (problem.status, problem.code) == (413, "too_large")
    assert refused(request(b'"' + b"a" * 1_048_576 + b'"')).status == 413


def test_a_body_without_a_length_is_counted_too() -> None:
    given = request(b'"' + b"a" * 200 + b'"')
    del given.environ["CONTENT_LENGTH"]
    given.environ["wsgi.input_terminated"] = True
    assert refused(given, max_bytes=100).status == 413


def test_a_body_that_is_not_strict_is_400_without_its_text() -> None:
    problem = refused(request(b'{"text": NaN, "password": "hunter2"}'))
    assert (problem.status, problem.code) == (400, "bad_json")
    assert "hunter2" not in json.dumps(problem.body())


# -- into a model -----------------------------------------------------------------------------


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(max_length=5)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: str
    decision: Literal["confirm", "cancel"] = "confirm"
    items: list[Inner] = []
    either: int | list[int] | None = None


@pytest.mark.parametrize(
    ("value", "code", "pointer"),
    [
        ({"text": 5}, "invalid_field", "/text"),
        ({"text": None}, "invalid_field", "/text"),
        ({}, "invalid_field", "/text"),
        ({"text": "x", "history": []}, "unknown_field", "/history"),
        ({"text": "x", "a/b~c": 1}, "unknown_field", "/a~1b~0c"),
        ({"text": "x", "decision": "yes"}, "invalid_field", "/decision"),
        ({"text": "x", "items": [{"name": "a"}, {"name": 1}]}, "invalid_field", "/items/1/name"),
        ({"text": "x", "items": [{}]}, "invalid_field", "/items/0/name"),
        ({"text": "x", "items": {"0": 1}}, "invalid_field", "/items"),
        ({"text": "x", "either": "no"}, "invalid_field", "/either"),
        ({"text": "x", "either": [1, "no"]}, "invalid_field", "/either"),
        (None, "invalid_body", ""),
        ([], "invalid_body", ""),
        ("text", "invalid_body", ""),
    ],
)
def test_the_first_wrong_field_is_pointed_at(value: Any, code: str, pointer: str) -> None:
    with pytest.raises(Problem) as caught:
        parse(Outer, value)
    assert (caught.value.status, caught.value.code) == (422, code)
    assert caught.value.pointer == pointer


def test_a_right_value_becomes_the_model() -> None:
    assert parse(Outer, {"text": "x", "items": [{"name": "a"}]}).items == [Inner(name="a")]


def test_what_was_sent_is_not_repeated() -> None:
    with pytest.raises(Problem) as caught:
        parse(Outer, {"text": "x", "items": [{"name": "hunter2"}]})
    assert "hunter2" not in json.dumps(caught.value.body())
