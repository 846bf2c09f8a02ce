"""Reads stored bytes with numpy alone, from the description of the two layouts and from no code of the package.

Interleaved, a token of a KV head: key codes | key norm, fp16 (not k8v4) | value codes | value scale | value zero; codes
lie one after the other, the first in the lowest bits. Planar, a KV head of a page: each kind of byte for all tokens,
then the next kind; four dimensions, a quarter of the head apart, share a lane (see b70_kernels.cache).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BITS = {"k8v4": (8, 4), "4bit_nc": (4, 4), "k3v4_nc": (3, 4), "3bit_nc": (3, 3)}
PUBLISHED = {3: (0.2451, 0.7560, 1.3439, 2.1519),
             4: (0.1284, 0.3880, 0.6568, 0.9423, 1.2562, 1.6180, 2.0690, 2.7326)}  # fmt: skip
"""Lloyd-Max values for N(0, 1), the positive half, as the literature prints them."""
Array = Any


@dataclass(frozen=True, slots=True)
class Tokens:
    """Every token of every page: codes [pages, page, heads, D], scales [pages, page, heads] as fp16."""

    key: Array
    key_scale: Array
    value: Array
    scale: Array
    zero: Array


def read(pages: Array, preset: str, layout: str, head_size: int, heads: int, page: int) -> Tokens:
    """The codes and scales in a cache's bytes."""
    key_bits, value_bits = BITS[preset]
    if layout == "interleaved":
        return _interleaved(pages, key_bits, value_bits, head_size)
    return _planar(pages.reshape(pages.shape[0], heads, -1), key_bits, value_bits, head_size, page)


def codes(octets: Array, bits: int) -> Array:
    """Integers of so many bits out of bytes, the lowest bits first."""
    single = np.unpackbits(octets, axis=-1, bitorder="little")
    return single.reshape(*octets.shape[:-1], -1, bits) @ (1 << np.arange(bits))


def _interleaved(slots: Array, key_bits: int, value_bits: int, head_size: int) -> Tokens:
    widths = [head_size * key_bits // 8, 0 if key_bits == 8 else 2, head_size * value_bits // 8, 2, 2]
    ends = np.cumsum(widths)
    key, norm, value, scale, zero = (slots[..., end - width : end] for end, width in zip(ends, widths, strict=True))
    return Tokens(
        codes(key, key_bits),
        _half(norm) if key_bits != 8 else None,
        codes(value, value_bits),
        _half(scale),
        _half(zero),
    )


def _planar(blocks: Array, key_bits: int, value_bits: int, head_size: int, page: int) -> Tokens:
    at = 0

    def plane(width: int) -> Array:
        nonlocal at
        at += page * width
        return blocks[:, :, at - page * width : at].reshape(*blocks.shape[:2], page, width).swapaxes(1, 2)

    def numbers(bits: int) -> Array:
        if bits == 8:
            return plane(head_size)
        if bits == 4:
            lanes = codes(plane(head_size // 2), 16)
        else:
            low, high = plane(head_size // 4).astype(int), codes(plane(head_size // 8), 4)
            # the lower half of every byte is for the first half of the lanes
            lanes = low | np.concatenate([high[..., ::2], high[..., 1::2]], -1) << 8
        return np.concatenate([lanes >> bits * tile & (1 << bits) - 1 for tile in range(4)], -1)

    key, value = numbers(key_bits), numbers(value_bits)
    key_scale = _half(plane(2)) if key_bits != 8 else None
    return Tokens(key, key_scale, value, _half(plane(2)), _half(plane(2)))


def _half(octets: Array) -> Array:
    return np.ascontiguousarray(octets).view(np.float16)[..., 0]


def e4m3(octets: Array) -> Array:
    """What fp8 e4m3 bytes say, by their definition; 0x7F and 0xFF are not numbers."""
    sign = np.where(octets & 0x80, -1.0, 1.0)
    exponent, mantissa = (octets >> 3 & 15).astype(int), (octets & 7).astype(float)
    size = np.where(exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    return np.where(octets & 0x7F == 0x7F, np.nan, sign * size)


def hadamard(size: int) -> Array:
    """The orthonormal Sylvester matrix, by doubling."""
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / size**0.5


def interleaved_keys(tokens: Tokens, preset: str) -> Array:
    """Keys that vLLM's bytes stand for, with the published codebook."""
    bits = BITS[preset][0]
    if bits == 8:
        return e4m3(tokens.key.astype(np.uint8))
    book = np.array([*(-each for each in reversed(PUBLISHED[bits])), *PUBLISHED[bits]])
    directions = book[tokens.key]
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    return directions @ hadamard(directions.shape[-1]) * tokens.key_scale.astype(float)[..., None]


def values(tokens: Tokens) -> Array:
    """Values that the bytes of either layout stand for."""
    return tokens.value * tokens.scale.astype(float)[..., None] + tokens.zero.astype(float)[..., None]
