"""Quantises the keys and values of new tokens into a cache."""

from __future__ import annotations

import functools

import torch

from . import refusals, tuning
from .cache import Cache, Layout
from .presets import Preset
from .quantiser import CODEBOOKS, hadamard, thresholds
from .store_kernel import store_tokens


def store(
    key: torch.Tensor, value: torch.Tensor, cache: Cache, slots: torch.Tensor, launch: tuning.Launch | None = None,
) -> None:  # fmt: skip
    """Write tokens where `slots` says: page * page_size + place, a negative one is left out.

    key and value [tokens, KV heads, D], fp16 or bf16, magnitudes of 65504 at most; slots [tokens] int32 or int64, on
    the cache's device, no slot twice. Other bytes of the cache stay as they are. Raises ValueError for tensors that do
    not fit the cache or one another.
    """
    device = cache.pages.device
    refusals.halves("key", key, device)
    refusals.halves("value", value, device)
    tokens, heads, size = key.shape
    if (heads, size) != (cache.kv_heads, cache.head_size) or value.shape != key.shape or value.dtype != key.dtype:
        wanted = f"[tokens, {cache.kv_heads}, {cache.head_size}] both, of one type"
        raise ValueError(f"key: {refusals.told(key)}, value: {refusals.told(value)}; wanted {wanted}")
    refusals.lengths("slots", slots, tokens, device, refusals.INTEGERS)
    if tokens == 0:
        return
    launch = launch or tuning.launch(key.device)
    page_stride, token_stride, head_stride = cache.strides
    borders, squares = _tables(cache.preset, cache.layout)
    store_tokens[(-(-tokens // launch.stored), heads)](
        key, value, cache.pages, slots, hadamard(size, str(key.device)), tokens,
        key.stride(0), key.stride(1), value.stride(0), value.stride(1), page_stride, token_stride, head_stride,
        *borders, *squares, D=size, PAGE=cache.page_size, KEY_BITS=cache.preset.key_bits,
        VALUE_BITS=cache.preset.value_bits, PLANAR=cache.layout is Layout.PLANAR, TOKENS=launch.stored,
        CHUNK=min(size, launch.chunk), num_warps=launch.warps, **launch.compiler_options,
    )  # fmt: skip


@functools.cache
def _tables(preset: Preset, layout: Layout) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seven borders and eight squared values, padded."""
    if not preset.rotated:
        return (0.0,) * 7, (0.0,) * 8
    borders = thresholds(preset.key_bits, layout is Layout.INTERLEAVED)
    values = CODEBOOKS[preset.key_bits]
    return (*borders, *(0.0,) * (7 - len(borders))), (*(each * each for each in values), *(0.0,) * (8 - len(values)))
