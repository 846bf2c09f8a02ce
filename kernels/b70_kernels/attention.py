"""Attention over a quantised cache: decode, verify and short continuations, in one call for a ragged batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from . import refusals, tuning
from .attention_kernel import attend_splits
from .cache import Cache, Layout
from .merge_kernel import merge_splits
from .quantiser import hadamard
from .rotation_kernel import rotate_queries

LOG2_E = math.log2(math.e)
LARGEST_QUERY = 64
CAPS = 1e-3, 3000.0
"""Soft caps that are taken. What float32 loses of cap * tanh(score / cap) grows with the cap, and moves a weight by
2e-4 at the largest."""
LARGEST_SCALE = 1e30
LARGEST_WINDOW = 2**31 - 1
ROTATED_ROWS = 16


@dataclass(frozen=True, slots=True)
class Scratch:
    """Room for the parts of split contexts; every number that is read was written in the same call."""

    partial: torch.Tensor
    """[tokens, query heads, splits, D] float32."""
    lse: torch.Tensor
    """[tokens, query heads, splits] float32, in log2."""
    rotated: torch.Tensor
    """[tokens, query heads, D] float32."""


def scratch(tokens: int, heads: int, splits: int, head_size: int, device: torch.device) -> Scratch:
    """Room for a batch of `tokens` query positions."""
    return Scratch(
        torch.empty(tokens, heads, splits, head_size, dtype=torch.float32, device=device),
        torch.empty(tokens, heads, splits, dtype=torch.float32, device=device),
        torch.empty(tokens, heads, head_size, dtype=torch.float32, device=device),
    )


def attend(
    query: torch.Tensor,
    cache: Cache,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start: torch.Tensor,
    longest_query: int,
    *,
    scale: float | None = None,
    window: int = 0,
    softcap: float = 0.0,
    out: torch.Tensor | None = None,
    config: tuning.Config | None = None,
    room: Scratch | None = None,
) -> torch.Tensor:
    """Softmax attention of every query position over the cache, [tokens, query heads, D].

    In the query's dtype, or in that of `out`, which may be float32.

    query [tokens, query heads, D] fp16 or bf16; block_table [requests, pages] int32; seq_lens [requests] int32, the
    length with the query positions; query_start [requests + 1] int32. Position n of a request sees the first
    seq_len - q_len + n + 1 tokens, of them the last `window` where that is not 0; all tokens are in the cache already.
    `longest_query` bounds the q_len of every request. Lengths are read on the device alone: a captured graph may be
    replayed with others, up to the bounds it was captured with; rows from query_start[-1] on become zero. `scale` is
    1/sqrt(D) unless given; `softcap` caps the scores, 0 does not.

    Deterministic. A row becomes NaN whose query has a NaN, an infinity, a number beyond 65504 where keys are rotated,
    or a norm times scale that fp16 cannot hold (up to 5,000 it can). So do the rows of a request of which one sees a
    NaN in a stored scale. Norms of keys up to 10,000 keep to the bar. Raises ValueError for what it was not made for.
    """
    tokens, heads, head_size = _checked(query, cache, longest_query)
    _check_options(scale, window, softcap)
    requests = seq_lens.numel()
    refusals.table("block_table", block_table, query.device)
    refusals.lengths("seq_lens", seq_lens, block_table.shape[0], query.device)
    refusals.lengths("query_start", query_start, requests + 1, query.device)
    group = heads // cache.kv_heads
    config = config or tuning.choose(query.device, cache.preset, head_size, longest_query * group,
                                     requests * cache.kv_heads, block_table.shape[1] * cache.page_size)  # fmt: skip
    blocks = -(-longest_query * group // config.rows)
    splits = config.splits
    room = room or scratch(tokens, heads, splits, head_size, query.device)
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device) if out is None else out
    _check_room(room, out, query, splits)
    scale = (head_size**-0.5 if scale is None else scale) * LOG2_E
    page_stride, token_stride, head_stride = cache.strides
    if cache.preset.rotated:
        rotate_queries[(-(-tokens * heads // ROTATED_ROWS),)](
            query, hadamard(head_size, str(query.device)), room.rotated, tokens * heads, query.stride(0),
            query.stride(1), HEADS=heads, D=head_size, ROWS=ROTATED_ROWS, CHUNK=min(head_size, config.launch.chunk),
            num_warps=4, num_stages=1, **config.compiler_options,
        )  # fmt: skip
        query, scale = room.rotated, scale * head_size**-0.5
    attend_splits[(requests, cache.kv_heads * blocks, splits)](
        query, cache.pages, block_table, seq_lens, query_start, room.partial, room.lse,
        scale, softcap * LOG2_E, window, splits,
        block_table.stride(0), query.stride(0), query.stride(1), page_stride, token_stride, head_stride,
        HEADS=cache.kv_heads, GROUP=group, D=head_size, PAGE=cache.page_size,
        KEY_BITS=cache.preset.key_bits, VALUE_BITS=cache.preset.value_bits, PLANAR=cache.layout is Layout.PLANAR,
        WINDOWED=window > 0, CAPPED=softcap > 0.0, NATIVE_FP8=config.native_fp8, PAIRED=config.paired,
        ROWS=config.rows, KEYS=config.keys, num_warps=config.warps, num_stages=config.stages, **config.compiler_options,
    )  # fmt: skip
    merge_splits[(tokens, heads)](
        room.partial, room.lse, query_start[requests:], out, splits, out.stride(0), out.stride(1),
        HEADS=heads, D=head_size, CHUNK=config.launch.merged // head_size, num_warps=config.launch.merging_warps,
        **tuning.UNFUSED,
    )  # fmt: skip
    return out


def _checked(query: torch.Tensor, cache: Cache, longest_query: int) -> tuple[int, int, int]:
    refusals.halves("query", query, cache.pages.device)
    tokens, heads, head_size = query.shape
    if head_size != cache.head_size or heads % cache.kv_heads:
        raise ValueError(f"query {tuple(query.shape)} for {cache.kv_heads} KV heads of {cache.head_size}")
    if not 1 <= longest_query <= LARGEST_QUERY:
        raise ValueError(f"{longest_query} query positions a request: the kernel is for 1 to {LARGEST_QUERY}")
    return tokens, heads, head_size


def _check_options(scale: float | None, window: int, softcap: float) -> None:
    if not 0 <= window <= LARGEST_WINDOW:
        raise ValueError(f"window {window}: 0 is for none, and {LARGEST_WINDOW} is the longest")
    if softcap != 0.0 and not CAPS[0] <= softcap <= CAPS[1]:
        raise ValueError(f"softcap {softcap}: 0 is for none, and caps from {CAPS[0]} to {CAPS[1]:.0f} are taken")
    if scale is not None and not abs(scale) <= LARGEST_SCALE:
        raise ValueError(f"scale {scale}: the kernel is for scales up to {LARGEST_SCALE:.0e}")


def _check_room(room: Scratch, out: torch.Tensor, query: torch.Tensor, splits: int) -> None:
    tokens, heads, size = query.shape
    if splits < 1:
        raise ValueError(f"{splits} splits: a context has one part at least")
    for name, tensor, shape in (
        ("partial", room.partial, (tokens, heads, splits, size)), ("lse", room.lse, (tokens, heads, splits)),
        ("rotated", room.rotated, (tokens, heads, size)),
    ):  # fmt: skip
        if (tensor.shape != shape or tensor.dtype != torch.float32 or not tensor.is_contiguous()
                or tensor.device != query.device):  # fmt: skip
            raise ValueError(f"room.{name}: {refusals.told(tensor)}; wanted {list(shape)} float32, contiguous")
    if (out.shape != query.shape or out.stride(2) != 1 or out.device != query.device
            or out.dtype not in (*refusals.HALVES, torch.float32)):  # fmt: skip
        raise ValueError(f"out: {refusals.told(out)}; wanted {list(query.shape)}, its last dimension contiguous")
    refusals.apart("out", out)
