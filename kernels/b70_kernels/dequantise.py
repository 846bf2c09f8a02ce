"""Turns stored tokens back into fp16 or bf16, for long continuations that plain flash attention computes."""

from __future__ import annotations

import torch

from . import refusals, tuning
from .cache import Cache, Layout
from .dequantise_kernel import dequantise_tokens
from .quantiser import hadamard


def dequantise(
    cache: Cache, block_table: torch.Tensor, lengths: torch.Tensor, out_start: torch.Tensor, longest: int,
    keys: torch.Tensor, values: torch.Tensor, launch: tuning.Launch | None = None,
) -> None:  # fmt: skip
    """Write the first `lengths[r]` tokens of every request r to rows out_start[r] and on of `keys` and `values`.

    block_table [requests, pages], lengths and out_start [requests], int32, read on the device alone; `longest` bounds
    the lengths. keys and values [rows, KV heads, D], alike in type and strides, fp16 or bf16; other rows stay as they
    are. All on the cache's device. Raises ValueError for tensors that do not fit the cache or one another.
    """
    _check(cache, block_table, lengths, out_start, longest, keys, values)
    launch = launch or tuning.launch(keys.device)
    page_stride, token_stride, head_stride = cache.strides
    dequantise_tokens[(max(1, -(-longest // launch.restored)), cache.kv_heads, lengths.shape[0])](
        cache.pages, block_table, lengths, out_start, hadamard(cache.head_size, str(keys.device)), keys, values,
        block_table.stride(0), page_stride, token_stride, head_stride, keys.stride(0), keys.stride(1),
        D=cache.head_size, PAGE=cache.page_size, KEY_BITS=cache.preset.key_bits, VALUE_BITS=cache.preset.value_bits,
        PLANAR=cache.layout is Layout.PLANAR, TOKENS=launch.restored,
        CHUNK=min(cache.head_size, launch.chunk), num_warps=launch.warps, **launch.compiler_options,
    )  # fmt: skip


def _check(
    cache: Cache, block_table: torch.Tensor, lengths: torch.Tensor, out_start: torch.Tensor, longest: int,
    keys: torch.Tensor, values: torch.Tensor,
) -> None:  # fmt: skip
    device = cache.pages.device
    refusals.table("block_table", block_table, device)
    requests = block_table.shape[0]
    refusals.lengths("lengths", lengths, requests, device)
    refusals.lengths("out_start", out_start, requests, device)
    if longest < 0:
        raise ValueError(f"longest {longest}: no request has less than no tokens")
    refusals.halves("keys", keys, device)
    refusals.halves("values", values, device)
    alike = keys.dtype == values.dtype and keys.shape == values.shape and keys.stride() == values.stride()
    if keys.shape[1:] != (cache.kv_heads, cache.head_size) or not alike:
        wanted = f"[rows, {cache.kv_heads}, {cache.head_size}] both, alike in type and strides"
        raise ValueError(f"keys: {refusals.told(keys)}, values: {refusals.told(values)}; wanted {wanted}")
    refusals.apart("keys", keys)
    refusals.apart("values", values)
    if keys.data_ptr() == values.data_ptr() and keys.numel():
        raise ValueError("keys and values: one tensor cannot hold both")
