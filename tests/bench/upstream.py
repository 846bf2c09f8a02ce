"""vLLM's own TurboQuant kernels, laid out so that `b70_kernels.bench` finds them; for measuring, never shipped.

    python -m tests.bench.upstream DIRECTORY [VERSION]

A source distribution of vLLM is fetched from the package index that pip uses; the few files that its kernels consist of
are unpacked, and what they import beside triton and torch is replaced by stand-ins of a few lines.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from tests.rig.talk import give
from tests.vllm.index import find

VERSION = "0.33.0"
OPS, TURBOQUANT = "v1/attention/ops", "model_executor/layers/quantization/turboquant"
FILES = (
    f"{TURBOQUANT}/config.py",
    f"{TURBOQUANT}/centroids.py",
    f"{OPS}/triton_turboquant_store.py",
    f"{OPS}/triton_turboquant_decode.py",
    f"{OPS}/triton_decode_attention.py",
    f"{OPS}/triton_unified_attention.py",
    f"{OPS}/triton_attention_helpers.py",
    f"{OPS}/turboquant_soa/__init__.py",
    f"{OPS}/turboquant_soa/triton_turboquant_store.py",
    f"{OPS}/turboquant_soa/triton_turboquant_decode.py",
    f"{OPS}/turboquant_soa/triton_turboquant_decode_v2.py",
    f"{OPS}/turboquant_soa/triton_turboquant_unified_attention.py",
)

PLATFORM = """
import torch


class CpuArchEnum:
    pass


class CudaOnly:
    def is_cuda(self):
        return torch.cuda.is_available()

    is_cuda_alike = is_cuda

    def fp8_dtype(self):
        return torch.float8_e4m3fn

    def get_device_capability(self, device=0):
        return torch.cuda.get_device_capability(device)

    def has_device_capability(self, least, device=0):
        return torch.cuda.get_device_capability(device) >= (least if isinstance(least, tuple) else divmod(least, 10))

    def num_compute_units(self, device=0):
        return torch.cuda.get_device_properties(device).multi_processor_count

    def __getattr__(self, name):
        return lambda *_, **__: False


current_platform = CudaOnly()
"""
TRITON = """
import triton
import triton.language as tl
from triton.language.extra import libdevice as tldevice

HAS_TRITON = True
"""
MODES = """
class KVQuantMode:
    NONE, FP8_PER_TENSOR, INT8_PER_TOKEN_HEAD, FP8_PER_TOKEN_HEAD, NVFP4, INT4_PER_TOKEN_HEAD = range(6)
"""
STAND_INS = {
    "envs.py": "def __getattr__(name):\n    return None\n",
    "logger.py": "from logging import getLogger as init_logger\n",
    "platforms/__init__.py": PLATFORM,
    "triton_utils/__init__.py": TRITON,
    "v1/kv_cache_interface.py": MODES,
}


def lay_out(root: Path, version: str = VERSION) -> None:
    """Fill root/vllm; MachineError when the index has no such version."""
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(source(version, Path(scratch))) as archive:
        top = (archive.next() or tarfile.TarInfo()).name.split("/")[0]
        for name in FILES:
            member = archive.extractfile(f"{top}/vllm/{name}")
            _write(root / "vllm" / name, member.read() if member else b"")
    for name, text in STAND_INS.items():
        _write(root / "vllm" / name, text.encode())
    for folder in {path.parent for path in (root / "vllm").rglob("*.py")}:
        for each in (folder, *folder.parents):
            if each.is_relative_to(root / "vllm"):
                (each / "__init__.py").touch()


def source(version: str, into: Path) -> Path:
    """Fetch the source distribution."""
    session, link = find(version)
    answer = session.get(link.url_without_fragment)
    answer.raise_for_status()
    path = into / str(link.filename)
    path.write_bytes(answer.content)
    return path


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: python -m tests.bench.upstream DIRECTORY [VERSION]")
    lay_out(Path(sys.argv[1]), *sys.argv[2:])
    give(f"vLLM {sys.argv[2] if len(sys.argv) == 3 else VERSION}'s kernels are in {sys.argv[1]}")
