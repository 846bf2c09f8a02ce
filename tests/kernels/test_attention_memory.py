"""What attention reads and writes: nothing that was never stored, every row that it owes, in a graph as outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import kernel_gates as gates
import kernel_variants
import pytest
import torch
from kernel_cases import (
    EVERY_CACHE,
    HUGE,
    NAN,
    OTHER,
    REAL,
    Call,
    Poison,
    Shape,
    attended,
    call,
    config,
    expected,
    whole,
)
from kernel_scope import DEVICE, FULL, either

every_cache = pytest.mark.parametrize("shape", EVERY_CACHE, ids=str)
some_caches = pytest.mark.parametrize("shape", either([EVERY_CACHE[0], EVERY_CACHE[5]], EVERY_CACHE), ids=str)


@every_cache
def test_what_was_never_stored_changes_no_bit(shape: Shape) -> None:
    gates.poison_is_never_read(REAL, shape, [(37, 3), (5, 5)], [NAN, OTHER])


@some_caches
@pytest.mark.parametrize("cut", [{"keys": 32}, {"keys": 64}, {"keys": 64, "paired": True}], ids=str)
def test_what_lies_before_a_window_may_be_gone(shape: Shape, cut: dict[str, Any]) -> None:
    of = call(REAL, shape, [(179, 2)])
    how = config(REAL, 2, **cut)
    before = attended(of, how, window=20)
    # a window of 20 for positions 177 and 178 needs tokens from 158 on; its first tile begins at 128
    gone = 158 // shape.page
    of.cache.pages[of.table[0, :gone].long()] = 0xFF
    freed = of.table.clone()
    freed[0, :gone] = HUGE
    assert gates.same_bits(before, attended(replace(of, table=freed), how, window=20))


def padded(of: Call, rows: int = 4) -> Call:
    """The same batch with query rows that belong to no request, full of what must not be read."""
    more = torch.full((rows, *of.query.shape[1:]), of.poison.number, device=DEVICE).to(of.query.dtype)
    return replace(of, query=torch.cat([of.query, more]))


@every_cache
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("poison", [NAN, OTHER], ids=["nan", "other"])
def test_rows_of_no_request_become_zero(shape: Shape, splits: int, poison: Poison) -> None:
    # scratch that is used again holds finite numbers
    of = call(REAL, shape, [(20, 2), (5, 1)], poison=poison)
    out = attended(padded(of), config(REAL, splits))
    assert gates.same_bits(out[:3], attended(of, config(REAL, splits)))
    assert gates.same_bits(out[3:], torch.zeros_like(out[3:]))


@every_cache
def test_requests_that_ask_nothing_are_left_out(shape: Shape) -> None:
    requests = [(0, 0), (20, 2), (33, 0), (5, 1), (0, 0)]
    of = call(REAL, shape, requests)
    out = attended(padded(of), config(REAL, 2))
    assert float(gates.row_errors(out[:3], expected(of)).max()) <= gates.ROW_ERROR
    assert not bool(out[3:].any())


def test_lengths_and_batches_compile_nothing() -> None:
    shape = replace(EVERY_CACHE[2], kv_heads=2)
    with kernel_variants.noted(REAL) as found:
        for requests in ([(20, 3)], [(33, 1), (5, 3)], [(64, 2), (9, 1), (1, 1)], [(3, 3)] * 4, [(50, 3)] * 5):
            out = attended(call(REAL, shape, requests), config(REAL, 2))
            assert bool(out.isfinite().all())
        several = {
            name: [dict(rest) for kernel, *rest in found if kernel == name] for name in {each[0] for each in found}
        }
    assert {"attend_splits", "merge_splits", "rotate_queries", "store_tokens"} <= set(several)
    for name, variants in several.items():
        differing = {key for key in variants[0] if len({each[key] for each in variants}) > 1}
        assert not differing, f"{name} is compiled again for another {', '.join(sorted(differing))}"


def test_slices_of_a_batch_compile_nothing() -> None:
    """Whatever their alignment: a part of a batch's table begins where it begins."""
    of = call(REAL, EVERY_CACHE[2], [(20, 1)] * 4)
    rows = torch.empty(2, 80, 1, 64, dtype=torch.float16, device=DEVICE)
    with kernel_variants.noted(REAL) as found:
        for first in range(3):
            these = slice(first, first + 2)
            part = replace(of, query=of.query[these], table=of.table[these], seq_lens=of.seq_lens[these],
                           query_start=whole([0] * first + [0, 1, 2])[first:])  # fmt: skip
            attended(part, config(REAL, 2))
            starts = whole([0, 20, 40, 60])[these]
            REAL.dequantise.dequantise(of.cache, part.table, part.seq_lens, starts, 20, *rows)
    for name in ("attend_splits", "dequantise_tokens"):
        assert len([each for each in found if each[0] == name]) == 1, f"{name} is compiled again for a slice"


