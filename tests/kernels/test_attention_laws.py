"""What attention must do whatever the numbers are: see what it should, not see what it must not, and always alike."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import kernel_gates as gates
import pytest
import torch
from b70_kernels.presets import HEAD_SIZES
from kernel_cases import EVERY_CACHE, REAL, Call, Shape, attended, call, config, expected, normal, random_tokens
from kernel_scope import DEVICE, either

every_cache = pytest.mark.parametrize("shape", EVERY_CACHE, ids=str)
some_caches = pytest.mark.parametrize(
    "shape", either([EVERY_CACHE[0], EVERY_CACHE[2], EVERY_CACHE[7]], EVERY_CACHE), ids=str
)
LENGTH = 70
SUMMED = either(1e-5, 1e-4)
"""How far sums of numbers of about 1 may be off: a matrix unit adds less exactly than float32."""
BORDERS = [at + side for at in range(16, LENGTH - 5, 16) for side in (-1, 0)]
# first and last token, both sides of every border of pages, tiles and splits, and what some rows see and others do not
PLACES = either([0, 15, 16, 31, 32, 64, 67, 69], [0, *BORDERS, *range(LENGTH - 5, LENGTH)])


@some_caches
def test_a_needle_is_found_by_the_rows_that_see_it_and_by_no_other(shape: Shape) -> None:
    gates.needle(REAL, shape, LENGTH, 4, PLACES)


@every_cache
def test_the_future_changes_no_bit(shape: Shape) -> None:
    gates.future_changes_nothing(REAL, shape, 37, 4)


@every_cache
def test_a_row_of_a_verify_is_the_decode_at_its_length(shape: Shape) -> None:
    gates.verify_is_decode(REAL, shape, LENGTH, 6)


def taken(shape: Shape, positions: int) -> Any:
    """What this device's table says for so many positions, in one part."""
    preset, device = REAL.presets.PRESETS[shape.preset], torch.device(DEVICE)
    rows = positions * shape.group
    return REAL.tuning.choose(device, preset, shape.head_size, rows, units=2**20, tokens=LENGTH)


@every_cache
@pytest.mark.parametrize(("positions", "size"), either([(8, 64)], itertools.product((2, 4, 8), HEAD_SIZES)))
def test_a_row_of_a_verify_is_the_decode_in_the_tiles_that_this_device_takes(
    shape: Shape, positions: int, size: int
) -> None:
    shape = replace(shape, group=8, head_size=size)
    tiles = taken(shape, positions)
    # on a device one length in four found nothing where the compiler had fused in some rows and not in others
    for length in either((200,), (64, 129, 200, 513, 777)):
        gates.verify_is_decode(REAL, shape, length, positions, tiles=tiles)


@every_cache
@pytest.mark.parametrize(("positions", "size"), either([(8, 64)], itertools.product((4, 8), HEAD_SIZES)))
def test_a_verify_in_its_tiles_is_the_decode_in_those_of_a_decode(shape: Shape, positions: int, size: int) -> None:
    shape = replace(shape, group=8, head_size=size)
    of = call(REAL, shape, [(200, positions)])
    alone = of.asked(range(201 - positions, 201), [1] * positions, of.query, [0] * positions)
    errors = gates.row_errors(*(attended(each, taken(shape, each.longest)) for each in (of, alone)))
    assert float(errors.max()) <= gates.OTHER_ORDER


@some_caches
@pytest.mark.parametrize(
    "options", either([{"window": 33, "softcap": 2.0}], [{"window": 20}, {"softcap": 2.0}]), ids=str
)
def test_verify_is_decode_with_window_and_cap(shape: Shape, options: dict[str, float]) -> None:
    gates.verify_is_decode(REAL, shape, LENGTH, 4, **options)
    gates.verify_is_decode(REAL, shape, LENGTH, 3, splits=3, **options)


