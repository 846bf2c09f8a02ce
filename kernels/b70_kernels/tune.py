"""Measures which tile sizes are fastest on this device, and writes them down as a table.

    python -m b70_kernels.tune --out tuning.json [--device xpu] [--head-sizes 128] [--workers 1]

The whole file is written after every row, so that what ends a run loses one row at most. Rows that the file has already
stay until they are measured, or where no candidate is right; exit status 1 says that some are. The kernels read such a
table where the environment variable B70_KERNELS_TUNING names it. Every candidate is compared with the float64 reference
before it is timed: one that is wrong here, or ends its process, by a fault of this device's compiler, is named and left
out.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from . import arguments, attention, reference, tuning, workers
from .gates import BAR
from .presets import HEAD_SIZES, PRESETS
from .timing import copies, microseconds
from .tuning_table import Choice, Key, Unwritten, dump, write
from .workload import Batch, batch

GROUP, KV_HEADS = 8, 4
POSITIONS = {16: 1, 32: 4, 64: 8}
"""Query positions that make a tile of so many rows."""
BATCHES = (4, 8192), (1, 131072)
"""Requests and the length of each: what is fastest for several contexts may be slow for a long one (97 us where another
tile takes 84, H200)."""
PROGRAMS = (128, 256, 512)
JOBS_EACH = 24
"""Candidates that one process compiles: compilers keep memory."""


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
    def key(self) -> Key:
        """The row of the table."""
        return self.preset, self.rows, self.head_size

    def choice(self, device: torch.device, programs: int) -> Choice:
        """As a row of this device's table says it."""
        intel = device.type == "xpu"
        options = {"grf_mode": "large"} if intel else {"maxnreg": self.registers} if self.registers else {}
        native = self.preset == "k8v4" and tuning.converts_fp8(device)
        return Choice(self.keys, self.warps, self.stages, programs, native, intel, options)


