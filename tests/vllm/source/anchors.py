"""Every name of vLLM that the plugin holds on to: there in the releases that need it, absent where that is declared.

What the plugin imports and looks up is read off its own text (references.py); here stands in which releases it is,
and what it uses of objects that vLLM hands to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from b70ctl.core.image import within
from tests.vllm.source.claims import ALL
from tests.vllm.source.references import Reference, references
from tests.vllm.source.resolving import calls, resolved
from tests.vllm.source.tree import Function, Tree, parameters, strings

LEGACY = ">=0.19,<0.20"
BACKEND, BACKENDS = "vllm.v1.attention.backend", "vllm.v1.attention.backends"
REGISTRY, SPECS = f"{BACKENDS}.registry", "vllm.v1.kv_cache_interface"

SINCE = {
    (REGISTRY, "AttentionBackendEnum.TURBOQUANT"): ">=0.20",
    (SPECS, "KVCacheLayout"): ">=0.29",
    (SPECS, "KVCacheLayout.LBNHC"): ">=0.29",
}
"""Names of which the plugin knows that other releases do not have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A name of a module, and what it must take when it is called."""

    module: str
    name: str
    versions: str = ALL
    takes: tuple[str, ...] = ()
    calls: str = ""
    """A function that is called in it."""
    says: str = ""
    """A string in it."""
    absent: bool = False
    """Whether other releases must not have it."""

    def fault(self, tree: Tree) -> str | None:
        """What is wrong with it in a release; None where it is as declared."""
        found = resolved(tree, self.module, self.name)
        if not within(tree.version, self.versions):
            return f"there is {self.module}.{self.name}" if found is not None and self.absent else None
        if found is None:
            return f"there is no {self.module}.{self.name}"
        return next(self._lacks(found), None)

    def _lacks(self, found: ast.AST) -> Iterator[str]:
        taken = parameters(found) if isinstance(found, Function) else []
        for name in (name for name in self.takes if name not in taken):
            yield f"{self.module}.{self.name} takes no {name}"
        if self.calls and not calls(found, self.calls):
            yield f"{self.module}.{self.name} does not call {self.calls}"
        if self.says and self.says not in strings(found):
            yield f"{self.module}.{self.name} does not say {self.says!r}"


def of(module: str, owner: str, *names: str, versions: str = ALL) -> tuple[Anchor, ...]:
    """Members of one class."""
    return tuple(Anchor(module=module, name=f"{owner}.{name}", versions=versions) for name in names)


USED = (
    Anchor(module=REGISTRY, name="register_backend", takes=("backend", "class_path")),
    *of(REGISTRY, "AttentionBackendEnum", "get_path", "clear_override"),
    Anchor(module=f"{BACKENDS}.utils", name="split_decodes_and_prefills", takes=("decode_threshold",)),
    Anchor(module=BACKEND, name="AttentionMetadataBuilder._init_reorder_batch_threshold",
           takes=("reorder_batch_threshold", "supports_spec_as_decode")),
    Anchor(module=BACKEND, name="AttentionMetadataBuilder.__init__",
           takes=("kv_cache_spec", "layer_names", "vllm_config", "device")),
    # a token is stored before it is attended to
    Anchor(module="vllm.model_executor.layers.attention.attention", name="unified_kv_cache_update",
           calls="do_kv_cache_update"),
    *of(BACKEND, "CommonAttentionMetadata", "causal"),
    # an upper bound of the lengths on the host, under one name or the other
    *of(BACKEND, "CommonAttentionMetadata", "_seq_lens_cpu", versions=LEGACY),
    *of(BACKEND, "CommonAttentionMetadata", "seq_lens_cpu_upper_bound", versions=">=0.21"),
    *of("vllm.config", "VllmConfig", "model_config", "cache_config", "parallel_config", "scheduler_config",
        "speculative_config", "attention_config"),
    *of("vllm.config", "ModelConfig", "dtype", "max_model_len"),
    *of("vllm.config", "SchedulerConfig", "max_num_seqs", "max_num_batched_tokens"),
    *of("vllm.config", "SpeculativeConfig", "num_speculative_tokens"),
    *of("vllm.config", "ParallelConfig", "decode_context_parallel_size", "prefill_context_parallel_size"),
    *of(SPECS, "FullAttentionSpec", "head_size", "state_content_bytes", "kv_quant_mode", versions=">=0.28"),
    *of(SPECS, "KVQuantMode", "is_turboquant", versions=">=0.28"),
    # 0.19: what it is taught goes through these
    *of("vllm.config", "CacheConfig", "cache_dtype", "kv_cache_dtype_skip_layers", "block_size", versions=LEGACY),
    *of("vllm.config", "ModelConfig", "is_hybrid", "hf_text_config", versions=LEGACY),
    *of("vllm.config", "AttentionConfig", "flash_attn_version", versions=LEGACY),
    *of("vllm.v1.attention.selector", "AttentionSelectorConfig", "kv_cache_dtype", "attn_type", "use_mla", "use_sparse",
        versions=LEGACY),
    *of("vllm.platforms.xpu", "XPUPlatform", "get_attn_backend_cls", versions=LEGACY),
    *of("vllm.model_executor.layers.attention.attention", "Attention", "kv_cache_dtype", "kv_cache_torch_dtype",
        "head_size", "head_size_v", "num_kv_heads", "sliding_window", "layer_name", versions=LEGACY),
)  # fmt: skip
"""What it uses beyond that: of what vLLM hands to it, and how it calls."""

LOADED = (
    # one folder on PYTHONPATH is enough, in each of these processes
    Anchor(module="vllm.plugins", name="DEFAULT_PLUGINS_GROUP", says="vllm.general_plugins"),
    Anchor(module="vllm.plugins", name="load_general_plugins", calls="load_plugins_by_group"),
    Anchor(module="vllm.plugins", name="load_plugins_by_group", calls="entry_points"),
    Anchor(module="vllm.engine.arg_utils", name="AsyncEngineArgs.add_cli_args", calls="load_general_plugins"),
    Anchor(module="vllm.engine.arg_utils", name="EngineArgs.__post_init__", calls="load_general_plugins"),
    Anchor(module="vllm.v1.engine.core", name="EngineCore.__init__", calls="load_general_plugins"),
    Anchor(module="vllm.v1.worker.worker_base", name="WorkerWrapperBase.init_worker", calls="load_general_plugins"),
    # what it says is said through a logger below vLLM's own
    Anchor(module="vllm.logger", name="DEFAULT_LOGGING_CONFIG", says="vllm"),
    # where models are inspected in a process of their own
    Anchor(module="vllm.model_executor.models.registry", name="_run", calls="load_general_plugins"),
)
"""How it comes into vLLM's processes."""


def anchors() -> list[Anchor]:
    """Everything that the plugin names, and everything else that it uses."""
    return [*(_anchor(reference) for reference in references()), *USED]


def _anchor(reference: Reference) -> Anchor:
    key = reference.module, reference.name
    since = SINCE.get(key)
    versions = since or (LEGACY if reference.file.startswith("legacy") else ALL)
    return Anchor(module=reference.module, name=reference.name, versions=versions, absent=since is not None)
