"""What the README names is there: commands, settings, routes, make's targets."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bot.http.app import flask_app
from bot.mercury import Mercury
from bot.settings import NAMES
from cli.main import COMMANDS, main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Every `mfw …` that the README names, without its arguments."""
    rows = re.findall(r"^\| (`mfw .*?) \|", README, re.MULTILINE)
    found = set(re.findall(r"mfw ([a-z]+(?: (?:new|list|read|search))?)", README))
    for row in rows:
        group = None
        for name in re.findall(r"`([^`]+)`", row):
            words = [word for word in name.split() if re.fullmatch(r"[a-z]+", word)]
            if words[0] == "mfw":
                words = words[1:]
                group = words[0]
                found.add(" ".join(words[:2]))
            elif group:
                found.add(f"{group} {words[0]}")
    return sorted(found)


@pytest.mark.parametrize("command", commands())
def test_a_command_in_the_readme_exists(command: str) -> None:
    done = CliRunner().invoke(main, [*command.split(), "--help"])
    assert done.exit_code == 0, done.output
    assert "Usage:" in done.output


def test_every_command_says_what_it_does_in_the_list_as_in_its_own_help() -> None:
    context = click.Context(main)
    for name, line in COMMANDS.items():
        found = main.get_command(context, name)
        assert found is not None
        assert (found.help or "").split("\n\n")[0].replace("\n", " ") == line


def test_a_setting_in_the_readme_exists() -> None:
    named = set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", README))
    named |= set(re.findall(r"^#? ?([A-Z][A-Z_]+)=", README, re.MULTILINE))
    assert named - {"TOKEN"} <= {*NAMES, *(f"{name}_FILE" for name in NAMES)}
    assert {"MODEL_URL", "MERCURY_DATA"} <= named


def test_a_route_in_the_readme_exists(make: Callable[..., Mercury]) -> None:
    app = flask_app(make())
    rules = {
        f"{method} {re.sub(r'<[^>]+>', '{}', rule.rule)}"
        for rule in app.url_map.iter_rules()
        for method in rule.methods or ()
    }
    table = README[README.index("| route | what |") :].split("\n\n")[0]
    for row in table.splitlines()[2:]:
        path = ""
        for method, given in re.findall(r"`([A-Z]+) ([^` ]+)`", row.split("|")[1]):
            here = re.sub(r"\{[^}]+\}", "{}", given.split("?")[0])
            if here == "…":
                here = path
            elif here.startswith("…"):
                base = path[: path.index("{}") + 2] if "{}" in path else f"{path}/{{}}"
                here = base + here[here.rindex("/") :] if not here.endswith("{}") else base
            else:
                path = here
            assert f"{method} {here}" in rules, f"{method} {given}"


def test_make_lists_its_targets() -> None:
    shown = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("setup", "run", "test", "lint", "bench", "chaos"):
        assert f"make {target}" in shown.stdout


def test_the_image_has_every_package() -> None:
    packages = {one.parent.name for one in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    copied = re.findall(r"^COPY (\w+) \1$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert set(copied) == packages
