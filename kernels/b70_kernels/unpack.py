"""Device code that turns stored bytes into fp16 tiles; every kernel that reads a cache reads it through here.

A head's D dimensions come as four tiles of D/4, in one pass: lane w of a token holds one dimension of each. Which, the
function `dimensions` says. A tile's orientation is the caller's: offsets broadcast, so `w` is [D/4, 1] and `slot`
[1, KEYS], or the other way round.

Codes become numbers without shifts or conversions where it can be: a few bits or-ed into the last bits of 1024.0 in
fp16 (0x6400) are 1024 + bits, and what is subtracted and multiplied then is exact. Devices with packed fp16 arithmetic
do two such steps at a time.
"""

from __future__ import annotations

import triton
import triton.language as tl

# the coefficients of quantiser.CODEBOOK_3 and CODEBOOK_4
CUBIC: tl.constexpr = tl.constexpr(2.546875)
QUINTIC_1: tl.constexpr = tl.constexpr(1.5732421875)
QUINTIC_3: tl.constexpr = tl.constexpr(0.0286865234375)
QUINTIC_5: tl.constexpr = tl.constexpr(0.04248046875)


@triton.jit
def dimensions(w, D: tl.constexpr, PLANAR: tl.constexpr, TILE: tl.constexpr):
    """The dimensions that tile TILE (0 to 3) holds in its lanes: a quarter of the head if planar, else every fourth."""
    if PLANAR:
        return w + TILE * (D // 4)
    else:
        return w * 4 + TILE


@triton.jit
def load_keys(cache, head, slot, w, token_stride,
              D: tl.constexpr, PAGE: tl.constexpr, KEY_BITS: tl.constexpr, PLANAR: tl.constexpr,
              NATIVE_FP8: tl.constexpr):  # fmt: skip
    """Four fp16 tiles of codebook values; for k8v4, of the keys.

    `head` is the byte offset of the page's block of this KV head, int64; `slot` the token's place in its page.
    """
    if KEY_BITS == 8:
        if PLANAR:
            at = cache + head + slot * D + w
            step: tl.constexpr = D // 4
        else:
            at = cache + head + slot * token_stride + w * 4
            step: tl.constexpr = 1
        return (fp8(tl.load(at), NATIVE_FP8), fp8(tl.load(at + step), NATIVE_FP8),
                fp8(tl.load(at + 2 * step), NATIVE_FP8), fp8(tl.load(at + 3 * step), NATIVE_FP8))  # fmt: skip
    elif KEY_BITS == 4:
        word = four_codes(cache, head + slot * (D // 2 if PLANAR else token_stride), w)
        upper = word >> 8
        if PLANAR:
            return quintic(word, 0), quintic(word, 4), quintic(upper, 0), quintic(upper, 4)
        else:
            return (nearest_of_16(word & 15), nearest_of_16((word >> 4) & 15),
                    nearest_of_16(upper & 15), nearest_of_16((upper >> 4) & 15))  # fmt: skip
    else:
        word = four_thirds(cache, head, slot, w, token_stride, 0, D, PAGE, PLANAR)
        if PLANAR:
            return cubic(word, 0), cubic(word, 3), cubic(word, 6), cubic(word >> 9, 0)
        else:
            return (nearest_of_8(word & 7), nearest_of_8((word >> 3) & 7),
                    nearest_of_8((word >> 6) & 7), nearest_of_8((word >> 9) & 7))  # fmt: skip


@triton.jit
def load_key_rests(cache, head, slot, w, token_stride,
                   D: tl.constexpr, PAGE: tl.constexpr, KEY_BITS: tl.constexpr):  # fmt: skip
    """Interleaved codes: four fp16 tiles of what those of load_keys are off by, their values being no fp16 numbers."""
    if KEY_BITS == 4:
        word = four_codes(cache, head + slot * token_stride, w)
        upper = word >> 8
        return (rest_of_16(word & 15), rest_of_16((word >> 4) & 15),
                rest_of_16(upper & 15), rest_of_16((upper >> 4) & 15))  # fmt: skip
    else:
        word = four_thirds(cache, head, slot, w, token_stride, 0, D, PAGE, False)
        return (rest_of_8(word & 7), rest_of_8((word >> 3) & 7),
                rest_of_8((word >> 6) & 7), rest_of_8((word >> 9) & 7))  # fmt: skip


@triton.jit
def load_values(cache, head, slot, w, token_stride,
                D: tl.constexpr, PAGE: tl.constexpr, KEY_BITS: tl.constexpr, VALUE_BITS: tl.constexpr,
                PLANAR: tl.constexpr):  # fmt: skip
    """Four fp16 tiles of value codes, less 8 (4 bits) or 4 (3 bits): centred, they lose less when summed."""
    keys: tl.constexpr = D * KEY_BITS // 8
    after: tl.constexpr = keys * PAGE if PLANAR else keys + (0 if KEY_BITS == 8 else 2)
    if VALUE_BITS == 4:
        word = four_codes(cache, head + after + slot * (D // 2 if PLANAR else token_stride), w)
        upper = word >> 8
        return (centred(word, 0, 15, 8.0), centred(word, 4, 15, 8.0), centred(upper, 0, 15, 8.0),
                centred(upper, 4, 15, 8.0))  # fmt: skip
    else:
        word = four_thirds(cache, head, slot, w, token_stride, after, D, PAGE, PLANAR)
        return (centred(word, 0, 7, 4.0), centred(word, 3, 7, 4.0), centred(word, 6, 7, 4.0),
                centred(word >> 9, 0, 7, 4.0))  # fmt: skip


@triton.jit
def load_scales(cache, head, slot, token_stride, D: tl.constexpr, PAGE: tl.constexpr, KEY_BITS: tl.constexpr,
                VALUE_BITS: tl.constexpr, PLANAR: tl.constexpr):  # fmt: skip
    """float32: the key's scale (interleaved: its norm; k8v4: one), the value's scale, and the value of code 8 or 4."""
    rotated: tl.constexpr = KEY_BITS != 8
    if PLANAR:
        halves = (cache + head + PAGE * (D * (KEY_BITS + VALUE_BITS) // 8)).to(tl.pointer_type(tl.float16)) + slot
        value = halves + (PAGE if rotated else 0)
        zero = value + PAGE
    else:
        halves = (cache + head + slot * token_stride + D * KEY_BITS // 8).to(tl.pointer_type(tl.float16))
        value = halves + (1 if rotated else 0) + D * VALUE_BITS // 16
        zero = value + 1
    scale = tl.load(value).to(tl.float32)
    centre = tl.full(scale.shape, 8.0 if VALUE_BITS == 4 else 4.0, tl.float32)
    middle = tl.fma(scale, centre, tl.load(zero).to(tl.float32))
    key = tl.load(halves).to(tl.float32) if rotated else tl.full(scale.shape, 1.0, tl.float32)
    return key, scale, middle


@triton.jit
def product(tile, other):
    """Of two tiles, number by number, in float32."""
    return tile.to(tl.float32) * other.to(tl.float32)


@triton.jit
def four_codes(cache, at, w):
    """Lane w's four 4-bit codes, the first lowest, int16."""
    return tl.load((cache + at).to(tl.pointer_type(tl.int16)) + w)


@triton.jit
def four_thirds(cache, head, slot, w, token_stride, AFTER: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
                PLANAR: tl.constexpr):  # fmt: skip
    """Lane w's four 3-bit codes, the first lowest, int16; AFTER counts the bytes before them."""
    if PLANAR:
        at = cache + head + AFTER
        low = tl.load(at + slot * (D // 4) + w).to(tl.int16)
        high = tl.load(at + PAGE * (D // 4) + slot * (D // 8) + w % (D // 8)).to(tl.int16)
        return low | (((high >> (w // (D // 8) * 4).to(tl.int16)) & 15) << 8)
    else:
        at = cache + head + AFTER + slot * token_stride + w * 12 // 8
        both = tl.load(at).to(tl.int32) | (tl.load(at + 1).to(tl.int32) << 8)
        return ((both >> (w % 2 * 4)) & 0xFFF).to(tl.int16)


@triton.jit
def number(word, SHIFT: tl.constexpr, MASK: tl.constexpr, STEP: tl.constexpr, FIRST: tl.constexpr):
    """FIRST + STEP times the code at SHIFT (6 at most), fp16; exact for small multiples of a power of two."""
    lifted = ((word & (MASK << SHIFT)) | 0x6400).to(tl.float16, bitcast=True)
    if SHIFT == 0:
        # 1024 steps and FIRST together need more bits than fp16 has
        if STEP == 1.0:
            return lifted - (1024.0 - FIRST)
        else:
            return tl.fma(lifted - 1024.0, half(lifted, STEP), half(lifted, FIRST))
    else:
        return tl.fma(lifted, half(lifted, STEP / (1 << SHIFT)), half(lifted, FIRST - 1024.0 * STEP / (1 << SHIFT)))


@triton.jit
def half(like, VALUE: tl.constexpr):
    """A number as fp16, in the shape of another."""
    return tl.full(like.shape, VALUE, tl.float16)


@triton.jit
def centred(word, SHIFT: tl.constexpr, MASK: tl.constexpr, CENTRE: tl.constexpr):
    """A code less its centre, fp16."""
    return number(word, SHIFT, MASK, 1.0, -CENTRE)


@triton.jit
def cubic(word, SHIFT: tl.constexpr):
    """A 3-bit key code to quantiser.CODEBOOK_3, exact in every step."""
    x = number(word, SHIFT, 7, 0.25, -0.875)
    return x * tl.fma(x, x, half(x, CUBIC))


@triton.jit
def quintic(word, SHIFT: tl.constexpr):
    """A 4-bit key code to quantiser.CODEBOOK_4; fused, unfused and in float32 it gives the same values."""
    x = number(word, SHIFT, 15, 0.25, -1.875)
    y = x * x
    return x * tl.fma(y, tl.fma(y, half(x, QUINTIC_5), half(x, QUINTIC_3)), half(x, QUINTIC_1))


@triton.jit
def fp8(byte, NATIVE: tl.constexpr):
    """e4m3 to fp16, exactly: by the device's own conversion, or its bits moved into place and multiplied by 256.

    Bit pattern 0x7F (NaN) becomes 480: the store never writes it.
    """
    if NATIVE:
        return byte.to(tl.float8e4nv, bitcast=True).to(tl.float16)
    else:
        wide = byte.to(tl.int32)
        # times 256 here and not in the scale: a matrix unit may flush subnormals
        return (((wide & 0x80) << 8) | ((wide & 0x7F) << 7)).to(tl.int16).to(tl.float16, bitcast=True) * 256.0


@triton.jit
def nearest_of_8(code):
    """vLLM's 3-bit key codes (ascending) to quantiser.UPSTREAM_3, whose bits these are."""
    return one_of_8(code, 0x3655, 0x3CE2, 0x4057, 0x42F3)


@triton.jit
def rest_of_8(code):
    """What nearest_of_8 leaves of the Lloyd-Max values: quantiser.UPSTREAM_3_REST, whose bits these are."""
    return one_of_8(code, 0x04CC, 0x0BD8, 0x0FE1, 0x1246)


@triton.jit
def one_of_8(code, B0: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, B3: tl.constexpr):
    """The fp16 number with these bits for codes 4 to 7, less than zero for 3 to 0."""
    code = code.to(tl.int32)
    magnitude = tl.where(code > 3, code - 4, 3 - code)
    bits = tl.where(magnitude > 1, tl.where(magnitude > 2, B3, B2), tl.where(magnitude > 0, B1, B0))
    return (bits | tl.where(code > 3, 0, 0x8000)).to(tl.int16).to(tl.float16, bitcast=True)


@triton.jit
def nearest_of_16(code):
    """vLLM's 4-bit key codes (ascending) to quantiser.UPSTREAM_4, whose bits these are."""
    return one_of_16(code, 0x317B, 0x3824, 0x3B02, 0x3D07, 0x3EB4, 0x4051, 0x4185, 0x434A)


@triton.jit
def rest_of_16(code):
    """What nearest_of_16 leaves of the Lloyd-Max values: quantiser.UPSTREAM_4_REST, whose bits these are."""
    return one_of_16(code, 0x847E, 0x89A4, 0x8CA6, 0x8DEE, 0x9263, 0x9256, 0x943A, 0x942E)


@triton.jit
def one_of_16(code, B0: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, B3: tl.constexpr, B4: tl.constexpr,
              B5: tl.constexpr, B6: tl.constexpr, B7: tl.constexpr):  # fmt: skip
    """The fp16 number with these bits for codes 8 to 15, less than zero for 7 to 0."""
    code = code.to(tl.int32)
    magnitude = tl.where(code > 7, code - 8, 7 - code)
    small = tl.where(magnitude > 1, tl.where(magnitude > 2, B3, B2), tl.where(magnitude > 0, B1, B0))
    large = tl.where(magnitude > 5, tl.where(magnitude > 6, B7, B6), tl.where(magnitude > 4, B5, B4))
    bits = tl.where(magnitude > 3, large, small)
    return (bits ^ tl.where(code > 7, 0, 0x8000)).to(tl.int16).to(tl.float16, bitcast=True)
