"""Batches for the simulated card, and how far what it computes is from the reference."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch
from b70_kernels import attention, reference, tuning, workload
from b70_kernels.cache import Layout
from b70_kernels.presets import PRESETS, SCALE_BYTES

from tests.xpu.simulator import Simulator


@functools.cache
def simulator() -> Simulator:
    """The card; one for all tests."""
    card = Simulator()
    card.use()
    return card


def config(preset: str, rows: int, head_size: int, splits: int) -> tuning.Config:
    """The tile sizes that an Intel card would run with."""
    choice = tuning.load(tuning.TABLES / "intel.json")[preset, rows, head_size]
    return tuning.launching(choice, rows, splits)


def batch(
    preset: str, layout: Layout, head_size: int, group: int, lengths: list[int], q_lens: list[int], **more: Any
) -> workload.Batch:
    """Two KV heads, `more` for workload.batch; what holds no token is 0xFF, so that a scale read there is a NaN."""
    simulator()
    return workload.batch(PRESETS[preset], lengths, q_lens, heads=2 * group, kv_heads=2, head_size=head_size,
                          layout=layout, launch=tuning.INTEL, **more)  # fmt: skip


def attend(of: workload.Batch, how: tuning.Config, **options: float) -> torch.Tensor:
    """float32, before it is rounded to the query's dtype; scratch and output begin as NaN."""
    simulator()
    tokens, heads, size = of.query.shape
    room = attention.scratch(tokens, heads, how.splits, size, of.query.device)
    for each in (room.partial, room.lse, room.rotated):
        each.fill_(torch.nan)
    out = torch.full(of.query.shape, torch.nan, dtype=torch.float32)
    return attention.attend(of.query, of.cache, of.block_table, of.seq_lens, of.query_start, of.longest_query,
                            config=how, room=room, out=out, **options)  # fmt: skip


def wanted(of: workload.Batch, **options: float) -> torch.Tensor:
    """The reference, float64."""
    return reference.attend(of.query, of.cache, of.block_table, of.seq_lens, of.query_start, **options)


def worst(found: torch.Tensor, right: torch.Tensor) -> float:
    """The largest relative error of a row; infinite where a number is not finite."""
    errors = (found.double() - right).norm(dim=-1) / right.norm(dim=-1)
    return float("inf") if not found.isfinite().all() else errors.max().item()


def poisoned(of: workload.Batch, octet: int) -> workload.Batch:
    """The same tokens; every byte of a slot without a token is another."""
    cache = of.cache
    used = torch.zeros(cache.pages.shape[0] * cache.page_size, dtype=torch.bool)
    for table, length in zip(of.block_table, of.seq_lens, strict=True):
        at = torch.arange(int(length))
        used[table[at // cache.page_size].long() * cache.page_size + at % cache.page_size] = True
    free = ~used.reshape(-1, cache.page_size)
    pages = cache.pages.clone()
    if cache.layout is Layout.INTERLEAVED:
        pages[free] = octet
    else:
        widths = [width for _, width in reference.plane_widths(cache.preset, cache.head_size)]
        heads, at = pages.unflatten(1, (cache.kv_heads, -1)), 0
        for width in (*widths, *[SCALE_BYTES] * cache.preset.scales):
            plane = heads[..., at : at + cache.page_size * width].unflatten(-1, (cache.page_size, width))
            plane.masked_fill_(free[:, None, :, None], octet)
            at += cache.page_size * width
    return replace(of, cache=replace(cache, pages=pages))
