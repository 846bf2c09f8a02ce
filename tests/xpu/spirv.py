"""SPIR-V for Intel GPUs, less what Intel's OpenCL runtime for processors does not know and results do not need."""

from __future__ import annotations

import struct
from collections.abc import Iterator

HEADER_WORDS = 5
EXTENSION, EXECUTION_MODE, CAPABILITY = 10, 16, 17
KERNEL_ATTRIBUTES, VECTOR_COMPUTE, VECTOR_ANY = 5892, 5617, 5619
MAX_WORK_GROUP_SIZE, WORK_GROUP_SIZE = 5893, 17
EXTENSIONS = (b"SPV_INTEL_kernel_attributes", b"SPV_INTEL_vector_compute")


def instructions(module: bytes) -> Iterator[tuple[int, ...]]:
    """The words of every instruction after the header: the first holds its length (upper half) and its number."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    at = HEADER_WORDS
    while at < len(words):
        length = max(1, words[at] >> 16)
        yield words[at : at + length]
        at += length


def portable(module: bytes) -> bytes:
    """The same module in standard SPIR-V, with a fixed work-group size where the GPU's had a largest one.

    Triton launches that size and no other. Where it is fixed, the runtime makes no second copy of the kernel for
    work-groups that end within a vector, which takes most of the time to compile.
    """
    kept = [word for each in instructions(module) for word in _standard(each)]
    return module[: 4 * HEADER_WORDS] + struct.pack(f"<{len(kept)}I", *kept)


def _standard(words: tuple[int, ...]) -> tuple[int, ...]:
    number = words[0] & 0xFFFF
    if number == EXECUTION_MODE and words[2] == MAX_WORK_GROUP_SIZE:
        return (*words[:2], WORK_GROUP_SIZE, *words[3:])
    if number == CAPABILITY and words[1] in (KERNEL_ATTRIBUTES, VECTOR_COMPUTE, VECTOR_ANY):
        return ()
    if number == EXTENSION and struct.pack(f"<{len(words) - 1}I", *words[1:]).split(b"\0")[0] in EXTENSIONS:
        return ()
    return words
