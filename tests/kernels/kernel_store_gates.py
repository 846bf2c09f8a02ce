"""The gates of the store kernel, for whichever copy of the package they are given."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import byte_reader
import numpy as np
import torch
from kernel_cases import NAN, Kit, Poison, Shape, filled, normal, random_tokens, whole
from kernel_scope import DEVICE, either

BORDER = 1e-5
"""How close to a border of the quantiser, in units of a step or of sigma, a number may come out on either side."""
DISTORTION = {3: 0.0338, 4: 0.0092}
"""Mean squared error of random directions at D=128 with norm correction."""


def stored(kit: Kit, shape: Shape, keys: torch.Tensor, values: torch.Tensor, slots: list[int], octet: int) -> Any:
    """A cache of one byte everywhere, with these tokens [tokens, KV heads, D] in these slots."""
    cache = kit.cache.empty_cache(
        max(2, max(slots) // shape.page + 2),
        kit.presets.PRESETS[shape.preset],
        shape.head_size,
        shape.kv_heads,
        shape.page,
        kit.cache.Layout(shape.layout),
        DEVICE,
    )
    cache.pages.fill_(octet)
    kit.store.store(keys.to(DEVICE), values.to(DEVICE), cache, torch.tensor(slots, device=DEVICE))
    return cache


def only_given_slots(kit: Kit, shape: Shape) -> None:
    """Tokens are in their slots, those without one are nowhere, and no other byte changes."""
    shape = replace(shape, kv_heads=3)
    page = shape.page
    slots = [5, 2 * page, -1, page - 1, 2 * page + 1, -1, -7]
    keys, values = (normal(len(slots), 3, shape.head_size, seed=kind).half() for kind in range(2))
    zeros, ones = (stored(kit, shape, keys, values, slots, octet).pages.cpu() for octet in (0x00, 0xFF))
    written = zeros == ones
    assert int(written.sum()) == 4 * 3 * kit.presets.PRESETS[shape.preset].slot_bytes(shape.head_size)
    assert not bool(zeros[~written].any())
    assert bool((ones[~written] == 0xFF).all())
    kept = [at for at in slots if at >= 0]
    back = read_back(shape, stored(kit, shape, keys, values, slots, 0xFF), kept)
    alone = read_back(
        shape, stored(kit, shape, keys[[0, 1, 3, 4]], values[[0, 1, 3, 4]], [0, 1, 2, 3], 0x00), [0, 1, 2, 3]
    )
    assert np.array_equal(back.key, alone.key)
    assert np.array_equal(back.value, alone.value)


def tokens_come_back(kit: Kit, shape: Shape, lengths: list[int], dtype: torch.dtype = torch.float16) -> None:
    """Dequantised tokens are the law's, rounded once, in the rows that were asked for and in no other."""
    room, law, asked = dequantised(kit, shape, lengths, NAN, dtype)
    assert bool((room[:, ~asked] == UNASKED).all()), f"{shape}: a row that nobody asked for was written"
    wanted = law[:, asked]
    off = (room[:, asked].double() - wanted).abs()
    # one rounding; float32 before it, and of vLLM's codebook that it is not quite fp16
    loose = 2e-4 if shape.layout == "interleaved" and shape.preset != "k8v4" else either(1e-6, 1e-5)
    kept = torch.finfo(dtype)
    allowed = (
        kept.eps * either(1.0, 0.5) * wanted.abs() + loose * wanted.abs().amax(-1, keepdim=True) + kept.tiny * kept.eps
    )
    assert bool((off <= allowed).all()), f"{shape}: dequantised tokens are not the law's"


UNASKED = 123.0
"""What lies in rows before a dequantise."""


