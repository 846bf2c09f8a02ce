"""The device code that turns bits into numbers, for every bit pattern that there is."""

from __future__ import annotations

import byte_reader
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from b70_kernels import quantiser
from b70_kernels.store_kernel import to_fp8
from b70_kernels.unpack import centred, cubic, fp8, nearest_of_8, nearest_of_16, quintic, rest_of_8, rest_of_16
from kernel_scope import DEVICE, either


@triton.jit
def _keys_3(words, out, SHIFT: tl.constexpr, OURS: tl.constexpr):
    word = tl.load(words + tl.arange(0, 8))
    if OURS:
        tl.store(out + tl.arange(0, 8), cubic(word, SHIFT))
    else:
        tl.store(out + tl.arange(0, 8), nearest_of_8((word >> SHIFT) & 7))


@triton.jit
def _keys_4(words, out, SHIFT: tl.constexpr, OURS: tl.constexpr):
    word = tl.load(words + tl.arange(0, 16))
    if OURS:
        tl.store(out + tl.arange(0, 16), quintic(word, SHIFT))
    else:
        tl.store(out + tl.arange(0, 16), nearest_of_16((word >> SHIFT) & 15))


@triton.jit
def _rests_3(words, out, SHIFT: tl.constexpr):
    word = tl.load(words + tl.arange(0, 8))
    tl.store(out + tl.arange(0, 8), rest_of_8((word >> SHIFT) & 7))


@triton.jit
def _rests_4(words, out, SHIFT: tl.constexpr):
    word = tl.load(words + tl.arange(0, 16))
    tl.store(out + tl.arange(0, 16), rest_of_16((word >> SHIFT) & 15))


@triton.jit
def _values(words, out, SHIFT: tl.constexpr, MASK: tl.constexpr, CENTRE: tl.constexpr):
    at = tl.arange(0, 16)
    tl.store(out + at, centred(tl.load(words + at), SHIFT, MASK, CENTRE))


@triton.jit
def _from_fp8(octets, out, NATIVE: tl.constexpr):
    at = tl.arange(0, 256)
    tl.store(out + at, fp8(tl.load(octets + at), NATIVE))


@triton.jit
def _to_fp8(numbers, out, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out + at, to_fp8(tl.load(numbers + at)).to(tl.uint8))


def book(half: tuple[float, ...]) -> torch.Tensor:
    """A codebook in ascending order."""
    return torch.tensor([*(-value for value in reversed(half)), *half], dtype=torch.float16)


def words(codes: int, shift: int, noise: int) -> torch.Tensor:
    """A code each at a shift, with every other bit as in `noise`."""
    mask = codes - 1 << shift
    numbers = [(noise & ~mask) | (code << shift) for code in range(codes)]
    return torch.tensor(numbers, dtype=torch.int32, device=DEVICE).to(torch.int16)


noises = pytest.mark.parametrize("noise", [0, 0xFFFF, 0xA5A5])


@noises
@pytest.mark.parametrize("shift", [0, 3, 6])
def test_three_bits_are_a_value_of_the_codebook(shift: int, noise: int) -> None:
    for ours, half in ((True, quantiser.CODEBOOK_3), (False, quantiser.UPSTREAM_3)):
        out = torch.empty(8, dtype=torch.float16, device=DEVICE)
        _keys_3[(1,)](words(8, shift, noise), out, SHIFT=shift, OURS=ours)
        assert torch.equal(out.cpu(), book(half))
    _rests_3[(1,)](words(8, shift, noise), out, SHIFT=shift)
    assert torch.equal(out.cpu(), book(quantiser.UPSTREAM_3_REST))


@noises
@pytest.mark.parametrize("shift", [0, 4])
def test_four_bits_are_a_value_of_the_codebook(shift: int, noise: int) -> None:
    for ours, half in ((True, quantiser.CODEBOOK_4), (False, quantiser.UPSTREAM_4)):
        out = torch.empty(16, dtype=torch.float16, device=DEVICE)
        _keys_4[(1,)](words(16, shift, noise), out, SHIFT=shift, OURS=ours)
        assert torch.equal(out.cpu(), book(half))
    _rests_4[(1,)](words(16, shift, noise), out, SHIFT=shift)
    assert torch.equal(out.cpu(), book(quantiser.UPSTREAM_4_REST))


@noises
@pytest.mark.parametrize(("shift", "bits"), [(0, 4), (4, 4), (0, 3), (3, 3), (6, 3)])
def test_a_value_s_code_is_counted_from_its_middle(shift: int, bits: int, noise: int) -> None:
    count = 2**bits
    given = words(count, shift, noise).repeat(16 // count)
    out = torch.empty(16, dtype=torch.float16, device=DEVICE)
    _values[(1,)](given, out, SHIFT=shift, MASK=count - 1, CENTRE=count / 2)
    assert out.cpu().tolist() == [code - count / 2 for code in range(count)] * (16 // count)


@pytest.mark.parametrize(
    "native",
    either([False], [False, True] if DEVICE == "cuda" and torch.cuda.get_device_capability() >= (8, 9) else [False]),
)
def test_every_fp8_byte_is_read_as_defined(native: bool) -> None:
    octets = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    out = torch.empty(256, dtype=torch.float16, device=DEVICE)
    _from_fp8[(1,)](octets.to(DEVICE), out, NATIVE=native)
    wanted = byte_reader.e4m3(octets.numpy())
    numbers = np.isfinite(wanted)
    assert numbers.sum() == 254
    assert np.array_equal(out.cpu().double().numpy()[numbers], wanted[numbers])


def test_every_fp16_number_becomes_the_nearest_fp8() -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.float16)
    numbers = torch.where(every.isfinite(), every, torch.zeros_like(every)).float()
    out = torch.empty(2**16, dtype=torch.uint8, device=DEVICE)
    _to_fp8[(16,)](numbers.to(DEVICE), out, SIZE=4096)
    wanted = numbers.clamp(-448, 448).to(torch.float8_e4m3fn).double()
    assert torch.equal(torch.from_numpy(byte_reader.e4m3(out.cpu().numpy())), wanted)


def test_a_number_between_two_fp8_goes_to_the_even_one_and_beyond_the_last_to_448() -> None:
    given = [1.0625, 1.1875, 2.0**-10, 3 * 2.0**-10, 449.0, 1e30, -1e30, 2.0**-11, -0.0, 17.0]
    wanted = [1.0, 1.25, 0.0, 2.0**-8, 448.0, 448.0, -448.0, 0.0, 0.0, 16.0]
    out = torch.empty(16, dtype=torch.uint8, device=DEVICE)
    _to_fp8[(1,)](torch.tensor([*given, *[0.0] * 6], device=DEVICE), out, SIZE=16)
    assert byte_reader.e4m3(out.cpu().numpy())[:10].tolist() == wanted
