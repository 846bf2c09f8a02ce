"""Timing whole processes in turn, and saying it with n, median, spread and the command that repeats it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sample:
    """What one thing took, run after run."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of the runs."""
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        low, high = min(self.seconds), max(self.seconds)
        return f"  {self.name:<44} median {self.median:6.3f} s  ({low:.3f} to {high:.3f}, n={len(self.seconds)})"


def ratio(sample: Sample, base: Sample) -> str:
    """How many times the base, from runs that lie side by side in time."""
    pairs = [one / other for one, other in zip(sample.seconds, base.seconds, strict=True)]
    middle = statistics.median(pairs)
    return f"{middle:.2f} x {base.name} ({min(pairs):.2f} to {max(pairs):.2f}, n={len(pairs)})"


def in_turn(things: Mapping[str, Callable[[], float]], n: int) -> dict[str, Sample]:
    """Each thing n times, one after the other, round by round; the first round warms up and is not kept."""
    taken: dict[str, list[float]] = {name: [] for name in things}
    for number in range(n + 1):
        for name, thing in things.items():
            seconds = thing()
            if number:
                taken[name].append(seconds)
    return {name: Sample(name, tuple(seconds)) for name, seconds in taken.items()}


def process(argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], ok: Sequence[int] = (0,)) -> float:
    """Seconds from start to end of one process; a wrong exit status ends the benchmark."""
    began = time.perf_counter()
    ran = subprocess.run(argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    seconds = time.perf_counter() - began
    if ran.returncode not in ok:
        raise SystemExit(f"{' '.join(map(str, argv))} ended with exit {ran.returncode}:\n{ran.stderr.decode()}")
    return seconds


def tell(text: str) -> None:
    """A line of the report, out at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def heading(what: str, module: str) -> None:
    """What is measured, on what, and how to repeat it."""
    tell(f"\n{what}\n  {os.cpu_count()} cores, Python {sys.version.split()[0]}; repeat: {_python()} -m {module}")


def _python() -> str:
    return ".venv/bin/python"
