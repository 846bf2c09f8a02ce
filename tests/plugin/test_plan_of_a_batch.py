"""Which kernel computes which request: every position once, within the room there is, whatever the host was told."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from b70_kernels.plugin import backend_room
from b70_kernels.plugin.backend_pages import cache_of, heads_of
from b70_kernels.plugin.backend_plan import LONGEST, Kind, Part, Room, parts_after
from b70_kernels.presets import PRESETS
from hypothesis import given
from hypothesis import strategies as st

REQUESTS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 500)), min_size=1, max_size=12)
"""Positions of each, and how many tokens the host takes to be before them."""
ROOMS = st.builds(Room, rows=st.integers(1, 900), positions=st.sampled_from([64, 128, 512]))


def planned(requests: list[tuple[int, int]], room: Room, decodes: int = 0) -> list[Part]:
    starts = [0]
    for positions, _ in requests:
        starts.append(starts[-1] + positions)
    return list(parts_after(decodes, starts, [positions + before for positions, before in requests], room))


@given(REQUESTS, ROOMS, st.data())
def test_every_position_after_the_decodes_is_computed_once(
    requests: list[tuple[int, int]], room: Room, data: st.DataObject
) -> None:
    decodes = data.draw(st.integers(0, len(requests)))
    parts = planned(requests, room, decodes)
    begin = sum(positions for positions, _ in requests[:decodes])
    covered = [position for part in parts for position in range(part.begin, part.end)]
    assert covered == list(range(begin, sum(positions for positions, _ in requests)))
    assert all(before.last <= after.first for before, after in pairwise(parts))


@given(REQUESTS, ROOMS)
def test_a_part_bounds_what_is_in_it(requests: list[tuple[int, int]], room: Room) -> None:
    for part in planned(requests, room):
        inside = requests[part.first : part.last]
        assert part.longest == max(positions for positions, _ in inside)
        assert part.reach == max(sum(each) for each in inside)
        assert part.total == sum(sum(each) for each in inside)


@given(REQUESTS, ROOMS)
def test_no_part_takes_more_room_than_there_is(requests: list[tuple[int, int]], room: Room) -> None:
    for part in planned(requests, room):
        if part.kind is Kind.FUSED:
            assert part.longest <= LONGEST
            assert part.end - part.begin <= max(room.positions, part.longest)
        if part.kind is Kind.CONTINUED:
            assert part.total <= room.rows
        if part.kind is Kind.PIECES:
            assert part.last == part.first + 1


@given(REQUESTS, ROOMS)
def test_only_a_request_that_can_have_nothing_before_it_is_fresh(requests: list[tuple[int, int]], room: Room) -> None:
    for part in planned(requests, room):
        assert all((before == 0) == (part.kind is Kind.FRESH) for _, before in requests[part.first : part.last])


@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.parametrize("apart", [0, 32])
def test_a_cache_of_either_order_is_the_same_bytes(heads_first: bool, apart: int) -> None:
    preset, size, kv_heads, page = PRESETS["3bit_nc"], 64, 4, 16
    slot = preset.slot_bytes(size)
    length = page * kv_heads * slot
    raw = torch.arange(3 * (length + apart)).to(torch.uint8)
    inner = (kv_heads, page) if heads_first else (page, kv_heads)
    tensor = raw.as_strided((3, *inner, slot), (length + apart, inner[1] * slot, slot, 1))
    cache = cache_of(tensor, preset, size, kv_heads)
    assert cache.page_size == page
    assert torch.equal(cache.pages[1], raw[length + apart : 2 * length + apart])
    for first, count in ((0, 1), (1, 2), (3, 1)):
        some = heads_of(cache, first, count)
        begin = first * page * slot
        assert torch.equal(some.pages, cache.pages[:, begin : begin + count * page * slot])
        assert some.strides == cache.strides
        assert some.pages.untyped_storage().data_ptr() == raw.untyped_storage().data_ptr()


def test_pages_at_odd_addresses_are_refused() -> None:
    preset = PRESETS["k8v4"]
    tensor = torch.zeros(2 * 3201 + 1, dtype=torch.uint8).as_strided((2, 16, 2, 100), (3201, 200, 100, 1))
    with pytest.raises(ValueError, match="at even addresses"):
        cache_of(tensor, preset, 64, 2)


def test_shared_memory_is_taken_once_and_what_does_not_fit_is_a_callers_own() -> None:
    device = torch.device("cpu")
    backend_room.reserve("cpu", backend_room.rows_bytes(100, 2, 64))
    held = backend_room._shared[device]
    keys, values = backend_room.dequantised(device, torch.float16, 100, 2, 64)
    assert keys.shape == values.shape == (100, 2, 64)
    assert {each.untyped_storage().data_ptr() for each in (keys, values)} == {held.untyped_storage().data_ptr()}
    keys.fill_(1)
    values.fill_(2)
    assert bool((keys == 1).all())
    more, _ = backend_room.dequantised(device, torch.float16, held.numel(), 2, 64)
    assert more.untyped_storage().data_ptr() != held.untyped_storage().data_ptr()
    assert backend_room._shared[device] is held


def test_layers_that_ask_for_the_same_scratch_are_given_the_same() -> None:
    device = torch.device("cpu")
    backend_room.reserve("cpu", backend_room.scratch_bytes(64, 4, 64))
    first = backend_room.scratch(device, 8, 4, 3, 64)
    assert backend_room.scratch(device, 8, 4, 3, 64) is first
    assert backend_room.scratch(device, 8, 4, 2, 64) is not first
    backend_room.reserve("cpu", backend_room._shared[device].numel() + 1)
    held = backend_room._shared[device].untyped_storage().data_ptr()
    assert backend_room.scratch(device, 8, 4, 2, 64).partial.untyped_storage().data_ptr() == held


@given(st.integers(1, 2000), st.integers(1, 8), st.sampled_from([64, 128, 256]), st.integers(1, 40))
def test_the_scratch_that_is_foreseen_holds_every_split(positions: int, heads: int, size: int, splits: int) -> None:
    fits = positions * heads * splits <= max(backend_room.PARTS, positions * heads)
    steps = [positions * heads * splits * size, positions * heads * splits, positions * heads * size]
    needed = sum(-(-4 * each // backend_room.ALIGNED) * backend_room.ALIGNED for each in steps)
    assert not fits or needed <= backend_room.scratch_bytes(positions, heads, size)
