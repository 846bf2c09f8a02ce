"""Where the releases of vLLM differ in what the backend sees, each with the reason; nothing else asks for a version."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import vllm
from vllm.platforms import current_platform
from vllm.v1.attention.backends import fa_utils

HEADS_FIRST = (0, 26)
"""Until then a backend shapes its cache [pages, tokens, heads, slot], from there on [pages, heads, tokens, slot]; from
0.29 on vLLM shapes it, and does not ask."""

WINDOWED_PAGES = (0, 28)
"""Until then a layer with a sliding window asks for pages of its head size times a byte, not of TurboQuant's slots, so
that its cache cannot be shaped. From there on the backend says what a slot takes (`customize_spec`)."""

FLASH_SOFTCAP_ON_XPU = (0, 32)
"""Until then vLLM's FlashAttention for XPU takes a cap on the scores and ignores it."""


def release() -> tuple[int, int]:
    """The running vLLM's first two numbers; a development build counts as the release that it leads to."""
    found = re.match(r"(\d+)\.(\d+)", vllm.__version__)
    if found is None:
        raise RuntimeError(f"vLLM calls itself {vllm.__version__!r}: no version can be read from that")
    return int(found[1]), int(found[2])


def flash_caps_scores() -> bool:
    """Whether this platform's FlashAttention honours `softcap`."""
    return not current_platform.is_xpu() or release() >= FLASH_SOFTCAP_ON_XPU


def flash_attention(head_size: int) -> Callable[..., Any]:
    """vLLM's own FlashAttention over ragged batches, as it is for this platform.

    Raises NotImplementedError where vLLM has none (its CPU platform): there is no second way, a prompt would be slow
    without anyone being told.
    """
    if not fa_utils.is_flash_attn_varlen_func_available():
        device = current_platform.device_type
        raise NotImplementedError(f"TurboQuant needs FlashAttention for prompts, and vLLM has none for {device}")
    version = fa_utils.get_flash_attn_version(head_size=head_size)
    compute = fa_utils.flash_attn_varlen_func
    # None: this platform's function knows no versions
    chosen = {} if version is None else {"fa_version": version}

    def attend(**arguments: Any) -> Any:
        return compute(**arguments, **chosen)

    return attend


def longest_lengths(batch: Any) -> Any:
    """An upper bound on every request's length on the host, or None.

    Only ever a bound: exact in rows that read their prompt, too long in rows whose drafts were rejected. 0.19 keeps it
    under another name.
    """
    for name in ("seq_lens_cpu_upper_bound", "_seq_lens_cpu"):
        found = getattr(batch, name, None)
        if found is not None:
            return found
    return None
