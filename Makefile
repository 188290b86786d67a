# Commands for developers. `make` without a target lists them.

SHELL := /bin/sh
COLLECTION ?= ./collection
ARGS ?=
TESTS ?=
FAST := not browser and not proxy and not playback and not real and not slow
# Test files run in parallel, each process with separate servers: the tests mostly wait.
BY_FILE := --dist loadfile --no-loadscope-reorder
PARALLEL := -n 4 $(BY_FILE)
PARTS := 1 2 3
PYTHON := .venv/bin/python
# Keep bytecode, regardless of the environment: the tests start thousands of interpreters.
unexport PYTHONDONTWRITEBYTECODE
SOURCES := bench classify core crawler links net playback proxy qa render scripts tests warc weboid wiki

.DEFAULT_GOAL := help
.PHONY: help setup setup-full archive serve test check check-style format messages docs demo bench lock fresh clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## install what is missing of the main environment and a browser
	@scripts/setup archive

setup-full:  ## as setup, with pywb for copies at the level full (weboid serve --full)
	@scripts/setup full

archive:  ## archive a list: make archive URLS=urls.txt [COLLECTION=folder] [ARGS=…]
	@test -n "$(URLS)" || { echo "A list is needed: make archive URLS=urls.txt" >&2; exit 2; }
	@scripts/setup archive
	@.venv/bin/weboid archive --list "$(URLS)" --collection "$(COLLECTION)" $(ARGS)

serve:  ## serve a collection to readers: make serve [COLLECTION=folder] [ARGS=…]
	@scripts/setup archive
	@.venv/bin/weboid serve --collection "$(COLLECTION)" $(ARGS)

test:  ## install what is missing and run all tests: make test [TESTS=path]
	@scripts/setup test
	@$(PYTHON) -m pytest --cache-clear $(PARALLEL) $(TESTS)

check:  ## checks without browser and network: style, types, import layers, fast tests
	@scripts/setup dev
	@$(MAKE) --no-print-directory --keep-going --jobs=4 --output-sync=target check-style $(PARTS:%=check-tests-%)

check-style:
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy .
	@.venv/bin/lint-imports
	@.venv/bin/codespell $(SOURCES) docs Makefile

# Each process collects only its part of the files, which saves seconds.
check-tests-%:
	@$(PYTHON) -m pytest -q -m "$(FAST)" --hypothesis-profile brief --part $*/$(words $(PARTS))

format:  ## format the code
	@scripts/setup dev
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

messages:  ## update the message catalogues: make messages [ARGS='--add fr']
	@scripts/setup dev
	@$(PYTHON) -m scripts.messages $(ARGS)

docs:  ## build the documentation site in build/site
	@scripts/setup dev
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet
	@echo build/site/index.html

demo:  ## archive local copies of real sites into ./demo
	@scripts/setup test
	@$(PYTHON) -m scripts.demo $(ARGS)

bench:  ## run all benchmarks and record their figures: make bench [ARGS=--quick]
	@scripts/setup test
	@$(PYTHON) -m scripts.bench $(ARGS)

lock:  ## update the locked requirements
	@scripts/lock $(ARGS)

fresh:  ## test and time the set-up on minimal Debian 12, 13 and Ubuntu 24.04 (as root): make fresh [SYSTEMS=trixie]
	@scripts/fresh $(SYSTEMS)

clean:  ## remove environments, caches and build results, but no collections
	rm -rf .venv .venv-replay .cache build *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
