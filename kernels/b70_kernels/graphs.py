"""Captured graphs, where torch has them: on CUDA devices, and in later releases on XPU (tried on CUDA alone)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def capture(work: Callable[[], object], device: torch.device) -> Any:
    """What `work` launches, as a graph with `replay`; None where torch has no graphs for the device."""
    module: Any = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None)}.get(device.type)
    kind = getattr(module, f"{device.type.upper()}Graph", None)
    if kind is None:
        return None
    module.synchronize()
    graph = kind()
    with module.graph(graph):
        work()
    return graph
