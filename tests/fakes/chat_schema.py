"""Whether a request to the Chat API is one, by the API's own description (discovery, chat v1).

Takes the parts of a request and gives what is wrong with it, in words. Beside the description
it knows the few rules that Google states in prose only.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import googleapiclient

_DESCRIPTION = Path(googleapiclient.__file__).parent / "discovery_cache/documents/chat.v1.json"
_MASKS = {"text", "attachment", "cards", "cards_v2", "cardsV2", "accessory_widgets"}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
}


@functools.cache
def description() -> dict[str, Any]:
    """The discovery document that the client library ships."""
    found: dict[str, Any] = json.loads(_DESCRIPTION.read_text(encoding="utf-8"))
    return found


def violations(call: str, name: str, query: Mapping[str, Sequence[str]], body: object) -> list[str]:
    """What is wrong with a request.

    Args:
        call: a method of `spaces.messages`, `create`, `get` or `patch`; or `download`.
        name: the parent, the message or the media's resource, as it stands in the path.
        query: the parameters after the `?`.
        body: the decoded body, or None.
    """
    resources = description()["resources"]
    if call == "download":
        method = resources["media"]["methods"][call]
        wrong = [] if query.get("alt") == ["media"] else ["a download without alt=media"]
        return [*wrong, *_query(method, query), *_body(method, body)]
    method = resources["spaces"]["resources"]["messages"]["methods"][call]
    return [
        *_path(method, name),
        *_query(method, query),
        *_body(method, body),
        *_prose(call, query, body if isinstance(body, dict) else {}),
    ]


def _path(method: Mapping[str, Any], name: str) -> Iterator[str]:
    for parameter in method["parameters"].values():
        if parameter["location"] == "path" and not re.search(parameter["pattern"], name):
            yield f"path {name!r} is not {parameter['pattern']}"
    if not re.fullmatch(r"[A-Za-z0-9_./-]+", name) or ".." in name:
        yield f"path {name!r} is no resource name"


def _query(method: Mapping[str, Any], query: Mapping[str, Sequence[str]]) -> Iterator[str]:
    known = description()["parameters"] | {
        name: one for name, one in method["parameters"].items() if one["location"] == "query"
    }
    for name, values in query.items():
        if name not in known:
            yield f"query parameter {name!r} is unknown"
            continue
        if len(values) != 1:
            yield f"query parameter {name!r} comes {len(values)} times"
        if "enum" in known[name] and values[0] not in known[name]["enum"]:
            yield f"query parameter {name!r} is {values[0]!r}"
        if known[name].get("deprecated"):
            yield f"query parameter {name!r} is deprecated"


def _body(method: Mapping[str, Any], body: object) -> Iterator[str]:
    if "request" not in method:
        if body is not None:
            yield "a body where none belongs"
        return
    yield from _value(method["request"], body, "body")


def _value(schema: Mapping[str, Any], value: object, path: str) -> Iterator[str]:
    """Compares a value with its schema, all the way down."""
    if "$ref" in schema:
        schema = description()["schemas"][schema["$ref"]]
    kind = schema.get("type", "any")
    expected = _TYPES.get(kind)
    if expected is not None and (
        not isinstance(value, expected) or (isinstance(value, bool) and kind != "boolean")
    ):
        yield f"{path} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} is {value!r}"
    if isinstance(value, list):
        for n, one in enumerate(value):
            yield from _value(schema["items"], one, f"{path}[{n}]")
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _property(schema, key, one, f"{path}.{key}")


def _property(schema: Mapping[str, Any], key: str, value: object, path: str) -> Iterator[str]:
    known = schema.get("properties", {}).get(key)
    if known is None:
        if "additionalProperties" not in schema:
            yield f"{path} is unknown"
        return
    if known.get("readOnly") or known.get("description", "").startswith("Output only"):
        yield f"{path} is read-only"
    if known.get("deprecated"):
        yield f"{path} is deprecated"
    yield from _value(known, value, path)


def _prose(call: str, query: Mapping[str, Sequence[str]], body: Mapping[str, Any]) -> Iterator[str]:
    """The rules that the description states in words."""
    if call == "create":
        own = query.get("messageId", ["client-x"])[0]
        if not re.fullmatch(r"client-[a-z0-9-]{1,56}", own):
            yield f"messageId {own!r} is not allowed"
        if "messageReplyOption" in query and "thread" not in body:
            yield "messageReplyOption without a thread"
        if "thread" in body and "messageReplyOption" not in query:
            yield "a thread without messageReplyOption"
    if call == "patch":
        mask = query.get("updateMask", [""])[0].split(",")
        for one in set(mask) - _MASKS:
            yield f"updateMask names {one!r}"
        for given in set(body) - set(mask) - {"markupSyntax"}:
            yield f"body.{given} is not in the mask"
        if "allowMissing" in query:
            yield "allowMissing would make a deleted message again"
    for card in body.get("cardsV2", ()):
        for section in card["card"].get("sections", ()):
            if not section.get("widgets"):
                yield "a card's section without widgets"
