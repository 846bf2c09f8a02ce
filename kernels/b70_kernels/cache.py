"""Where the bytes of a token lie in a page: two layouts of the same size, behind one description.

A page holds `page_size` tokens of every KV head, `slot_bytes` each. `Layout.INTERLEAVED` is vLLM's own (0.20 and
later): a token's key codes, key norm, value codes, value scale and zero, one after the other, unaligned.
`Layout.PLANAR` is ours: within the same page, each KV head has one block, and in it each kind of byte has a plane of
its own, so that loads are aligned, and sixteen bytes wide where the page is:

    key codes | key codes' upper bits, where they have 3 | the same of values | scales, fp16 [2 or 3, page]

Lane w of D/4 holds dimensions w, w + D/4, w + D/2 and w + 3D/4, the first lowest. 4 bits: a lane is two bytes.
3 bits: a lane is twelve bits, the lower eight in its byte of the first plane, the upper four in byte w % (D/8) of the
second, in its upper half for w >= D/8. k8v4 keys are bytes in the order of the dimensions. Scales: the key's (its norm
over the norm of its codes; k8v4 has none), the value's scale and its zero.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import torch

from . import refusals
from .presets import HEAD_SIZES, PAGE_SIZES, Preset


class Layout(enum.Enum):
    """How a page's bytes are ordered."""

    PLANAR = "planar"
    INTERLEAVED = "interleaved"


@dataclass(frozen=True, slots=True)
class Cache:
    """A paged KV cache: its bytes, and what they mean.

    `pages` is uint8 and [pages, ...]: of each page, whose bytes lie together, the first `page_size * kv_heads *
    slot_bytes` are used. For the interleaved layout `pages` is vLLM's [pages, page_size, kv_heads, slot] (as 0.20 to
    0.25 shape it; later ones: `.transpose(1, 2)`). Scales and 4-bit codes are read two bytes at a time, so everything
    begins at an even address.
    """

    pages: torch.Tensor
    preset: Preset
    head_size: int
    kv_heads: int
    page_size: int
    layout: Layout = Layout.PLANAR

    def __post_init__(self) -> None:
        """Refuse what no kernel was made for; only what the host knows of the tensor is looked at."""
        if not isinstance(self.layout, Layout):
            raise ValueError(f"layout {self.layout!r}: it has to be a {Layout.__name__}")
        if self.head_size not in HEAD_SIZES:
            raise ValueError(f"head size {self.head_size}: the kernels are for {HEAD_SIZES}")
        if self.page_size not in PAGE_SIZES:
            raise ValueError(f"page size {self.page_size}: the kernels are for {PAGE_SIZES}")
        if self.kv_heads < 1:
            raise ValueError(f"{self.kv_heads} KV heads: there is one at least")
        if self.pages.dtype != torch.uint8:
            raise ValueError(f"cache of {self.pages.dtype}: it has to be uint8")
        if self.pages.data_ptr() % 2:
            raise ValueError("cache at an odd address: it is read two bytes at a time")
        if self.layout is Layout.PLANAR:
            self._check_blocks()
        else:
            self._check_slots()

    def _check_blocks(self) -> None:
        """Of the planar layout: pages whose bytes lie together, none within another."""
        shape, strides = self.pages.shape, self.pages.stride()
        if len(shape) < 2:
            raise ValueError(f"cache {tuple(shape)}: wanted [pages, bytes]")
        size = 1
        for stride, length in zip(reversed(strides[1:]), reversed(shape[1:]), strict=True):
            if length > 1 and stride != size:
                raise ValueError(f"cache of strides {strides}: the bytes of a page have to lie together")
            size *= length
        if size < self.page_bytes:
            raise ValueError(f"{size} bytes a page: {self.page_bytes} are needed")
        self._check_strides((0,), self.page_bytes)

    def _check_slots(self) -> None:
        """Of the interleaved layout: slots wide enough, their bytes together, none within another."""
        shape = self.pages.shape
        if len(shape) != 4 or shape[1:3] != (self.page_size, self.kv_heads) or shape[3] < self.slot_bytes:
            wanted = f"[pages, {self.page_size}, {self.kv_heads}, {self.slot_bytes} or more]"
            raise ValueError(f"cache {tuple(shape)}: wanted {wanted}")
        if self.pages.stride(3) != 1:
            raise ValueError(f"cache of strides {self.pages.stride()}: the bytes of a slot have to lie together")
        self._check_strides((0, 1, 2), self.slot_bytes)
        refusals.apart("cache", self.pages)

    def _check_strides(self, dimensions: tuple[int, ...], least: int) -> None:
        for at in dimensions:
            stride = self.pages.stride(at)
            # the stride of a dimension of one is anything
            if self.pages.shape[at] > 1 and (stride % 2 or stride < least):
                raise ValueError(
                    f"cache of strides {self.pages.stride()}: {stride} has to be even, and {least} at least"
                )

    @property
    def slot_bytes(self) -> int:
        """Bytes of one token of one KV head."""
        return self.preset.slot_bytes(self.head_size)

    @property
    def page_bytes(self) -> int:
        """Bytes of a page that are used."""
        return self.page_size * self.kv_heads * self.slot_bytes

    @property
    def strides(self) -> tuple[int, int, int]:
        """Bytes from page to page, from token to token and from KV head to KV head; the planar token is a plane's."""
        if self.layout is Layout.PLANAR:
            return self.pages.stride(0), 0, self.page_size * self.slot_bytes
        return self.pages.stride(0), self.pages.stride(1), self.pages.stride(2)


def empty_cache(
    pages: int, preset: Preset, head_size: int, kv_heads: int, page_size: int, layout: Layout = Layout.PLANAR,
    device: str | torch.device = "cpu",
) -> Cache:  # fmt: skip
    """A cache whose every byte is 0xFF: a scale that is read before it is written is a NaN."""
    slot = preset.slot_bytes(head_size)
    shape = (pages, page_size, kv_heads, slot) if layout is Layout.INTERLEAVED else (pages, page_size * kv_heads * slot)
    filled = torch.full(shape, 0xFF, dtype=torch.uint8, device=device)
    return Cache(filled, preset, head_size, kv_heads, page_size, layout)
