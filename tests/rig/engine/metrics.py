"""Everything that /metrics and the statistics line tell."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from .flags import Flags
from .knobs import since

_BUCKETS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
_HISTOGRAMS = (
    "time_to_first_token_seconds", "inter_token_latency_seconds", "request_prefill_time_seconds",
    "request_decode_time_seconds", "request_time_per_output_token_seconds", "e2e_request_latency_seconds",
)  # fmt: skip
_COUNTERS = (
    "prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits", "num_preemptions",
)  # fmt: skip
SPEC_COUNTERS = ("spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens")


@dataclass
class Metrics:
    """Everything that /metrics and the statistics line tell."""

    counts: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _HISTOGRAMS})
    per_position: dict[int, int] = field(default_factory=dict)
    running: int = 0
    waiting: int = 0
    held_tokens: int = 0
    finished: dict[str, int] = field(default_factory=dict)
    blocks: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, amount: float) -> None:
        """Raise a counter."""
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + amount

    def observe(self, name: str, value: float) -> None:
        """Add a sample to a histogram."""
        with self.lock:
            self.samples[name].append(value)

    def hit(self, pieces: list[str]) -> int:
        """How many of the prompt's tokens lie in blocks seen before; remembers its blocks."""
        seen, chain, fresh = 0, 0, False
        for start in range(0, len(pieces) - len(pieces) % 16, 16):
            chain = hash((chain, tuple(pieces[start : start + 16])))
            fresh = fresh or chain not in self.blocks
            seen += 0 if fresh else 16
            self.blocks.add(chain)
        return seen

    def text(self, flags: Flags, kv_tokens: int) -> str:
        """The Prometheus exposition."""
        labels = f'engine="0",model_name="{flags.names[0]}"'
        with self.lock:
            return (
                "\n".join([*self._gauges(labels, kv_tokens), *self._counters(labels, flags), *self._shapes(labels)])
                + "\n"
            )

    def _gauges(self, labels: str, kv_tokens: int) -> Iterator[str]:
        usage = min(1.0, self.held_tokens / kv_tokens)
        values = {
            "num_requests_running": self.running,
            "num_requests_waiting": self.waiting,
            "kv_cache_usage_perc": usage,
        }
        for name, value in values.items():
            yield f"# HELP vllm:{name} As vLLM names it."
            yield f"# TYPE vllm:{name} gauge"
            yield f"vllm:{name}{{{labels}}} {float(value)}"
        if since(0, 20):
            yield "# TYPE vllm:num_requests_waiting_by_reason gauge"
            yield f'vllm:num_requests_waiting_by_reason{{{labels},reason="capacity"}} {float(self.waiting)}'
        yield "# TYPE vllm:cache_config_info gauge"
        yield f'vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="{kv_tokens // 16}"}} 1.0'

    def _counters(self, labels: str, flags: Flags) -> Iterator[str]:
        for name in (*_COUNTERS, *(SPEC_COUNTERS if flags.speculative else ())):
            yield f"# TYPE vllm:{name}_total counter"
            yield f"vllm:{name}_total{{{labels}}} {float(self.counts.get(name, 0))}"
        for reason, count in sorted(self.finished.items()):
            yield f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {float(count)}'
        for position in range(int(flags.speculative.get("num_speculative_tokens", 0) or 0)):
            total = float(self.per_position.get(position, 0))
            yield f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{position}"}} {total}'

    def _shapes(self, labels: str) -> Iterator[str]:
        for name, values in self.samples.items():
            yield f"# TYPE vllm:{name} histogram"
            for bound in _BUCKETS:
                yield f'vllm:{name}_bucket{{{labels},le="{bound}"}} {float(sum(v <= bound for v in values))}'
            yield f'vllm:{name}_bucket{{{labels},le="+Inf"}} {float(len(values))}'
            yield f"vllm:{name}_count{{{labels}}} {float(len(values))}"
            yield f"vllm:{name}_sum{{{labels}}} {sum(values)}"
