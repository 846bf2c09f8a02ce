"""The attention backend that takes TURBOQUANT's place: what vLLM asks of it, and which class computes."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import torch
from vllm.v1.attention.backend import AttentionBackend, AttentionType

from b70_kernels.presets import CACHE_TYPES, HEAD_SIZES, PAGE_SIZES

from .backend_impl import B70TurboQuantImpl
from .backend_limits import DTYPES, preset_of
from .backend_metadata import B70MetadataBuilder
from .backend_versions import HEADS_FIRST, WINDOWED_PAGES, release


class B70TurboQuantBackend(AttentionBackend):  # type: ignore[misc]
    """TurboQuant by these kernels, for vLLM 0.20 and later (0.19: legacy_backend.py).

    What surrounds it stays vLLM's: which layers keep the model's own type, how large a page is, and who holds it. A
    page's bytes are in the kernels' own order, so that they can be copied whole and not be read by vLLM's TurboQuant.
    """

    accept_output_buffer: bool = True
    forward_includes_kv_cache_update: bool = False
    supported_dtypes: ClassVar[list[torch.dtype]] = list(DTYPES)
    supported_kv_cache_dtypes: ClassVar[list[Any]] = list(CACHE_TYPES)

    @staticmethod
    def get_name() -> str:
        """The registry's name of it."""
        return "TURBOQUANT"

    @staticmethod
    def get_impl_cls() -> type[B70TurboQuantImpl]:
        """What computes."""
        return B70TurboQuantImpl

    @staticmethod
    def get_builder_cls() -> type[B70MetadataBuilder]:
        """What prepares a step."""
        return B70MetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[Any]:  # noqa: ARG004
        """Tokens of a page; vLLM divides larger blocks into such. Later releases ask for a spec."""
        return list(PAGE_SIZES)

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int,
        cache_dtype_str: str = "turboquant_4bit_nc",
    ) -> tuple[int, ...]:  # fmt: skip
        """The cache's tensor, as each release shapes it (up to 0.28, later ones do not ask)."""
        slot = preset_of(cache_dtype_str).slot_bytes(head_size)
        inner = (num_kv_heads, block_size) if release() >= HEADS_FIRST else (block_size, num_kv_heads)
        return (num_blocks, *inner, slot)

    @classmethod
    def customize_spec(cls, spec: Any) -> Any:
        """What a slot takes, key and value together (from 0.28 on; earlier ones know TurboQuant's slots themselves)."""
        if spec.state_content_bytes is not None or not spec.kv_quant_mode.is_turboquant:
            return spec
        slot = preset_of(spec.kv_quant_mode.name.lower()).slot_bytes(spec.head_size)
        return dataclasses.replace(spec, state_content_bytes=slot)

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[Any, ...]:
        """A layer's pages one after the other, their bytes together (asked from 0.29 on)."""
        from vllm.v1.kv_cache_interface import KVCacheLayout

        return (KVCacheLayout.LBNHC,)

    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype: str | None) -> bool:
        """The four presets, and not the model's own type: layers that keep it go to vLLM's own backend."""
        return kv_cache_dtype in cls.supported_kv_cache_dtypes

    @classmethod
    def get_supported_head_sizes(cls) -> list[int]:
        """Those that the kernels are for."""
        return list(HEAD_SIZES)

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        """Whether it is one of those."""
        return head_size in HEAD_SIZES

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        """Decoders only."""
        return attn_type == AttentionType.DECODER

    @classmethod
    def supports_sliding_window(cls) -> bool:
        """Where vLLM gives such layers pages that fit (asked from 0.26 on)."""
        return release() >= WINDOWED_PAGES
