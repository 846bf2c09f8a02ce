"""What the kernels are not for, said in words before anything is computed: nothing is ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from b70_kernels.presets import HEAD_SIZES, PREFIX, PRESETS, Preset

from .backend_versions import WINDOWED_PAGES, release

DTYPES = (torch.float16, torch.bfloat16)
UNDO = "serve this model with another --kv-cache-dtype"


class Unsupported(NotImplementedError):
    """TurboQuant's kernels cannot compute this; what to do instead is said."""


def preset_of(cache_dtype: str) -> Preset:
    """The preset that `--kv-cache-dtype` names."""
    found = PRESETS.get(cache_dtype.removeprefix(PREFIX))
    if found is None or not cache_dtype.startswith(PREFIX):
        raise Unsupported(f"a layer with a cache of {cache_dtype} was sent to TurboQuant's kernels")
    return found


def check_layer(
    *, heads: int, kv_heads: int, head_size: int, window: int | None, alibi: Any, attn_type: str,
    shares_with: str | None, others: Mapping[str, Any],
) -> None:  # fmt: skip
    """Refuse a layer that the kernels would compute wrongly."""
    if head_size not in HEAD_SIZES:
        raise Unsupported(f"head size {head_size}: TurboQuant's kernels are for {HEAD_SIZES}; {UNDO}")
    if heads % kv_heads:
        raise Unsupported(f"{heads} query heads over {kv_heads} KV heads: they have to divide; {UNDO}")
    if attn_type != "decoder":
        raise Unsupported(f"{attn_type} attention: TurboQuant is for decoders; {UNDO}")
    if alibi is not None:
        raise Unsupported(f"ALiBi: TurboQuant's kernels add no slopes to scores; {UNDO}")
    if shares_with is not None:
        raise Unsupported(f"a layer that reads the cache of {shares_with}: TurboQuant's kernels read their own; {UNDO}")
    if window is not None and release() < WINDOWED_PAGES:
        raise Unsupported(f"a sliding window of {window}: this vLLM gives such layers pages of another size; "
                          "add --kv-cache-dtype-skip-layers sliding_window")  # fmt: skip
    given = sorted(name for name, value in others.items() if value is not None)
    if given:
        raise Unsupported(f"{', '.join(given)}: TurboQuant's kernels know no such attention; {UNDO}")


def check_engine(config: Any) -> None:
    """Refuse a configuration that the kernels would compute wrongly."""
    parallel, model = config.parallel_config, config.model_config
    for what in ("decode_context_parallel_size", "prefill_context_parallel_size"):
        if getattr(parallel, what, 1) > 1:
            flag = "--" + what.replace("_", "-")
            raise Unsupported(
                f"{flag} {getattr(parallel, what)}: TurboQuant's kernels read whole contexts; leave it out"
            )
    if getattr(model, "is_mm_prefix_lm", False):
        raise Unsupported(f"images that see ahead (prefix attention): TurboQuant's kernels are causal; {UNDO}")
    if model.dtype not in DTYPES:
        raise Unsupported(f"--dtype {model.dtype}: TurboQuant's kernels are for float16 and bfloat16")


def check_batch(batch: Any) -> None:
    """Refuse a batch that is not plain causal attention; a drafter may ask for such."""
    if batch.causal is not True:
        raise Unsupported(f"attention that is not causal: TurboQuant's kernels are; {UNDO}, or draft by another method")
    for what in ("mm_req_doc_ranges", "rswa_prefix_lens"):
        if getattr(batch, what, None) is not None:
            raise Unsupported(f"{what}: TurboQuant's kernels know no tokens that every position sees; {UNDO}")
