"""Where the kernels run in these tests, and how much of every gate is asked of them there.

B70_KERNELS_DEVICE names a torch device (`cuda`, `xpu`): the full scope, compiled. Without it the small scope: Triton's
interpreter on the CPU. Imported before triton, which reads its environment once.
"""

from __future__ import annotations

import functools
import os
from typing import Any, TypeVar

DEVICE = os.environ.get("B70_KERNELS_DEVICE", "cpu")
FULL = DEVICE != "cpu"
T = TypeVar("T")

if FULL:
    os.environ.pop("TRITON_INTERPRET", None)
else:
    os.environ["TRITON_INTERPRET"] = "1"


def either(small: T, full: T) -> T:
    """What this scope asks for."""
    return full if FULL else small


@functools.cache
def prepare() -> None:
    """Make torch and triton ready for this scope; RuntimeError where the device that was asked for is not there."""
    import torch

    torch.set_num_threads(1)
    if FULL:
        torch.zeros(1, device=DEVICE)
    else:
        _patch_the_language_once()


def _patch_the_language_once() -> None:
    """Triton 3.6's interpreter replaces every operation of its language again in each call of a device function.

    A launch has done so already; leaving it out takes half of the time and changes nothing that is computed.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    @functools.cache
    def languages(function: Any) -> list[Any]:
        return [value for value in function.__globals__.values() if value is tl or value is tl.core]

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if any(tl.core.is_builtin(language.load) for language in languages(self.fn)):
            interpreter._patch_lang(self.fn)
        return self.rewrite()(*args, **kwargs)

    interpreter.InterpretedFunction.__call__ = call
