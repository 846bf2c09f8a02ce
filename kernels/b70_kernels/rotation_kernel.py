"""Multiplication by the Hadamard matrix, of keys that are stored and of queries: device code only."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rotated(row, hadamard, D: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr):
    """Rows times the signs of the matrix, [ROWS, D] float32; `row` points to them, [ROWS, 1].

    CHUNK rows of the matrix at a time: all 256 do not fit in an Intel card's local memory.
    """
    dimension = tl.arange(0, D)
    turned = tl.zeros([ROWS, D], tl.float32)
    for begin in range(0, D, CHUNK):
        part = begin + tl.arange(0, CHUNK)
        signs = tl.load(hadamard + part[:, None] * D + dimension[None, :])
        # bf16 fits in fp16 up to 65504; signs times it are exact, so the rotation is as good as float32 adds
        turned = tl.dot(tl.load(row + part[None, :]).to(tl.float16), signs, turned)
    return turned


@triton.jit(do_not_specialize=["rows"])
def rotate_queries(query, hadamard, into, rows, q_token_stride, q_head_stride, HEADS: tl.constexpr,
                   D: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    """One program: a block of rows (token and head), rotated, float32.

    A program of its own: it costs one launch, and saves every split the same multiplication.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    row = tl.where(inside, row, 0).to(tl.int64)
    at = query + (row // HEADS * q_token_stride + row % HEADS * q_head_stride)[:, None]
    turned = rotated(at, hadamard, D, ROWS, CHUNK)
    tl.store(into + row[:, None] * D + tl.arange(0, D)[None, :], turned, mask=inside[:, None])
