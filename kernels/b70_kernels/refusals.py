"""What every call of a kernel refuses before it is launched: tensors that device code would read wrongly.

Only what the host knows of a tensor is looked at, never its numbers: a check waits for no device, and is made once a
layer and step.
"""

from __future__ import annotations

import torch

HALVES = (torch.float16, torch.bfloat16)
INT32 = (torch.int32,)
INTEGERS = (torch.int32, torch.int64)


def lengths(
    name: str, tensor: torch.Tensor, count: int, device: torch.device, dtypes: tuple[torch.dtype, ...] = INT32,
) -> None:  # fmt: skip
    """Refuse what is not [count] integers, contiguous, on the device."""
    if tensor.dtype not in dtypes or tensor.shape != (count,) or not tensor.is_contiguous() or tensor.device != device:
        wanted = " or ".join(_short(each) for each in dtypes)
        raise ValueError(f"{name}: {told(tensor)}; wanted [{count}] {wanted} on {device}, contiguous")


def table(name: str, tensor: torch.Tensor, device: torch.device) -> None:
    """Refuse what is not [requests, pages] int32 on the device, the pages of a request one after the other."""
    if (
        tensor.dtype != torch.int32 or tensor.dim() != 2 or tensor.device != device
        or (tensor.stride(1) != 1 and tensor.shape[1] > 1)
    ):  # fmt: skip
        raise ValueError(
            f"{name}: {told(tensor)}; wanted [requests, pages] int32 on {device}, a request's pages contiguous"
        )


def halves(name: str, tensor: torch.Tensor, device: torch.device) -> None:
    """Refuse what is not [tokens, heads, D] of float16 or bfloat16 on the device, a head's dimensions contiguous."""
    if tensor.dtype not in HALVES or tensor.dim() != 3 or tensor.stride(2) != 1 or tensor.device != device:
        raise ValueError(
            f"{name}: {told(tensor)}; wanted [tokens, heads, D] float16 or bfloat16 on {device}, "
            "its last dimension contiguous"
        )


def apart(name: str, tensor: torch.Tensor) -> None:
    """Refuse a tensor of which two elements may lie in one place: what is written there is one of the two."""
    reach = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride < reach:
            raise ValueError(f"{name}: {told(tensor)}; its parts lie on one another")
        reach += stride * (size - 1)


def told(tensor: torch.Tensor) -> str:
    """A tensor in words: shape, type, strides and device."""
    return f"{list(tensor.shape)} {_short(tensor.dtype)} of strides {tensor.stride()} on {tensor.device}"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
