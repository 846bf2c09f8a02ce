"""Kernels compiled for the card with the shapes of a real batch, through the same functions that launch them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from b70_kernels import attention, dequantise, store, tuning
from b70_kernels.cache import Cache, Layout, empty_cache
from b70_kernels.presets import PRESETS

from .driver import Module, Recorder

PAGES = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """What a kernel is compiled for."""

    preset: str
    head_size: int = 128
    group: int = 8
    layout: Layout = Layout.PLANAR
    kv_heads: int = 4
    page: int = 16
    dtype: torch.dtype = torch.float16

    def cache(self) -> Cache:
        """A few empty pages."""
        preset = PRESETS[self.preset]
        return empty_cache(PAGES, preset, self.head_size, self.kv_heads, self.page, self.layout)


def attending(recorder: Recorder, shape: Shape, config: tuning.Config, **options: float) -> dict[str, Module]:
    """The kernels of one call of `attend`, by name."""
    heads = shape.kv_heads * shape.group
    query = torch.zeros(4, heads, shape.head_size, dtype=shape.dtype)
    with recorder.anew() as modules:
        attention.attend(query, shape.cache(), _whole(4, 512), _whole(4), _whole(5), 1, config=config, **options)
    return modules


def storing(recorder: Recorder, shape: Shape) -> dict[str, Module]:
    """The kernels of one call of `store` and one of `dequantise`, launched as on the card, by name."""
    tokens = torch.zeros(64, shape.kv_heads, shape.head_size, dtype=shape.dtype)
    cache = shape.cache()
    with recorder.anew() as modules:
        store.store(tokens, tokens, cache, torch.zeros(64, dtype=torch.int64), tuning.INTEL)
        room = tokens.clone()
        dequantise.dequantise(cache, _whole(1, 4), _whole(1), _whole(1), 64, tokens, room, tuning.INTEL)
    return modules


def _whole(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32)
