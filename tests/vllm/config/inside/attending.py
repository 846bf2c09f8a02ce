"""Which attention backend a layer gets from this vLLM on an Intel card, and which pages it asks of the KV cache."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

BLOCKS = 512
HEADS, KV_HEADS, HEAD_SIZE = 8, 2, 128


def routed(platform: Any, config: Any, kv_cache_dtype: str) -> str:
    """The class that the platform names for one layer, whatever it is before it is imported."""
    from vllm.v1.attention.selector import AttentionSelectorConfig

    known = {"head_size": HEAD_SIZE, "dtype": config.model_config.dtype, "kv_cache_dtype": kv_cache_dtype,
             "block_size": config.cache_config.block_size, "attn_type": "decoder"}  # fmt: skip
    fields = getattr(AttentionSelectorConfig, "_fields", None) or inspect.signature(AttentionSelectorConfig).parameters
    given = {name: known.get(name, False) for name in fields}
    return str(platform.get_attn_backend_cls(config.attention_config.backend, AttentionSelectorConfig(**given)))


def layers(config: Any, count: int) -> dict[str, Any]:
    """Real attention layers as a model of that many would make them, by number."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers.attention import Attention

    before = torch.get_default_dtype()
    torch.set_default_dtype(config.model_config.dtype)
    try:
        with set_current_vllm_config(config):
            return {
                str(number): Attention(
                    HEADS, HEAD_SIZE, HEAD_SIZE**-0.5, num_kv_heads=KV_HEADS, cache_config=config.cache_config,
                    prefix=f"model.layers.{number}.self_attn.attn",
                )
                for number in range(count)
            }  # fmt: skip
    finally:
        torch.set_default_dtype(before)


def wanted(layer: Any, config: Any) -> Any:
    """What a layer asks for, as the worker asks it: later releases let the backend have its say."""
    from vllm.v1.attention.backend import AttentionBackend

    spec = layer.get_kv_cache_spec(config)
    return layer.get_attn_backend().customize_spec(spec) if hasattr(AttentionBackend, "customize_spec") else spec


def described(layer: Any, config: Any) -> dict[str, Any]:
    """Who computes for a layer, and what its pages take."""
    backend = layer.get_attn_backend()
    spec = wanted(layer, config)
    return {
        "backend": f"{backend.__module__}.{backend.__qualname__}",
        "computes": type(layer.impl).__qualname__,
        "spec": type(spec).__qualname__,
        "page_bytes": spec.page_size_bytes,
        "block_size": spec.block_size,
    }


def pool(made: dict[str, Any], config: Any) -> dict[str, Any]:
    """What vLLM's own planning makes of all layers together, given memory for `BLOCKS` pages of each."""
    specs = {layer.layer_name: wanted(layer, config) for layer in made.values()}
    layout = laid_out(made, config, specs)
    memory = BLOCKS * sum(spec.page_size_bytes for spec in specs.values())
    (planned,) = planning(config, [specs])(config, [specs], [memory])
    return {"blocks": planned.num_blocks, "layout": layout, "managed": managed(planned)}  # fmt: skip


def planning(config: Any, specs: list[dict[str, Any]]) -> Callable[..., list[Any]]:
    """What shares memory out; since 0.33 it wants the groups that were made before."""
    try:
        from vllm.v1.core.kv_cache_planning import get_global_kv_cache_groups, get_kv_cache_configs
    except ImportError:
        from vllm.v1.core.kv_cache_utils import get_kv_cache_configs

        return get_kv_cache_configs
    return functools.partial(get_kv_cache_configs, global_kv_cache_groups=get_global_kv_cache_groups(config, specs))


def laid_out(made: dict[str, Any], config: Any, specs: dict[str, Any]) -> str | None:
    """The one layout for all of them, as the engine resolves it from 0.29 on; None before."""
    from vllm.v1.attention.backends import utils
    from vllm.v1.worker import worker_base

    if not hasattr(utils, "resolve_kv_cache_layout"):
        return None
    backends = list(dict.fromkeys(layer.get_attn_backend() for layer in made.values()))
    names = [layout.name for layout in worker_base.get_supported_kv_cache_layouts(backends)]
    return str(utils.resolve_kv_cache_layout(config, [names], specs.values()).name)


def managed(planned: Any) -> bool:
    """Whether the scheduler's side knows who looks after such pages."""
    from vllm.v1.core import single_type_kv_cache_manager as managers
    from vllm.v1.core.kv_cache_utils import generate_scheduler_kv_cache_config

    schedule = generate_scheduler_kv_cache_config([planned])
    found = [group.kv_cache_spec for group in schedule.kv_cache_groups]
    known = getattr(managers, "spec_manager_map", None)
    return all(known is None or type(spec) in known for spec in found)
