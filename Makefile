# Everything that is done with Mercury, by name. `make` alone lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.DEFAULT_GOAL := help

.PHONY: help setup run test lint bench chaos format lock

help:  ## list what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: $(STAMP)  ## make the virtual environment and install what is pinned

$(STAMP): requirements.txt requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Mercury needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(STAMP)

run: $(STAMP)  ## serve on http://127.0.0.1:8080 with embedded stores
	@$(BIN)/mfw serve

test: $(STAMP)  ## run every test
	$(BIN)/python -m pytest -q -n auto

lint: $(STAMP)  ## check style, types and the directions of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP)  ## put the code into its one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## measure speed and memory, print the figures
	$(BIN)/python -m benchmarks

chaos: $(STAMP)  ## kill, restart and break it for a long time, print the figures
	$(BIN)/python -m benchmarks.chaos

lock: $(STAMP)  ## write requirements*.txt anew from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --universal --python-version 3.11 pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --universal --python-version 3.11 --extra dev -c requirements.txt pyproject.toml -o requirements-dev.txt
