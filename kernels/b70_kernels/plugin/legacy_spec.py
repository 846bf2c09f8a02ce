"""What a TurboQuant layer asks of vLLM 0.19's KV cache: bytes that no head size times dtype comes to.

Imported where such a layer is made, and in the engine's process where what it asked for arrives; both have vLLM's cache
manager by then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from b70_kernels.presets import HEAD_SIZES, PREFIX, PRESETS

from .anchors import anchor

if TYPE_CHECKING:
    FullAttentionSpec: Any
else:
    FullAttentionSpec = anchor("vllm.v1.kv_cache_interface", "FullAttentionSpec")

ATTENTION = "vllm.model_executor.layers.attention.attention"
MANAGERS = "vllm.v1.core.single_type_kv_cache_manager"


@dataclass(frozen=True, kw_only=True)
class B70TurboQuantSpec(FullAttentionSpec):  # type: ignore[misc]
    """Full attention whose tokens take `slot_bytes` in each KV head."""

    slot_bytes: int

    @property
    def real_page_size_bytes(self) -> int:
        """Bytes of one layer's page."""
        return int(self.block_size * self.num_kv_heads * self.slot_bytes)

    @classmethod
    def merge(cls, specs: list[Any]) -> Any:
        """One for many layers, when all of them ask for the same."""
        if any(each != specs[0] for each in specs):
            # what vLLM takes for "they are not alike, try another way"
            raise AssertionError("layers of one KV cache group ask for different pages")
        return replace(specs[0])


def teach_attention() -> None:
    """Let vLLM's attention layer ask for such pages; the second call changes nothing."""
    layer = anchor(ATTENTION, "Attention")
    ask = anchor(ATTENTION, "Attention.get_kv_cache_spec")
    if not hasattr(ask, "__wrapped__"):
        layer.get_kv_cache_spec = _asking(ask)


def _asking(ask: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(ask)
    def get_kv_cache_spec(self: Any, vllm_config: Any) -> Any:
        if not self.kv_cache_dtype.startswith(PREFIX):
            return ask(self, vllm_config)
        return wanted_by(self, vllm_config.cache_config.block_size)

    return get_kv_cache_spec


def wanted_by(layer: Any, block_size: int) -> B70TurboQuantSpec:
    """The pages of one attention layer; refused where no kernel could read them."""
    if layer.sliding_window is not None:
        raise ValueError(f"{layer.layer_name}: TurboQuant has no sliding window; "
                         "--kv-cache-dtype-skip-layers sliding_window leaves such layers as they are")  # fmt: skip
    if layer.head_size not in HEAD_SIZES or layer.head_size_v != layer.head_size:
        raise ValueError(f"{layer.layer_name}: head size {layer.head_size}; TurboQuant's kernels are for {HEAD_SIZES}")
    preset = PRESETS[layer.kv_cache_dtype.removeprefix(PREFIX)]
    return B70TurboQuantSpec(
        block_size=block_size,
        num_kv_heads=layer.num_kv_heads,
        head_size=layer.head_size,
        head_size_v=layer.head_size,
        dtype=layer.kv_cache_torch_dtype,
        slot_bytes=preset.slot_bytes(layer.head_size),
    )


anchor(MANAGERS, "spec_manager_map").setdefault(B70TurboQuantSpec, anchor(MANAGERS, "FullAttentionManager"))
