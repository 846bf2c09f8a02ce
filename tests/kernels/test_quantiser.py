"""The codebooks and the rotation: published values, and arithmetic that no order of rounding can change."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import byte_reader
import numpy as np
import pytest
from b70_kernels import quantiser, unpack
from b70_kernels.presets import PRESETS

every_size = pytest.mark.parametrize("size", [64, 128, 256])
COST = {3: 1.0025, 4: 1.0025}
"""What our codebooks may cost in mean squared error."""


@pytest.mark.parametrize(("bits", "values", "lost"), [
    (1, (0.7979,), 0.36338), (2, (0.4528, 1.5104), 0.11748),
    (3, byte_reader.PUBLISHED[3], 0.03455), (4, byte_reader.PUBLISHED[4], 0.00950),
])  # fmt: skip
def test_lloyd_max_converges_to_what_is_published(bits: int, values: tuple[float, ...], lost: float) -> None:
    found = quantiser.lloyd_max(bits)
    assert np.allclose(found, values, rtol=0, atol=6e-5)
    assert quantiser.distortion(found) == pytest.approx(lost, abs=6e-6)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_a_value_is_the_mean_of_what_is_closest_to_it(bits: int) -> None:
    values = quantiser.lloyd_max(bits)
    borders = [0.0, *quantiser.midpoints(values), 12.0]
    for value, low, high in zip(values, borders, borders[1:], strict=False):
        x = low + (high - low) * (np.arange(200_000) + 0.5) / 200_000
        density = np.exp(-x * x / 2)
        assert (x * density).sum() / density.sum() == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_no_small_change_of_lloyd_max_loses_less(bits: int) -> None:
    values = quantiser.lloyd_max(bits)
    best = quantiser.distortion(values)
    for at, change in itertools.product(range(len(values)), (-1e-3, 1e-3)):
        assert quantiser.distortion((*values[:at], values[at] + change, *values[at + 1 :])) > best


def test_the_distortion_is_that_of_a_million_numbers() -> None:
    numbers = np.random.default_rng(1).standard_normal(1_000_000)
    for values in (quantiser.lloyd_max(3), quantiser.lloyd_max(4)):
        nearest = np.array(values)[np.digitize(np.abs(numbers), quantiser.midpoints(values))]
        assert ((np.abs(numbers) - nearest) ** 2).mean() == pytest.approx(quantiser.distortion(values), rel=0.01)


@pytest.mark.parametrize(("bits", "values"), [(3, quantiser.CODEBOOK_3), (4, quantiser.CODEBOOK_4)])
def test_our_codebooks_lose_little_more_than_the_best(bits: int, values: tuple[float, ...]) -> None:
    best = quantiser.lloyd_max(bits)
    stretch = np.dot(values, best) / np.dot(best, best)
    lost = quantiser.distortion(tuple(value / stretch for value in values)) / quantiser.distortion(best)
    assert 1.0 <= lost <= COST[bits]
    # and the borders in use are those of that stretch
    assert np.allclose(quantiser.thresholds(bits), np.array(quantiser.midpoints(values)) / stretch, rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "rests", "bits", "within"),
    [(quantiser.UPSTREAM_3, quantiser.UPSTREAM_3_REST, 3, 1.93e-5),
     (quantiser.UPSTREAM_4, quantiser.UPSTREAM_4_REST, 4, 9.5e-5)],
)  # fmt: skip
def test_vllm_s_codebook_is_lloyd_max_but_for_rounding(
    values: tuple[float, ...], rests: tuple[float, ...], bits: int, within: float
) -> None:
    ratio = np.array(values) / np.array(quantiser.lloyd_max(bits))
    assert np.abs(ratio / np.sqrt(ratio.min() * ratio.max()) - 1).max() <= within
    assert all(float(np.float16(value)) == value for value in (*values, *rests))
    assert all(abs(rest) >= 2**-14 for rest in rests), "a matrix unit may take subnormal numbers for zero"
    ratio = (np.array(values) + np.array(rests)) / np.array(quantiser.lloyd_max(bits))
    assert np.abs(ratio / ratio.mean() - 1).max() <= 5e-8
    assert list(quantiser.thresholds(bits, upstream=True)) == quantiser.midpoints(quantiser.lloyd_max(bits))


@every_size
def test_the_rotation_is_orthogonal_and_its_own_inverse(size: int) -> None:
    signs = np.array(quantiser.signs(size))
    assert set(np.unique(signs)) == {-1, 1}
    assert np.array_equal(signs, signs.T)
    assert np.array_equal(signs @ signs, size * np.eye(size))
    assert np.array_equal(quantiser.hadamard(size, "cpu").numpy(), signs)
    assert np.allclose(signs / math.sqrt(size), byte_reader.hadamard(size))


Number = Fraction
Kept = tuple[bool, ...]


def half(number: Number) -> Number:
    """Rounded to fp16, to the nearest, ties to even; exactly, for numbers of its normal range."""
    if not number:
        return number
    exponent = math.frexp(float(number))[1]
    step = Fraction(2) ** (exponent - 11)
    return round(number / step) * step


def cubic(x: Number, rounds: Iterator[bool]) -> Number:
    """unpack.cubic, each result rounded to fp16 or kept as it is, as a fused operation would."""
    step = [lambda value: value, half]
    square = step[next(rounds)](x * x)
    return half(x * step[next(rounds)](square + Fraction(unpack.CUBIC.value)))


def quintic(x: Number, rounds: Iterator[bool]) -> Number:
    """unpack.quintic, in the same way."""
    step = [lambda value: value, half]
    y = step[next(rounds)](x * x)
    upper = step[next(rounds)](y * Fraction(unpack.QUINTIC_5.value))
    upper = step[next(rounds)](Fraction(unpack.QUINTIC_3.value) + upper)
    upper = step[next(rounds)](y * upper)
    return half(x * step[next(rounds)](Fraction(unpack.QUINTIC_1.value) + upper))


@pytest.mark.parametrize(
    ("polynomial", "choices", "values"), [(cubic, 2, quantiser.CODEBOOK_3), (quintic, 5, quantiser.CODEBOOK_4)]
)
def test_fused_or_not_the_polynomial_gives_the_codebook(polynomial, choices: int, values: tuple[float, ...]) -> None:
    # the sum before the last product is rounded however it comes about; in float32 nothing is, as good as
    orders = [(*inner, True) for inner in itertools.product((False, True), repeat=choices - 1)] + [(False,) * choices]
    for rounds in orders:
        for at, value in enumerate(values):
            x = Fraction(2 * at + 1, 8)
            assert polynomial(x, iter(rounds)) == Fraction(value), f"code {at}, rounded at {rounds}"
            assert polynomial(-x, iter(rounds)) == -Fraction(value)


@pytest.mark.parametrize(("name", "size", "octets"), [
    ("k8v4", 128, 196), ("4bit_nc", 128, 134), ("k3v4_nc", 128, 118), ("3bit_nc", 128, 102),
    ("k8v4", 256, 388), ("4bit_nc", 256, 262), ("k3v4_nc", 256, 230), ("3bit_nc", 256, 198),
    ("k8v4", 64, 100), ("4bit_nc", 64, 70), ("k3v4_nc", 64, 62), ("3bit_nc", 64, 54),
])  # fmt: skip
def test_a_slot_has_as_many_bytes_as_vllm_counts(name: str, size: int, octets: int) -> None:
    assert PRESETS[name].slot_bytes(size) == octets
    assert byte_reader.BITS[name] == (PRESETS[name].key_bits, PRESETS[name].value_bits)
