# Everything a person types. `make` alone lists it.

SHELL := /bin/sh
COLLECTION ?= ./collection
ARGS ?=
TESTS ?=
FAST := not browser and not proxy and not playback and not real and not slow
# Files side by side, each process with servers of its own: much of every run is waiting.
BY_FILE := --dist loadfile --no-loadscope-reorder
SIDE_BY_SIDE := -n 3 $(BY_FILE)
PARTS := 1 2 3
PYTHON := .venv/bin/python
# What was compiled is kept, whatever the environment says: the suite starts thousands of interpreters.
unexport PYTHONDONTWRITEBYTECODE
SOURCES := bench classify core crawler links net playback proxy qa render scripts tests warc weboid wiki

.DEFAULT_GOAL := help
.PHONY: help setup setup-full archive serve test check check-style format messages docs demo bench lock fresh clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## install what is missing: the main environment and a browser
	@scripts/setup archive

setup-full:  ## the same, and pywb for copies at the level full (weboid serve --full)
	@scripts/setup full

archive:  ## archive a list: make archive URLS=urls.txt [COLLECTION=folder] [ARGS=…]
	@test -n "$(URLS)" || { echo "Say which list: make archive URLS=urls.txt" >&2; exit 2; }
	@scripts/setup archive
	@.venv/bin/weboid archive --list "$(URLS)" --collection "$(COLLECTION)" $(ARGS)

serve:  ## serve a collection to readers: make serve [COLLECTION=folder] [ARGS=…]
	@scripts/setup archive
	@.venv/bin/weboid serve --collection "$(COLLECTION)" $(ARGS)

test:  ## install what is missing and run every test: make test [TESTS=path]
	@scripts/setup test
	@$(PYTHON) -m pytest --cache-clear $(SIDE_BY_SIDE) $(TESTS)

check:  ## everything that needs neither browser nor network: style, types, contracts, fast tests
	@scripts/setup dev
	@$(MAKE) --no-print-directory --keep-going --jobs=4 --output-sync=target check-style $(PARTS:%=check-tests-%)

check-style:
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy .
	@.venv/bin/lint-imports
	@.venv/bin/codespell $(SOURCES) docs Makefile

# Each process collects its own part of the files: to collect all of them takes seconds of every one.
check-tests-%:
	@$(PYTHON) -m pytest -q -m "$(FAST)" --hypothesis-profile brief --part $*/$(words $(PARTS))

format:  ## put the code in order
	@scripts/setup dev
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

messages:  ## bring the front's translations in step with its texts: make messages [ARGS='--add fr']
	@scripts/setup dev
	@$(PYTHON) -m scripts.messages $(ARGS)

docs:  ## build the documentation as a site into build/site
	@scripts/setup dev
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet
	@echo build/site/index.html

demo:  ## archive a web made of real sites that is served on this machine, into ./demo
	@scripts/setup test
	@$(PYTHON) -m scripts.demo $(ARGS)

bench:  ## run every benchmark and note its figures: make bench [ARGS=--quick]
	@scripts/setup test
	@$(PYTHON) -m scripts.bench $(ARGS)

lock:  ## resolve the locked requirements again
	@scripts/lock $(ARGS)

fresh:  ## prove and time the set-up on bare Debian 12, 13 and Ubuntu 24.04 (as root): make fresh [SYSTEMS=trixie]
	@scripts/fresh $(SYSTEMS)

clean:  ## remove environments, caches and what was built; collections stay
	rm -rf .venv .venv-replay .cache build *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
