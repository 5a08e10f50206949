# Every target sets itself up: `make run` on a fresh clone needs nothing but Python 3.11 or newer and a network.
# A stamp in .venv records each installed requirements file; while it's newer than the file, pip isn't called at all,
# so everything works again without a network.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Each worker of the browser tests is a browser and a server: more than four bring no more speed.
PYTEST := $(BIN)/pytest -n auto --maxprocesses 4 --dist loadgroup
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
# What Make itself exports to its children would reach the make calls inside the tests.
unexport MAKEFLAGS MFLAGS MAKEOVERRIDES

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run dev test test-slow test-browser check lint types contracts format bench golden screenshots setup measure-setup clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.app ## start the app on http://127.0.0.1:8501 (ARGS="--server.port 9000" and the like)
	$(BIN)/streamlit run app.py $(ARGS)

dev: $(VENV)/.app ## the same, rerunning when a file changes and showing errors in full
	$(BIN)/streamlit run app.py --server.fileWatcherType auto --server.runOnSave true --client.showErrorDetails full $(ARGS)

test: $(VENV)/.dev ## run the tests, without the slow ones; no torch needed
	$(PYTEST) $(ARGS)

test-slow: $(VENV)/.dev ## run the slow tests only
	$(PYTEST) -m slow $(ARGS)

test-browser: $(VENV)/.dev ## run the tests that need Chromium only
	$(PYTEST) -m browser $(ARGS)

check: lint types contracts ## check style, types and the direction of imports

lint: $(VENV)/.dev ## check style and formatting (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## check types (mypy --strict)
	$(BIN)/mypy --strict planner

contracts: $(VENV)/.dev ## check which module may import which (import-linter)
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## put the style right where a tool can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## time the calculator against itself and print ratios
	$(BIN)/python -m tools.bench $(ARGS)

golden: $(VENV)/.measure ## count parameters, cache and FLOPs anew with transformers, into tests/golden/
	$(BIN)/python -m tests.golden.generate $(ARGS)

screenshots: $(VENV)/.dev ## take the pictures of the pages (needs Chromium)
	$(BIN)/python -m tools.screenshots $(ARGS)

setup: $(VENV)/.dev ## install everything but torch, and do nothing else

measure-setup: $(VENV)/.measure ## install torch and transformers too, for measuring and for the witnesses

clean: ## remove the environment and every cache
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment. One that no longer starts (its Python was removed) is made anew.
$(VENV)/.python:
	@command -v "$(PYTHON)" >/dev/null || { echo "Headroom needs Python 3.11 or newer, and there is no '$(PYTHON)'. Install one, or name it: make PYTHON=/path/to/python3.12 run" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headroom needs Python 3.11 or newer, and '$(PYTHON)' is $$("$(PYTHON)" -V 2>&1). Name another: make PYTHON=python3.12 run" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { echo "'$(PYTHON)' can't make virtual environments: its venv or ensurepip module is missing. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -c '' 2>/dev/null || rm -rf $(VENV)
	"$(PYTHON)" -m venv $(VENV)
	@touch $@

$(VENV)/.app: requirements.txt $(VENV)/.python
	@echo "Installing what the app needs (about 600 MB, a minute or so) ..."
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.app
	@echo "Installing what the tests and checks need ..."
	$(PIP) -r requirements.txt -r requirements-dev.txt
	@touch $@

$(VENV)/.measure: requirements-measure.txt $(VENV)/.dev
	@echo "Installing torch and transformers (1 GB or more) ..."
	$(PIP) -r requirements.txt -r requirements-dev.txt -r requirements-measure.txt
	@touch $@
