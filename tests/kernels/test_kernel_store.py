"""What the store kernel writes: the law's codes and scales, where it was told to, and not a byte elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import byte_reader
import kernel_store_gates as gates
import numpy as np
import pytest
import torch
from kernel_cases import EVERY_CACHE, REAL, Shape, normal
from kernel_scope import DEVICE, either

every_cache = pytest.mark.parametrize("shape", EVERY_CACHE, ids=str)
rotated = pytest.mark.parametrize("shape", [each for each in EVERY_CACHE if each.preset != "k8v4"], ids=str)
Record = Callable[[str, object], None]


def extremes(size: int, dtype: torch.dtype) -> torch.Tensor:
    """Vectors that a quantiser may stumble over, [vectors, 1, size]."""
    most = {torch.float16: 65504.0, torch.bfloat16: 32768.0}[dtype]
    alternating = torch.ones(size)
    alternating[1::2] = -1.0
    hot = torch.zeros(size)
    hot[3] = 1.0
    rows = [
        *(torch.zeros(size), hot, -hot, hot * most, hot + hot.roll(1), hot - hot.roll(7) * 1e-3),
        *(torch.ones(size), -torch.ones(size), torch.full((size,), 3.0), torch.full((size,), most)),
        *(alternating * most, alternating * 2.0**-10, torch.linspace(-1, 1, size)),
        *(normal(size, seed=1) * 1000, normal(size, seed=2) * 0.02, normal(size, seed=3) + 100),
    ]
    return torch.stack(rows)[:, None].to(dtype)


@every_cache
@pytest.mark.parametrize("head_size", [64, 128, 256])
def test_codes_and_scales_are_the_law_s(shape: Shape, head_size: int) -> None:
    shape = replace(shape, head_size=head_size, kv_heads=2)
    for dtype in either([torch.float16], [torch.float16, torch.bfloat16]):
        keys, values = (normal(either(33, 2000), 2, head_size, seed=kind, spread=3.0).to(dtype) for kind in range(2))
        gates.codes_and_scales(REAL, shape, keys, values)


@every_cache
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_extreme_vectors_are_kept_as_the_law_says(shape: Shape, dtype: str) -> None:
    vectors = extremes(shape.head_size, getattr(torch, dtype))
    gates.codes_and_scales(REAL, shape, vectors, vectors.flip(0))


@rotated
def test_keys_too_small_for_fp16_lose_no_more_than_their_size(shape: Shape) -> None:
    keys = (normal(20, 1, shape.head_size, seed=1) * torch.logspace(-9, -4, 20)[:, None, None]).to(torch.bfloat16)
    cache = gates.stored(REAL, shape, keys, keys, list(range(20)), 0xFF)
    back, _ = REAL.reference.dequantise(cache, torch.arange(2, device=DEVICE), 20)
    assert bool(back.isfinite().all())
    lost = (back.cpu() - keys.double()).norm(dim=-1)
    # a scale of fp16 is a multiple of 2**-24
    assert bool((lost <= 0.5 * keys.double().norm(dim=-1) + 2.0**-24 * 16).all())


@every_cache
def test_only_the_bytes_of_the_given_slots_change(shape: Shape) -> None:
    gates.only_given_slots(REAL, shape)


@every_cache
def test_the_law_reads_the_same_bytes_as_an_independent_reader(shape: Shape) -> None:
    shape = replace(shape, kv_heads=2)
    keys, values = (normal(40, 2, shape.head_size, seed=kind).half() for kind in range(2))
    cache = gates.stored(REAL, shape, keys, values, list(range(40)), 0xFF)
    found = gates.read_back(shape, cache, list(range(40)))
    law_keys, law_values = (
        each.cpu().numpy() for each in REAL.reference.dequantise(cache, torch.arange(3, device=DEVICE), 40)
    )
    assert np.array_equal(byte_reader.values(found), law_values)
    if shape.layout == "interleaved":
        # the literature prints four digits
        theirs = byte_reader.interleaved_keys(found, shape.preset)
        assert (np.linalg.norm(theirs - law_keys, axis=-1) <= 2e-4 * np.linalg.norm(law_keys, axis=-1)).all()


@every_cache
def test_values_are_off_by_half_a_step_at_most(shape: Shape) -> None:
    values = normal(40, 1, shape.head_size, seed=3).half()
    cache = gates.stored(REAL, shape, values, values, list(range(40)), 0xFF)
    _, back = REAL.reference.dequantise(cache, torch.arange(3, device=DEVICE), 40)
    low, high = values.double().amin(-1, keepdim=True), values.double().amax(-1, keepdim=True)
    step = (high - low) / (2 ** REAL.presets.PRESETS[shape.preset].value_bits - 1)
    assert bool(((back.cpu() - values.double()).abs() <= step * 0.5 + (high - low) * 2.0**-10).all())


@rotated
def test_random_directions_lose_what_the_tables_say(shape: Shape, record_property: Record) -> None:
    vectors = either(768, 20_000)
    record_property("distortion", (f"{shape.preset} {shape.layout}", gates.distortion(REAL, shape, vectors)))


@every_cache
def test_tokens_in_one_call_or_in_several_are_the_same_bytes(shape: Shape) -> None:
    keys, values = (normal(37, 1, shape.head_size, seed=kind).half() for kind in range(2))
    slots = list(range(37))
    whole = gates.stored(REAL, shape, keys, values, slots, 0xFF)
    parts = gates.stored(REAL, shape, keys[:5], values[:5], slots[:5], 0xFF)
    pages = whole.pages.clone().fill_(0xFF)
    pages[: parts.pages.shape[0]] = parts.pages
    parts = replace(parts, pages=pages)
    REAL.store.store(
        keys[5:].to(DEVICE), values[5:].to(DEVICE), parts, torch.tensor(slots[5:], device=DEVICE, dtype=torch.int32)
    )
    assert torch.equal(parts.pages, whole.pages)


def test_views_are_stored_as_copies_are() -> None:
    shape = replace(EVERY_CACHE[2], kv_heads=2)
    wide = normal(20, 6, shape.head_size, seed=1).half().to(DEVICE)
    keys, values = wide[:, 1:3], wide[:, 3:5]
    slots = list(range(20))
    views = gates.stored(REAL, shape, keys, values, slots, 0xFF)
    copies = gates.stored(REAL, shape, keys.contiguous(), values.contiguous(), slots, 0xFF)
    assert torch.equal(views.pages, copies.pages)


@pytest.mark.parametrize(("keys", "values", "word"), [
    (torch.zeros(2, 2, 64).half(), torch.zeros(2, 2, 64).half(), "wanted"),
    (torch.zeros(2, 1, 128).half(), torch.zeros(2, 1, 128).half(), "wanted"),
    (torch.zeros(2, 1, 64).half(), torch.zeros(3, 1, 64).half(), "wanted"),
    # made on the device: the way there would make it contiguous
    (torch.zeros(2, 1, 128, device=DEVICE).half()[..., ::2], torch.zeros(2, 1, 64).half(), "contiguous"),
])  # fmt: skip
def test_what_does_not_fit_the_cache_is_refused(keys: torch.Tensor, values: torch.Tensor, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        gates.stored(REAL, EVERY_CACHE[2], keys, values, [0, 1], 0xFF)


@pytest.mark.parametrize(("change", "word"), [
    ({"head_size": 96}, "96"),
    ({"page_size": 8}, "8"),
    ({"pages": torch.zeros(2, 16, dtype=torch.float16)}, "float16"),
    ({"pages": torch.zeros(2, 16, dtype=torch.uint8)}, "are needed"),
    ({"layout": REAL.cache.Layout.INTERLEAVED}, "wanted"),
])  # fmt: skip
def test_a_cache_that_no_kernel_is_for_is_refused(change: dict[str, object], word: str) -> None:
    cache = REAL.cache.empty_cache(2, REAL.presets.PRESETS["4bit_nc"], 64, 1, 16)
    with pytest.raises(ValueError, match=word):
        replace(cache, **change)


def test_nothing_to_store_is_nothing() -> None:
    shape = EVERY_CACHE[0]
    cache = gates.stored(REAL, shape, normal(1, 1, 64, seed=0).half(), normal(1, 1, 64, seed=0).half(), [-1], 0x11)
    none = torch.zeros(0, 1, 64, dtype=torch.float16, device=DEVICE)
    REAL.store.store(none, none, cache, torch.zeros(0, dtype=torch.int64, device=DEVICE))
    assert bool((cache.pages == 0x11).all())
