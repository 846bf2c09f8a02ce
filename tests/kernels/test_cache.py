"""What a cache, and every call that writes or reads one, refuses before a kernel sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from b70_kernels import quantiser, refusals
from b70_kernels.cache import Cache, Layout, empty_cache
from b70_kernels.dequantise import dequantise
from b70_kernels.presets import HEAD_SIZES, PAGE_SIZES, PRESETS
from b70_kernels.store import store
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_scope import DEVICE

PRESET = PRESETS["4bit_nc"]
SLOT = PRESET.slot_bytes(64)
OTHER = torch.device("meta")
"""A device that the cache is not on."""


def octets(*shape: int, strides: tuple[int, ...] | None = None, begin: int = 0) -> torch.Tensor:
    """Zeros with room around them."""
    room = torch.zeros(200_000, dtype=torch.uint8, device=DEVICE)
    return torch.as_strided(room, shape, strides, begin) if strides else room[: torch.Size(shape).numel()].view(shape)


def planar(pages: torch.Tensor, heads: int = 2) -> Cache:
    return Cache(pages, PRESET, 64, heads, 16)


def interleaved(pages: torch.Tensor, heads: int = 2) -> Cache:
    return Cache(pages, PRESET, 64, heads, 16, Layout.INTERLEAVED)


BLOCK = 16 * 2 * SLOT
DENSE = (BLOCK, 2 * SLOT, SLOT, 1)


@pytest.mark.parametrize(("make", "word"), [
    (lambda: planar(octets(3, BLOCK), heads=0), "0 KV heads"),
    (lambda: planar(octets(3, BLOCK), heads=-2), "-2 KV heads"),
    (lambda: planar(octets(3 * BLOCK)), "wanted .pages, bytes"),
    (lambda: planar(octets(1).view([])), "wanted .pages, bytes"),
    (lambda: planar(octets(3, BLOCK - 2)), "are needed"),
    (lambda: planar(octets(3, BLOCK, strides=(BLOCK + 1, 1))), "even"),
    (lambda: planar(octets(3, BLOCK, strides=(BLOCK - 2, 1))), "at least"),
    (lambda: planar(octets(3, BLOCK, strides=(0, 1))), "at least"),
    (lambda: planar(octets(3, BLOCK, strides=(2 * BLOCK, 2))), "together"),
    (lambda: planar(octets(3, 16, 2, SLOT, strides=(BLOCK, SLOT, 16 * SLOT, 1))), "together"),
    (lambda: planar(octets(3, BLOCK, strides=(BLOCK, 1), begin=1)), "odd address"),
    (lambda: interleaved(octets(3, 16, 2)), "wanted"),
    (lambda: interleaved(octets(3, BLOCK)), "wanted"),
    (lambda: interleaved(octets(3, 16, 2, SLOT - 2)), "wanted"),
    (lambda: interleaved(octets(3, 2, 16, SLOT)), "wanted"),
    (lambda: interleaved(octets(3, 16, 2, SLOT, strides=(2 * BLOCK, 4 * SLOT, 2 * SLOT, 2))), "together"),
    (lambda: interleaved(octets(3, 16, 2, SLOT, strides=(BLOCK + 1, *DENSE[1:]))), "even"),
    (lambda: interleaved(octets(3, 16, 2, SLOT, strides=(2 * BLOCK, 2 * SLOT + 1, SLOT, 1))), "even"),
    (lambda: interleaved(octets(3, 16, 2, SLOT, strides=(2 * BLOCK, 4 * SLOT, SLOT + 1, 1))), "even"),
    (lambda: interleaved(octets(3, 16, 2, SLOT, strides=(BLOCK, 2 * SLOT, 0, 1))), "at least"),
    (lambda: interleaved(octets(3, 16, 2, SLOT, strides=DENSE, begin=3)), "odd address"),
    (lambda: interleaved(octets(3, 16, 2, SLOT, strides=(32 * SLOT, SLOT, SLOT, 1))), "on one another"),
    (lambda: interleaved(octets(3, 16, 2, SLOT, strides=(SLOT, 2 * SLOT, SLOT, 1))), "on one another"),
    (lambda: replace(planar(octets(3, BLOCK)), layout="planar"), "layout 'planar'"),
])  # fmt: skip
def test_pages_that_a_kernel_would_read_wrongly_are_refused(make: Callable[[], Cache], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        make()


@pytest.mark.parametrize("make", [
    lambda: planar(octets(3, BLOCK, strides=(BLOCK + 2, 1), begin=2)),
    lambda: planar(octets(1, BLOCK, strides=(7, 1))),
    lambda: planar(octets(3, 16, 2, SLOT)),
    lambda: planar(octets(3, 2, 1, 16, SLOT + 2)),
    lambda: planar(octets(3, 1, BLOCK, strides=(BLOCK, 5, 1))),
    lambda: interleaved(octets(3, 16, 2, SLOT + 6)),
    lambda: interleaved(octets(3, 2, 16, SLOT).transpose(1, 2)),
    lambda: interleaved(octets(3, 16, 1, SLOT, strides=(BLOCK, SLOT, 1, 1)), heads=1),
])  # fmt: skip
def test_pages_with_padding_or_in_another_order_of_heads_are_taken(make: Callable[[], Cache]) -> None:
    assert make().page_bytes > 0


@settings(deadline=None)
@given(
    st.sampled_from(list(PRESETS.values())), st.sampled_from(HEAD_SIZES), st.integers(1, 9),
    st.sampled_from(PAGE_SIZES), st.sampled_from(Layout),
)  # fmt: skip
def test_every_cache_that_is_made_here_is_taken(preset: Any, size: int, heads: int, page: int, layout: Layout) -> None:
    cache = empty_cache(2, preset, size, heads, page, layout)
    assert not any(stride % 2 for stride in cache.strides)
    assert cache.page_bytes == page * heads * preset.slot_bytes(size)


@dataclass(frozen=True, slots=True)
class Stored:
    """What `store` is called with; right, unless it is changed."""

    key: torch.Tensor
    value: torch.Tensor
    slots: torch.Tensor

    def call(self) -> None:
        store(self.key, self.value, empty_cache(2, PRESET, 64, 2, 16, device=DEVICE), self.slots)


def tokens(dtype: torch.dtype = torch.float16, device: Any = DEVICE) -> torch.Tensor:
    return torch.ones(4, 2, 64, device=device).to(dtype)


def slots(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel(), device=DEVICE).to(dtype).view(shape)


STORED = Stored(tokens(), tokens(), slots(4))


@pytest.mark.parametrize(("change", "word"), [
    ({"slots": slots(3)}, r"slots: \[3\]"), ({"slots": slots(5)}, r"slots: \[5\]"),
    ({"slots": slots(4, 1)}, r"slots: \[4, 1\]"), ({"slots": slots(8)[::2]}, "slots: .*contiguous"),
    ({"slots": slots(4, dtype=torch.int16)}, "slots: .* int16"), ({"slots": slots(4).float()}, "slots: .* float32"),
    ({"slots": slots(4).to(OTHER)}, "slots: .* on meta; wanted .* on "),
    ({"key": tokens(torch.float32)}, "key: .* float32"), ({"value": tokens(torch.float32)}, "value: .* float32"),
    ({"key": tokens(torch.int8), "value": tokens(torch.int8)}, "key: .* int8"),
    ({"value": tokens(torch.bfloat16)}, "key: .* float16.* value: .* bfloat16.* of one type"),
    ({"key": tokens(device=OTHER)}, "key: .* on meta"), ({"value": tokens(device=OTHER)}, "value: .* on meta"),
    ({"key": tokens().view(4, 128)}, "key: .4, 128. "), ({"key": tokens()[:3]}, "wanted .tokens, 2, 64"),
    ({"value": tokens()[..., :32]}, "wanted .tokens, 2, 64"),
    ({"key": torch.ones(4, 2, 128, device=DEVICE).half()[..., ::2]}, "contiguous"),
])  # fmt: skip
def test_tokens_that_do_not_fit_are_not_stored(change: dict[str, torch.Tensor], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        replace(STORED, **change).call()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_slots_of_either_width_are_taken(dtype: torch.dtype) -> None:
    replace(STORED, slots=slots(4, dtype=dtype)).call()


@dataclass(frozen=True, slots=True)
class Restored:
    """What `dequantise` is called with; right, unless it is changed."""

    block_table: torch.Tensor
    lengths: torch.Tensor
    out_start: torch.Tensor
    longest: int
    keys: torch.Tensor
    values: torch.Tensor

    def call(self) -> None:
        cache = empty_cache(4, PRESET, 64, 2, 16, device=DEVICE)
        cache.pages.zero_()
        dequantise(cache, self.block_table, self.lengths, self.out_start, self.longest, self.keys, self.values)


def whole(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32, device=DEVICE)


RESTORED = Restored(whole(2, 3), whole(2), whole(2), 4, tokens(), tokens())


@pytest.mark.parametrize(("change", "word"), [
    ({"block_table": whole(2, 3).long()}, "block_table: .* int64"), ({"block_table": whole(3)}, "block_table: .3. "),
    ({"block_table": whole(3, 2).T}, "block_table: .*contiguous"), ({"block_table": whole(2, 3).to(OTHER)}, "on meta"),
    ({"block_table": whole(3, 3)}, r"lengths: \[2\].*wanted \[3\]"),
    ({"lengths": whole(2).long()}, "lengths: .* int64"), ({"lengths": whole(3)}, r"lengths: \[3\]"),
    ({"lengths": whole(4)[::2]}, "lengths: .*contiguous"), ({"lengths": whole(2, 1)}, r"lengths: \[2, 1\]"),
    ({"lengths": whole(2).to(OTHER)}, "lengths: .* on meta"),
    ({"out_start": whole(2).long()}, "out_start: .* int64"), ({"out_start": whole(1)}, r"out_start: \[1\]"),
    ({"out_start": whole(4)[::2]}, "out_start: .*contiguous"), ({"longest": -1}, "longest -1"),
    ({"keys": tokens(torch.float32), "values": tokens(torch.float32)}, "keys: .* float32"),
    ({"values": tokens(torch.int8)}, "values: .* int8"), ({"values": tokens(torch.bfloat16)}, "alike in type"),
    ({"values": tokens()[:3]}, "alike"), ({"keys": tokens(device=OTHER)}, "keys: .* on meta"),
    ({"keys": tokens()[:, :1], "values": tokens()[:, :1]}, "wanted .rows, 2, 64"),
])  # fmt: skip
def test_what_does_not_fit_is_not_dequantised(change: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        replace(RESTORED, **change).call()


@pytest.mark.parametrize("change", [
    {}, {"longest": 0}, {"block_table": whole(1, 3).expand(2, -1)}, {"block_table": whole(2, 9)[:, :3]},
    {"block_table": whole(1, 2).T}, {"keys": tokens(torch.bfloat16), "values": tokens(torch.bfloat16)},
])  # fmt: skip
def test_what_a_backend_hands_over_is_dequantised(change: dict[str, Any]) -> None:
    replace(RESTORED, **change).call()


def test_a_refusal_tells_the_tensor_and_what_was_wanted() -> None:
    where = torch.device("cpu")
    with pytest.raises(
        ValueError, match=r"^seq_lens: \[2, 1\] int64 of strides \(1, 1\) on cpu; wanted \[2\] int32 on"
    ):
        refusals.lengths("seq_lens", torch.zeros(2, 1, dtype=torch.int64), 2, where)
    with pytest.raises(
        ValueError, match=r"^query: \[1, 1\] .*; wanted \[tokens, heads, D\] float16 or bfloat16 on cpu"
    ):
        refusals.halves("query", torch.zeros(1, 1), where)
    refusals.lengths("seq_lens", torch.zeros(2, dtype=torch.int32), 2, where)
    refusals.table("block_table", torch.zeros(0, 3, dtype=torch.int32), where)


def test_a_matrix_that_is_asked_for_again_is_the_same_since_a_captured_graph_may_hold_it() -> None:
    assert quantiser.hadamard(64, "cpu") is quantiser.hadamard(64, "cpu")
