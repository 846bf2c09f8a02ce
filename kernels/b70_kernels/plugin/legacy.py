"""vLLM 0.19, which does not know TurboQuant: what it has to be taught, without changing one of its files.

- `--kv-cache-dtype` takes the four types: in the argument parser, in the config's schema, and as bytes of a torch dtype
- a config with such a type keeps the first two and the last two layers as they are, refuses hybrid models, and keeps
  FlashAttention at version 2: vLLM's own rules from 0.20 on. Without the first, a 4B model lost 30 points of GSM8K
- the platforms that these kernels are for send such layers to our backend, under the name that vLLM keeps for others'
- such a layer asks for the bytes that it needs (legacy_spec.py), and the cache's manager knows what it asks for

Every name is looked up before anything is changed, each change is taken back when a later one fails, and the backend is
registered last, so that a refusal leaves vLLM as it was.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from b70_kernels.presets import CACHE_TYPES, PREFIX

from .anchors import REGISTRY, Refused, anchor, put_behind

BACKEND = "b70_kernels.plugin.legacy_backend.B70LegacyBackend"
ARGUMENTS = "vllm.engine.arg_utils"
BOUNDARY = 2
"""Layers at either end that stay in the model's own type."""


def teach() -> str:
    """Do all of it, once a process, and say who serves TurboQuant now; what raises has changed nothing."""
    cache_config = anchor("vllm.config.cache", "CacheConfig")
    literal = anchor("vllm.config.cache", "CacheDType")
    outer = anchor("vllm.config", "VllmConfig")
    widths = anchor("vllm.utils.torch_utils", "STR_DTYPE_TO_TORCH_DTYPE")
    parsing = _parsing()
    custom = anchor(REGISTRY, "AttentionBackendEnum.CUSTOM")
    platform = _routing_class(type(anchor("vllm.platforms", "current_platform")))
    field = next((each for each in dataclasses.fields(cache_config) if each.name == "cache_dtype"), None)
    if field is None:
        raise Refused("this vLLM's CacheConfig has no cache_dtype")

    with ExitStack() as undo:
        _widen(undo, literal, field, cache_config, outer)
        _add_torch_dtypes(undo, widths)
        routed = classmethod(_routed(vars(platform)["get_attn_backend_cls"].__func__))
        _replace(undo, platform, "get_attn_backend_cls", routed)
        if parsing:
            arguments, forget = parsing
            _replace(undo, arguments, "create_engine_config", _guarded(arguments.create_engine_config))
            forget()
        said = put_behind(custom, BACKEND)
        undo.pop_all()
    return said


def _parsing() -> tuple[Any, Callable[[], None]] | None:
    """Who makes a config of arguments, and what forgets the choices computed before; only where arguments are read.

    There the module has called us. A worker gets its config ready-made, and need not import it.
    """
    if ARGUMENTS not in sys.modules:
        return None
    anchor(ARGUMENTS, "EngineArgs.create_engine_config")
    return anchor(ARGUMENTS, "EngineArgs"), anchor(ARGUMENTS, "_compute_kwargs.cache_clear")


def _routing_class(platform: type) -> Any:
    """The class that decides for a platform; patched there, its subclasses follow."""
    for each in platform.__mro__:
        if "get_attn_backend_cls" in vars(each):
            return each
    raise Refused(f"this vLLM's {platform.__name__} has no get_attn_backend_cls")


def _replace(undo: ExitStack, owner: Any, name: str, value: object) -> None:
    """Another value for what a class or module has itself."""
    undo.callback(setattr, owner, name, vars(owner)[name])
    setattr(owner, name, value)


def _add_torch_dtypes(undo: ExitStack, table: dict[str, Any]) -> None:
    import torch

    for name in CACHE_TYPES:
        if name not in table:
            undo.callback(table.pop, name)
            table[name] = torch.uint8


def _widen(undo: ExitStack, literal: Any, field: Any, cache_config: Any, outer: Any) -> None:
    """One more literal wherever the old one was taken over, and the schemas that were built from it built again."""
    from pydantic.dataclasses import rebuild_dataclass

    wider = typing.Literal[(*typing.get_args(literal), *CACHE_TYPES)]  # type: ignore[valid-type]
    for name, module in tuple(sys.modules.items()):
        if name.startswith("vllm.") and getattr(module, "CacheDType", None) is literal:
            _replace(undo, module, "CacheDType", wider)
    undo.callback(setattr, field, "type", field.type)
    field.type = wider
    annotations = cache_config.__annotations__
    undo.callback(annotations.__setitem__, "cache_dtype", annotations["cache_dtype"])
    annotations["cache_dtype"] = wider
    for schema in (cache_config, outer):
        # it takes the old schema away before it makes the new one
        undo.callback(_put_back, schema, dict(vars(schema)))
        rebuild_dataclass(schema, force=True)


def _put_back(owner: Any, before: Mapping[str, object]) -> None:
    """A class as it was."""
    for name in vars(owner).keys() - before.keys():
        delattr(owner, name)
    for name, value in before.items():
        if vars(owner).get(name) is not value:
            setattr(owner, name, value)


def _routed(decide: Callable[..., str]) -> Callable[..., str]:
    """`get_attn_backend_cls` that sends TurboQuant's layers to us and everything else where it went before."""

    @functools.wraps(decide)
    def get_attn_backend_cls(
        cls: Any, selected_backend: Any, attn_selector_config: Any, *args: Any, **kwargs: Any
    ) -> str:
        wanted = attn_selector_config.kv_cache_dtype or ""
        if not wanted.startswith(PREFIX) or attn_selector_config.attn_type not in (None, "decoder"):
            return decide(cls, selected_backend, attn_selector_config, *args, **kwargs)
        if attn_selector_config.use_mla or attn_selector_config.use_sparse:
            raise ValueError(f"--kv-cache-dtype {wanted} is not for models with latent attention (MLA)")
        from . import legacy_spec

        legacy_spec.teach_attention()
        if anchor("vllm.platforms", "current_platform").is_xpu():
            # as vLLM itself decides there: the only layout that its kernels take
            anchor("vllm.v1.attention.backends.utils", "set_kv_cache_layout")("NHD")
        return BACKEND

    return get_attn_backend_cls


def _guarded(create: Callable[..., Any]) -> Callable[..., Any]:
    """`create_engine_config` with the rules that come with these types."""

    @functools.wraps(create)
    def create_engine_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = create(self, *args, **kwargs)
        if config.cache_config.cache_dtype.startswith(PREFIX):
            _apply_rules(config)
        return config

    return create_engine_config


def _apply_rules(config: Any) -> None:
    cache, model = config.cache_config, config.model_config
    if model.is_hybrid:
        raise ValueError(f"--kv-cache-dtype {cache.cache_dtype} is not for hybrid models before vLLM 0.21")
    cache.kv_cache_dtype_skip_layers = with_boundary(
        cache.kv_cache_dtype_skip_layers, model.hf_text_config.num_hidden_layers
    )
    # version 3 plans ahead over every layer, and stops at one that is not FlashAttention's own
    config.attention_config.flash_attn_version = 2


def with_boundary(skipped: Sequence[str], layers: int) -> list[str]:
    """The layers to leave as they are: those that were asked for, and two at either end, but never all of them."""
    count = min(BOUNDARY, layers // 2)
    ends = {str(number) for number in (*range(count), *range(layers - count, layers))}
    return sorted(ends.union(skipped), key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))
