"""Attention against float64 from the stored bytes: every row of every answer, never an average over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import kernel_gates as gates
import kernel_matrix
import pytest
import torch
from kernel_cases import EVERY_CACHE, REAL, Call, Shape, attended, call, config, expected, normal, random_tokens
from kernel_scope import DEVICE, FULL, either

Record = Callable[[str, object], None]
RAGGED = either([(37, 3), (50, 1), (5, 5)],
                [(1, 1), (2, 2), (33, 3), (64, 4), (301, 5), (470, 6), (1023, 7), (1500, 8), (900, 9)])  # fmt: skip
every_cache = pytest.mark.parametrize("shape", EVERY_CACHE, ids=str)


def chosen(splits: int = 2, rows: int = 16) -> object:
    """The interpreter is asked for little tiles, a device for what is chosen for it."""
    return either(config(REAL, splits, rows), None)


def test_every_pair_of_choices_is_asked() -> None:
    asked = either(kernel_matrix.pairwise, kernel_matrix.wide)()
    assert not kernel_matrix.every_pair() - set().union(*map(kernel_matrix.pairs, asked))


@pytest.mark.parametrize(("shape", "option", "tiles"), kernel_matrix.matrix(), ids=str)
def test_every_row_is_as_close_to_float64_as_promised(
    shape: Shape, option: str, tiles: str, record_property: Record
) -> None:
    cut = chosen() if tiles == "chosen" else config(REAL, 2, paired=True)
    worst = gates.accuracy(call(REAL, shape, RAGGED), cut, **kernel_matrix.OPTIONS[option])
    record_property("row error", (f"{shape.preset} {shape.layout}", worst))


@every_cache
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_answer_in_the_query_s_type_is_rounded_once(shape: Shape, dtype: str) -> None:
    gates.rounded_once(call(REAL, replace(shape, dtype=dtype), [(37, 3)]), chosen())


@pytest.mark.parametrize(
    "shape", either(EVERY_CACHE[::3], [replace(each, group=8, head_size=128) for each in EVERY_CACHE]), ids=str
)
def test_many_query_positions_take_several_blocks_of_rows(shape: Shape) -> None:
    requests = either([(37, 34), (21, 20)], [(700, 64), (64, 64), (65, 33), (300, 1)])
    gates.accuracy(call(REAL, shape, requests), chosen(2, rows=32))


@every_cache
def test_values_with_one_large_number_each_are_kept(shape: Shape) -> None:
    gates.spiky_values(REAL, shape)


@every_cache
@pytest.mark.parametrize("spread", [1e-3, 12_000.0])
def test_small_and_large_values_are_kept(shape: Shape, spread: float) -> None:
    tokens = [(keys, values * spread) for keys, values in random_tokens(shape, [37, 9])]
    gates.accuracy(call(REAL, shape, [(37, 3), (9, 1)], tokens=tokens), config(REAL, 2))


@every_cache
def test_behind_a_sink_the_other_tokens_are_not_lost(shape: Shape) -> None:
    for each in gates.SINKS:
        gates.sink(REAL, shape, *each)


@pytest.mark.parametrize("shape", EVERY_CACHE[2:], ids=str)
def test_long_keys_and_the_small_queries_that_fit_them_keep_their_digits(shape: Shape) -> None:
    norm = 10_000.0
    ((keys, values),) = random_tokens(shape, [37])
    keys = torch.zeros_like(keys)
    keys[:, :, 3] = torch.linspace(-norm, norm, 37)[:, None]
    for highest in (1.0, 12.0):
        query = torch.zeros(2, shape.heads, shape.head_size)
        query[..., 3] = highest * shape.head_size**0.5 / norm
        gates.accuracy(call(REAL, shape, [(37, 2)], tokens=[(keys, values)], query=query), config(REAL, 2))


@every_cache
@pytest.mark.parametrize("spread", [8.0, 20.0])
def test_sharp_scores_lose_nothing(shape: Shape, spread: float, record_property: Record) -> None:
    query = normal(4, shape.heads, shape.head_size, seed=1, spread=spread)
    worst = gates.accuracy(call(REAL, shape, [(37, 3), (70, 1)], query=query), chosen(2))
    record_property("row error, sharp scores", (f"{shape.preset} {shape.layout}", worst))


@every_cache
def test_short_contexts_have_no_hole(shape: Shape, record_property: Record) -> None:
    # the small scope takes lengths at which a split without a visible token once made NaN: 5 to 64
    lengths = either([5, 9, 17, 33, 60][shape.layout == "interleaved" :], list(range(1, 601)))
    q_lens = either([8], list(range(1, 10)))
    splits = either([32] if shape == EVERY_CACHE[0] else [2], [1, 2, 7, 8, 32])
    worst = gates.short_contexts(REAL, shape, lengths, q_lens, splits, either(16, 32))
    record_property("row error", (f"{shape.preset} {shape.layout}", worst))


def test_a_row_that_is_not_finite_is_a_fault() -> None:
    wanted = torch.ones(2, 1, 4)
    out = wanted.clone()
    out[1, 0, 2] = float("nan")
    with pytest.raises(AssertionError, match="1 rows are not finite"):
        gates.row_errors(out, out)
    with pytest.raises(AssertionError, match="1 rows are not finite"):
        gates.row_errors(out, wanted)


def apart(of: Call) -> Call:
    """The same call on views: a query out of a wider tensor, a table out of a wider one, pages with gaps between."""
    shape = of.shape
    qkv = torch.full(
        (of.query.shape[0], shape.heads + 2, shape.head_size), float("nan"), dtype=of.query.dtype, device=DEVICE
    )
    qkv[:, 1:-1] = of.query
    table = torch.full((of.table.shape[0], of.table.shape[1] + 5), -1, dtype=torch.int32, device=DEVICE)
    table[:, : of.table.shape[1]] = of.table
    flat = of.cache.pages.reshape(of.cache.pages.shape[0], -1)
    wide = torch.full((flat.shape[0], flat.shape[1] + 512), 0xFF, dtype=torch.uint8, device=DEVICE)
    wide[:, : flat.shape[1]] = flat
    pages = wide[:, : flat.shape[1]]
    if shape.layout == "interleaved":
        # as vLLM shapes it from 0.26 on: KV heads before tokens
        by_head = of.cache.pages.transpose(1, 2).contiguous()
        pages = by_head.transpose(1, 2)
    return replace(of, query=qkv[:, 1:-1], table=table[:, : of.table.shape[1]], cache=replace(of.cache, pages=pages))


@every_cache
def test_strides_of_views_are_followed(shape: Shape) -> None:
    of = call(REAL, replace(shape, kv_heads=2), [(20, 3), (9, 2)])
    out = attended(apart(of), config(REAL, 2))
    assert gates.same_bits(out, attended(of, config(REAL, 2)))
    assert float(gates.row_errors(out, expected(of)).max()) <= gates.ROW_ERROR


@pytest.mark.parametrize(("change", "word"), [
    ({"query": torch.zeros(3, 2, 64, device=DEVICE)}, "float32"),
    ({"query": torch.zeros(3, 2, 128, dtype=torch.float16, device=DEVICE)}, "128"),
    ({"query": torch.zeros(3, 2, 128, dtype=torch.float16, device=DEVICE)[:, :, ::2]}, "contiguous"),
    ({"longest_query": 65}, "65"),
    ({"longest_query": 0}, "0 query positions"),
    ({"window": -1}, "window -1"),
    ({"softcap": -2.0}, "softcap -2.0"),
    ({"softcap": float("nan")}, "softcap nan"),
    ({"softcap": 3001.0}, "softcap 3001.0"),
    ({"softcap": float("inf")}, "softcap inf"),
    ({"softcap": 1e-39}, "softcap 1e-39"),
    ({"window": 2**31}, "window 2147483648"),
    ({"scale": -1e39}, r"scale -1e\+39"),
    ({"out": torch.zeros(1, 2, 64, device=DEVICE).expand(3, 2, 64)}, "on one another"),
    ({"out": torch.zeros(3, 1, 64, device=DEVICE).expand(3, 2, 64)}, "on one another"),
    ({"scale": float("nan")}, "scale nan"),
    ({"scale": float("inf")}, "scale inf"),
    ({"config": config(REAL, 0)}, "0 splits"),
    ({"query": torch.zeros(3, 4, dtype=torch.float16)}, "query"),
    ({"block_table": torch.zeros(1, 8, dtype=torch.int64, device=DEVICE)}, "block_table"),
    ({"block_table": torch.zeros(1, 8, dtype=torch.int32, device=DEVICE)[:, ::2]}, "block_table"),
    ({"block_table": torch.zeros(2, 8, dtype=torch.int32, device=DEVICE)}, "seq_lens"),
    ({"seq_lens": torch.tensor([5], device=DEVICE)}, "seq_lens"),
    ({"query_start": torch.tensor([0], dtype=torch.int32, device=DEVICE)}, "query_start"),
    ({"query_start": torch.tensor([0, 0, 3, 3], dtype=torch.int32, device=DEVICE)[::2]}, "query_start"),
    ({"out": torch.zeros(3, 2, 64, dtype=torch.int8, device=DEVICE)}, "out"),
    ({"out": torch.zeros(2, 2, 64, device=DEVICE)}, "out"),
    ({"out": torch.zeros(3, 2, 128, device=DEVICE)[..., ::2]}, "out"),
    ({"config": config(REAL, 2), "room": REAL.attention.scratch(3, 2, 1, 64, torch.device(DEVICE))}, "room.partial"),
    ({"config": config(REAL, 1), "room": REAL.attention.scratch(2, 2, 1, 64, torch.device(DEVICE))}, "room.partial"),
])  # fmt: skip
def test_what_the_kernel_was_not_made_for_is_refused(change: dict[str, object], word: str) -> None:
    of = call(REAL, EVERY_CACHE[0], [(5, 3)])
    asked = {"query": of.query, "cache": of.cache, "block_table": of.table, "seq_lens": of.seq_lens,
             "query_start": of.query_start, "longest_query": 3, **change}  # fmt: skip
    with pytest.raises(ValueError, match=word):
        REAL.attention.attend(**asked)


if FULL:

    @every_cache
    @pytest.mark.parametrize("length", [4096, 40_000])
    def test_long_contexts_lose_nothing(shape: Shape, length: int, record_property: Record) -> None:
        of = call(REAL, replace(shape, group=4, head_size=128), [(length, 4), (length - 17, 1)])
        for config_of in (config(REAL, 1), None):
            worst = gates.accuracy(of, config_of)
            record_property("row error", (f"{shape.preset} {shape.layout}", worst))
