"""A configuration of the vLLM at hand, made by its own argument code, and one attention layer with its cache."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from b70_kernels import plugin
from b70_kernels.plugin.backend_versions import release
from truth import varlen_attention

MODEL = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 128, "intermediate_size": 256,
    "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "hidden_act": "silu", "max_window_layers": 6, "eos_token_id": 0, "bos_token_id": 0, "torch_dtype": "float16",
}  # fmt: skip
LONGEST = 1024
REQUESTS = 8
NAME = "model.layers.2.self_attn.attn"


@dataclass(frozen=True, slots=True)
class Shape:
    """A layer."""

    preset: str = "k3v4_nc"
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 64
    page: int = 16
    dtype: torch.dtype = torch.float16
    window: int | None = None
    softcap: float | None = None


@functools.cache
def engine_config() -> Any:
    """What `vllm serve` would run with, on this machine."""
    from vllm.engine.arg_utils import EngineArgs

    plugin.register()
    folder = Path(tempfile.mkdtemp(prefix="b70-tiny-"))
    (folder / "config.json").write_text(json.dumps(MODEL))
    arguments = EngineArgs(
        model=str(folder), skip_tokenizer_init=True, kv_cache_dtype="turboquant_k3v4_nc", max_model_len=LONGEST,
        block_size=16, dtype="float16", max_num_seqs=REQUESTS, enforce_eager=True, disable_log_stats=True,
    )  # fmt: skip
    return arguments.create_engine_config()


def config_for(shape: Shape, drafts: int = 0) -> Any:
    """The same for another layer, and with speculation."""
    config = copy.copy(engine_config())
    config.cache_config = copy.copy(config.cache_config)
    config.cache_config.cache_dtype = f"turboquant_{shape.preset}"
    config.cache_config.block_size = shape.page
    config.model_config = copy.copy(config.model_config)
    config.model_config.dtype = shape.dtype
    config.compilation_config = copy.copy(config.compilation_config)
    config.compilation_config.static_forward_context = {}
    if drafts:
        config.speculative_config = Speculation(drafts)
    return config


@dataclass
class Speculation:
    """As much of a SpeculativeConfig as a metadata builder reads; the whole one wants a draft model on the disk."""

    num_speculative_tokens: int
    parallel_drafting: bool = False


@functools.cache
def backend() -> Any:
    """Our backend, with FlashAttention's function in plain PyTorch: this machine's vLLM has none."""
    from b70_kernels.plugin.backend import B70TurboQuantBackend
    from b70_kernels.plugin.backend_impl import B70TurboQuantImpl

    registered: Any = B70TurboQuantBackend
    if release() < (0, 20):
        from b70_kernels.plugin.legacy_backend import B70LegacyBackend

        registered = B70LegacyBackend

    class Impl(B70TurboQuantImpl):
        def varlen_attention(self) -> Any:
            return varlen_attention

    class Backend(registered):
        @staticmethod
        def get_impl_cls() -> type[Impl]:
            return Impl

    return Backend


@dataclass
class Layer:
    """vLLM's own attention layer with our backend, its cache, and its metadata builder."""

    shape: Shape
    config: Any
    module: Any
    spec: Any
    cache: torch.Tensor
    builder: Any

    @property
    def impl(self) -> Any:
        """Ours."""
        return self.module.impl

    @property
    def pages(self) -> Any:
        """The cache as the kernels see it."""
        return self.impl._cache(self.cache)


def layer(shape: Shape, pages: int, drafts: int = 0) -> Layer:
    """A layer whose cache has never been written: every byte is 0xFF, every scale a NaN."""
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers.attention import Attention

    config = config_for(shape, drafts)
    with set_current_vllm_config(config):
        torch.set_default_dtype(shape.dtype)
        try:
            module = Attention(
                shape.heads, shape.head_size, shape.head_size**-0.5, shape.kv_heads, cache_config=config.cache_config,
                per_layer_sliding_window=shape.window, logits_soft_cap=shape.softcap, prefix=NAME,
                attn_backend=backend(),
            )  # fmt: skip
        finally:
            torch.set_default_dtype(torch.float32)
        spec = customized(module, config)
        builder = backend().get_builder_cls()(spec, [NAME], config, torch.device("cpu"))
    return Layer(shape, config, module, spec, cache_for(spec, pages), builder)


def customized(module: Any, config: Any) -> Any:
    """The spec that the runner gives a builder."""
    if release() < (0, 20):
        from b70_kernels.plugin import legacy_spec

        legacy_spec.teach_attention()
    spec = module.get_kv_cache_spec(config)
    # the runner asks the backend from 0.28 on
    return backend().customize_spec(spec) if hasattr(spec, "state_content_bytes") else spec


def cache_for(spec: Any, pages: int, apart: int = 0) -> torch.Tensor:
    """The tensor that this release's runner makes of a group's memory; `apart` bytes of padding after each page."""
    size = spec.page_size_bytes
    raw = torch.full((pages * (size + apart),), 0xFF, dtype=torch.uint8)
    if release() >= (0, 29):
        # layout LBNHC: pages one after the other, tokens before heads in memory, heads before tokens in name
        content = spec.state_content_size_bytes
        inner = (spec.block_size, spec.num_kv_heads, content)
        strides = (size + apart, spec.num_kv_heads * content, content, 1)
        return raw.as_strided((pages, *inner), strides).permute(0, 2, 1, 3)
    dtype = f"turboquant_{preset_name(spec)}"
    shape = backend().get_kv_cache_shape(
        pages, spec.block_size, spec.num_kv_heads, spec.head_size, cache_dtype_str=dtype
    )
    strides = torch.empty(shape[1:], device="meta").stride()
    return raw.as_strided(shape, (size + apart, *strides))


def preset_name(spec: Any) -> str:
    """By the bytes of a slot."""
    from b70_kernels.presets import PRESETS

    slot = spec.page_size_bytes // spec.block_size // spec.num_kv_heads
    return next(name for name, each in PRESETS.items() if each.slot_bytes(spec.head_size) == slot)


def fields_of(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Those of the values that this release's dataclass has."""
    known = {each.name for each in dataclasses.fields(kind)}
    return {name: value for name, value in values.items() if name in known}
