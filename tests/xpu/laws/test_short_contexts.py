from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from b70_kernels.cache import Layout
from b70_kernels.gates import BAR

from .running import attend, batch, config, wanted, worst

LONGEST, POSITIONS, SPLITS = 600, 9, (1, 2, 7, 8, 32)


@pytest.mark.parametrize("preset", ["k8v4", "k3v4_nc"])
def test_no_length_up_to_600_with_any_split_gives_a_nan(preset, tell):
    """A split that a position sees nothing of is where kernels that subtract infinities go wrong."""
    pairs = [
        (length, q_len)
        for length, q_len in itertools.product(range(1, LONGEST + 1), range(1, POSITIONS + 1))
        if q_len <= length
    ]
    # every context is the beginning of the same one
    one = batch(preset, Layout.PLANAR, 64, 2, [LONGEST], [1])
    starts = torch.tensor([0, *(q_len for _, q_len in pairs)]).cumsum(0).to(torch.int32)
    query = torch.randn(int(starts[-1]), 4, 64, generator=torch.Generator().manual_seed(1)).half()
    lengths = torch.tensor([length for length, _ in pairs], dtype=torch.int32)
    of = replace(one, query=query, block_table=one.block_table.expand(len(pairs), -1).contiguous(), seq_lens=lengths,
                 query_start=starts, longest_query=POSITIONS)  # fmt: skip
    right = wanted(of)
    for splits in SPLITS:
        error = worst(attend(of, config(preset, 16, 64, splits)), right)
        tell(f"row error {preset}, {len(pairs)} short contexts in {splits} splits: {error:.1e}")
        assert error < BAR
