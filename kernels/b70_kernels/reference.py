"""What the kernels have to compute, in plain PyTorch and float64. This is the law; speed is nothing here."""

from __future__ import annotations

import torch

from .cache import Cache, Layout
from .presets import Preset
from .quantiser import CODEBOOKS, hadamard, lloyd_max, thresholds


def values_of(bits: int, layout: Layout) -> torch.Tensor:
    """The codebook in ascending order, float64: ours, or the Lloyd-Max values that vLLM's codes stand for."""
    half = lloyd_max(bits) if layout is Layout.INTERLEAVED else CODEBOOKS[bits]
    return torch.tensor([*(-value for value in reversed(half)), *half], dtype=torch.float64)


def rotate(vectors: torch.Tensor) -> torch.Tensor:
    """By the orthonormal Hadamard matrix, its own inverse; the last dimension, float64."""
    size = vectors.shape[-1]
    return vectors.double() @ hadamard(size, str(vectors.device), torch.float64) / size**0.5


# -- bytes of a head-token, [..., slot] --------------------------------------------------------------------------------


def head_tokens(cache: Cache, block_table: torch.Tensor, length: int) -> list[dict[str, torch.Tensor]]:
    """The parts of the first `length` tokens of a request, a dict a KV head, bytes as they lie."""
    pages = cache.pages[block_table[: -(-length // cache.page_size)].long()]
    return [_planes(cache, pages, head, length) for head in range(cache.kv_heads)]


def _planes(cache: Cache, pages: torch.Tensor, head: int, length: int) -> dict[str, torch.Tensor]:
    preset, size, page = cache.preset, cache.head_size, cache.page_size
    if cache.layout is Layout.INTERLEAVED:
        slots = pages[:, :, head].reshape(-1, pages.shape[-1])[:length]
        key_end = size * preset.key_bits // 8
        value_at = key_end + (2 if preset.rotated else 0)
        value_end = value_at + size * preset.value_bits // 8
        return {
            "key": slots[:, :key_end],
            "key_scale": _halves(slots[:, key_end:value_at]),
            "value": slots[:, value_at:value_end],
            "scale": _halves(slots[:, value_end : value_end + 2]),
            "zero": _halves(slots[:, value_end + 2 : value_end + 4]),
        }
    block = page * cache.slot_bytes
    flat = pages.reshape(pages.shape[0], -1)[:, head * block : (head + 1) * block]
    found, at = {}, 0
    for name, width in plane_widths(preset, size):
        found[name] = flat[:, at : at + page * width].reshape(-1, width)[:length]
        at += page * width
    for name in (["key_scale"] if preset.rotated else []) + ["scale", "zero"]:
        found[name] = _halves(flat[:, at : at + page * 2].reshape(-1, 2))[:length]
        at += page * 2
    return found


def plane_widths(preset: Preset, size: int) -> list[tuple[str, int]]:
    """The planes of codes of a planar page in their order, and a token's bytes in each; those of scales follow."""
    split = {8: [("", size)], 4: [("", size // 2)], 3: [("", size // 4), ("_high", size // 8)]}
    return [(kind + end, width) for kind, bits in (("key", preset.key_bits), ("value", preset.value_bits))
            for end, width in split[bits]]  # fmt: skip


def _halves(octets: torch.Tensor) -> torch.Tensor:
    return octets.contiguous().view(torch.float16).double().reshape(octets.shape[0], -1)


# -- codes -------------------------------------------------------------------------------------------------------------


def _codes(parts: dict[str, torch.Tensor], kind: str, bits: int, size: int, layout: Layout) -> torch.Tensor:
    """Integers [tokens, D], ascending with what they stand for."""
    octets = parts[kind].long()
    dimension = torch.arange(size, device=octets.device)
    if layout is Layout.INTERLEAVED:
        bit = dimension * bits
        first, second = octets[:, bit // 8], octets[:, (bit + bits - 1) // 8]
        return ((first | second << 8) >> bit % 8) & (1 << bits) - 1
    lane, tile = dimension % (size // 4), dimension // (size // 4)
    if bits == 4:
        return octets[:, 2 * lane + tile // 2] >> 4 * (tile % 2) & 15
    high = parts[kind + "_high"].long()[:, lane % (size // 8)] >> 4 * (lane // (size // 8)) & 15
    return (octets[:, lane] | high << 8) >> 3 * tile & 7


def keys_of(cache: Cache, parts: dict[str, torch.Tensor]) -> torch.Tensor:
    """Keys [tokens, D] float64, as they were before the rotation."""
    preset, size = cache.preset, cache.head_size
    if not preset.rotated:
        return parts["key"].contiguous().view(torch.float8_e4m3fn).double()
    codes = _codes(parts, "key", preset.key_bits, size, cache.layout)
    directions = values_of(preset.key_bits, cache.layout).to(codes.device)[codes]
    if cache.layout is Layout.INTERLEAVED:
        directions = directions / directions.norm(dim=-1, keepdim=True)
    return rotate(directions * parts["key_scale"])


def values_from(cache: Cache, parts: dict[str, torch.Tensor]) -> torch.Tensor:
    """Values [tokens, D] float64."""
    codes = _codes(parts, "value", cache.preset.value_bits, cache.head_size, cache.layout)
    return codes * parts["scale"] + parts["zero"]


def dequantise(cache: Cache, block_table: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of a request's first `length` tokens, [tokens, KV heads, D] float64."""
    heads = head_tokens(cache, block_table, length)
    keys = torch.stack([keys_of(cache, parts) for parts in heads], 1)
    return keys, torch.stack([values_from(cache, parts) for parts in heads], 1)


# -- attention ---------------------------------------------------------------------------------------------------------


def attend(
    query: torch.Tensor, cache: Cache, block_table: torch.Tensor, seq_lens: torch.Tensor, query_start: torch.Tensor,
    *, scale: float | None = None, window: int = 0, softcap: float = 0.0,
) -> torch.Tensor:  # fmt: skip
    """Attention as attention.attend promises it, from the stored bytes, [tokens, query heads, D] float64."""
    out = torch.zeros(query.shape, dtype=torch.float64, device=query.device)
    for request in range(seq_lens.shape[0]):
        begin, end = int(query_start[request]), int(query_start[request + 1])
        length = int(seq_lens[request])
        if end > begin:
            keys, values = dequantise(cache, block_table[request], length)
            out[begin:end] = attend_plain(query[begin:end], keys, values, scale=scale, window=window, softcap=softcap)
    return out


def attend_plain(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, *, scale: float | None = None, window: int = 0,
    softcap: float = 0.0,
) -> torch.Tensor:  # fmt: skip
    """Causal attention of the last positions of one request, float64; heads of a group share a KV head."""
    positions, heads, size = query.shape
    length, kv_heads, _ = keys.shape
    grouped = query.double().reshape(positions, kv_heads, heads // kv_heads, size)
    scores = torch.einsum("nkgd,lkd->nkgl", grouped, keys.double()) * (size**-0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    limit = length - positions + torch.arange(positions, device=query.device)[:, None] + 1
    at = torch.arange(length, device=query.device)[None, :]
    seen = at < limit
    if window:
        seen &= at >= limit - window
    scores = scores.masked_fill(~seen[:, None, None, :], float("-inf"))
    return torch.einsum("nkgl,lkd->nkgd", torch.softmax(scores, -1), values.double()).reshape(positions, heads, size)


# -- store -------------------------------------------------------------------------------------------------------------


def quantise_keys(keys: torch.Tensor, preset: Preset, layout: Layout) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes [tokens, KV heads, D], ascending, and the key's scale; k8v4: e4m3 bytes and ones."""
    if not preset.rotated:
        octets = keys.float().clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8).long()
        return octets, torch.ones(keys.shape[:2], dtype=torch.float64)
    norm = keys.double().norm(dim=-1)
    unit = rotate(keys) * keys.shape[-1] ** 0.5 / norm.clamp(min=1e-30)[..., None]
    half = thresholds(preset.key_bits, layout is Layout.INTERLEAVED)
    borders = torch.tensor([*(-each for each in reversed(half)), 0.0, *half], dtype=torch.float64, device=keys.device)
    codes = torch.bucketize(unit, borders)
    if layout is Layout.INTERLEAVED:
        return codes, norm
    return codes, norm / values_of(preset.key_bits, layout).to(codes.device)[codes].norm(dim=-1)


def quantise_values(values: torch.Tensor, preset: Preset) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes [tokens, KV heads, D], the scale and the zero, [tokens, KV heads]; as vLLM rounds them."""
    low, high = values.double().amin(-1), values.double().amax(-1)
    steps = 2**preset.value_bits - 1
    scale = ((high - low) / steps).clamp(min=1e-8)
    codes = ((values.double() - low[..., None]) / scale[..., None] + 0.5).floor().clamp(0, steps).long()
    return codes, scale, low


def kept(
    keys: torch.Tensor, values: torch.Tensor, preset: Preset, layout: Layout
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """What a cache has of keys and values once they are stored, float64; scales are fp16 by then."""
    codes, scale = quantise_keys(keys, preset, layout)
    if preset.rotated:
        directions = values_of(preset.key_bits, layout).to(codes.device)[codes]
        if layout is Layout.INTERLEAVED:
            directions = directions / directions.norm(dim=-1, keepdim=True)
        found = rotate(directions * scale.half().double()[..., None])
    else:
        found = codes.to(torch.uint8).view(torch.float8_e4m3fn).double()
    levels, step, low = quantise_values(values, preset)
    return found, levels * step.half().double()[..., None] + low.half().double()[..., None]