@some_caches
def test_the_number_of_splits_changes_only_the_order_of_adding(shape: Shape) -> None:
    of = call(REAL, shape, [(LENGTH, 3), (33, 2)])
    gates.splits_change_nothing(of, either((2, 70), (2, 3, 7, 8, 32, 70, 200)))
    gates.splits_change_nothing(of, (2,), window=40)


@every_cache
def test_pairing_values_changes_only_the_order_of_adding(shape: Shape) -> None:
    of = call(REAL, shape, [(LENGTH, 3), (33, 2)])
    plain, paired = (attended(of, config(REAL, 2, paired=each)) for each in (False, True))
    assert float(gates.row_errors(paired, plain).max()) <= gates.OTHER_ORDER


def shuffled(of: Call) -> Call:
    """The same tokens in other pages."""
    pages = of.cache.pages.shape[0]
    order = torch.randperm(pages, generator=torch.Generator().manual_seed(9)).to(DEVICE)
    moved = torch.empty_like(of.cache.pages)
    moved[order] = of.cache.pages
    known = (of.table >= 0) & (of.table < pages)
    table = torch.where(known, order[of.table.clamp(0, pages - 1).long()].to(torch.int32), of.table)
    return replace(of, cache=replace(of.cache, pages=moved), table=table)


@every_cache
def test_where_pages_lie_changes_no_bit(shape: Shape) -> None:
    of = call(REAL, shape, [(37, 3), (LENGTH, 1)])
    other = shuffled(of)
    assert not torch.equal(of.table, other.table)
    assert gates.same_bits(attended(of, config(REAL, 2)), attended(other, config(REAL, 2)))


@some_caches
def test_the_order_of_requests_changes_no_bit(shape: Shape) -> None:
    requests = [(37, 3), (LENGTH, 1), (5, 5)]
    of = call(REAL, shape, requests)
    order = [2, 0, 1]
    parts = of.query.split([q_len for _, q_len in requests])
    other = of.asked([requests[at][0] for at in order], [requests[at][1] for at in order],
                     torch.cat([parts[at] for at in order]), order)  # fmt: skip
    one = attended(of, config(REAL, 2)).split([q_len for _, q_len in requests])
    two = attended(other, config(REAL, 2))
    assert gates.same_bits(torch.cat([one[at] for at in order]), two)


@every_cache
def test_two_runs_give_the_same_bits(shape: Shape) -> None:
    of = call(REAL, replace(shape, kv_heads=either(1, 2)), [(37, 3), (20, 1)])
    first = attended(of, config(REAL, 2))
    for _ in range(either(1, 20)):
        assert gates.same_bits(first, attended(of, config(REAL, 2)))


def on_a_grid(shape: Shape, length: int) -> torch.Tensor:
    """Values that their quantiser keeps exactly: from -2 in steps of a quarter, both ends in every token."""
    steps = 2 ** (3 if shape.preset.startswith("3bit") else 4) - 1
    values = (normal(length, shape.kv_heads, shape.head_size, seed=4).abs() * 4).round().clamp(0, steps) * 0.25 - 2.0
    values[..., 0], values[..., 1] = -2.0, -2.0 + 0.25 * steps
    return values


@every_cache
def test_a_constant_added_to_values_is_added_to_the_answer(shape: Shape) -> None:
    ((keys, _),) = random_tokens(shape, [LENGTH])
    values = on_a_grid(shape, LENGTH)
    outs = [
        attended(call(REAL, shape, [(LENGTH, 3)], tokens=[(keys, values + more)]), config(REAL, 2))
        for more in (0.0, 1.0)
    ]
    assert torch.allclose(outs[0] + 1.0, outs[1], rtol=0, atol=SUMMED)


@every_cache
def test_a_query_of_zeros_gives_the_mean_of_what_it_sees(shape: Shape) -> None:
    values = on_a_grid(shape, LENGTH)
    of = call(REAL, shape, [(LENGTH, 3)], tokens=[(random_tokens(shape, [LENGTH])[0][0], values)],
              query=torch.zeros(3, shape.heads, shape.head_size))  # fmt: skip
    out = attended(of, config(REAL, 2)).cpu().double()
    for row in range(3):
        mean = values[: LENGTH - 2 + row, 0].double().mean(0)
        assert torch.allclose(out[row], mean.expand(shape.heads, -1), rtol=0, atol=SUMMED)


