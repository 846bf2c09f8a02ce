"""What a launch's compiled variant depends on, noted while kernels run, compiled or interpreted."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from kernel_cases import Kit

KERNELS = (
    ("attention_kernel", "attend_splits"),
    ("merge_kernel", "merge_splits"),
    ("rotation_kernel", "rotate_queries"),
    ("store_kernel", "store_tokens"),
    ("dequantise_kernel", "dequantise_tokens"),
)
Variant = tuple[Any, ...]


@contextlib.contextmanager
def noted(kit: Kit) -> Iterator[set[Variant]]:
    """The variants that the launches within ask for: a set that grows."""
    found: set[Variant] = set()
    with contextlib.ExitStack() as stack:
        for module, name in KERNELS:
            kernel = getattr(getattr(kit, module), name)
            hook = _hook(name, kernel, found)
            kernel.add_pre_run_hook(hook)
            stack.callback(kernel.pre_run_hooks.remove, hook)
        yield found


@contextlib.contextmanager
def compiled() -> Iterator[list[str]]:
    """The names of the kernels that Triton compiles, or takes from its cache on disk, within; a list that grows."""
    from triton import knobs

    names: list[str] = []
    before = knobs.runtime.jit_post_compile_hook
    knobs.runtime.jit_post_compile_hook = lambda **details: names.append(details["fn"].name)
    try:
        yield names
    finally:
        knobs.runtime.jit_post_compile_hook = before


def _hook(name: str, kernel: Any, found: set[Variant]) -> Callable[..., None]:
    plain = getattr(kernel, "do_not_specialize", None) or getattr(kernel, "kwargs", {}).get("do_not_specialize") or ()
    fixed = {key for key, one in inspect.signature(kernel.fn).parameters.items() if "constexpr" in str(one.annotation)}

    def note(*args: Any, **kwargs: Any) -> None:
        given = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
        kinds = {key: repr(value) if key in fixed else _kind(value, key not in plain) for key, value in given.items()}
        found.add((name, *sorted(kinds.items())))

    return note


def _kind(value: Any, special: bool) -> str:
    """What Triton makes a variant for: types, and where special, alignment, ones and multiples of sixteen."""
    if hasattr(value, "data_ptr"):
        return f"{value.dtype} {special and value.data_ptr() % 16 == 0}"
    if isinstance(value, int):
        return f"int{32 if -(2**31) <= value < 2**31 else 64} {special and (value == 1, value % 16 == 0)}"
    return type(value).__name__
