"""Puts the parts of split contexts together: device code only."""

from __future__ import annotations

import triton
import triton.language as tl

# the log2 of the sum of weights of a part that a row sees nothing of, and of every maximum at its beginning: finite, so
# that nothing subtracts infinities
LOWEST: tl.constexpr = tl.constexpr(-1.0e30)


@triton.jit(do_not_specialize=["splits", "query_end"])
def merge_splits(partial, partial_lse, query_end, out, splits, out_token_stride, out_head_stride,
                 HEADS: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    """One program: one query row; the parts' means, weighted by their sums, in float32, in a fixed order.

    A row of no request, from the batch's padding, becomes zero; so does one that sees nothing. A NaN is kept.
    """
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    row = token * HEADS + head
    splits = tl.where(token < tl.load(query_end), splits, 0)
    dimension = tl.arange(0, D)
    lane = tl.arange(0, CHUNK)
    highest = tl.full([CHUNK], LOWEST, tl.float32)
    for chunk in range(0, splits, CHUNK):
        known = chunk + lane < splits
        highest = tl.maximum(highest, tl.load(partial_lse + row * splits + chunk + lane, mask=known, other=LOWEST))
    maximum = tl.max(highest, 0)
    mean = tl.zeros([D], tl.float32)
    total = 0.0
    for chunk in range(0, splits, CHUNK):
        known = chunk + lane < splits
        lse = tl.load(partial_lse + row * splits + chunk + lane, mask=known, other=LOWEST)
        # not >: a NaN counts
        counts = ~(lse <= LOWEST * 0.5)
        weight = tl.where(counts, tl.exp2(lse - maximum), 0.0)
        part = tl.load(partial + (row * splits + chunk + lane)[:, None] * D + dimension[None, :],
                       mask=counts[:, None], other=0.0)  # fmt: skip
        mean += tl.sum(part * weight[:, None], 0)
        total += tl.sum(weight, 0)
    some = total != 0.0
    mean = tl.where(some, mean / tl.where(some, total, 1.0), 0.0)
    tl.store(out + token * out_token_stride + head * out_head_stride + dimension, mean.to(out.dtype.element_ty))
