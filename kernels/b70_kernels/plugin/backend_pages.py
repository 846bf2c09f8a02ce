"""vLLM's cache tensor as the kernels' cache: the same bytes a page, in the kernels' own order."""

from __future__ import annotations

import torch

from b70_kernels.cache import Cache
from b70_kernels.presets import Preset


def cache_of(tensor: torch.Tensor, preset: Preset, head_size: int, kv_heads: int) -> Cache:
    """The pages of one layer, planar. Shares the tensor's memory.

    The tensor is [pages, tokens, heads, slot] or [pages, heads, tokens, slot], dense within a page; between pages may
    be padding or other layers' pages. Raises ValueError for any other.
    """
    wanted = preset.slot_bytes(head_size)
    if tensor.dim() != 4 or kv_heads not in tensor.shape[1:3] or tensor.shape[3] != wanted:
        raise ValueError(
            f"cache {tuple(tensor.shape)}: wanted pages of {kv_heads} KV heads and slots of {wanted} bytes"
        )
    tokens = tensor.shape[1] if tensor.shape[2] == kv_heads else tensor.shape[2]
    size = tokens * kv_heads * wanted
    # scales and 4-bit codes are read two bytes at a time
    if not _is_dense(tensor[0]) or tensor.stride(0) < size or tensor.stride(0) % 2 or tensor.data_ptr() % 2:
        raise ValueError(
            f"cache of strides {tensor.stride()}: the bytes of a page have to lie together, at even addresses"
        )
    pages = tensor.as_strided((tensor.shape[0], size), (tensor.stride(0), 1))
    return Cache(pages, preset, head_size, kv_heads, tokens)


def heads_of(cache: Cache, first: int, count: int) -> Cache:
    """Some of the KV heads of a planar cache, as a cache of their own; shares the memory."""
    block = cache.page_size * cache.slot_bytes
    pages = cache.pages[:, first * block : (first + count) * block]
    return Cache(pages, cache.preset, cache.head_size, count, cache.page_size)


def _is_dense(page: torch.Tensor) -> bool:
    expected = 1
    dimensions = [each for each in zip(page.stride(), page.shape, strict=True) if each[1] > 1]
    for stride, length in sorted(dimensions):
        if stride != expected:
            return False
        expected *= length
    return True
