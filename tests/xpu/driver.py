"""Drivers for Triton that stand in for the card: kernels are specialised and compiled for it as they are launched."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import triton
from b70_kernels.attention_kernel import attend_splits
from b70_kernels.dequantise_kernel import dequantise_tokens
from b70_kernels.merge_kernel import merge_splits
from b70_kernels.rotation_kernel import rotate_queries
from b70_kernels.store_kernel import store_tokens
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from .card import SHARED_BYTES
from .target import b70

KERNELS = (rotate_queries, attend_splits, merge_splits, store_tokens, dequantise_tokens)


class Card(DriverBase):  # type: ignore[misc]
    """The B70, as far as Triton can tell; tensors lie in the main memory. What a launch does, a subclass says."""

    def __init__(self) -> None:
        self._target = b70()
        self.utils = SimpleNamespace(
            load_binary=self.load, get_device_properties=lambda _: {"max_shared_mem": SHARED_BYTES}
        )

    def load(self, name: str, module: bytes, shared: int, flags: str, device: int) -> tuple[Any, Any, int, int]:
        """Program and kernel of a SPIR-V module, and two numbers that nobody reads."""
        raise NotImplementedError

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        """A function that launches one compiled kernel, as `JITFunction.run` calls it."""
        raise NotImplementedError

    @staticmethod
    def is_active() -> bool:
        """Only when it was asked for."""
        return False

    def get_current_target(self) -> GPUTarget:
        """What to compile for."""
        return self._target

    def get_active_torch_device(self) -> torch.device:
        """Where tensors lie."""
        return torch.device("cpu")

    def get_benchmarker(self) -> Any:
        """Refused: a processor's times say nothing about a card's."""
        raise NotImplementedError("times on a processor say nothing about a card")

    def get_current_device(self) -> int:
        """The only one."""
        return 0

    def get_current_stream(self, _device: int) -> int:
        """The only one; every launch is waited for."""
        return 0

    def use(self) -> None:
        """From now on Triton compiles for this card."""
        triton.runtime.driver.set_active(self)


@dataclass(frozen=True, slots=True)
class Module:
    """A compiled kernel."""

    name: str
    spirv: bytes
    flags: str
    """For the compiler below SPIR-V."""
    warps: int
    shared: int
    """Bytes of local memory."""


class Recorder(Card):
    """Launches nothing; keeps the kernels that were compiled."""

    def __init__(self) -> None:
        super().__init__()
        self._modules: dict[str, Module] = {}
        self._warps = 0

    @contextlib.contextmanager
    def anew(self) -> Iterator[dict[str, Module]]:
        """Kernels that are launched meanwhile, by name; what was compiled before is compiled, or read, again."""
        for kernel in KERNELS:
            kernel.device_caches.clear()
        self._modules = {}
        self.use()
        yield self._modules

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        """Called before `load`, for the same kernel."""
        self._warps = metadata.num_warps
        return lambda *_arguments: None

    def load(self, name: str, module: bytes, shared: int, flags: str, device: int) -> tuple[Any, Any, int, int]:
        """Keep it."""
        self._modules[name] = Module(name, module, flags, self._warps, shared)
        return None, None, 0, 0
