"""Times device work the same way for everyone: graphs where there are any, buffers rotated past the cache, medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

REPLAYS = 15
ROTATED_BYTES = 400_000_000
"""What one round of rotated buffers reads at least: several times the largest last-level cache."""


def copies(size: int) -> int:
    """How many buffers of `size` bytes to rotate."""
    return max(2, min(64, -(-ROTATED_BYTES // size)))


def microseconds(calls: Sequence[Callable[[], object]], device: torch.device) -> float:
    """The median time of one call, the calls made one after the other, each on buffers of its own."""
    for call in calls[:2]:
        call()
    if device.type == "cuda":
        return _graph(calls)
    _wait(device)
    rounds = []
    for _ in range(REPLAYS):
        begin = time.perf_counter()
        for call in calls:
            call()
        _wait(device)
        rounds.append((time.perf_counter() - begin) / len(calls))
    return statistics.median(rounds) * 1e6


def _graph(calls: Sequence[Callable[[], object]]) -> float:
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    graph.replay()
    rounds = []
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        rounds.append(begin.elapsed_time(end) / len(calls))
    return statistics.median(rounds) * 1e3


def _wait(device: torch.device) -> None:
    if device.type == "xpu":
        torch.xpu.synchronize()
