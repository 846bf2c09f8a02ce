"""vLLM's own code for Intel cards, on a machine without one: its compiled kernels are stood in for, nothing else is.

For programs that run inside a vLLM environment; needs only what is there.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Sequence
from unittest import mock

KERNELS = "vllm_xpu_kernels"
PICTURES = "torchvision"
"""Made for one build of torch; whose code only looks at pictures is imported without it."""
CARD = "Intel(R) Arc(TM) Pro B70 Graphics"
MEMORY = 32 * 1024**3


class Hollow(types.ModuleType):
    """A module in which every name is there and does nothing."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock(name=f"{self.__name__}.{name}")


class HollowKernels(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the two and whatever is below them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Ours, or somebody else's."""
        ours = name.partition(".")[0] in (KERNELS, PICTURES)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """A hollow one."""
        return Hollow(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is in it."""


def intel() -> type:
    """Make vLLM believe that it runs on one B70, before anything else of it is imported; its platform class."""
    import torch
    import transformers.utils

    # asked once and remembered: whoever can do without it does
    transformers.utils.is_torchvision_available()
    sys.meta_path.insert(0, HollowKernels())
    # Triton is there, though no driver of it finds a card
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import vllm
    import vllm.platforms

    # a version that was never released, where a test asks for one
    vllm.__version__ = os.environ.get("PRETENDED", vllm.__version__)
    vllm.platforms.vllm_version_matches_substr = lambda _part: False
    from vllm.platforms.xpu import XPUPlatform

    XPUPlatform.get_device_name = classmethod(lambda _cls, _device_id=0: CARD)
    XPUPlatform.get_device_total_memory = classmethod(lambda _cls, _device_id=0: MEMORY)
    XPUPlatform.device_count = classmethod(lambda _cls: 1)
    # what would be on the card is here
    XPUPlatform.device_type = "cpu"
    move = torch.Tensor.to
    torch.Tensor.to = lambda self, *where, **how: self if where[:1] == ("xpu",) else move(self, *where, **how)
    vllm.platforms._current_platform = XPUPlatform()
    return XPUPlatform
