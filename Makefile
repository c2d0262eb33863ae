# `make` alone lists what there is. Settings: .env (written by the first `make up`).
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .lakehouse/toolchain/venv/bin
TOOLCHAIN := python3 -m infra.toolchain
RUNNER_CMD := $(VENV)/python -m services.runner
# Asked for only when a recipe needs it: RUNNER=, else the runner that holds the state, else what the machine can do.
CHOSEN = $(eval CHOSEN := $(shell RUNNER='$(RUNNER)' python3 -m services.runner.choose))$(or $(CHOSEN),$(error no runner))
COMPONENTS = $(if $(filter compose,$(CHOSEN)),python project)
SHELL_SCRIPTS = $(shell git ls-files -z | xargs -0 grep -lE '^#!.*sh$$|^\# shellcheck shell=' 2>/dev/null)
export RUNNER PROFILES YES ALL

# Lines as wide as the terminal or COLUMNS, broken at words; into a pipe without COLUMNS as long as they need to be.
FITTED = { [ -t 1 ] && own=$$(stty size < /dev/tty | cut -d ' ' -f 2); awk -v width="$${COLUMNS:-$$own}" '{ \
	line = $$0; indent = line ~ /^  make / ? 26 : 0; \
	while (width > 40 && length(line) > width) { \
	at = width + 1; while (at > indent && substr(line, at, 1) != " ") at--; \
	if (at <= indent) break; print substr(line, 1, at - 1); line = sprintf("%*s", indent, "") substr(line, at + 1) } \
	print line }'; }

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^## /{print "\n" substr($$0, 4)} /^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST) | $(FITTED)
	@printf '\nRUNNER=compose|process chooses how the stack runs; by default Docker Compose where an engine answers.\n' | $(FITTED)

## The stack
.PHONY: up down clean status logs kill fault proxies
up: ## Install what is missing, start everything, wait until healthy (PROFILES=workload adds the shop's traffic)
	@$(TOOLCHAIN) preflight --runner $(CHOSEN)
	@$(TOOLCHAIN) env
	@$(if $(filter process,$(CHOSEN)),$(if $(findstring connect-sink,$(PROFILES) $(s)),$(TOOLCHAIN) install iceberg-sink))
	@$(if $(filter process,$(CHOSEN)),$(if $(findstring observe,$(PROFILES)),$(TOOLCHAIN) install observe))
	@$(if $(filter process,$(CHOSEN)),$(if $(findstring trino,$(PROFILES) $(s)),$(TOOLCHAIN) install trino))
	@$(TOOLCHAIN) install $(COMPONENTS) --then $(RUNNER_CMD) up $(s)
	@$(if $(filter process,$(CHOSEN)),$(TOOLCHAIN) later)

down: $(VENV)/python ## Stop everything; state is kept, and `make up` resumes
	@$(RUNNER_CMD) down

clean: $(VENV)/python ## Stop, and delete data and logs after asking (YES=1: don't ask; ALL=1: also .env and what is installed)
	@$(RUNNER_CMD) clean

status: $(VENV)/python ## Health, port, memory and uptime of each service; exit code 1 if anything is amiss
	@$(RUNNER_CMD) status

logs: $(VENV)/python ## Follow the log of one service (s=kafka), or of all
	@$(RUNNER_CMD) logs --follow $(s)

kill: $(VENV)/python ## SIGKILL one service (s=kafka), as a crash would; it is brought back
	@$(RUNNER_CMD) kill $(or $(s),$(error which one? make kill s=SERVICE))

fault: $(VENV)/python ## List the faults; switch one on (name=catalog-slow) or off (name=catalog-slow off=1)
	@$(VENV)/python -m services.faults $(name) $(if $(action),--action $(action)) $(if $(off),--off)

proxies: setup ## Start the stack with proxies between its services, for faults of the network; `make up` takes them out
	@[ "$(CHOSEN)" = process ] || { echo 'proxies need the process runner: make down, then make proxies RUNNER=process' >&2; exit 2; }
	@$(TOOLCHAIN) install faults
	@COMPOSE_FILE=docker-compose.yml:infra/faults/proxies.yml $(RUNNER_CMD) up

## The proof
.PHONY: demo verify docs bench
demo: up ## Load, live traffic, broken records, a killed mirror; then the proof that lake and source are equal
	@$(VENV)/python -m services.demo

verify: $(VENV)/lakehouse ## Compare source and lake row by row
	@$(VENV)/lakehouse verify

docs: $(VENV)/lakehouse ## What checks of the contracts have found, as a static site in .lakehouse/docs
	@$(VENV)/lakehouse docs

