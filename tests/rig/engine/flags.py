"""The part of vLLM's command line that changes what the stand-in does."""

from __future__ import annotations

import argparse
import json
import os
import re
from dataclasses import dataclass
from typing import Any

from .knobs import since

Json = dict[str, Any]


@dataclass(frozen=True)
class Flags:
    """The part of vLLM's command line that changes what the stand-in does."""

    model: str
    names: tuple[str, ...]
    host: str
    port: int
    max_model_len: int
    max_num_seqs: int
    gpu_memory_utilization: float
    kv_cache_dtype: str
    quantization: str
    tensor_parallel_size: int
    enforce_eager: bool
    speculative: Json
    auto_tools: bool
    tool_parser: str
    reasoning_parser: str
    shutdown_timeout: int
    api_key: str
    access_log: bool


def parse_flags(argv: list[str]) -> Flags:
    """Read `serve MODEL [flags]`; flags that the stand-in does not know are let through."""
    parser = argparse.ArgumentParser("vllm serve", allow_abbrev=False)
    parser.add_argument("model_tag", nargs="?")
    text = ("model", "host", "kv-cache-dtype", "quantization", "tool-call-parser", "reasoning-parser", "api-key")
    for name in (*text, "speculative-config", "max-model-len"):
        parser.add_argument(f"--{name}")
    for name, default in (("port", 8000), ("max-num-seqs", 256), ("shutdown-timeout", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.92 if since(0, 33) else 0.9)
    parser.add_argument("--served-model-name", nargs="+", default=[])
    for name in ("enforce-eager", "enable-auto-tool-choice", "disable-uvicorn-access-log"):
        parser.add_argument(f"--{name}", action="store_true")
    known, _ = parser.parse_known_args([_dashed(word) for word in argv])
    model = known.model_tag or known.model or "stand-in"
    return Flags(
        model=model,
        names=tuple(known.served_model_name) or (model,),
        host=known.host or "0.0.0.0",
        port=known.port,
        max_model_len=_length(known.max_model_len),
        max_num_seqs=known.max_num_seqs,
        gpu_memory_utilization=known.gpu_memory_utilization,
        kv_cache_dtype=known.kv_cache_dtype or "auto",
        quantization=known.quantization or "",
        tensor_parallel_size=known.tensor_parallel_size,
        enforce_eager=known.enforce_eager,
        speculative=json.loads(known.speculative_config or "{}"),
        auto_tools=known.enable_auto_tool_choice,
        tool_parser=known.tool_call_parser or "",
        reasoning_parser=known.reasoning_parser or "",
        shutdown_timeout=known.shutdown_timeout or (5 if since(0, 25) else 0),
        api_key=known.api_key or os.environ.get("VLLM_API_KEY", ""),
        access_log=not known.disable_uvicorn_access_log,
    )


def _dashed(word: str) -> str:
    name, sign, value = word.partition("=")
    return name.replace("_", "-") + sign + value if name.startswith("--") else word


def _length(text: str | None) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", text or "32768")
    if not found:
        return 32768
    scale = {"": 1, "k": 1000, "K": 1024, "m": 1_000_000, "M": 1024**2}[found[2]]
    return int(float(found[1]) * scale)