@some_caches
def test_a_token_that_is_there_twice_counts_twice(shape: Shape) -> None:
    ((keys, values),) = random_tokens(shape, [40])
    doubled = (keys.repeat_interleave(2, 0), values.repeat_interleave(2, 0))
    query = normal(1, shape.heads, shape.head_size, seed=6)
    one, two = (attended(call(REAL, shape, [(len(each[0]), 1)], tokens=[each], query=query), config(REAL, 2))
                for each in ((keys, values), doubled))  # fmt: skip
    assert float(gates.row_errors(two, one).max()) <= gates.OTHER_ORDER


@pytest.mark.parametrize("shape", EVERY_CACHE[2:], ids=str)
def test_keys_twice_as_long_are_a_scale_twice_as_large(shape: Shape) -> None:
    ((keys, values),) = random_tokens(shape, [40])
    keys = keys.half().float()
    query = normal(1, shape.heads, shape.head_size, seed=6)
    calls = [call(REAL, shape, [(40, 1)], tokens=[(keys * factor, values)], query=query) for factor in (1, 2)]
    outs = [attended(of, config(REAL), scale=0.25 / factor) for of, factor in zip(calls, (1, 2), strict=True)]
    assert float(gates.row_errors(*outs).max()) <= gates.OTHER_ORDER


@every_cache
def test_a_scale_of_its_own_is_taken(shape: Shape) -> None:
    gates.accuracy(call(REAL, shape, [(37, 2)]), config(REAL, 2), scale=0.3)


@pytest.mark.parametrize("window", either([1, 4, 36, 500], [1, 2, 4, 16, 31, 32, 33, 36, 69, 70, 500]))
def test_a_window_ends_where_it_says(window: int) -> None:
    # windows of 4 and 36 end a tile early for some rows and not for others
    shape = EVERY_CACHE[2]
    of = call(REAL, shape, [(LENGTH, 5), (3, 3)])
    for splits in (1, 4):
        gates.accuracy(of, config(REAL, splits), window=window)
    if window == 1:
        # only itself: its own value, however it scores
        own = expected(of, window=1, scale=0.0)
        assert torch.allclose(attended(of, config(REAL, 2), window=1).double(), own, rtol=0, atol=SUMMED)


def test_heads_of_a_group_share_their_kv_head_and_no_other() -> None:
    gates.heads_are_their_own(REAL, EVERY_CACHE[2])


def test_no_request_sees_another_s_tokens() -> None:
    shape = EVERY_CACHE[2]
    one, two = random_tokens(shape, [20, 33])
    query = normal(3, shape.heads, shape.head_size, seed=2)
    calls = [call(REAL, shape, [(20, 1), (33, 2)], tokens=each, query=query)
             for each in ([one, two], [(one[0], one[1] + 5.0), two])]  # fmt: skip
    before, after = (attended(of, config(REAL)) for of in calls)
    assert gates.same_bits(before[1:], after[1:])
    assert not torch.equal(before[:1], after[:1])


@some_caches
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("splits", [1, 3])
def test_a_query_that_no_answer_fits_is_answered_by_nan(shape: Shape, splits: int) -> None:
    for number in gates.UNFIT:
        # rotated, a single large number is spread over the head: fp16 holds it, not what bf16 has beyond
        beyond = number == gates.UNFIT[-1] and shape.preset != "k8v4"
        if beyond:
            gates.unfit_queries_show(REAL, replace(shape, dtype="bfloat16"), -1e6, splits)
        else:
            gates.unfit_queries_show(REAL, shape, number, splits)


@every_cache
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("splits", either([3], [1, 3, 40]))
def test_a_nan_among_what_is_stored_is_not_merged_away(shape: Shape, splits: int) -> None:
    gates.unfit_scales_show(REAL, shape, splits)
