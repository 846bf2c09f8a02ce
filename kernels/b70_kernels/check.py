"""Proves the kernels on the device at hand, in under a minute, and says everything that a report needs.

    python -m b70_kernels.check [--device xpu] [--full] [--workers 8] [--json]

Several processes share the work, a gate and a preset at a time: nearly all of it is compiling, the first time. One that
dies is a finding, and the others go on. Exit status 1 when a gate does not hold, 130 when interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import triton

from . import __version__, arguments, gates, tuning, workers
from .gates import GATES, Scope, Wrong
from .presets import PRESETS
from .workers import Died


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
    errors: list[float] = []
    wrong: str | None = None
    try:
        scope = Scope(arguments.device(job.device), job.full, (PRESETS[job.preset],))
        errors += getattr(gates, job.gate)(scope)
    except Wrong as found:
        wrong = str(found)
    except Exception as error:  # noqa: BLE001 - a compiler's fault is a finding, not the end
        wrong = f"{job.preset}: {type(error).__name__}: {str(error)[:300]}"
    return Found(tuple(errors), wrong, time.perf_counter() - began)


def jobs(device: str, *, full: bool) -> list[Job]:
    """All that there is to do, gate by gate."""
    return [Job(gate.__name__, preset, device, full) for gate in GATES for preset in PRESETS]


def run(every: Sequence[Job], processes: int) -> Generator[Verdict, None, None]:
    """Every gate, a verdict as soon as it and those before it are done; one that does not hold stops no other."""
    found: dict[Job, Found] = {}
    pending = list(dict.fromkeys(job.gate for job in every))
    with contextlib.closing(workers.outcomes(carry_out, every, processes)) as outcomes:
        for job, outcome in outcomes:
            found[job] = Found((), f"{job.preset}: {outcome}", 0.0) if isinstance(outcome, Died) else outcome
            while pending and all(each in found for each in every if each.gate == pending[0]):
                gate = pending.pop(0)
                yield verdict(gate, [found[each] for each in every if each.gate == gate])


def verdict(gate: str, found: list[Found]) -> Verdict:
    """Of what was found for each preset."""
    errors = [error for each in found for error in each.errors]
    wrong = "; ".join(each.wrong for each in found if each.wrong)
    told = f"{len(errors)} cases, worst {max(errors):.1e}" if errors else "not on this device"
    return Verdict(gate, not wrong, wrong or told, round(sum(each.seconds for each in found), 2))


def sources() -> str:
    """SHA-256 over the package's own sources, their names and bytes."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()


def table(device: torch.device) -> str:
    """The tuning table in use, or what is wrong with it."""
    try:
        return tuning.in_use(device)
    except ValueError as error:
        return str(error)


def about(device: torch.device, count: int) -> dict[str, str]:
    """What a reader of the report has to know of the machine, and of what ran on it."""
    known = {
        "device": str(device), "python": platform.python_version(), "torch": torch.__version__,
        "triton": triton.__version__, "kernel": platform.release(), "b70_kernels": __version__,
        "sources": f"sha256:{sources()}", "table": table(device), "jobs": str(count),
    }  # fmt: skip
    module = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None)}.get(device.type)
    if module is not None and module.is_available():
        properties = module.get_device_properties(device)
        names = [each for each in dir(properties) if not each.startswith("_") and each != "uuid"]
        known |= {f"device.{each}": str(getattr(properties, each)) for each in names}
    return known


def given(words: Sequence[str]) -> argparse.Namespace:
    """What the command line says; the program ends where that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m b70_kernels.check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", type=arguments.device, default=arguments.a_device())
    parser.add_argument("--full", action="store_true", help="every head size, page size, group and length: minutes")
    parser.add_argument("--workers", type=arguments.processes, default=min(8, os.cpu_count() or 1),
                        help="processes that share the work")  # fmt: skip
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """A line a gate, or one JSON object, whatever became of the gates."""
    said = given(words)
    every = jobs(str(said.device), full=said.full)
    verdicts: list[Verdict] = []
    status = 0
    try:
        with contextlib.closing(run(every, said.workers)) as found:
            for each in found:
                verdicts.append(each)
                if not said.json:
                    mark = "ok" if each.passed else "WRONG"
                    print(f"{mark:5} {each.check:30} {each.seconds:7.1f} s  {each.found}", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: {len(verdicts)} of {len(GATES)} gates were checked", file=sys.stderr)
        status = 130
    passed = status == 0 and all(each.passed for each in verdicts)
    told = about(said.device, len(every))
    if said.json:
        print(json.dumps({"passed": passed, "about": told, "checks": [asdict(each) for each in verdicts]}))
    else:
        print("\n".join(f"{name}: {what}" for name, what in told.items()))
    return status or (0 if passed else 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
