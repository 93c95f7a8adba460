"""Reads and checks the bodies of requests."""

from __future__ import annotations

from typing import Any, TypeVar

from flask import Request
from pydantic import BaseModel, ValidationError
from werkzeug.exceptions import RequestEntityTooLarge

from bot.http.problems import Problem
from bot.http.strict import NotStrict, loads

M = TypeVar("M", bound=BaseModel)


def read_json(request: Request) -> Any:
    """The body's value.

    Raises:
        Problem: 415 another content type or encoding, 413 too large, 400 no strict JSON.
    """
    if request.mimetype != "application/json":
        raise Problem(415, "unsupported_media_type", "the body has to be application/json")
    if request.mimetype_params.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise Problem(415, "unsupported_media_type", "the body has to be UTF-8")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Problem(415, "unsupported_encoding", "the body has to come uncompressed")
    try:
        data = request.get_data(cache=True)
    except RequestEntityTooLarge:
        raise Problem(413, "too_large", "the body is larger than 1 MiB") from None
    try:
        return loads(data)
    except NotStrict as error:
        raise Problem(400, "bad_json", f"no strict JSON: {error}") from None


def parse(model: type[M], value: Any) -> M:
    """The value as a model.

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
        raise Problem(422, code, first["msg"], pointer(first["loc"])) from None


def pointer(loc: tuple[int | str, ...]) -> str:
    """A JSON pointer (RFC 6901), its names cut to a readable length."""
    names = (str(name)[:64].replace("~", "~0").replace("/", "~1") for name in loc)
    return "".join(f"/{name}" for name in names)
