"""Which combinations of preset, layout, shape and option the accuracy gate is asked for."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

from kernel_cases import Shape
from kernel_scope import either

FACTORS: tuple[Sequence[Any], ...] = (
    ("k8v4", "4bit_nc", "k3v4_nc", "3bit_nc"),
    ("planar", "interleaved"),
    (64, 128, 256),
    (1, 3, 4, 6, 8),
    (16, 32, 64),
    ("float16", "bfloat16"),
    ("plain", "window", "softcap", "both"),
    ("chosen", "paired"),
)
WINDOW = either(20, 300)
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "window": {"window": WINDOW},
    "softcap": {"softcap": 3.0},
    "both": {"window": WINDOW, "softcap": 3.0},
}
Combination = tuple[Any, ...]
Pair = tuple[int, Any, int, Any]


def pairs(one: Combination) -> set[Pair]:
    """Every two choices of a combination."""
    return {(i, one[i], j, one[j]) for i, j in itertools.combinations(range(len(one)), 2)}


def every_pair() -> set[Pair]:
    """Every two choices there are."""
    return {(i, a, j, b) for i, j in itertools.combinations(range(len(FACTORS)), 2)
            for a in FACTORS[i] for b in FACTORS[j]}  # fmt: skip


def pairwise() -> list[Combination]:
    """Few combinations in which every pair of choices occurs: of many at random, always the one with most new pairs."""
    chance = random.Random(1)
    left, chosen = every_pair(), []
    while left:
        tried = [tuple(chance.choice(factor) for factor in FACTORS) for _ in range(300)]
        best = max(tried, key=lambda one: len(pairs(one) & left))
        if pairs(best) & left:
            chosen.append(best)
            left -= pairs(best)
    return chosen


def wide() -> list[Combination]:
    """Every preset in every layout with every head size and group, the other choices at random; and every pair."""
    chance = random.Random(2)
    chosen = pairwise()
    known = {one[:4] for one in chosen}
    return chosen + [(*first, *map(chance.choice, FACTORS[4:]))
                     for first in itertools.product(*FACTORS[:4]) if first not in known]  # fmt: skip


def matrix() -> list[tuple[Shape, str, str]]:
    """Shapes with the name of the options that each is asked with, and of the tiles."""
    chosen = either(pairwise, wide)()
    return [(Shape(preset, layout, size, group, 1 + (group == 3), page, dtype), option, tiles)
            for preset, layout, size, group, page, dtype, option, tiles in chosen]  # fmt: skip
