"""Tokens of a small model: verifying proposals gives the tokens that decoding one at a time gives."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_cases import EVERY_CACHE, REAL, Shape
from kernel_scope import either
from tiny_transformer import VOCABULARY, Model, noisy_copy, runs

COUNT = either(20, 200)
PROMPT = [5, 17, 60, 3, 44, 44, 9, 81, 2, 30]
SHAPES = [replace(shape, group=3) for shape in either([EVERY_CACHE[2], EVERY_CACHE[1]], EVERY_CACHE)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("splits", either([1], [1, None]))
def test_tokens_with_speculation_are_those_without(shape: Shape, splits: int | None) -> None:
    plain, speculative = (Model(REAL, shape, len(PROMPT) + COUNT + 16, splits) for _ in range(2))
    known = plain.generate(PROMPT, COUNT)
    assert max(runs(known, 0), default=0) < 8, "a run of token 0 is what NaN decodes to"
    assert len(set(known)) > COUNT // 6, "a model that repeats itself proves little"
    tokens = speculative.generate(PROMPT, COUNT, noisy_copy(known, len(PROMPT), either(5, 8), 0.3, seed=3))
    assert speculative.accepted >= COUNT // 4
    assert speculative.rejected >= 2
    closest = min(plain.closest, speculative.closest)
    # with the same tiles attention is the same to the bit; with others a near tie may fall to either side
    assert closest > 1e-9
    assert tokens == known or (splits is None and closest < 1e-3)


def test_runs_of_one_token_are_seen() -> None:
    assert list(runs([0, 0, 1, 0, 2, 0, 0, 0], 0)) == [2, 1, 3]
    assert list(runs([VOCABULARY - 1], 0)) == []
