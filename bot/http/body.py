"""Reads and checks the bodies of requests."""

from __future__ import annotations

from typing import Any, TypeVar

from flask import Request
from pydantic import BaseModel, ValidationError
from werkzeug.exceptions import RequestEntityTooLarge

from bot.http.problems import Problem
from bot.http.strict import NotStrict, loads

M = TypeVar("M", bound=BaseModel)

MAX_BYTES = 1_048_576


def read_json(request: Request, max_bytes: int = MAX_BYTES) -> object:
    """The body's value.

    Args:
        request: whose body has not been read yet.
        max_bytes: the longest body that is taken.

    Raises:
        Problem: 415 another content type or encoding, 413 too large, 400 no strict JSON.
    """
    if request.mimetype != "application/json":
        raise Problem(415, "unsupported_media_type", "the body has to be application/json")
    if request.mimetype_params.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise Problem(415, "unsupported_media_type", "the body has to be UTF-8")
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise Problem(
            415,
            "unsupported_encoding",
            "the body has to come uncompressed",
            headers={"Accept-Encoding": "identity"},
        )
    try:
        data = read_bytes(request, max_bytes)
    except RequestEntityTooLarge:
        raise Problem(413, "too_large", f"the body is larger than {max_bytes:,} bytes") from None
    try:
        return loads(data)
    except NotStrict as error:
        raise Problem(400, "bad_json", f"no strict JSON: {error}") from None


def read_bytes(request: Request, max_bytes: int = MAX_BYTES) -> bytes:
    """The body as it came, whether it says its length or not.

    Raises:
        RequestEntityTooLarge: it is longer than `max_bytes`.
    """
    # A body without a length is cut at the limit in silence, so the limit is one byte further.
    request.max_content_length = max_bytes + 1
    data = request.get_data(cache=True)
    if len(data) > max_bytes:
        raise RequestEntityTooLarge
    return data


def parse(model: type[M], value: object) -> M:
    """The value as a model.

    Args:
        model: with `extra="forbid"` and strict types.
        value: what `read_json` gave.

    Raises:
        Problem: 422 with the pointer of the first field that is wrong or unknown.
    """
    if not isinstance(value, dict):
        raise Problem(422, "invalid_body", "the body has to be a JSON object", "")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    unknown = first["type"] == "extra_forbidden"
    code = "unknown_field" if unknown else "invalid_field"
    detail = "there is no such field" if unknown else first["msg"]
    raise Problem(422, code, detail.removeprefix("Value error, "), _where(first["loc"], value))


def pointer(loc: tuple[int | str, ...]) -> str:
    """A JSON pointer (RFC 6901), its names cut to a readable length."""
    names = (str(name)[:64].replace("~", "~0").replace("/", "~1") for name in loc)
    return "".join(f"/{name}" for name in names)


def _where(loc: tuple[int | str, ...], value: Any) -> str:
    """The pointer of a place in the value; names that only the model has, as of unions, go."""
    path: list[int | str] = []
    for at, name in enumerate(loc):
        is_index = isinstance(value, list) and isinstance(name, int) and 0 <= name < len(value)
        if is_index or (isinstance(value, dict) and name in value):
            value = value[name]
        elif at < len(loc) - 1 or not (isinstance(value, dict) and isinstance(name, str)):
            continue
        path.append(name)
    return pointer(tuple(path))
