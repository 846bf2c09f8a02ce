"""Quantises new tokens into a cache: device code only. What is promised stands in store.py."""

from __future__ import annotations

import triton
import triton.language as tl

from .rotation_kernel import rotated


@triton.jit(do_not_specialize=["tokens"])
def store_tokens(
    key, value, cache, slots, hadamard, tokens,
    k_token_stride, k_head_stride, v_token_stride, v_head_stride, page_stride, token_stride, head_stride,
    T1: tl.constexpr, T2: tl.constexpr, T3: tl.constexpr, T4: tl.constexpr, T5: tl.constexpr, T6: tl.constexpr,
    T7: tl.constexpr, S0: tl.constexpr, S1: tl.constexpr, S2: tl.constexpr, S3: tl.constexpr, S4: tl.constexpr,
    S5: tl.constexpr, S6: tl.constexpr, S7: tl.constexpr,
    D: tl.constexpr, PAGE: tl.constexpr, KEY_BITS: tl.constexpr, VALUE_BITS: tl.constexpr, PLANAR: tl.constexpr,
    TOKENS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One program: a block of tokens of one KV head. T1 to T7: where a key's code changes; S0 to S7: squared codes."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    kv_head = tl.program_id(1)
    inside = token < tokens
    slot = tl.load(slots + token, mask=inside, other=-1).to(tl.int64)
    kept = slot >= 0
    slot = tl.where(kept, slot, 0)
    token = tl.where(inside, token, 0).to(tl.int64)
    dimension = tl.arange(0, D)
    head = slot // PAGE * page_stride + kv_head * head_stride
    place = slot % PAGE

    row = tl.load(key + (token * k_token_stride + kv_head * k_head_stride)[:, None] + dimension[None, :])
    if KEY_BITS == 8:
        store_bytes(cache, head, place, token_stride, 0, to_fp8(row.to(tl.float32)), kept, D, PLANAR)
    else:
        wide = row.to(tl.float32)
        norm = tl.sqrt(tl.sum(wide * wide, 1))
        # not divided by sqrt(D): over the norm, a coordinate is one of N(0, 1)
        unit = rotated(key + (token * k_token_stride + kv_head * k_head_stride)[:, None], hadamard, D, TOKENS, CHUNK)
        unit = unit * (1.0 / tl.maximum(norm, 1.0e-30))[:, None]
        size = tl.abs(unit)
        code = (size > T1).to(tl.int32) + (size > T2).to(tl.int32) + (size > T3).to(tl.int32)
        square = tl.where(size > T2, tl.where(size > T3, S3, S2), tl.where(size > T1, S1, S0))
        if KEY_BITS == 4:
            code += (size > T4).to(tl.int32) + (size > T5).to(tl.int32)
            code += (size > T6).to(tl.int32) + (size > T7).to(tl.int32)
            upper = tl.where(size > T6, tl.where(size > T7, S7, S6), tl.where(size > T5, S5, S4))
            square = tl.where(size > T4, upper, square)
        half: tl.constexpr = 2 ** (KEY_BITS - 1)
        code = tl.where(unit < 0, half - 1 - code, half + code)
        store_codes(cache, head, place, token_stride, 0, code, kept, D, PAGE, KEY_BITS, PLANAR)
        if PLANAR:
            norm = norm / tl.sqrt(tl.sum(square, 1))
        store_scale(cache, head, place, token_stride, norm, kept, 0, D, PAGE, KEY_BITS, VALUE_BITS, PLANAR)

    row = tl.load(value + (token * v_token_stride + kv_head * v_head_stride)[:, None] + dimension[None, :])
    wide = row.to(tl.float32)
    low = tl.min(wide, 1)
    steps: tl.constexpr = 2**VALUE_BITS - 1
    scale = tl.maximum((tl.max(wide, 1) - low) * (1.0 / steps), 1.0e-8)
    code = tl.minimum(((wide - low[:, None]) / scale[:, None] + 0.5).to(tl.int32), steps)
    after: tl.constexpr = D * KEY_BITS // 8 + (0 if PLANAR or KEY_BITS == 8 else 2)
    store_codes(cache, head, place, token_stride, after, code, kept, D, PAGE, VALUE_BITS, PLANAR)
    first: tl.constexpr = 0 if KEY_BITS == 8 else 1
    store_scale(cache, head, place, token_stride, scale, kept, first, D, PAGE, KEY_BITS, VALUE_BITS, PLANAR)
    store_scale(cache, head, place, token_stride, low, kept, first + 1, D, PAGE, KEY_BITS, VALUE_BITS, PLANAR)


@triton.jit
def to_fp8(x):
    """e4m3 bytes of float32, to the nearest, ties to even, clamped to 448; by integers, so alike on every device."""
    size = tl.minimum(tl.abs(x), 448.0)
    bits = size.to(tl.int32, bitcast=True)
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - 960
    # below 2**-6 steps are 2**-9: adding 2**14 rounds to them, since its own steps are those
    small = ((size + 16384.0).to(tl.int32, bitcast=True)) - 0x46800000
    code = tl.where(size < 0.015625, small, normal)
    return code | tl.where(x < 0, 0x80, 0)


@triton.jit
def store_bytes(cache, head, place, token_stride, after, code, kept, D: tl.constexpr, PLANAR: tl.constexpr):
    """A byte a dimension."""
    w = tl.arange(0, D)
    at = head + place * (D if PLANAR else token_stride) + after
    tl.store(cache + at[:, None] + w[None, :], code.to(tl.uint8), mask=kept[:, None])


@triton.jit
def store_codes(cache, head, place, token_stride, after, code, kept,
                D: tl.constexpr, PAGE: tl.constexpr, BITS: tl.constexpr, PLANAR: tl.constexpr):  # fmt: skip
    """Codes [TOKENS, D] of 3 or 4 bits, packed; `after` counts a token's bytes before them."""
    if BITS == 4:
        at = head + (place * (D // 2) + after * PAGE if PLANAR else place * token_stride + after)
        w = tl.arange(0, D // 4)
        into = (cache + at).to(tl.pointer_type(tl.int16))[:, None] + w[None, :]
        tl.store(into, lane_words(code, D, 4, PLANAR).to(tl.int16), mask=kept[:, None])
    elif PLANAR:
        at = head + after * PAGE
        w = tl.arange(0, D // 4)
        word = lane_words(code, D, 3, PLANAR)
        tl.store(cache + (at + place * (D // 4))[:, None] + w[None, :], (word & 0xFF).to(tl.uint8), mask=kept[:, None])
        # the upper four bits of lanes w and w + D/8 share a byte
        shift = (tl.arange(0, 2) * 4)[None, :, None]
        octet = tl.sum(tl.reshape(word >> 8, [code.shape[0], 2, D // 8]) << shift, 1)
        w = tl.arange(0, D // 8)
        into = cache + (at + PAGE * (D // 4) + place * (D // 8))[:, None] + w[None, :]
        tl.store(into, octet.to(tl.uint8), mask=kept[:, None])
    else:
        at = head + place * token_stride + after
        w = tl.arange(0, D // 8) * 3
        shift = (tl.arange(0, 8) * 3)[None, None, :]
        word = tl.sum(tl.reshape(code, [code.shape[0], D // 8, 8]) << shift, 2)
        into = cache + at[:, None] + w[None, :]
        tl.store(into, (word & 0xFF).to(tl.uint8), mask=kept[:, None])
        tl.store(into + 1, ((word >> 8) & 0xFF).to(tl.uint8), mask=kept[:, None])
        tl.store(into + 2, (word >> 16).to(tl.uint8), mask=kept[:, None])


@triton.jit
def lane_words(code, D: tl.constexpr, BITS: tl.constexpr, PLANAR: tl.constexpr):
    """The four codes of every lane in one integer, [TOKENS, D/4]; see unpack.dimensions."""
    if PLANAR:
        shift = (tl.arange(0, 4) * BITS)[None, :, None]
        return tl.sum(tl.reshape(code, [code.shape[0], 4, D // 4]) << shift, 1)
    else:
        shift = (tl.arange(0, 4) * BITS)[None, None, :]
        return tl.sum(tl.reshape(code, [code.shape[0], D // 4, 4]) << shift, 2)


@triton.jit
def store_scale(cache, head, place, token_stride, number, kept, WHICH: tl.constexpr, D: tl.constexpr,
                PAGE: tl.constexpr, KEY_BITS: tl.constexpr, VALUE_BITS: tl.constexpr,
                PLANAR: tl.constexpr):  # fmt: skip
    """Scale number WHICH of a token, as fp16, clamped to what that holds."""
    number = tl.minimum(tl.maximum(number, -65504.0), 65504.0).to(tl.float16)
    if PLANAR:
        at = head + PAGE * (D * (KEY_BITS + VALUE_BITS) // 8 + 2 * WHICH) + place * 2
    else:
        codes: tl.constexpr = D * KEY_BITS // 8 + (D * VALUE_BITS // 8 if WHICH > 0 or KEY_BITS == 8 else 0)
        at = head + place * token_stride + codes + 2 * WHICH
    tl.store((cache + at).to(tl.pointer_type(tl.float16)), number, mask=kept)
