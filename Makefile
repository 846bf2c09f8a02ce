# `make` alone lists the targets. A target is one line; what it does can be run by hand as well.
.DEFAULT_GOAL := help
.PHONY: help setup venv demo test test-gpu test-xpu tune-xpu check golden schema bench bench-drain bench-gpu tune-gpu wheel-test clean engine-up engine-down
SHELL := /bin/sh
PYTHON := .venv/bin/python

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do printf '%-20s %s\n' "$$target" "$$text"; done

setup: ## make .venv; install what is missing, and say so
	@tests/rig/setup.sh kernels

venv: ## the same without torch and triton, which only the kernels' tests need
	@tests/rig/setup.sh

demo: venv ## switch, probe, failed switch and rollback on a real Docker Engine, with a stand-in for vLLM
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.demo

test: check ## everything that CI checks; Docker tests fail, never skip
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.suite

test-gpu: ## every gate of the kernels on this machine's GPU, cuda unless B70_KERNELS_DEVICE says xpu; needs torch, triton, hypothesis
	@B70_KERNELS_DEVICE=$${B70_KERNELS_DEVICE:-cuda} python3 -m pytest tests/kernels -q --confcutdir=tests/kernels

test-xpu: ## the kernels compiled for Xe2, run on this machine's processor and disassembled; installs compilers, 3 GB, in .cache/xpu
	@tests/xpu/setup.sh && .cache/xpu/venv/bin/python -m tests.xpu.suite

check: setup ## lints, format and types
	@.venv/bin/ruff check -q && .venv/bin/ruff format -q --check && .venv/bin/mypy

golden: venv ## write the golden Compose files anew; read the diff
	@$(PYTHON) -m tests.rewrite_golden

schema: venv ## write the profile schema and the profile reference anew
	@$(PYTHON) -m tests.rewrite_docs

bench: venv ## start-up, render, memory, a watch, and a switch beside plain Compose, as ratios in one run
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.dockerd run -- $(PYTHON) -m tests.bench

bench-drain: venv ## 200 streams through a vllm-router while the engine is drained; installs the router, 130 MB
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.dockerd run -- $(PYTHON) -m tests.bench.draining

bench-gpu: ## the kernels beside FP16 attention and vLLM's own, on this machine's device; needs torch and triton
	@python3 -m tests.bench.upstream .cache/upstream && PYTHONPATH=kernels:.cache/upstream python3 -m b70_kernels.bench

tune-gpu: ## measure tile sizes on this machine's NVIDIA device, and write them into the shipped table
	@PYTHONPATH=kernels python3 -m b70_kernels.tune --out kernels/b70_kernels/tables/nvidia.json --workers 8

tune-xpu: ## choose tile sizes for Intel cards by what their compiler makes of them, and write them into the shipped table
	@tests/xpu/setup.sh && PYTHONPATH=kernels .cache/xpu/venv/bin/python -m tests.xpu.tune

wheel-test: venv ## build wheel and sdist, install the wheel elsewhere, use it there
	@$(PYTHON) -m pytest -q tests/test_packaging.py

clean: ## remove .venv and every cache
	@tests/rig/setup.sh clean

engine-up: venv ## start a private Docker Engine where none answers, and leave it running
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.dockerd up

engine-down: venv ## stop the private Docker Engine
	@tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.dockerd down
