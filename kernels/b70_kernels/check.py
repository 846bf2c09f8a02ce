"""Proves the kernels on the device at hand, in under a minute, and says everything that a report needs.

    python -m b70_kernels.check [--device xpu] [--full] [--workers 8] [--json]

Several processes share the work, a gate and a preset at a time: nearly all of it is compiling, the first time. Exit
status 1 when a gate does not hold.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass

import torch
import triton

from . import gates
from .gates import GATES, Scope, Wrong
from .presets import PRESETS


@dataclass(frozen=True, slots=True)
class Job:
    """One gate for one preset, as it is handed to a process."""

    gate: str
    preset: str
    device: str
    full: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a job."""

    errors: tuple[float, ...]
    wrong: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one gate found, all presets together; `seconds` are those of all processes."""

    check: str
    passed: bool
    found: str
    seconds: float


def carry_out(job: Job) -> Found:
    """A job's errors, and what was wrong."""
    began = time.perf_counter()
    scope = Scope(torch.device(job.device), job.full, (PRESETS[job.preset],))
    errors: list[float] = []
    wrong: str | None = None
    try:
        errors += getattr(gates, job.gate)(scope)
    except Wrong as found:
        wrong = str(found)
    except Exception as error:  # noqa: BLE001 - a compiler's fault is a finding, not the end
        wrong = f"{job.preset}: {type(error).__name__}: {str(error)[:300]}"
    return Found(tuple(errors), wrong, time.perf_counter() - began)


def jobs(device: str, *, full: bool) -> list[Job]:
    """All that there is to do, gate by gate."""
    return [Job(gate.__name__, preset, device, full) for gate in GATES for preset in PRESETS]


def run(device: torch.device, *, full: bool, workers: int) -> Iterator[Verdict]:
    """Every gate, a verdict as soon as it and those before it are done; one that does not hold stops no other."""
    every = jobs(str(device), full=full)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        answers = zip(every, pool.map(carry_out, every), strict=True)
        for gate, group in itertools.groupby(answers, key=lambda each: each[0].gate):
            yield verdict(gate, [found for _, found in group])


def verdict(gate: str, found: list[Found]) -> Verdict:
    """Of what was found for each preset."""
    errors = [error for each in found for error in each.errors]
    wrong = "; ".join(each.wrong for each in found if each.wrong)
    told = f"{len(errors)} cases, worst {max(errors):.1e}" if errors else "not on this device"
    return Verdict(gate, not wrong, wrong or told, round(sum(each.seconds for each in found), 2))


def about(device: torch.device) -> dict[str, str]:
    """What a reader of the report has to know of the machine."""
    known = {
        "device": str(device), "python": platform.python_version(), "torch": torch.__version__,
        "triton": triton.__version__, "kernel": platform.release(),
    }  # fmt: skip
    module = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None)}.get(device.type)
    if module is not None and module.is_available():
        properties = module.get_device_properties(device)
        names = [each for each in dir(properties) if not each.startswith("_") and each != "uuid"]
        known |= {f"device.{each}": str(getattr(properties, each)) for each in names}
    return known


def main(arguments: list[str]) -> int:
    """A line a gate, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m b70_kernels.check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "xpu")
    parser.add_argument("--full", action="store_true", help="every head size, page size, group and length: minutes")
    parser.add_argument(
        "--workers", type=int, default=min(8, os.cpu_count() or 1), help="processes that share the work"
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    device = torch.device(given.device)
    try:
        torch.zeros(1, device=device)
    except Exception as error:  # noqa: BLE001 - torch raises whatever a missing device makes it raise
        parser.error(f"torch {torch.__version__} has no device {given.device}: {str(error).splitlines()[0][:200]}")
    if given.workers < 1:
        parser.error(f"{given.workers} processes can do nothing")
    verdicts = []
    for each in run(device, full=given.full, workers=given.workers):
        verdicts.append(each)
        if not given.json:
            mark = "ok" if each.passed else "WRONG"
            print(f"{mark:5} {each.check:30} {each.seconds:7.1f} s  {each.found}", flush=True)
    passed = all(each.passed for each in verdicts)
    if given.json:
        print(json.dumps({"passed": passed, "about": about(device), "checks": [asdict(each) for each in verdicts]}))
    else:
        print("\n".join(f"{name}: {what}" for name, what in about(device).items()))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
