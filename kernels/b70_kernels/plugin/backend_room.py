"""Memory that the layers of a process share: they run one after the other, on one stream.

Taken when the layers are made, so that vLLM counts it before it measures what is left for the cache, and before any
graph is captured. It never grows later: who needs more than was foreseen gets memory of its own for that call.
"""

from __future__ import annotations

import math

import torch

from b70_kernels.attention import Scratch

WORKSPACE = 128 * 2**20
"""Bytes at most for dequantised keys and values; a context that does not fit with one KV head goes another way."""
ALIGNED = 256
FLOAT = 4
PARTS = 32768
"""Rows of parts of split contexts, whatever the batch: the tables' most programs, times the largest tile's rows."""

_shared: dict[torch.device, torch.Tensor] = {}
_last: dict[torch.device, tuple[tuple[int, ...], Scratch]] = {}
"""The layers of a step ask for the same again."""


def reserve(device: str, size: int) -> None:
    """See that there are `size` bytes; called before any graph is captured."""
    at = torch.empty(0, device=device).device
    if at not in _shared or _shared[at].numel() < size:
        _shared[at] = torch.empty(size, dtype=torch.uint8, device=at)
        _last.pop(at, None)


def scratch_bytes(positions: int, heads: int, head_size: int) -> int:
    """What the fused kernel may need for so many query positions."""
    rows = max(PARTS, positions * heads)
    return FLOAT * (rows * (head_size + 1) + positions * heads * head_size) + 3 * ALIGNED


def scratch(device: torch.device, positions: int, heads: int, splits: int, head_size: int) -> Scratch:
    """Room for one call of the fused kernel, valid until the next call of this module."""
    wanted = (positions, heads, splits, head_size)
    if device in _last and _last[device][0] == wanted:
        return _last[device][1]
    partial, lse, rotated = _taken(
        device, torch.float32, wanted, (positions, heads, splits), (positions, heads, head_size)
    )
    found = Scratch(partial, lse, rotated)
    if device in _shared and partial.untyped_storage().data_ptr() == _shared[device].untyped_storage().data_ptr():
        _last[device] = wanted, found
    return found


def rows_bytes(rows: int, heads: int, head_size: int) -> int:
    """What dequantised keys and values of two bytes take."""
    return 4 * rows * heads * head_size + 2 * ALIGNED


def dequantised(device: torch.device, dtype: torch.dtype, rows: int, heads: int, size: int) -> list[torch.Tensor]:
    """Room for keys and values [rows, heads, size], valid until the next call of this module."""
    return _taken(device, dtype, (rows, heads, size), (rows, heads, size))


def _taken(device: torch.device, dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    sizes = [math.prod(shape) * dtype.itemsize for shape in shapes]
    steps = [-(-size // ALIGNED) * ALIGNED for size in sizes]
    shared = _shared.get(device)
    if shared is None or shared.numel() < sum(steps):
        return [torch.empty(shape, dtype=dtype, device=device) for shape in shapes]
    found, at = [], 0
    for shape, size, step in zip(shapes, sizes, steps, strict=True):
        found.append(shared[at : at + size].view(dtype).view(shape))
        at += step
    return found