bench: dev ## This mirror and its peers on the same topics, compared (FULL=1 the long one; SYSTEMS= WORKLOADS= RUNS= narrow)
	@$(TOOLCHAIN) preflight --runner process
	@$(TOOLCHAIN) install && $(TOOLCHAIN) install classes faults
	@$(VENV)/python -m tests.bench $(if $(FULL),--size full) --systems '$(SYSTEMS)' --workloads '$(WORKLOADS)' $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED))

## Development
.PHONY: test test-documents test-integration test-mirror test-unit test-compose test-runner test-model test-chaos chaos check lint format lock reference env setup dev
test: dev ## All tests (needs no running stack; starts what it needs)
	@$(TOOLCHAIN) preflight --runner process
	@$(TOOLCHAIN) install && $(TOOLCHAIN) install classes observe
	@$(MAKE) --no-print-directory -j 2 test-integration test-mirror test-unit test-compose test-runner

# Two at a time, the longest first: a stack is waited for much of the time. A worker of its own has each print whole lines.
PYTEST = $(VENV)/python -m pytest -v -n 1 --durations=15 --maxfail=3 -m 'not slow'
# What runs the documents' commands takes its time, and is for whoever changes them.
DOCUMENTS = test_guides.py test_readme.py test_walkthrough.py
test-documents: dev ## Run the commands of README and guides as they stand there, on a stack of its own
	@$(TOOLCHAIN) install
	@$(PYTEST) $(addprefix tests/integration/,$(DOCUMENTS))
test-integration:
	@$(PYTEST) tests/integration --ignore tests/integration/test_mirror.py $(addprefix --ignore tests/integration/,$(DOCUMENTS))
test-mirror:
	@$(PYTEST) tests/integration/test_mirror.py
test-unit test-compose test-runner: test-%:
	@$(PYTEST) tests/$*

test-model: dev ## Random histories in random batches against a model, and against a real PostgreSQL (EXAMPLES=100)
	@$(TOOLCHAIN) install spark
	@MODEL_EXAMPLES=$(or $(EXAMPLES),100) $(VENV)/python -m pytest -v -s --timeout 0 tests/unit/pipelines/mirror/table/test_model.py tests/unit/pipelines/mirror/table/test_model_schema.py
	@$(TOOLCHAIN) install && $(TOOLCHAIN) install classes faults
	@SOURCE_EXAMPLES=$(or $(EXAMPLES),100) $(VENV)/python -m pytest -v --timeout 0 tests/chaos/test_model.py

test-chaos: dev ## Every fault, one by one, and the slow tests
	@$(TOOLCHAIN) install && $(TOOLCHAIN) install classes faults
	@$(VENV)/python -m pytest -v --durations=25 -m slow tests/unit tests/integration tests/compose
	@WRITER=merge $(VENV)/python -m pytest -v -m 'not slow' tests/unit/pipelines/mirror
	@$(VENV)/python -m pytest -v --durations=25 tests/chaos

chaos: dev ## Load, schema changes and faults at random on a stack of its own; equal at the end? (SEED=7 MINUTES=10)
	@$(TOOLCHAIN) install && $(TOOLCHAIN) install classes faults
	@$(VENV)/python -m tests.chaos.runner $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES))

check: dev ## What CI checks: format, lint, types, import rules, shell scripts
	@$(VENV)/ruff format --check . && $(VENV)/ruff check . && $(VENV)/mypy && $(VENV)/lint-imports && $(VENV)/shellcheck -x $(SHELL_SCRIPTS)

lint: dev ## Lint, and mend what can be mended
	@$(VENV)/ruff check --fix .

format: dev ## Format the code
	@$(VENV)/ruff format .

LOCK = .lakehouse/toolchain/uv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock: ## Compile requirements*.in and the toolchain's tools.in into lock files with hashes
	@$(TOOLCHAIN) install uv
	@$(LOCK) -o requirements.lock requirements.in
	@$(LOCK) -o requirements-dev.lock requirements-dev.in
	@$(LOCK) -o infra/toolchain/tools.lock infra/toolchain/tools.in

reference: dev ## Write docs/reference/commands.md anew, from --help
	@$(VENV)/python -m services.cli.reference && $(VENV)/python -m infra.dashboards

env: ## Write .env with generated secrets, or add to it what is missing
	@$(TOOLCHAIN) env

setup: # preflight, toolchain, .env: quick and without network once done
	@$(TOOLCHAIN) preflight --runner $(CHOSEN)
	@$(TOOLCHAIN) install $(COMPONENTS)
	@$(TOOLCHAIN) env

dev:
	@$(TOOLCHAIN) install dev

$(VENV)/python $(VENV)/lakehouse:
	@echo 'nothing is installed here yet: make up' >&2; exit 2
