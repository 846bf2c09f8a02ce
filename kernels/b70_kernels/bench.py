"""Times the kernels beside FP16 attention and vLLM's own TurboQuant kernels, in one run, all alike.

    python -m b70_kernels.bench [--device cuda] [--presets k8v4,k3v4_nc] [--json]

Every figure is the median of whole calls (rotation and merge included) on buffers rotated past the device's cache; on
CUDA devices a captured graph is replayed. The ratios are what counts: microseconds belong to the device.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch

from . import arguments, attention, peers, store, tuning
from .cache import empty_cache
from .peers import Call
from .presets import PRESETS, Preset
from .timing import copies, microseconds
from .workload import Batch, batch

HEADS, KV_HEADS, HEAD_SIZE = 32, 4, 128
SHAPES = ((4, 8192, 1), (4, 8192, 8), (1, 131072, 1), (1, 131072, 8))
"""Requests, tokens of each, query positions of each."""
STORED = 32768


@dataclass(frozen=True, slots=True)
class Row:
    """One operation of one preset, in microseconds; None where a peer could not run."""

    operation: str
    preset: str
    requests: int
    tokens: int
    ours: float
    fp16: float | None
    upstream: float | None
    best_peer: float | None
    """The faster of vLLM's kernels, also those that production does not take on this device."""

    def line(self) -> str:
        """For a reader."""

        def ratio(peer: float | None) -> str:
            return f"{peer:9.1f} {peer / self.ours:6.2f}x" if peer else f"{'-':>9} {'-':>7}"

        where = f"{self.preset:8} {self.operation:10} B={self.requests:<3} S={self.tokens:<7}"
        return f"{where} {self.ours:9.1f}  {ratio(self.fp16)}  {ratio(self.upstream)}  {ratio(self.best_peer)}"


HEADING = f"{'microseconds; x: how many times ours':40} {'ours':>9}  {'fp16':>17}  {'vLLM':>17}  {'best of vLLM':>17}"


def measure(preset: Preset, device: torch.device, shapes: tuple[tuple[int, int, int], ...] = SHAPES) -> list[Row]:
    """Every shape of one preset, and the store."""
    return [*(_attention(preset, device, *shape) for shape in shapes), _store(preset, device)]


def _attention(preset: Preset, device: torch.device, requests: int, tokens: int, positions: int) -> Row:
    shape = (requests, tokens, HEADS, KV_HEADS, HEAD_SIZE, device)
    number = copies(requests * tokens * KV_HEADS * preset.slot_bytes(HEAD_SIZE))
    batches = [
        batch(preset, [tokens] * requests, [positions] * requests, heads=HEADS, kv_heads=KV_HEADS, head_size=HEAD_SIZE,
              device=device, seed=seed)
        for seed in range(number)
    ]  # fmt: skip
    ours = microseconds([_ours(each) for each in batches], device)
    del batches
    wide = copies(requests * tokens * KV_HEADS * HEAD_SIZE * 4)
    fp16 = _timed(lambda: [peers.fp16(requests, tokens, positions, *shape[2:]) for _ in range(wide)], device)
    number = min(number, 8)
    upstream = _timed(lambda: [_upstream(peers.Upstream(preset, *shape), positions) for _ in range(number)], device)
    soa = _timed(lambda: [peers.UpstreamSoa(preset, *shape).attend(positions) for _ in range(number)], device)
    best = min((each for each in (upstream, soa) if each), default=None)
    operation = "decode" if positions == 1 else f"verify N={positions}"
    return Row(operation, preset.name, requests, tokens, ours, fp16, upstream, best)


def _ours(each: Batch) -> Call:
    out = torch.empty_like(each.query)
    return lambda: attention.attend(
        each.query, each.cache, each.block_table, each.seq_lens, each.query_start, each.longest_query, out=out
    )


def _upstream(each: peers.Upstream, positions: int) -> Call:
    return each.decode() if positions == 1 else each.verify(positions)


def _timed(calls: Callable[[], list[Call]], device: torch.device) -> float | None:
    """None where the peer is not there or does not run on this device; why is said."""
    try:
        return microseconds(calls(), device)
    except Exception as error:  # noqa: BLE001 - a peer's failure is none of ours
        print(f"  (a peer did not run: {type(error).__name__}: {str(error)[:120]})", file=sys.stderr)
        return None


def _store(preset: Preset, device: torch.device) -> Row:
    slots = torch.arange(STORED, device=device)

    def tokens() -> torch.Tensor:
        return torch.randn(STORED, KV_HEADS, HEAD_SIZE, device=device, dtype=torch.float16)

    def new() -> Call:
        key, value = tokens(), tokens()
        cache = empty_cache(STORED // 16, preset, HEAD_SIZE, KV_HEADS, 16, device=device)
        return lambda: store.store(key, value, cache, slots)

    ours = microseconds([new() for _ in range(6)], device)
    shape = (1, STORED, HEADS, KV_HEADS, HEAD_SIZE, device)
    upstream = _timed(lambda: [peers.Upstream(preset, *shape).store(tokens(), tokens()) for _ in range(6)], device)
    return Row("store", preset.name, 1, STORED, ours, None, upstream, upstream)


def main(words: Sequence[str]) -> int:
    """The table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m b70_kernels.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", type=arguments.device, default=arguments.a_device())
    parser.add_argument("--presets", type=arguments.presets, default=",".join(PRESETS))
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args(words)
    try:
        table = tuning.in_use(said.device)
    except ValueError as error:
        parser.error(str(error))
    if not said.json:
        print(HEADING, flush=True)
    rows: list[Row] = []
    for name in said.presets:
        for row in measure(PRESETS[name], said.device):
            rows.append(row)
            if not said.json:
                print(row.line(), flush=True)
    if said.json:
        told = {"device": str(said.device), "torch": torch.__version__, "table": table}
        print(json.dumps({**told, "rows": [asdict(row) for row in rows]}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
