"""Turns stored tokens back into fp16: device code only. What is promised stands in dequantise.py."""

from __future__ import annotations

import triton
import triton.language as tl

from .unpack import dimensions, load_keys, load_scales, load_values, product


@triton.jit(do_not_specialize=["block_table", "lengths", "out_start", "block_stride"])
def dequantise_tokens(
    cache, block_table, lengths, out_start, hadamard, keys, values,
    block_stride, page_stride, token_stride, head_stride, out_token_stride, out_head_stride,
    D: tl.constexpr, PAGE: tl.constexpr, KEY_BITS: tl.constexpr, VALUE_BITS: tl.constexpr, PLANAR: tl.constexpr,
    TOKENS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One program: a block of tokens of one request and one KV head; keys are rotated back."""
    request = tl.program_id(2)
    kv_head = tl.program_id(1)
    length = tl.load(lengths + request)
    begin = tl.program_id(0) * TOKENS
    if begin >= length:
        return
    at = begin + tl.arange(0, TOKENS)
    inside = tl.minimum(at, length - 1)
    page = tl.load(block_table + request.to(tl.int64) * block_stride + inside // PAGE).to(tl.int64)
    base = page * page_stride + kv_head.to(tl.int64) * head_stride
    slot = inside % PAGE
    w = tl.arange(0, D // 4)
    key_0, key_1, key_2, key_3 = load_keys(cache, base[:, None], slot[:, None], w[None, :], token_stride, D, PAGE,
                                           KEY_BITS, PLANAR, False)  # fmt: skip
    key_scale, _, _ = load_scales(cache, base, slot, token_stride, D, PAGE, KEY_BITS, VALUE_BITS, PLANAR)
    token = (tl.load(out_start + request) + at).to(tl.int64)
    row = (token * out_token_stride + kv_head * out_head_stride)[:, None]
    mask = (at < length)[:, None]
    if KEY_BITS == 8:
        store_tile(keys, row, key_0.to(tl.float32), w, mask, D, PLANAR, 0)
        store_tile(keys, row, key_1.to(tl.float32), w, mask, D, PLANAR, 1)
        store_tile(keys, row, key_2.to(tl.float32), w, mask, D, PLANAR, 2)
        store_tile(keys, row, key_3.to(tl.float32), w, mask, D, PLANAR, 3)
    else:
        if not PLANAR:
            squares = product(key_0, key_0) + product(key_1, key_1) + product(key_2, key_2) + product(key_3, key_3)
            key_scale = key_scale * tl.rsqrt(tl.sum(squares, 1))
        key_scale = (key_scale * D**-0.5)[:, None]
        for first in range(0, D, CHUNK):
            part = first + tl.arange(0, CHUNK)
            back = tl.dot(key_0, signs(hadamard, w, part, D, PLANAR, 0))
            back = tl.dot(key_1, signs(hadamard, w, part, D, PLANAR, 1), back)
            back = tl.dot(key_2, signs(hadamard, w, part, D, PLANAR, 2), back)
            back = tl.dot(key_3, signs(hadamard, w, part, D, PLANAR, 3), back)
            tl.store(keys + row + part[None, :], (back * key_scale).to(keys.dtype.element_ty), mask=mask)
    # values come after keys are done with: together they need more registers than an Intel card has
    _, value_scale, middle = load_scales(cache, base, slot, token_stride, D, PAGE, KEY_BITS, VALUE_BITS, PLANAR)
    value_0, value_1, value_2, value_3 = load_values(cache, base[:, None], slot[:, None], w[None, :], token_stride, D,
                                                     PAGE, KEY_BITS, VALUE_BITS, PLANAR)  # fmt: skip
    scale = value_scale[:, None]
    middle = middle[:, None]
    store_tile(values, row, tl.fma(value_0.to(tl.float32), scale, middle), w, mask, D, PLANAR, 0)
    store_tile(values, row, tl.fma(value_1.to(tl.float32), scale, middle), w, mask, D, PLANAR, 1)
    store_tile(values, row, tl.fma(value_2.to(tl.float32), scale, middle), w, mask, D, PLANAR, 2)
    store_tile(values, row, tl.fma(value_3.to(tl.float32), scale, middle), w, mask, D, PLANAR, 3)


@triton.jit
def store_tile(out, row, tile, w, mask, D: tl.constexpr, PLANAR: tl.constexpr, TILE: tl.constexpr):
    """Store one tile where its dimensions are."""
    tl.store(out + row + dimensions(w, D, PLANAR, TILE)[None, :], tile.to(out.dtype.element_ty), mask=mask)


@triton.jit
def signs(hadamard, w, part, D: tl.constexpr, PLANAR: tl.constexpr, TILE: tl.constexpr):
    """The rows of the rotation that one tile's dimensions are multiplied with, and of those some columns."""
    return tl.load(hadamard + dimensions(w, D, PLANAR, TILE)[:, None] * D + part[None, :])
