"""Codebooks for the coordinates of a rotated unit key, and the rotation.

A key is rotated by a Hadamard matrix, so that its coordinates, divided by its norm, are close to N(0, 1/D). Each is
kept as the nearest value of a codebook. A codebook may be multiplied by any number, since the key's scale divides by
the norm of what the codes say (`_nc`, norm correction): that freedom is used to make the values exact in fp16, which
is what the matrix unit multiplies.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import torch


def lloyd_max(bits: int) -> tuple[float, ...]:
    """The positive half of the codebook with the least mean squared error for N(0, 1), to 1e-12.

    Lloyd's iteration: a value is the mean of the numbers that are closest to it (Lloyd 1982, Max 1960).
    """
    values = [(index + 0.5) * 3 / 2 ** (bits - 1) for index in range(2 ** (bits - 1))]
    while True:
        borders = [0.0, *midpoints(values), math.inf]
        better = [_mean(low, high) for low, high in itertools.pairwise(borders)]
        if max(abs(new - old) for new, old in zip(better, values, strict=True)) < 1e-14:
            return tuple(better)
        values = better


def midpoints(values: Sequence[float]) -> list[float]:
    """Where the nearest value changes."""
    return [(low + high) / 2 for low, high in itertools.pairwise(values)]


def _mean(low: float, high: float) -> float:
    """Of N(0, 1) between two numbers."""
    mass = (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2
    return (_density(low) - _density(high)) / mass


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def distortion(values: Sequence[float]) -> float:
    """Mean squared error of a symmetric codebook for N(0, 1), given its positive half; exact, by the error function."""
    borders = [0.0, *midpoints(values), math.inf]
    total = 0.0
    for value, low, high in zip(values, borders, borders[1:], strict=False):
        mass = math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))
        first = 2 * (_density(low) - _density(high))
        second = mass + 2 * (low * _density(low) - (high * _density(high) if math.isfinite(high) else 0.0))
        total += second - 2 * value * first + value * value * mass
    return total


CODEBOOK_3 = (0.3203125, 1.0078125, 1.8359375, 2.8984375)
"""3 bits: x * (163/64 + x**2) at x = 1/8, 3/8, 5/8 and 7/8, the positive half. The cubic closest to the Lloyd-Max
values of all whose every step is exact in fp16; costs 0.22 % in mean squared error, and no table look-up in the
kernels."""

CODEBOOK_4 = (0.1966552734375, 0.591796875, 0.994140625, 1.41796875, 1.8876953125, 2.447265625, 3.16015625, 4.125)
"""4 bits: x * (a + b * x**2 + c * x**4) at x = 1/8, 3/8, ..., 15/8, in fp16. The coefficients were searched for: the
eight values come out alike whether multiplications and additions are fused or not; 0.17 %."""

CODEBOOKS = {3: CODEBOOK_3, 4: CODEBOOK_4}
"""By bits."""

UPSTREAM_3 = (0.395751953125, 1.220703125, 2.169921875, 3.474609375)
"""What vLLM's 3-bit codes stand for, the Lloyd-Max values, stretched by 1.6147: within 1.92e-5 of fp16 numbers, the
closest that any factor from 1 to 2 brings all four."""

UPSTREAM_4 = (
    0.1712646484375,
    0.517578125,
    0.8759765625,
    1.2568359375,
    1.67578125,
    2.158203125,
    2.759765625,
    3.64453125,
)
"""The same for 4 bits: stretched by 1.3339, within 9.4e-5."""

UPSTREAM_3_REST = (7.319450378417969e-05, 0.00023937225341796875, 0.00048089027404785156, 0.0007658004760742188)
"""What the Lloyd-Max values, stretched by 1.614992, are more than UPSTREAM_3, in fp16, none subnormal; within 6e-9."""

UPSTREAM_4_REST = (
    -6.854534149169922e-05,
    -0.00017213821411132812,
    -0.0002837181091308594,
    -0.0003619194030761719,
    -0.0007796287536621094,
    -0.0007734298706054688,
    -0.0010318756103515625,
    -0.0010204315185546875,
)
"""The same of UPSTREAM_4, by 1.3333546, within 5e-8. A score is wrong by its size times what is left out, so that sharp
scores need both. None is subnormal: a matrix unit may take those for zero."""


def thresholds(bits: int, upstream: bool = False) -> tuple[float, ...]:
    """For a coordinate of N(0, 1): the magnitudes where the code changes; vLLM's are those of the Lloyd-Max values."""
    ideal = lloyd_max(bits)
    if upstream:
        return tuple(midpoints(ideal))
    values = CODEBOOKS[bits]
    # how much wider than N(0, 1) the codebook is: the factor with which it differs least from the ideal one
    stretch = sum(a * b for a, b in zip(values, ideal, strict=True)) / sum(each * each for each in ideal)
    return tuple(border / stretch for border in midpoints(values))


@functools.cache
def signs(size: int) -> tuple[tuple[int, ...], ...]:
    """Sylvester's Hadamard matrix: symmetric, entries +1 and -1, rows orthogonal; `size` is a power of two."""
    return tuple(tuple(1 - 2 * ((row & column).bit_count() & 1) for column in range(size)) for row in range(size))


@functools.cache
def hadamard(size: int, device: str, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """The matrix of +1 and -1 on a device, [size, size]; divide by sqrt(size) for a rotation."""
    return torch.tensor(signs(size), dtype=dtype, device=device)
