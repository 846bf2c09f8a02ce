"""Stored tokens as fp16 again: the law's numbers, in the rows that were asked for, from the bytes that were stored."""

from __future__ import annotations

from dataclasses import replace

import kernel_gates as gates
import kernel_store_gates as store_gates
import pytest
import torch
from kernel_cases import EVERY_CACHE, NAN, OTHER, REAL, Shape, filled, random_tokens, whole
from kernel_scope import DEVICE, either

every_cache = pytest.mark.parametrize("shape", EVERY_CACHE, ids=str)
LENGTHS = either([37, 5, 0, 70], [37, 5, 0, 1000, 64, 1, 129])


@every_cache
@pytest.mark.parametrize("head_size", either([64, 128], [64, 128, 256]))
def test_tokens_come_back_as_the_law_says(shape: Shape, head_size: int) -> None:
    shape = replace(shape, head_size=head_size, kv_heads=either(1, 4))
    for dtype in either([torch.float16], [torch.float16, torch.bfloat16]):
        store_gates.tokens_come_back(REAL, shape, LENGTHS, dtype)


@every_cache
def test_what_was_never_stored_is_never_read(shape: Shape) -> None:
    one, two = (store_gates.dequantised(REAL, shape, LENGTHS, poison, torch.float16)[0] for poison in (NAN, OTHER))
    assert gates.same_bits(one, two)


def test_room_of_another_shape_is_refused() -> None:
    shape = EVERY_CACHE[0]
    cache, table = filled(REAL, shape, random_tokens(shape, [5]))
    room = torch.zeros(5, 1, 64, dtype=torch.float16, device=DEVICE)
    for keys, values in ((room[..., :32], room[..., :32]), (room, room.repeat(1, 2, 1)[:, :1])):
        with pytest.raises(ValueError, match="wanted"):
            REAL.dequantise.dequantise(cache, table, whole([5]), whole([0]), 5, keys, values)
    one = room[:1].expand(5, -1, -1)
    for keys, values in ((one, one.clone()[:1].expand(5, -1, -1)), (room, room)):
        with pytest.raises(ValueError, match=r"on one another|cannot hold both"):
            REAL.dequantise.dequantise(cache, table, whole([5]), whole([0]), 5, keys, values)
