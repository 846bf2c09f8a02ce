# `make` alone lists the targets. A target is one line; what it does can be run by hand as well.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check golden schema bench bench-drain wheel-test clean engine-up engine-down
SHELL := /bin/sh
PYTHON := .venv/bin/python

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do printf '%-20s %s\n' "$$target" "$$text"; done

setup: ## make .venv; install what is missing, and say so
	@tests/rig/setup.sh

demo: setup ## switch, probe, failed switch and rollback on a real Docker Engine, with a stand-in for vLLM
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.demo

test: check ## everything that CI checks; Docker tests fail, never skip
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.suite

check: setup ## lints, format and types
	@.venv/bin/ruff check -q && .venv/bin/ruff format -q --check && .venv/bin/mypy

golden: setup ## write the golden Compose files anew; read the diff
	@$(PYTHON) -m tests.rewrite_golden

schema: setup ## write the profile schema and the profile reference anew
	@$(PYTHON) -m tests.rewrite_docs

bench: setup ## start-up, render, memory, a watch, and a switch beside plain Compose, as ratios in one run
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.dockerd run -- $(PYTHON) -m tests.bench

bench-drain: setup ## 200 streams through a vllm-router while the engine is drained; installs the router, 130 MB
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.dockerd run -- $(PYTHON) -m tests.bench.draining

wheel-test: setup ## build wheel and sdist, install the wheel elsewhere, use it there
	@$(PYTHON) -m pytest -q tests/test_packaging.py

clean: ## remove .venv and every cache
	@tests/rig/setup.sh clean

engine-up: setup ## start a private Docker Engine where none answers, and leave it running
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.dockerd up

engine-down: setup ## stop the private Docker Engine
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.dockerd down
