"""Stored tokens as fp16 again: the law's numbers, in the rows that were asked for, from the bytes that were stored."""

from __future__ import annotations

from dataclasses import replace

import kernel_gates as gates
import pytest
import torch
from kernel_cases import EVERY_CACHE, NAN, OTHER, REAL, Poison, Shape, filled, random_tokens, whole
from kernel_scope import DEVICE, either

every_cache = pytest.mark.parametrize("shape", EVERY_CACHE, ids=str)
LENGTHS = either([37, 5, 0, 70], [37, 5, 0, 1000, 64, 1, 129])


def dequantised(shape: Shape, lengths: list[int], poison: Poison, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Keys and values as the kernel gives them, the law's, and a mask of the rows that were asked for."""
    cache, table = filled(REAL, shape, random_tokens(shape, lengths), poison)
    starts, rows = [], 3
    for length in lengths:
        starts.append(rows)
        rows += length + 2
    room = torch.full((2, rows, shape.kv_heads, shape.head_size), 123.0, dtype=dtype, device=DEVICE)
    REAL.dequantise.dequantise(cache, table, whole(lengths), whole(starts), max(lengths), *room)
    law = torch.zeros(room.shape, dtype=torch.float64, device=DEVICE)
    asked = torch.zeros(rows, dtype=torch.bool, device=DEVICE)
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if length:
            law[0, start : start + length], law[1, start : start + length] = REAL.reference.dequantise(
                cache, table[row], length
            )
        asked[start : start + length] = True
    return room, law, asked


@every_cache
@pytest.mark.parametrize("head_size", either([64, 128], [64, 128, 256]))
def test_tokens_come_back_as_the_law_says(shape: Shape, head_size: int) -> None:
    shape = replace(shape, head_size=head_size, kv_heads=either(1, 4))
    for dtype in either([torch.float16], [torch.float16, torch.bfloat16]):
        room, law, asked = dequantised(shape, LENGTHS, NAN, dtype)
        assert bool((room[:, ~asked] == 123.0).all()), "a row that nobody asked for was written"
        wanted = law[:, asked]
        off = (room[:, asked].double() - wanted).abs()
        # one rounding; float32 before it, and of vLLM's codebook that it is not quite fp16
        loose = 2e-4 if shape.layout == "interleaved" and shape.preset != "k8v4" else either(1e-6, 1e-5)
        kept = torch.finfo(dtype)
        allowed = (
            kept.eps * either(1.0, 0.5) * wanted.abs()
            + loose * wanted.abs().amax(-1, keepdim=True)
            + kept.tiny * kept.eps
        )
        assert bool((off <= allowed).all())


@every_cache
def test_what_was_never_stored_is_never_read(shape: Shape) -> None:
    one, two = (dequantised(shape, LENGTHS, poison, torch.float16)[0] for poison in (NAN, OTHER))
    assert gates.same_bits(one, two)


def test_room_of_another_shape_is_refused() -> None:
    shape = EVERY_CACHE[0]
    cache, table = filled(REAL, shape, random_tokens(shape, [5]))
    room = torch.zeros(5, 1, 64, dtype=torch.float16, device=DEVICE)
    for keys, values in ((room[..., :32], room[..., :32]), (room, room.repeat(1, 2, 1)[:, :1])):
        with pytest.raises(ValueError, match="wanted"):
            REAL.dequantise.dequantise(cache, table, whole([5]), whole([0]), 5, keys, values)
