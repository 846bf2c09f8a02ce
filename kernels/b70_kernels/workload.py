"""Random batches with a filled cache, for checks, timing and tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from . import store, tuning
from .cache import Cache, Layout, empty_cache
from .presets import Preset


@dataclass(frozen=True, slots=True)
class Batch:
    """What attention is called with."""

    query: torch.Tensor
    cache: Cache
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    query_start: torch.Tensor
    longest_query: int


def batch(
    preset: Preset,
    seq_lens: Sequence[int],
    q_lens: Sequence[int],
    *,
    heads: int,
    kv_heads: int,
    head_size: int,
    page_size: int = 16,
    layout: Layout = Layout.PLANAR,
    dtype: torch.dtype = torch.float16,
    device: torch.device | str = "cpu",
    seed: int = 0,
    launch: tuning.Launch | None = None,
) -> Batch:
    """Normal keys, values and queries, stored by the store kernel in shuffled pages; every other byte is 0xFF."""
    device = torch.device(device)
    generator = torch.Generator(device="cpu").manual_seed(seed)
    most = -(-max(seq_lens) // page_size)
    pages = len(seq_lens) * most + 3
    table = torch.randperm(pages, generator=generator)[: len(seq_lens) * most].reshape(len(seq_lens), most)
    cache = empty_cache(pages, preset, head_size, kv_heads, page_size, layout, device)
    on_device = torch.Generator(device=device).manual_seed(seed)
    for request, length in enumerate(seq_lens):
        at = torch.arange(length)
        slots = (table[request, at // page_size] * page_size + at % page_size).to(device)
        key, value = (
            torch.randn(length, kv_heads, head_size, generator=on_device, device=device, dtype=torch.float32).to(dtype)
            for _ in range(2)
        )
        store.store(key, value, cache, slots, launch)
    starts = torch.tensor([0, *q_lens]).cumsum(0).to(torch.int32)
    query = torch.randn(int(starts[-1]), heads, head_size, generator=on_device, device=device).to(dtype)
    lengths = torch.tensor(list(seq_lens), dtype=torch.int32, device=device)
    return Batch(query, cache, table.to(torch.int32).to(device), lengths, starts.to(device), max(q_lens))
