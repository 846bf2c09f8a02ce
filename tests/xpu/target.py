"""The card that kernels are compiled for, described without a card."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from triton.backends import backends
from triton.backends.compiler import GPUTarget

from .card import VECTOR_ENGINES

PROPERTIES: dict[str, Any] = {
    "name": "Intel(R) Arc(TM) Pro B70 Graphics",
    "platform_name": "Intel(R) oneAPI Unified Runtime over Level-Zero",
    "vendor": "Intel(R) Corporation",
    "version": "1.6",
    "architecture": 0,
    "gpu_eu_count": VECTOR_ENGINES,
    "gpu_subslice_count": 32,
    "max_work_group_size": 1024,
    "max_num_sub_groups": 64,
    "sub_group_sizes": [16, 32],
    "has_fp64": True,
    "has_subgroup_matrix_multiply_accumulate": True,
    "has_subgroup_matrix_multiply_accumulate_tensor_float32": True,
    "has_subgroup_2d_block_io": True,
    "has_bfloat16_conversions": True,
}


def b70() -> GPUTarget:
    """The target for Triton; its backend no longer asks a driver what the number of an architecture means."""
    # the backend builds a C++ program against SYCL for that one question
    module = backends["intel"].compiler.__init__.__globals__
    module["compile_module_from_src"] = lambda _source, _name: SimpleNamespace(parse_device_arch=lambda _number: "bmg")
    return GPUTarget("xpu", PROPERTIES, 16)
