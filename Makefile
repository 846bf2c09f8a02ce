# `make` alone lists the targets. A target is one line; what it does can be run by hand as well.
.DEFAULT_GOAL := help
.PHONY: help setup venv demo test test-gpu test-xpu test-vllm test-vllm-source test-vllm-config test-vllm-backend prove-vllm compatibility tune-xpu check golden schema bench bench-drain bench-gpu tune-gpu wheel-test clean engine-up engine-down
SHELL := /bin/sh
PYTHON := .venv/bin/python

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do printf '%-24s %s\n' "$$target" "$$text"; done

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

test-vllm: venv ## a real vLLM, switched to and from in a container, with drafts that are accepted; installs 7 GB in .cache/vllm
	@tests/vllm/setup.sh engine && tests/rig/setup.sh as-root $(PYTHON) -m tests.rig.dockerd run -- $(PYTHON) -m tests.vllm.engine && $(PYTHON) -m tests.vllm.table

test-vllm-source: venv ## what plugin, patches and b70ctl say of vLLM, against its sources: three releases, VERSIONS=all, or VERSIONS="0.30.0 …"
	@$(PYTHON) -m tests.vllm.source $(VERSIONS) && $(PYTHON) -m tests.vllm.table

test-vllm-config: venv ## real vLLM's argument parser, config and choice of backends for an Intel card, without one; nine releases, or VERSIONS="0.30.0 …"
	@export B70CTL_VLLM_VERSIONS="$(VERSIONS)"; tests/vllm/setup.sh config && $(PYTHON) -m tests.vllm.config && $(PYTHON) -m tests.vllm.table

test-vllm-backend: venv ## our attention backend among real vLLM objects, against plain attention; seven releases, or VERSIONS="0.30.0 …"
	@tests/vllm/setup.sh backend && $(PYTHON) -m tests.vllm.backend $(VERSIONS) && $(PYTHON) -m tests.vllm.table

prove-vllm: venv ## every tier that a new release can pass, VERSION=0.34.0; then one table to review
	@$(PYTHON) -m tests.vllm.prove $(VERSION)

compatibility: venv ## write docs/compatibility.md anew from what the tiers recorded
	@$(PYTHON) -m tests.vllm.table

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
	@PYTHONPATH=kernels python3 -m b70_kernels.tune --out kernels/b70_kernels/tables/nvidia.json --workers $$(nproc)

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
