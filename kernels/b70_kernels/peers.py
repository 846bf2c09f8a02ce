"""What the kernels are timed beside: FP16 attention of PyTorch, and vLLM's own TurboQuant kernels where importable."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from .presets import Preset
from .quantiser import hadamard

Call = Callable[[], object]


def fp16(
    requests: int, length: int, positions: int, heads: int, kv_heads: int, size: int, device: torch.device
) -> Call:
    """FP16 keys and values, contiguous, through PyTorch's flash attention; the group's rows packed in the query."""
    key, value = (torch.randn(requests, kv_heads, length, size, device=device, dtype=torch.float16) for _ in range(2))
    query = torch.randn(requests, kv_heads, heads // kv_heads * positions, size, device=device, dtype=torch.float16)

    def run() -> torch.Tensor:
        # left to itself PyTorch chose a slower kernel for these shapes (99 us for 28, on an H200)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.OVERRIDEABLE]):
            return scaled_dot_product_attention(query, key, value)

    return run


class Upstream:
    """vLLM's TurboQuant kernels on a filled cache of their own; ImportError where there are none."""

    def __init__(
        self, preset: Preset, requests: int, length: int, heads: int, kv_heads: int, size: int, device: torch.device
    ) -> None:
        from vllm.model_executor.layers.quantization.turboquant.centroids import get_centroids
        from vllm.model_executor.layers.quantization.turboquant.config import TurboQuantConfig
        from vllm.v1.attention.ops.triton_turboquant_decode import triton_turboquant_decode_attention
        from vllm.v1.attention.ops.triton_turboquant_store import triton_turboquant_store

        self.attention: Any = triton_turboquant_decode_attention
        self.store_tokens: Any = triton_turboquant_store
        config = TurboQuantConfig.from_cache_dtype(f"turboquant_{preset.name}", size)
        self.requests, self.length, self.heads, self.size, self.device = requests, length, heads, size, device
        centroids = get_centroids(size, config.centroid_bits).float()
        ordered = centroids.sort().values
        self.borders = ((ordered[:-1] + ordered[1:]) / 2).to(device)
        rotation = hadamard(size, str(device), torch.float32) / math.sqrt(size)
        self.packing = {
            "mse_bits": config.key_mse_bits, "key_packed_size": config.key_packed_size,
            "value_quant_bits": config.effective_value_quant_bits, "key_fp8": config.key_fp8,
        }  # fmt: skip
        self.reading = {
            "Pi": rotation, "PiT": rotation, "centroids": centroids.to(device), "scale": size**-0.5,
            "norm_correction": config.norm_correction, **self.packing,
        }  # fmt: skip
        pages = requests * -(-length // 16)
        self.cache = torch.zeros(pages, 16, kv_heads, config.slot_size_aligned, dtype=torch.uint8, device=device)
        self.table = torch.randperm(pages, device=device).to(torch.int32).reshape(requests, -1)
        self.rotation = rotation
        tokens = requests * self.table.shape[1] * 16
        self.store(*(torch.randn(tokens, kv_heads, size, device=device, dtype=torch.float16) for _ in range(2)))()

    def store(self, key: torch.Tensor, value: torch.Tensor) -> Call:
        """Quantise these tokens into the first slots."""
        slots = torch.arange(key.shape[0], device=self.device)
        return lambda: self.store_tokens(key, value, self.cache, slots, self.rotation, self.borders, **self.packing)

    def decode(self) -> Call:
        """One position a request."""
        query = torch.randn(self.requests, self.heads, self.size, device=self.device, dtype=torch.float16)
        lengths = torch.full((self.requests,), self.length, dtype=torch.int32, device=self.device)
        return lambda: self.attention(
            query=query,
            kv_cache=self.cache,
            block_table=self.table,
            seq_lens=lengths,
            max_num_kv_splits=32,
            **self.reading,
        )

    def verify(self, positions: int) -> Call:
        """Several positions a request, as vLLM does it: one call a request, each position a row of its own."""
        query = torch.randn(self.requests, positions, self.heads, self.size, device=self.device, dtype=torch.float16)
        lengths = torch.arange(self.length - positions + 1, self.length + 1, device=self.device, dtype=torch.int32)
        tables = [self.table[request : request + 1].expand(positions, -1) for request in range(self.requests)]

        def run() -> None:
            for request in range(self.requests):
                self.attention(query=query[request], kv_cache=self.cache, block_table=tables[request], seq_lens=lengths,
                               **self.reading)  # fmt: skip

        return run


class UpstreamSoa:
    """vLLM's unified kernel of 0.28 and later, which production takes on AMD alone: the strongest peer."""

    def __init__(
        self, preset: Preset, requests: int, length: int, heads: int, kv_heads: int, size: int, device: torch.device
    ) -> None:
        from vllm.model_executor.layers.quantization.turboquant.config import TurboQuantConfig
        from vllm.v1.attention.ops.turboquant_soa.triton_turboquant_store import triton_turboquant_store
        from vllm.v1.attention.ops.turboquant_soa.triton_turboquant_unified_attention import (
            triton_turboquant_unified_attention,
        )

        plain = Upstream(preset, 1, 16, heads, kv_heads, size, device)
        config = TurboQuantConfig.from_cache_dtype(f"turboquant_{preset.name}", size)
        self.attention: Any = triton_turboquant_unified_attention
        self.requests, self.length, self.heads, self.size, self.device = requests, length, heads, size, device
        self.reading = {**plain.reading, "value_packed_size": config.value_packed_size}
        pages = requests * -(-length // 16)
        self.cache = torch.zeros(pages, 16, kv_heads, config.slot_size_aligned, dtype=torch.uint8, device=device)
        self.table = torch.randperm(pages, device=device).to(torch.int32).reshape(requests, -1)
        tokens = requests * self.table.shape[1] * 16
        key, value = (torch.randn(tokens, kv_heads, size, device=device, dtype=torch.float16) for _ in range(2))
        triton_turboquant_store(
            key, value, self.cache, torch.arange(tokens, device=device), plain.rotation, plain.borders,
            centroids=plain.reading["centroids"], norm_correction=config.norm_correction, **plain.packing,
        )  # fmt: skip

    def attend(self, positions: int) -> Call:
        """So many positions a request, its split-context path forced, which its own dispatch takes for one only."""
        query = torch.randn(self.requests * positions, self.heads, self.size, device=self.device, dtype=torch.float16)
        lengths = torch.full((self.requests,), self.length, dtype=torch.int32, device=self.device)
        starts = (torch.arange(self.requests + 1, device=self.device) * positions).to(torch.int32)
        return lambda: self.attention(
            query=query, kv_cache=self.cache, block_table=self.table, seq_lens=lengths, query_start_loc=starts,
            max_query_len=1, max_seq_len=self.length, num_kv_splits=32, **self.reading,
        )  # fmt: skip