def candidates(presets: Sequence[str], head_sizes: Sequence[int], kind: str) -> Iterator[Candidate]:
    """All that are worth trying; more tokens a tile than these do not fit in registers."""
    for preset, rows, size in itertools.product(presets, POSITIONS, head_sizes):
        if kind == "xpu":
            for keys, warps, stages in itertools.product((16, 32), (2, 4, 8, 16), (1, 2)):
                if rows // 8 <= warps * 2 <= rows:
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
    try:
        small = _batch(candidate, arguments.device(device), [300, 77], 0)
        found = _attend(candidate, small, splits=3, out=torch.empty_like(small.query, dtype=torch.float32)).double()
    except Exception as error:  # noqa: BLE001 - a candidate that this compiler refuses is left out
        return _told(error)
    wanted = reference.attend(small.query, small.cache, small.block_table, small.seq_lens, small.query_start)
    worst = ((found - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max().item()
    return None if worst <= BAR else f"relative error {worst:.1e}"


def right(every: Sequence[Candidate], device: torch.device, processes: int) -> list[Candidate]:
    """Those that compile and compute what they have to; the others are named."""
    good: set[Candidate] = set()
    tried = workers.outcomes(passes, [(each, str(device)) for each in every], processes, JOBS_EACH)
    with contextlib.closing(tried):
        for (candidate, _), fault in tried:
            if fault is None:
                good.add(candidate)
            else:
                _leave_out(candidate, str(fault))
    return [each for each in every if each in good]


def fastest(those: Sequence[Candidate], device: torch.device) -> tuple[Choice, list[float]] | None:
    """Of candidates for one row of the table, and its microseconds for each of BATCHES; None where none can be timed.

    The one with the smallest product: a tenth of either batch counts alike.
    """
    filled = [_filled(those[0], device, *each) for each in BATCHES]
    timed: list[tuple[list[float], Candidate, int]] = []
    for candidate, programs in itertools.product(those, PROGRAMS):
        try:
            timed.append(([_timed(candidate, programs, each) for each in filled], candidate, programs))
        except Exception as error:  # noqa: BLE001 - one that does not run at this size is no candidate
            _leave_out(candidate, f"{programs} programs: {_told(error)}")
    if not timed:
        return None
    best, candidate, programs = min(timed, key=lambda each: math.prod(each[0]))
    return candidate.choice(device, programs), best


def _filled(candidate: Candidate, device: torch.device, requests: int, tokens: int) -> list[Batch]:
    """As many batches as the device's cache does not hold."""
    size = requests * tokens * KV_HEADS * PRESETS[candidate.preset].slot_bytes(candidate.head_size)
    return [_batch(candidate, device, [tokens] * requests, seed) for seed in range(min(copies(size), 12))]


def _timed(candidate: Candidate, programs: int, batches: Sequence[Batch]) -> float:
    query, requests = batches[0].query, batches[0].seq_lens.numel()
    splits = max(1, programs // (requests * KV_HEADS))
    room = attention.scratch(query.shape[0], KV_HEADS * GROUP, splits, candidate.head_size, query.device)
    calls = [functools.partial(_attend, candidate, each, splits, room=room) for each in batches]
    return microseconds(calls, query.device)


def _leave_out(candidate: Candidate, fault: str) -> None:
    print(f"left out: {candidate}: {fault}", file=sys.stderr, flush=True)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:100]}"


def _batch(candidate: Candidate, device: torch.device, lengths: list[int], seed: int) -> Batch:
    positions = POSITIONS[candidate.rows]
    return batch(
        PRESETS[candidate.preset], lengths, [positions] * len(lengths), heads=KV_HEADS * GROUP, kv_heads=KV_HEADS,
        head_size=candidate.head_size, device=device, seed=seed,
    )  # fmt: skip


def _attend(candidate: Candidate, each: Batch, splits: int, out: torch.Tensor | None = None,
            room: attention.Scratch | None = None) -> torch.Tensor:  # fmt: skip
    config = tuning.launching(candidate.choice(each.query.device, PROGRAMS[0]), candidate.rows, splits)
    return attention.attend(
        each.query, each.cache, each.block_table, each.seq_lens, each.query_start, each.longest_query,
        config=config, out=out, room=room,
    )  # fmt: skip


def measured(key: Key, those: Sequence[Candidate], device: torch.device) -> Choice | None:
    """One row, told; None, and why, where nothing can be measured."""
    fault = "no candidate is right here"
    try:
        if those and (found := fastest(those, device)):
            choice, best = found
            took = "".join(f"{each:8.1f}" for each in best)
            print(f"{took} us  {key[0]:8} rows {key[1]:2} head {key[2]:3}  {choice}", flush=True)
            return choice
    except Exception as error:  # noqa: BLE001 - whatever ends a row, the next may be measured
        fault = _told(error)
    print(f"{key}: {fault}; the row stays as it was", file=sys.stderr, flush=True)
    return None


def can_be_written(out: Path, device: torch.device) -> None:
    """Raise ValueError for a file that is no table of this device, or cannot be written."""
    try:
        if out.exists():
            tuning.fitting(out, device)
            if not os.access(out, os.W_OK):
                raise ValueError(f"{out} cannot be written: it is read-only")
        place = out.resolve()
        tempfile.NamedTemporaryFile(dir=place.parent, prefix=f"{place.name}.", suffix=".part").close()
    except OSError as error:
        raise ValueError(f"{out} cannot be written: {error.strerror}") from error


def given(words: Sequence[str]) -> argparse.Namespace:
    """What the command line says; the program ends where that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m b70_kernels.tune", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", type=arguments.device, default=arguments.a_device())
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--presets", type=arguments.presets, default=",".join(PRESETS))
    parser.add_argument("--head-sizes", type=arguments.head_sizes, default=",".join(map(str, HEAD_SIZES)))
    parser.add_argument("--workers", type=arguments.processes, default=1,
                        help="processes that compile and check at the same time")  # fmt: skip
    said = parser.parse_args(words)
    try:
        can_be_written(said.out, said.device)
    except ValueError as error:
        parser.error(f"{error}; --out can name another file")
    return said


def main(words: Sequence[str]) -> int:
    """Measure, tell, and write row by row; 1 where a row is not measured or not written, 130 where interrupted."""
    said = given(words)
    every = list(candidates(said.presets, said.head_sizes, said.device.type))
    keys = list(dict.fromkeys(each.key for each in every))
    device = getattr(torch, said.device.type).get_device_name(said.device) if said.device.type != "cpu" else "cpu"
    mine: dict[Key, Choice] = {}
    written = 0
    try:
        print(f"microseconds for {' and for '.join(f'{many} x {tokens:,} tokens' for many, tokens in BATCHES)}:")
        good = right(every, said.device, said.workers)
        for key in keys:
            if choice := measured(key, [each for each in good if each.key == key], said.device):
                mine[key] = choice
                # what another run has written meanwhile stays
                table = tuning.fitting(said.out, said.device).choices if said.out.exists() else {}
                write(said.out, dump(device, table | mine))
                written += 1
    except KeyboardInterrupt:
        print(f"interrupted: {written} of {len(keys)} rows were written to {said.out}", file=sys.stderr)
        return 130
    except (Unwritten, ValueError) as error:
        print(f"{error}; {written} of {len(keys)} rows were", file=sys.stderr)
        return 1
    return 0 if written == len(keys) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
