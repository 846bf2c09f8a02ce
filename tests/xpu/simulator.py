"""Runs what Triton compiled for the card on this machine's processor, through Intel's OpenCL runtime.

Kernels work on the tensors in place. What it covers: Triton's front end, Intel's passes, the layouts and reductions
that they choose. What it does not: the compiler below SPIR-V, the rounding of the matrix unit, races in local memory
that only a card would lose, and how fast anything is.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import spirv
from .driver import Card

FOLDER = Path(sys.prefix).parent
"""What setup.sh made."""

# read when the library is loaded, so before the import
os.environ["OCL_ICD_VENDORS"] = str(FOLDER / "opencl")
os.environ["OCL_ICD_FILENAMES"] = str(Path(sys.prefix) / "lib" / "libintelocl.so")
import pyopencl as cl  # type: ignore[import-not-found]  # noqa: E402

MATRIX = Path(__file__).with_name("dpas.cl")
SCALARS = {"i1": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u32": np.uint32,
           "u64": np.uint64, "fp32": np.float32, "f32": np.float32, "fp64": np.float64}  # fmt: skip


class Simulator(Card):
    """The B70 on a processor."""

    def __init__(self) -> None:
        super().__init__()
        warnings.simplefilter("ignore", cl.CompilerWarning)
        platform = next(each for each in cl.get_platforms() if each.name.startswith("Intel(R) OpenCL"))
        self._device = platform.get_devices()[0]
        self._context = cl.Context([self._device])
        self._queue = cl.CommandQueue(self._context)

    def load(self, name: str, module: bytes, shared: int, flags: str, device: int) -> tuple[Any, Any, int, int]:
        """Compile it for the processor, which takes 10 to 100 s; what was compiled once is kept."""
        of_what = hashlib.sha256(b"".join((module, MATRIX.read_bytes(), self._device.driver_version.encode())))
        kept = FOLDER / "programs" / f"{of_what.hexdigest()}.bin"
        if kept.exists():
            program = cl.Program(self._context, [self._device], [kept.read_bytes()]).build()
            return program, getattr(program, name), 0, 0
        program = self._linked(spirv.portable(module))
        kept.parent.mkdir(exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_bytes(program.get_info(cl.program_info.BINARIES)[0])
        part.rename(kept)
        return program, getattr(program, name), 0, 0

    def _linked(self, module: bytes) -> Any:
        kernel = cl.Program(self._context, module)
        kernel.compile()
        matrix = cl.Program(self._context, MATRIX.read_text())
        matrix.compile(["-cl-std=CL2.0"])
        return cl.link_program(self._context, [kernel, matrix])

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        """Launches, and waits until it is done."""
        types = list(source.signature.values())
        lanes = metadata.num_warps * metadata.threads_per_warp

        def launch(x: int, y: int, z: int, _stream: int, kernel: Any, _packed: Any, _metadata: Any, _enter: Any,
                   _exit: Any, *arguments: Any) -> None:  # fmt: skip
            given = [_argument(kind, each) for kind, each in zip(types, arguments, strict=True) if kind != "constexpr"]
            if kernel.num_args > len(given):
                given.append(cl.LocalMemory(max(64, metadata.shared)))
            for index, each in enumerate(given):
                kernel.set_arg(index, each)
            cl.enqueue_nd_range_kernel(self._queue, kernel, (x * lanes, y, z), (lanes, 1, 1)).wait()

        return launch


def _argument(kind: str, value: Any) -> Any:
    if not kind.startswith("*"):
        return SCALARS[kind](value)
    size = max(1, value.untyped_storage().nbytes() - value.storage_offset() * value.element_size())
    # the processor's runtime takes any address of the process: nothing is copied
    return cl.SVM((ctypes.c_char * size).from_address(value.data_ptr()))
