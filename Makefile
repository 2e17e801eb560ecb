# Everything a fresh clone needs: python3 (3.11 or later), make and git.
# `make` lists the targets. Each does its own set-up, once, and works offline after that.

ROOT := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
VENV := $(ROOT)/.venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.ready-dev
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo serve test chaos check lint types imports migrations deploy-check matrix \
        screenshots venv dev stop clean

# What only looks at the code needs no database: named, so that none is started.
NO_DATABASE := DATABASE_URL=postgresql:///not-opened

# The first python3 that is new enough; PYTHON=... overrides.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$name; break; }; done)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## Upload, build, deploy and call an agent; then serve until Ctrl-C (ONCE=1: stop)
	@cd $(ROOT) && exec $(BIN)/python -m project.demo

serve: $(READY) ## The same web server, worker and database, without the upload
	@cd $(ROOT) && exec $(BIN)/python -m project.demo --serve

test: $(READY) ## Run the whole suite against a real PostgreSQL (ARGS=... for pytest)
	@cd $(ROOT) && $(BIN)/python -m tests.run $(ARGS)

chaos: $(READY) ## Kill and cut everything at random, then check every promise (MINUTES=10 SEED=1)
	@cd $(ROOT) && $(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),10) \
	  $(if $(SEED),--seed $(SEED)) $(ARGS)

check: $(DEV_READY) lint types imports migrations deploy-check ## All that CI looks at besides the tests

lint: $(DEV_READY) ## Style: ruff, and its formatting
	@cd $(ROOT) && $(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(DEV_READY) ## Types: mypy, strict
	@cd $(ROOT) && $(NO_DATABASE) $(BIN)/mypy

imports: $(DEV_READY) ## Layers: import-linter
	@cd $(ROOT) && $(BIN)/lint-imports

migrations: $(READY) ## Every model change has its migration
	@cd $(ROOT) && $(NO_DATABASE) $(BIN)/python -W ignore manage.py makemigrations --check --dry-run

deploy-check: $(READY) ## Django's own deployment checks of the demo, as behind https
	@cd $(ROOT) && SECURE=true $(NO_DATABASE) $(BIN)/python -W error manage.py check --deploy --fail-level WARNING

matrix: $(DEV_READY) ## The suite on every supported Python and Django that is present
	@cd $(ROOT) && $(BIN)/nox

screenshots: $(DEV_READY) ## Take the pictures of docs/images anew (needs Chromium)
	@cd $(ROOT) && UPDATE_SCREENSHOTS=1 $(BIN)/python -m tests.run tests/browser

venv: $(READY) ## Only set up what demo and test need

dev: $(DEV_READY) ## Only set up the tools besides

stop: ## Stop what a killed demo or test run may have left
	@cd $(ROOT) && test ! -x $(BIN)/python || $(BIN)/python -m project.demo.stop

clean: stop ## Remove the virtual environment and all data
	rm -rf $(VENV) $(ROOT)/var $(ROOT)/.nox

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "buildqueue needs python3, 3.11 or later." >&2; exit 1; }
	@echo "==> making a virtual environment with $(PYTHON)"
	@rm -rf $(VENV) && $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'

$(READY): $(ROOT)/pyproject.toml | $(BIN)/python
	@echo "==> installing what buildqueue needs (once)"
	@cd $(ROOT) && $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  -e '.[api,local,mcp,s3]' --group test
	@touch $@

$(DEV_READY): $(READY)
	@echo "==> installing the developers' tools (once)"
	@cd $(ROOT) && $(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev --group browser
	@touch $@
