"""Times device work the same way for everyone: graphs where there are any, buffers rotated past the cache, medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from .graphs import capture

REPLAYS = 15
ROTATED_BYTES = 400_000_000
"""What one round of rotated buffers reads, but for the smallest: several times the largest last-level cache."""


def copies(size: int) -> int:
    """How many buffers of `size` bytes to rotate."""
    return max(2, min(64, -(-ROTATED_BYTES // size)))


def microseconds(calls: Sequence[Callable[[], object]], device: torch.device) -> float:
    """The median time of one call, the calls made one after the other, each on buffers of its own."""
    for call in calls[:2]:
        call()
    round_of = _round(calls, device)
    round_of()
    return statistics.median(_seconds(round_of, device) / len(calls) for _ in range(REPLAYS)) * 1e6


def _round(calls: Sequence[Callable[[], object]], device: torch.device) -> Callable[[], object]:
    """All calls at once: a replayed graph, or where there is none each by itself, Python's time with it."""

    def each() -> None:
        for call in calls:
            call()

    try:
        graph = capture(each, device)
    except RuntimeError:
        if device.type == "cuda":
            raise
        graph = None  # torch has graphs for the device, its driver has not
    return each if graph is None else graph.replay


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """By the device's own clock on CUDA; else until it is idle again."""
    if device.type == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1e3
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "xpu":
        torch.xpu.synchronize()
