"""Divides the tests among processes on one device, without a plugin: machines with a GPU may have none."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import IO, Any

import pytest
from kernel_scope import FULL

SHARD = "B70_KERNELS_SHARD"
PROCESSES = "B70_KERNELS_PROCESSES"
"""Environment variable: how many; not given: on a device one for two cores, eight at most, else 1."""


def run(config: pytest.Config) -> int | None:
    """Run every shard in a process of its own, give the worst exit status; None where this process is to do it all."""
    wanted = int(os.environ.get(PROCESSES) or (min(8, (os.cpu_count() or 1) // 2) if FULL else 1))
    alone = SHARD in os.environ or wanted < 2 or config.option.collectonly or config.option.usepdb
    if alone or getattr(config.option, "numprocesses", None):
        return None
    children = [_started(config, f"{at}/{wanted}") for at in range(wanted)]
    try:
        for child, _ in children:
            child.wait()
    finally:
        for child, _ in children:
            child.kill()
    for at, (_, out) in enumerate(children):
        out.seek(0)
        sys.stdout.write(f"--- part {at + 1} of {wanted}\n{out.read()}\n")
    # a part to which no test fell is no fault, unless none got any
    nothing = int(pytest.ExitCode.NO_TESTS_COLLECTED)
    codes = [child.returncode for child, _ in children if child.returncode != nothing]
    worst = max(codes, key=abs, default=nothing)
    sys.stdout.write(f"{wanted} parts: {'FAILED' if worst else 'passed'}\n")
    return worst


def _started(config: pytest.Config, shard: str) -> tuple[subprocess.Popen[str], IO[str]]:
    out = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- open as long as the process
    argv = (sys.executable, "-m", "pytest", *config.invocation_params.args)
    env = {**os.environ, SHARD: shard}
    return subprocess.Popen(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, text=True
    ), out


def take(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of this process's shard: all of a preset and layout together, for they share what is compiled."""
    if SHARD not in os.environ:
        return
    at, of = map(int, os.environ[SHARD].split("/"))
    caches = sorted({cache for item in items if (cache := _cache(item))})
    places = [caches.index(cache) if (cache := _cache(item)) else place for place, item in enumerate(items)]
    config.hook.pytest_deselected(items=[item for item, place in zip(items, places, strict=True) if place % of != at])
    items[:] = [item for item, place in zip(items, places, strict=True) if place % of == at]


def _cache(item: Any) -> tuple[str, str] | None:
    shape = getattr(getattr(item, "callspec", None), "params", {}).get("shape")
    return (shape.preset, shape.layout) if shape else None
