from __future__ import annotations

import itertools
import os

import pytest
import torch
from b70_kernels import dequantise, reference, tuning
from b70_kernels.cache import Layout
from b70_kernels.gates import BAR
from b70_kernels.presets import HEAD_SIZES, PRESETS

from .running import attend, batch, config, poisoned, wanted, worst

EVERYTHING = "B70CTL_XPU_EVERYTHING"
"""Environment variable: run every combination, which takes more than an hour of compiling for the processor."""

# every preset in both layouts, and of each tile, group and head size some: what differs is compiled, and the tests of
# compilation cover all of it
SOME = [
    *((preset, layout, 64, 4, 32) for preset, layout in itertools.product(PRESETS, Layout)),
    ("k8v4", Layout.PLANAR, 128, 8, 64),
    ("k3v4_nc", Layout.PLANAR, 128, 8, 64),
    ("4bit_nc", Layout.PLANAR, 128, 8, 16),
    ("3bit_nc", Layout.PLANAR, 256, 4, 16),
]
EVERY = list(itertools.product(PRESETS, Layout, HEAD_SIZES, (4, 8), (16, 32, 64)))
CASES = EVERY if os.environ.get(EVERYTHING) else SOME


@pytest.mark.parametrize(
    ("preset", "layout", "head_size", "group", "rows"), CASES,
    ids=["-".join((a, b.value, str(c), f"group{d}", f"rows{e}")) for a, b, c, d, e in CASES],
)  # fmt: skip
def test_a_ragged_batch_is_within_3e_4_of_the_reference(preset, layout, head_size, group, rows, tell):
    most = max(1, rows // group)
    of = batch(preset, layout, head_size, group, [37, 1, 300, most], [most, 1, 1, most])
    error = worst(attend(of, config(preset, rows, head_size, 3)), wanted(of))
    tell(f"row error {preset} {layout.value} head {head_size} group {group} rows {rows}: {error:.1e}")
    assert error < BAR


@pytest.mark.parametrize("preset", ["k8v4", "3bit_nc"])
@pytest.mark.parametrize("page", [32, 64])
def test_bf16_with_larger_pages_a_window_and_a_cap_is_within_3e_4_of_the_reference(preset, page, tell):
    of = batch(preset, Layout.PLANAR, 64, 4, [37, 1, 300], [5, 1, 2], page_size=page, dtype=torch.bfloat16)
    options = {"window": 20, "softcap": 3.0}
    error = worst(attend(of, config(preset, 32, 64, 3), **options), wanted(of, **options))
    tell(f"row error {preset} planar bf16 page {page} window and cap: {error:.1e}")
    assert error < BAR


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("preset", ["k8v4", "k3v4_nc"])
def test_what_lies_behind_a_context_changes_no_bit(preset, layout):
    of = batch(preset, layout, 64, 4, [37, 5], [8, 3])
    how = config(preset, 32, 64, 3)
    assert torch.equal(attend(of, how), attend(poisoned(of, 0x7B), how))


@pytest.mark.parametrize(("preset", "layout"), list(itertools.product(PRESETS, Layout)))
def test_stored_tokens_come_back_as_the_reference_reads_them(preset, layout):
    of = batch(preset, layout, 64, 4, [41], [1])
    keys, values = reference.dequantise(of.cache, of.block_table[0], 41)
    room = [torch.full((50, 2, 64), torch.nan, dtype=torch.float16) for _ in range(2)]
    whole = torch.tensor([41, 3], dtype=torch.int32)
    dequantise.dequantise(of.cache, of.block_table, whole[:1], whole[1:], 41, *room, tuning.INTEL)
    # fp16 rounds by 2**-11 at most
    assert worst(room[0][3:44], keys) < 5e-4
    assert worst(room[1][3:44], values) < 5e-4
    assert all(each[:3].isnan().all() and each[44:].isnan().all() for each in room)