def test_the_number_of_splits_compiles_nothing() -> None:
    of = call(REAL, EVERY_CACHE[0], [(20, 3)])
    with kernel_variants.noted(REAL) as found:
        for splits in (1, 2, 16):
            attended(of, config(REAL, splits))
        attended(of, config(REAL, 2), window=4)
        attended(of, config(REAL, 2), window=16)
    assert len([each for each in found if each[0] == "attend_splits"]) == 2, "one without a window, one with"
    assert len([each for each in found if each[0] == "merge_splits"]) == 1


if FULL:

    def test_a_second_batch_finds_everything_compiled() -> None:
        shape = replace(EVERY_CACHE[3], kv_heads=2)
        attended(call(REAL, shape, [(20, 3), (33, 1)]))
        with kernel_variants.compiled() as names:
            for requests in ([(21, 3), (32, 1)], [(100, 3), (700, 2)], [(16, 3), (1, 1)]):
                attended(call(REAL, shape, requests), config(REAL, 2))
            first = len(names)
            for requests in ([(64, 3)], [(48, 3)] * 7, [(1000, 1)] * 16 + [(17, 3)]):
                attended(call(REAL, shape, requests), config(REAL, 5))
        assert names[first:] == []

    def test_a_page_beyond_two_gigabytes_is_found() -> None:
        shape = Shape("4bit_nc", head_size=128, kv_heads=8)
        of = call(REAL, shape, [(37, 3), (20, 1)])
        page_bytes = of.cache.pages.shape[1]
        far = 2**31 // page_bytes + 7
        pages = torch.full((far + of.cache.pages.shape[0], page_bytes), 0xFF, dtype=torch.uint8, device=DEVICE)
        pages[far:] = of.cache.pages
        table = torch.where(of.table >= 0, of.table + far, of.table)
        moved = replace(of, cache=replace(of.cache, pages=pages), table=table)
        assert gates.same_bits(attended(of, config(REAL, 2)), attended(moved, config(REAL, 2)))
        slots = torch.tensor([(far + 1) * shape.page + 3], device=DEVICE)
        keys, values = (torch.ones(1, 8, 128, dtype=torch.float16, device=DEVICE) for _ in range(2))
        REAL.store.store(keys, values, moved.cache, slots)
        assert bool((pages[far + 1] != of.cache.pages[1]).any())


if FULL:

    @every_cache
    @pytest.mark.parametrize("poison", [float("nan"), 1.5])
    def test_a_captured_graph_is_replayed_at_other_lengths(shape: Shape, poison: float) -> None:
        requests = [(300, 3), (200, 8), (64, 1), (9, 4)]
        of = padded(call(REAL, shape, requests))
        room = REAL.attention.scratch(of.query.shape[0], shape.heads, 4, shape.head_size, of.query.device)
        out = torch.empty(of.query.shape, device=DEVICE)

        def attend() -> None:
            REAL.attention.attend(
                of.query, of.cache, of.table, of.seq_lens, of.query_start, 8, config=config(REAL, 4), room=room, out=out
            )

        attend()
        graph = REAL.graphs.capture(attend, out.device)
        if graph is None:
            pytest.skip(f"torch {torch.__version__} has no graphs for {DEVICE}")
        for lengths, q_lens in (([300, 200, 64, 9], [3, 8, 1, 4]), ([5, 100, 33, 8], [5, 1, 2, 8]),
                                ([299, 0, 1, 9], [8, 0, 1, 1]), ([17, 16, 15, 1], [1, 1, 1, 1])):  # fmt: skip
            of.seq_lens.copy_(whole(lengths))
            of.query_start.copy_(whole([0, *q_lens]).cumsum(0))
            of.query.normal_()
            # what an earlier call left in scratch is finite, and a NaN would show less than a number that fits in
            out.fill_(float("nan"))
            for part in (room.partial, room.lse, room.rotated):
                part.fill_(poison)
            graph.replay()
            replayed = out.clone()
            asked = sum(q_lens)
            assert float(gates.row_errors(replayed[:asked], expected(of)[:asked]).max()) <= gates.ROW_ERROR
            assert not bool(replayed[asked:].any())
            attend()
            assert gates.same_bits(replayed, out)