def dequantised(
    kit: Kit, shape: Shape, lengths: list[int], poison: Poison, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    """Keys and values as the kernel gives them, the law's, and a mask of the rows that were asked for."""
    cache, table = filled(kit, shape, random_tokens(shape, lengths), poison)
    starts, rows = [], 3
    for length in lengths:
        starts.append(rows)
        rows += length + 2
    room = torch.full((2, rows, shape.kv_heads, shape.head_size), UNASKED, dtype=dtype, device=DEVICE)
    kit.dequantise.dequantise(cache, table, whole(lengths), whole(starts), max(lengths), *room)
    law = torch.zeros(room.shape, dtype=torch.float64, device=DEVICE)
    asked = torch.zeros(rows, dtype=torch.bool, device=DEVICE)
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if length:
            law[0, start : start + length], law[1, start : start + length] = kit.reference.dequantise(
                cache, table[row], length
            )
        asked[start : start + length] = True
    return room, law, asked


def read_back(shape: Shape, cache: Any, slots: list[int]) -> byte_reader.Tokens:
    """Codes [tokens, KV heads, D] and scales of the tokens in these slots, by the independent reader."""
    found = byte_reader.read(
        cache.pages.cpu().numpy(), shape.preset, shape.layout, shape.head_size, shape.kv_heads, shape.page
    )
    at = np.array(slots)
    rows = {name: getattr(found, name) for name in ("key", "key_scale", "value", "scale", "zero")}
    return replace(
        found,
        **{name: part if part is None else part[at // shape.page, at % shape.page] for name, part in rows.items()},
    )


def codes_and_scales(kit: Kit, shape: Shape, keys: torch.Tensor, values: torch.Tensor) -> None:
    """Codes are the law's but where a number lies on a border; scales are the law's, rounded to fp16."""
    slots = random.Random(1).sample(range(2 * len(keys)), len(keys))
    found = read_back(shape, stored(kit, shape, keys, values, slots, 0xA5), slots)
    _values(kit, shape, values, found)
    _keys(kit, shape, keys, found)


def _values(kit: Kit, shape: Shape, values: torch.Tensor, found: byte_reader.Tokens) -> None:
    preset = kit.presets.PRESETS[shape.preset]
    codes, scale, zero = (part.numpy() for part in kit.reference.quantise_values(values, preset))
    step = (values.double().numpy() - zero[..., None]) / scale[..., None] + 0.5
    differing(found.value, codes, np.abs(step - np.round(step)), f"{shape}: value codes")
    rounded(found.scale, scale, f"{shape}: value scales")
    rounded(found.zero, zero, f"{shape}: value zeros")


def _keys(kit: Kit, shape: Shape, keys: torch.Tensor, found: byte_reader.Tokens) -> None:
    preset, layout = kit.presets.PRESETS[shape.preset], kit.cache.Layout(shape.layout)
    codes, scale = (part.numpy() for part in kit.reference.quantise_keys(keys, preset, layout))
    if not preset.rotated:
        wanted = byte_reader.e4m3(codes.astype(np.uint8))
        assert np.array_equal(byte_reader.e4m3(found.key.astype(np.uint8)), wanted), f"{shape}: fp8 keys"
        return
    half = kit.quantiser.thresholds(preset.key_bits, layout is kit.cache.Layout.INTERLEAVED)
    borders = np.array([0.0, *half, *(-each for each in half)])
    norm = keys.double().norm(dim=-1, keepdim=True).clamp(min=1e-30)
    unit = (kit.reference.rotate(keys) * shape.head_size**0.5 / norm).numpy()
    differing(found.key, codes, np.abs(unit[..., None] - borders).min(-1), f"{shape}: key codes")
    # a planar scale is of the codes that were chosen; a code and its mirror are equally long
    last = 2**preset.key_bits - 1
    alike = ((found.key == codes) | (found.key == last - codes)).all(-1) | (shape.layout == "interleaved")
    assert alike.mean() > 0.9, f"{shape}: too few keys have codes of which to compare the scale"
    rounded(found.key_scale[alike], scale[alike], f"{shape}: key scales")


def differing(found: Any, wanted: Any, distance: Any, what: str) -> None:
    """Codes may differ by one, where the number is closer to a border than float32 can tell."""
    apart = np.abs(found.astype(int) - wanted)
    wrong = (apart > 1) | ((apart == 1) & (distance > BORDER))
    assert not wrong.any(), f"{what}: {wrong.sum()} of {wrong.size} are wrong"


def rounded(found: Any, wanted: Any, what: str) -> None:
    """fp16 numbers are the float64 ones, clamped and rounded to the nearest; float32 may tip a tie."""
    wanted = np.clip(wanted, -65504, 65504)
    half_step = np.spacing(np.minimum(np.abs(wanted), 65472.0).astype(np.float16)).astype(float) / 2
    wrong = ~(np.abs(found.astype(float) - wanted) <= half_step + np.abs(wanted) * 1e-6)
    assert not wrong.any(), f"{what}: {found[wrong][:3]} for {wanted[wrong][:3]}"


def distortion(kit: Kit, shape: Shape, vectors: int) -> float:
    """Random directions lose as much as the tables say, to two per cent; gives the mean squared error."""
    shape = replace(shape, head_size=128)
    bits = byte_reader.BITS[shape.preset][0]
    keys = torch.randn(vectors, 1, 128, generator=torch.Generator().manual_seed(11)).half()
    cache = stored(kit, shape, keys, torch.zeros_like(keys), list(range(vectors)), 0xFF)
    table = torch.arange(cache.pages.shape[0], device=DEVICE)
    back, _ = kit.reference.dequantise(cache, table, vectors)
    wide = keys.double().to(DEVICE)
    lost = float((((back - wide).norm(dim=-1) / wide.norm(dim=-1)) ** 2).mean())
    assert abs(lost / DISTORTION[bits] - 1) <= 0.02, f"{shape}: {lost:.4f} is lost instead of {DISTORTION[bits]}"
    return lost
