from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from . import spirv

HEADER = (0x07230203, 0x10400, 0, 100, 0)


def module(*those: tuple[int, ...]) -> bytes:
    """Instructions given as (number, operand, ...)."""
    words = [word for number, *operands in those for word in ((len(operands) + 1) << 16 | number, *operands)]
    return struct.pack(f"<{5 + len(words)}I", *HEADER, *words)


def text(name: bytes) -> tuple[int, ...]:
    padded = name + b"\0" * (4 - len(name) % 4)
    return struct.unpack(f"<{len(padded) // 4}I", padded)


OTHERS = st.lists(
    st.tuples(st.integers(18, 0xFFFF), st.lists(st.integers(0, 2**32 - 1), max_size=9)).map(
        lambda each: (each[0], *each[1])
    ),
    max_size=20,
)


@given(OTHERS)
def test_what_a_processor_knows_is_left_as_it_is(those):
    assert spirv.portable(module(*those)) == module(*those)


@given(OTHERS, OTHERS)
def test_the_gpus_own_capabilities_and_extensions_go_wherever_they_stand(before, after):
    gone = [(17, 5892), (17, 5617), (17, 5619), (10, *text(b"SPV_INTEL_kernel_attributes")),
            (10, *text(b"SPV_INTEL_vector_compute"))]  # fmt: skip
    assert spirv.portable(module(*before, *gone, *after)) == module(*before, *after)


def test_other_capabilities_and_extensions_stay():
    kept = module((17, 4), (10, *text(b"SPV_KHR_no_integer_wrap_decoration")), (16, 7, 35, 16))
    assert spirv.portable(kept) == kept


def test_the_largest_work_group_becomes_the_only_one():
    assert spirv.portable(module((16, 7, 5893, 128, 1, 1))) == module((16, 7, 17, 128, 1, 1))


def test_a_word_of_length_zero_does_not_hang():
    assert list(spirv.instructions(struct.pack("<6I", *HEADER, 0))) == [(0,)]
