"""The gates of attention: each raises AssertionError when what it guards does not hold, for whichever copy it is given.

`test_mutants.py` gives them copies with a fault each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from kernel_cases import (
    NAN,
    Call,
    Kit,
    Poison,
    Shape,
    attended,
    call,
    config,
    expected,
    normal,
    random_tokens,
    spiky_tokens,
    whole,
)  # fmt: skip
from kernel_scope import DEVICE, FULL

ROW_ERROR = 3e-4
"""Of any row, a token and a query head: norm of the difference over norm of the law's answer."""
OTHER_ORDER = 1e-5
"""The same between two orders of adding up."""


def row_errors(out: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Relative error of every row; a number that is not finite is a fault of its own."""
    assert out.shape == wanted.shape
    assert bool(out.isfinite().all()), f"{int((~out.isfinite()).any(-1).sum())} rows are not finite"
    return (out.double() - wanted.double()).norm(dim=-1) / wanted.double().norm(dim=-1).clamp(min=1e-30)


def accuracy(of: Call, config: Any = None, **options: Any) -> float:
    """Every row is as close to float64 as promised; gives the largest error."""
    worst = float(row_errors(attended(of, config, **options), expected(of, **options)).max())
    assert worst <= ROW_ERROR, f"{of.shape}: row error {worst:.1e}"
    return worst


def spiky_values(kit: Kit, shape: Shape) -> float:
    """Weights keep more than one fp16: values that are zero but for one dimension show what is lost."""
    requests = [(47, 2), (9, 1)]
    tokens = spiky_tokens(shape, [length for length, _ in requests])
    return accuracy(call(kit, shape, requests, tokens=tokens), config(kit, 2))


def rounded_once(of: Call, config: Any = None, **options: Any) -> None:
    """The answer in the query's type is the float32 one, rounded: no further from it than half a step of the type."""
    wide = attended(of, config, **options)
    narrow = attended(of, config, dtype=of.query.dtype, **options)
    assert bool(narrow.isfinite().all())
    if of.query.dtype == torch.float16 or FULL:
        assert same_bits(narrow, wide.to(of.query.dtype)), f"{of.shape}: not the nearest {of.query.dtype}"
        return
    # the interpreter cuts bf16 off: a whole step
    kept = torch.finfo(of.query.dtype)
    step = (wide.abs() * kept.eps).clamp(min=kept.tiny * kept.eps)
    assert bool(((narrow.float() - wide).abs() <= step).all())


SINKS = ((5.0, 0.0, 1.0), (9.0, 1e-3, 1.0), (14.0, 30.0, 1.0), (14.0, 0.0, 1e-3), (24.0, 0.0, 1.0), (24.0, 0.0, 1e-3))
"""Of sinks: score, size of its values, size of the others'."""


def sink(kit: Kit, shape: Shape, score: float, size: float, others: float, splits: int = 2) -> float:
    """A token that takes nearly all of the weight, with values of nearly no spread: the others' are not lost.

    The first token scores `score`, the others about nothing; at 5, 9, 14 and 24 it has 0.7, 0.994, 0.99995 and 1 - 2e-9
    of 37 tokens' weight. Its values are alike but for a thousandth: their scale is zero or tiny, whatever their size.
    """
    direction = torch.sign(normal(shape.head_size, seed=5))
    ((keys, values),) = random_tokens(shape, [37])
    keys[0] = direction * (score / shape.head_size**0.5)
    values[0] = size * (1.0 + 1e-3 * values[0])
    # what the answer is compared with must not be the sink's own size
    values[1:] = others * (values[1:] - values[1:].mean(-1, keepdim=True))
    query = direction.expand(2, shape.heads, shape.head_size)
    return accuracy(call(kit, shape, [(37, 2)], tokens=[(keys, values)], query=query), config(kit, splits))


def heads_are_their_own(kit: Kit, shape: Shape) -> None:
    """Other values of one KV head change the answers of its group, and not a bit of another's."""
    shape = replace(shape, group=3, kv_heads=2)
    keys, values = random_tokens(shape, [20])[0]
    changed = values.clone()
    changed[:, 1] += 1.0
    query = normal(1, shape.heads, shape.head_size, seed=2)
    one, two = (
        attended(call(kit, shape, [(20, 1)], tokens=[(keys, each)], query=query), config(kit))
        for each in (values, changed)
    )
    assert same_bits(one[:, :3], two[:, :3])
    assert bool((one[:, 3:] != two[:, 3:]).any(-1).all())


UNFIT = (float("nan"), float("inf"), -float("inf"), -60_000.0)
"""Numbers in a query that no answer can be right for; the last one is too large once it is scaled."""


def unfit_queries_show(kit: Kit, shape: Shape, number: float, splits: int) -> None:
    """A row whose query has such a number is NaN as a whole, and the others keep every bit."""
    tokens = random_tokens(shape, [37])
    # what is large and negative, times these, would hide every token and answer with zero
    tokens[0][0][..., 7] = tokens[0][0][..., 7].abs() + 0.5
    of = call(kit, shape, [(37, 3)], tokens=tokens)
    harmed = of.query.clone()
    harmed[1, 0, 7] = number
    before, after = (attended(each, config(kit, splits)) for each in (of, replace(of, query=harmed)))
    rows = torch.zeros(before.shape[:2], dtype=torch.bool, device=DEVICE)
    rows[1, 0] = True
    assert bool(after[rows].isnan().all()), f"{shape}: a query with {number} has an answer"
    assert same_bits(after[~rows], before[~rows])


def unfit_scales_show(kit: Kit, shape: Shape, splits: int) -> None:
    """A request that looks at tokens whose scales are NaN gets NaN, whichever part they lie in."""
    of = call(kit, shape, [(37, 1), (20, 1)], poison=NAN)
    out = attended(replace(of, seq_lens=whole([40, 20])), config(kit, splits))
    assert bool(out[0].isnan().all()), f"{shape}: a NaN is merged away"
    assert same_bits(out[1], attended(of, config(kit, splits))[1])


def short_contexts(
    kit: Kit, shape: Shape, lengths: Sequence[int], q_lens: Sequence[int], splits: Sequence[int], keys: int = 16
) -> float:
    """Every length with every number of query positions and of splits: splits that see nothing, rows that hide."""
    size = (shape.heads, shape.head_size)
    tokens = random_tokens(shape, lengths, seed=3)
    base = call(kit, shape, [(length, 1) for length in lengths], tokens=tokens)
    laws = [kit.reference.dequantise(base.cache, base.table[row], length) for row, length in enumerate(lengths)]
    worst = 0.0
    for q_len in q_lens:
        rows = [row for row, length in enumerate(lengths) if length >= q_len]
        query = normal(len(rows) * q_len, *size, seed=q_len).to(shape.torch_dtype).to(DEVICE)
        asked = base.asked([lengths[row] for row in rows], [q_len] * len(rows), query, rows)
        wanted = torch.cat([kit.reference.attend_plain(part, *laws[row])
                            for row, part in zip(rows, query.split(q_len), strict=True)])  # fmt: skip
        for count in splits:
            errors = row_errors(attended(asked, config(kit, count, keys=keys)), wanted)
            assert float(errors.max()) <= ROW_ERROR, f"{shape}: q_len {q_len}, {count} splits, error {errors.max():.1e}"
            worst = max(worst, float(errors.max()))
    return worst


def needle(kit: Kit, shape: Shape, length: int, q_len: int, places: Sequence[int], splits: int = 3) -> None:
    """A key along the query at one place: rows that see it answer with its value, the others do not change a bit."""
    size = (shape.kv_heads, shape.head_size)
    direction = torch.sign(normal(shape.head_size, seed=5))
    query = direction.expand(q_len * len(places), shape.heads, shape.head_size)

    def answers(height: float, hot: float) -> torch.Tensor:
        tokens = []
        for place in places:
            keys, values = torch.zeros(length, *size), torch.zeros(length, *size)
            keys[place] = direction * (height / shape.head_size**0.5)
            values[place, :, place % shape.head_size] = hot
            tokens.append((keys, values))
        of = call(kit, shape, [(length, q_len)] * len(places), tokens=tokens, query=query)
        return attended(of, config(kit, splits)).reshape(len(places), q_len, shape.heads, shape.head_size)

    with_it, without = answers(30.0, 1.0), answers(-8.0, -1.0)
    for request, place in enumerate(places):
        seeing = torch.arange(q_len) + length - q_len >= place
        one_hot = torch.zeros(shape.head_size, device=DEVICE)
        one_hot[place % shape.head_size] = 1.0
        assert torch.allclose(with_it[request, seeing], one_hot, rtol=0, atol=2e-3), (
            f"{shape}: needle at {place} is not found"
        )
        blind = ~seeing
        assert same_bits(with_it[request, blind], without[request, blind]), (
            f"{shape}: needle at {place} is seen too early"
        )
        assert not bool(with_it[request, blind].any())


def future_changes_nothing(kit: Kit, shape: Shape, length: int, q_len: int, splits: int = 2, **options: Any) -> None:
    """Other tokens from a position on: no bit of a row before it changes, and every row from it on does."""
    tokens = random_tokens(shape, [length] * q_len)
    changed = [(keys.clone(), values.clone()) for keys, values in tokens]
    for position, (keys, values) in enumerate(changed):
        at = length - q_len + position
        keys[at:] = -3.0 * keys[at:] + 1.0
        values[at:] = 40.0 - values[at:]
    query = normal(q_len * q_len, shape.heads, shape.head_size, seed=8)
    calls = [call(kit, shape, [(length, q_len)] * q_len, tokens=each, query=query) for each in (tokens, changed)]
    outs = [attended(of, config(kit, splits), **options) for of in calls]
    outs = [out.reshape(q_len, q_len, shape.heads, shape.head_size) for out in outs]
    for position in range(q_len):
        before, after = outs[0][position], outs[1][position]
        assert same_bits(before[:position], after[:position]), f"{shape}: a row before position {position} saw it"
        assert bool((before[position:] != after[position:]).any(-1).all()), (
            f"{shape}: a row does not see position {position}"
        )


def verify_is_decode(kit: Kit, shape: Shape, length: int, q_len: int, splits: int = 1, tiles: Any = None,
                     **options: Any) -> None:  # fmt: skip
    """A row of a verify is the decode at its length: bit for bit with one split, else but for the order of adding."""
    tiles = tiles or config(kit, splits)
    of = call(kit, shape, [(length, q_len)])
    lengths = range(length - q_len + 1, length + 1)
    alone = of.asked(lengths, [1] * q_len, of.query, [0] * q_len)
    verified, decoded = (attended(each, tiles, **options) for each in (of, alone))
    if splits == 1:
        assert same_bits(verified, decoded), f"{shape}: a verify differs from decodes"
    assert float(row_errors(verified, decoded).max()) <= OTHER_ORDER


def splits_change_nothing(of: Call, counts: Sequence[int], **options: Any) -> None:
    """However a context is split, the answer is the same but for the order of adding."""
    unsplit = attended(of, config(of.kit, 1), **options)
    for splits in counts:
        errors = row_errors(attended(of, config(of.kit, splits), **options), unsplit)
        assert float(errors.max()) <= OTHER_ORDER, f"{of.shape}: {splits} splits differ by {errors.max():.1e}"


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether every byte is alike, not-a-numbers and signs of zero included."""
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def poison_is_never_read(
    kit: Kit, shape: Shape, requests: Sequence[tuple[int, int]], poisons: Sequence[Poison], **options: Any
) -> None:
    """Whatever lies where nothing was written, the bits are the same: slack, spare pages, table, scratch, out."""
    outs = [attended(call(kit, shape, requests, poison=poison), config(kit, 3), **options) for poison in poisons]
    for out in outs:
        assert bool(out.isfinite().all())
        assert same_bits(out, outs[0]), f"{shape}: what was never written is read"
