"""Attention over a quantised cache: device code only. What is promised stands in attention.py."""

from __future__ import annotations

import triton
import triton.language as tl

from .merge_kernel import LOWEST
from .unpack import dimensions, load_key_rests, load_keys, load_scales, load_values, product

# finite as LOWEST is: less the lowest maximum it is far below what exp2 keeps
HIDDEN: tl.constexpr = tl.constexpr(-1.0e38)
QUERY_LIFT: tl.constexpr = tl.constexpr(8.0)
"""Queries are multiplied by it before they are split in two fp16, so that less is lost of what is small."""
LARGEST_HALF: tl.constexpr = tl.constexpr(65504.0)
SMALLEST_SCALE: tl.constexpr = tl.constexpr(2.0**-60)
"""As which a scale of zero counts in a row's maximum: a weight beside it stays below 2**75."""
LEVEL: tl.constexpr = tl.constexpr(127.0 + 14.0)
"""The bias of a float32's exponent, and the power of two that weights times scales of values stay below twice of."""


# a slice of a batch's table begins where it begins: its alignment is no reason to compile anew
@triton.jit(do_not_specialize=["block_table", "seq_lens", "query_start", "splits", "block_stride", "window"])
def attend_splits(
    query, cache, block_table, seq_lens, query_start, partial, partial_lse,
    scale, softcap, window, splits, block_stride, q_token_stride, q_head_stride, page_stride, token_stride, head_stride,
    HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    KEY_BITS: tl.constexpr, VALUE_BITS: tl.constexpr, PLANAR: tl.constexpr,
    WINDOWED: tl.constexpr, CAPPED: tl.constexpr, NATIVE_FP8: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, PAIRED: tl.constexpr,
):  # fmt: skip
    """One program: a block of query rows of one request, one KV head, one part of its context.

    A row is a query position and a query head of the group: row r of the request is position r // GROUP. All rows share
    each tile of keys and values, which is unpacked once. Writes the part's softmax-weighted mean, [row, D] float32, and
    its log2 of the sum of weights, for every row of the block, whether or not the row sees anything in the part.

    PAIRED is for matrix units whose registers hold two tokens' values side by side (Intel's): each two are loaded into
    the same thread, and a tile of keys is used up before the next. Nothing but the order of additions differs.
    """
    request = tl.program_id(0)
    kv_head = tl.program_id(1) % HEADS
    block = tl.program_id(1) // HEADS
    split = tl.program_id(2)
    start = tl.load(query_start + request)
    q_len = tl.load(query_start + request + 1) - start
    if block * ROWS >= q_len * GROUP:
        return
    seq_len = tl.load(seq_lens + request)
    rotated: tl.constexpr = KEY_BITS != 8

    row = block * ROWS + tl.arange(0, ROWS)
    position = row // GROUP
    valid = position < q_len
    limit = tl.where(valid, seq_len - q_len + position + 1, 0)
    first, last, tiles_each, lowest = share(seq_len, q_len, block, window, splits, GROUP, ROWS, KEYS, WINDOWED)
    tile = first + split * tiles_each
    tile_end = tl.minimum(tile + tiles_each, last)

    token = tl.where(valid, start + position, start).to(tl.int64)
    head = kv_head * GROUP + row % GROUP
    at_query = query + token * q_token_stride + head * q_head_stride
    lifted = scale * QUERY_LIFT
    high_0, low_0 = load_query(at_query, valid, lifted, D, PLANAR, 0)
    high_1, low_1 = load_query(at_query, valid, lifted, D, PLANAR, 1)
    high_2, low_2 = load_query(at_query, valid, lifted, D, PLANAR, 2)
    high_3, low_3 = load_query(at_query, valid, lifted, D, PLANAR, 3)
    maximum = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    middle = tl.zeros([ROWS], tl.float32)
    out_0 = tl.zeros([ROWS, D // 4], tl.float32)
    out_1 = tl.zeros([ROWS, D // 4], tl.float32)
    out_2 = tl.zeros([ROWS, D // 4], tl.float32)
    out_3 = tl.zeros([ROWS, D // 4], tl.float32)
    w = tl.arange(0, D // 4)
    lane = tl.arange(0, KEYS)
    head_block = kv_head.to(tl.int64) * head_stride
    pages = block_table + request.to(tl.int64) * block_stride
    for index in range(tile, tile_end):
        at = index * KEYS + lane
        base, slot = place(pages, at, lowest, seq_len, page_stride, head_block, PAGE, WINDOWED)
        key_0, key_1, key_2, key_3 = load_keys(cache, base[None, :], slot[None, :], w[:, None], token_stride,
                                               D, PAGE, KEY_BITS, PLANAR, NATIVE_FP8)  # fmt: skip
        key_scale, value_scale, value_middle = load_scales(cache, base, slot, token_stride, D, PAGE, KEY_BITS,
                                                           VALUE_BITS, PLANAR)  # fmt: skip
        if PAIRED:
            score = tl.dot(low_0, key_0, tl.dot(high_0, key_0))
            score = tl.dot(low_1, key_1, tl.dot(high_1, key_1, score))
            score = tl.dot(low_2, key_2, tl.dot(high_2, key_2, score))
            score = tl.dot(low_3, key_3, tl.dot(high_3, key_3, score))
        else:
            score = tl.dot(high_0, key_0)
            score = tl.dot(high_1, key_1, score)
            score = tl.dot(high_2, key_2, score)
            score = tl.dot(high_3, key_3, score)
            score = tl.dot(low_0, key_0, score)
            score = tl.dot(low_1, key_1, score)
            score = tl.dot(low_2, key_2, score)
            score = tl.dot(low_3, key_3, score)
        if rotated and not PLANAR:
            squares = product(key_0, key_0) + product(key_1, key_1) + product(key_2, key_2) + product(key_3, key_3)
            rest_0, rest_1, rest_2, rest_3 = load_key_rests(cache, base[None, :], slot[None, :], w[:, None],
                                                            token_stride, D, PAGE, KEY_BITS)  # fmt: skip
            score = tl.dot(high_1, rest_1, tl.dot(high_0, rest_0, score))
            score = tl.dot(high_3, rest_3, tl.dot(high_2, rest_2, score))
            squares += 2.0 * (product(key_0, rest_0) + product(key_1, rest_1))
            squares += 2.0 * (product(key_2, rest_2) + product(key_3, rest_3))
            key_scale = key_scale * tl.rsqrt(tl.sum(squares, 0))
        score = score * (key_scale * (1.0 / QUERY_LIFT))[None, :]
        if CAPPED:
            # cap * tanh(x / cap), in units of log2: tanh x = 1 - 2 / (1 + e^2x)
            score = softcap * (1.0 - 2.0 / (1.0 + tl.exp2(score * (2.8853900817779268 / softcap))))
        seen = at[None, :] < limit[:, None]
        if WINDOWED:
            seen = seen & (at[None, :] >= limit[:, None] - window)
        score = tl.where(seen, score, HIDDEN)
        # the maximum is of what is multiplied, weight times scale: a token that counts much, but whose values are all
        # but zero (an attention sink), makes the others' weights no subnormal fp16 numbers
        level = (tl.maximum(value_scale, SMALLEST_SCALE).to(tl.int32, bitcast=True) >> 23).to(tl.float32)
        higher = tl.maximum(maximum, tl.max(score + level[None, :], 1))
        decay = tl.exp2(maximum - higher)
        weight = tl.exp2(score - (higher - LEVEL)[:, None])
        total = tl.fma(total, decay, tl.sum(weight, 1))
        middle = tl.fma(middle, decay, tl.sum(weight * value_middle[None, :], 1))
        high, low = halves(weight * value_scale[None, :])
        if PAIRED:
            even = index * KEYS + tl.arange(0, KEYS // 2) * 2
            base, slot = place(pages, even, lowest, seq_len, page_stride, head_block, PAGE, WINDOWED)
            even_0, even_1, even_2, even_3 = load_values(cache, base[:, None], slot[:, None], w[None, :], token_stride,
                                                         D, PAGE, KEY_BITS, VALUE_BITS, PLANAR)  # fmt: skip
            base, slot = place(pages, even + 1, lowest, seq_len, page_stride, head_block, PAGE, WINDOWED)
            odd_0, odd_1, odd_2, odd_3 = load_values(cache, base[:, None], slot[:, None], w[None, :], token_stride,
                                                     D, PAGE, KEY_BITS, VALUE_BITS, PLANAR)  # fmt: skip
            value_0, value_1 = paired(even_0, odd_0), paired(even_1, odd_1)
            value_2, value_3 = paired(even_2, odd_2), paired(even_3, odd_3)
        else:
            value_0, value_1, value_2, value_3 = load_values(cache, base[:, None], slot[:, None], w[None, :],
                                                             token_stride, D, PAGE, KEY_BITS, VALUE_BITS,
                                                             PLANAR)  # fmt: skip
        # each tile is summed from zero and added in float32: a matrix unit that adds to a large sum drops low bits of
        # the small products, which showed from 2,000 tokens on (5e-4 at 4,096, measured on an H200)
        out_0 = tl.fma(out_0, decay[:, None], tl.dot(low, value_0, tl.dot(high, value_0)))
        out_1 = tl.fma(out_1, decay[:, None], tl.dot(low, value_1, tl.dot(high, value_1)))
        out_2 = tl.fma(out_2, decay[:, None], tl.dot(low, value_2, tl.dot(high, value_2)))
        out_3 = tl.fma(out_3, decay[:, None], tl.dot(low, value_3, tl.dot(high, value_3)))
        maximum = higher

    some = total != 0.0
    inverse = tl.where(some, 1.0 / tl.where(some, total, 1.0), 0.0)
    lse = tl.where(some, maximum - LEVEL + tl.log2(tl.where(some, total, 1.0)), LOWEST)
    part = (token * (HEADS * GROUP) + head) * splits + split
    tl.store(partial_lse + part, lse, mask=valid)
    into = partial + part[:, None] * D
    valid = valid[:, None]
    inverse = inverse[:, None]
    middle = middle[:, None]
    tl.store(into + dimensions(w, D, PLANAR, 0)[None, :], (out_0 + middle) * inverse, mask=valid)
    tl.store(into + dimensions(w, D, PLANAR, 1)[None, :], (out_1 + middle) * inverse, mask=valid)
    tl.store(into + dimensions(w, D, PLANAR, 2)[None, :], (out_2 + middle) * inverse, mask=valid)
    tl.store(into + dimensions(w, D, PLANAR, 3)[None, :], (out_3 + middle) * inverse, mask=valid)


@triton.jit
def place(pages, at, lowest, seq_len, page_stride, head_block, PAGE: tl.constexpr, WINDOWED: tl.constexpr):
    """Of tokens: the byte offset of their page's block of the KV head, int64, and their places in the page."""
    # what lies past the end is never read, nor what no row's window reaches: the last or first token again, hidden
    inside = tl.minimum(at, seq_len - 1)
    if WINDOWED:
        inside = tl.maximum(inside, lowest)
    page = tl.load(pages + inside // PAGE).to(tl.int64)
    return page * page_stride + head_block, inside % PAGE


@triton.jit
def paired(even, odd):
    """Rows of two tiles by turns: in one thread are the two that a register of the matrix unit holds."""
    return tl.reshape(tl.permute(tl.join(even, odd), (0, 2, 1)), [2 * even.shape[0], even.shape[1]])


@triton.jit
def share(seq_len, q_len, block, window, splits, GROUP: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
          WINDOWED: tl.constexpr):  # fmt: skip
    """The tiles that a block of rows sees, [first, last), how many of them a split takes, and the first token seen."""
    last_position = tl.minimum((block * ROWS + ROWS - 1) // GROUP, q_len - 1)
    last = (seq_len - q_len + last_position + KEYS) // KEYS
    lowest = 0
    if WINDOWED:
        lowest = tl.maximum(seq_len - q_len + block * ROWS // GROUP + 1 - window, 0)
    first = lowest // KEYS
    return first, last, (last - first + splits - 1) // splits, lowest


@triton.jit
def load_query(at, valid, scale, D: tl.constexpr, PLANAR: tl.constexpr, TILE: tl.constexpr):
    """One tile of the query, times `scale`, as two fp16 that add up to 22 bits."""
    dimension = dimensions(tl.arange(0, D // 4), D, PLANAR, TILE)
    wide = tl.load(at[:, None] + dimension[None, :], mask=valid[:, None], other=0.0).to(tl.float32) * scale
    # an infinity times codes of both signs would hide tokens, and leave a finite answer
    wide = tl.where(tl.abs(wide) <= LARGEST_HALF, wide, float("nan"))
    return halves(wide)


@triton.jit
def halves(wide):
    """float32 as two fp16 that add up to 22 bits."""
    # rounded by bits: Intel's compiler takes a conversion to fp16 and back for none at all, and the rest for zero
    high = ((wide.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return high.to(tl.float16), (wide - high).to(tl.float16)
