"""Measures which tile sizes are fastest on this device, and writes them down as a table.

    python -m b70_kernels.tune --out tuning.json [--device xpu] [--head-sizes 128] [--workers 1]

Rows that the file has already and that are not measured stay. The kernels read such a table where the environment
variable B70_KERNELS_TUNING names it. Every candidate is compared with the float64 reference before it is timed: one
that is wrong here, by a fault of this device's compiler, is named and left out.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from . import attention, reference, tuning
from .presets import HEAD_SIZES, PRESETS
from .timing import copies, microseconds
from .workload import Batch, batch

GROUP, KV_HEADS = 8, 4
POSITIONS = {16: 1, 32: 4, 64: 8}
"""Query positions that make a tile of so many rows."""
REQUESTS, TOKENS = 4, 8192
PROGRAMS = (128, 256, 512)
BAR = 3e-4
"""Largest relative error of a row that is let pass."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to compile the kernel for one row of the table."""

    preset: str
    rows: int
    head_size: int
    keys: int
    warps: int
    stages: int
    registers: int = 0
    """How many a thread may have, so that more programs share a multiprocessor; 0: as many as the compiler takes."""

    @property
    def key(self) -> tuning.Key:
        """The row of the table."""
        return self.preset, self.rows, self.head_size

    def config(self, kind: str, splits: int) -> tuning.Config:
        """For a launch on this kind of device."""
        options = {"grf_mode": "large"} if kind == "xpu" else {"maxnreg": self.registers} if self.registers else {}
        native = kind == "cuda" and self.preset == "k8v4"
        return tuning.Config(self.rows, self.keys, self.warps, self.stages, splits, native, kind == "xpu", options)


def candidates(presets: list[str], head_sizes: list[int], kind: str) -> Iterator[Candidate]:
    """All that are worth trying; more tokens a tile than these do not fit in registers."""
    for preset, rows, size in itertools.product(presets, POSITIONS, head_sizes):
        if kind == "xpu":
            for keys, warps, stages in itertools.product((16, 32), (2, 4, 8, 16), (1, 2)):
                if rows // 8 <= warps * 2 <= rows // 2:
                    yield Candidate(preset, rows, size, keys, warps, stages)
            continue
        # heads of 256 take fewer tokens a tile
        for keys, warps, stages in itertools.product((32, 64) if size == 256 else (64, 128), (2, 4, 8), (1, 2, 3)):
            large = stages == 3 and keys * size > 64 * 128
            thin = (warps == 2 and rows > 16) or (warps == 8 and keys < 64)
            if not large and not thin:
                yield Candidate(preset, rows, size, keys, warps, stages)
                if rows == 16 and warps == 4 and stages < 3:
                    yield Candidate(preset, rows, size, keys, warps, stages, registers=128)


def passes(job: tuple[Candidate, str]) -> str | None:
    """Compile a candidate and compare a small batch; what is wrong with it, or None."""
    candidate, device = job
    small = _batch(candidate, torch.device(device), [300, 77], 0)
    try:
        found = _attend(candidate, small, splits=3, out=torch.empty_like(small.query, dtype=torch.float32)).double()
    except Exception as error:  # noqa: BLE001 - a candidate that this compiler refuses is left out
        return f"{type(error).__name__}: {str(error)[:100]}"
    wanted = reference.attend(small.query, small.cache, small.block_table, small.seq_lens, small.query_start)
    worst = ((found - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max().item()
    return None if worst <= BAR else f"relative error {worst:.1e}"


def fastest(those: list[Candidate], device: torch.device) -> tuple[tuning.Choice, float]:
    """Of candidates for one row of the table, and its microseconds."""
    first = those[0]
    size = REQUESTS * TOKENS * KV_HEADS * PRESETS[first.preset].slot_bytes(first.head_size)
    batches = [_batch(first, device, [TOKENS] * REQUESTS, seed) for seed in range(min(copies(size), 12))]
    timed: list[tuple[float, Candidate, int]] = []
    for candidate, programs in itertools.product(those, PROGRAMS):
        splits = max(1, programs // (REQUESTS * KV_HEADS))
        rooms = attention.scratch(batches[0].query.shape[0], KV_HEADS * GROUP, splits, first.head_size, device)
        calls = [functools.partial(_attend, candidate, each, splits, room=rooms) for each in batches]
        timed.append((microseconds(calls, device), candidate, programs))
    best, candidate, programs = min(timed, key=lambda each: each[0])
    config = candidate.config(device.type, 1)
    return tuning.Choice(config.keys, config.warps, config.stages, programs, config.native_fp8, config.paired,
                         config.options), best  # fmt: skip


def _batch(candidate: Candidate, device: torch.device, lengths: list[int], seed: int) -> Batch:
    positions = POSITIONS[candidate.rows]
    return batch(
        PRESETS[candidate.preset], lengths, [positions] * len(lengths), heads=KV_HEADS * GROUP, kv_heads=KV_HEADS,
        head_size=candidate.head_size, device=device, seed=seed,
    )  # fmt: skip


def _attend(candidate: Candidate, each: Batch, splits: int, out: torch.Tensor | None = None,
            room: attention.Scratch | None = None) -> torch.Tensor:  # fmt: skip
    config = candidate.config(each.query.device.type, splits)
    return attention.attend(
        each.query, each.cache, each.block_table, each.seq_lens, each.query_start, each.longest_query,
        config=config, out=out, room=room,
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Measure, tell, and write the table whole or not at all."""
    parser = argparse.ArgumentParser(prog="python -m b70_kernels.tune", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "xpu")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--head-sizes", default=",".join(map(str, HEAD_SIZES)))
    parser.add_argument("--workers", type=int, default=1, help="processes that compile and check at the same time")
    given = parser.parse_args(arguments)
    presets, sizes = given.presets.split(","), [int(each) for each in given.head_sizes.split(",")]
    if unknown := [each for each in presets if each not in PRESETS] + [
        each for each in sizes if each not in HEAD_SIZES
    ]:
        parser.error(
            f"no {unknown[0]}; there are {', '.join(PRESETS)} and head sizes {', '.join(map(str, HEAD_SIZES))}"
        )
    device = torch.device(given.device)
    every = list(candidates(presets, sizes, device.type))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.workers, mp_context=context, max_tasks_per_child=24) as pool:
        faults = dict(zip(every, pool.map(passes, [(each, given.device) for each in every]), strict=True))
    for candidate, fault in faults.items():
        if fault:
            print(f"left out: {candidate}: {fault}", file=sys.stderr, flush=True)
    table: dict[tuning.Key, tuning.Choice] = {}
    for key in dict.fromkeys(each.key for each in every):
        good = [each for each in every if each.key == key and not faults[each]]
        if not good:
            print(f"{key}: no candidate is right here", file=sys.stderr)
            return 1
        table[key], best = fastest(good, device)
        print(f"{best:8.1f} us  {key[0]:8} rows {key[1]:2} head {key[2]:3}  {table[key]}", flush=True)
    name = getattr(torch, device.type).get_device_name() if device.type in ("cuda", "xpu") else str(device)
    if given.out.exists():
        table = tuning.load(given.out) | table
    unfinished = given.out.with_name(given.out.name + ".part")
    unfinished.write_text(tuning.dump(name, table))
    unfinished.replace(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
