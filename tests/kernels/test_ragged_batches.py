"""Any batch: lengths, query positions, pages, splits and windows as they come."""

from __future__ import annotations

from dataclasses import replace

import kernel_gates as gates
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kernel_cases import EVERY_CACHE, NAN, OTHER, REAL, Shape, attended, call, config
from kernel_scope import either

LONGEST = either(48, 500)
Requests = list[tuple[int, int]]


@st.composite
def batches(draw: st.DrawFn) -> Requests:
    """Requests of any length, of which some ask nothing, with up to nine query positions and no more than tokens."""
    lengths = draw(st.lists(st.integers(1, LONGEST), min_size=1, max_size=either(3, 12)))
    requests = [(length, draw(st.integers(0, min(9, length)))) for length in lengths]
    return requests if any(q_len for _, q_len in requests) else [*requests, (1, 1)]


# a device compiles every shape, so it gets few
shapes = st.builds(
    lambda shape, page, group, kv_heads: replace(shape, page=page, group=group, kv_heads=kv_heads),
    st.sampled_from(EVERY_CACHE), st.sampled_from(either([16, 64], [32])), st.sampled_from(either([1, 6], [6])),
    st.sampled_from(either([1, 2], [2])),
)  # fmt: skip
examples = settings(max_examples=either(6, 120), deadline=None, derandomize=True, database=None,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip


@examples
@given(shapes, batches(), st.sampled_from([1, 3, 8]), st.sampled_from([0, 1, 17, 300]), st.integers(0, 99))
@example(Shape("k3v4_nc"), [(33, 8)], 8, 0, 0)
def test_every_batch_is_close_to_float64_whatever_lies_around_it(
    shape: Shape, requests: Requests, splits: int, window: int, seed: int
) -> None:
    of, other = (call(REAL, shape, requests, poison=poison, seed=seed) for poison in (NAN, OTHER))
    gates.accuracy(of, config(REAL, splits), window=window)
    one, two = (attended(each, config(REAL, splits), window=window) for each in (of, other))
    assert gates.same_bits(one, two)


@examples
@given(st.sampled_from(EVERY_CACHE), st.integers(1, LONGEST), st.data())
def test_requests_may_share_pages(shape: Shape, length: int, data: st.DataObject) -> None:
    """Requests with the same first pages: each answers as it does alone."""
    base = call(REAL, shape, [(length, 1)])
    lengths = data.draw(st.lists(st.integers(1, length), min_size=2, max_size=3))
    query = torch.cat([base.query] * len(lengths))
    together = attended(base.asked(lengths, [1] * len(lengths), query, [0] * len(lengths)), config(REAL))
    for row, each in enumerate(lengths):
        alone = attended(base.asked([each], [1], base.query, [0]), config(REAL))
        assert gates.same_bits(together[row : row + 1], alone)
