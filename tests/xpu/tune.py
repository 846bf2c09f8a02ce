"""Chooses tile sizes for Intel cards without one, and writes them to the table that the kernels ship.

    python -m tests.xpu.tune [--presets k8v4] [--head-sizes 128]

A candidate is compiled for the card and disassembled. Of those that spill nothing the one wins whose instructions take
the shortest to issue, unless one that spills a little, an eighth of its registers at most, needs a third less. It is a
guide: `python -m b70_kernels.tune` measures.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from b70_kernels import tuning, tuning_table
from b70_kernels.presets import HEAD_SIZES, PRESETS

from . import compiling, issue
from .card import DEVICE
from .disassembler import Listing, disassemble
from .driver import Recorder

FOLDER = Path(sys.prefix).parent
CANDIDATES = {
    16: ((32, 2), (32, 4), (16, 2), (16, 4), (16, 8)),
    32: ((32, 4), (32, 8), (16, 4), (16, 8)),
    64: ((32, 8), (32, 16), (16, 8), (16, 16)),
}
"""Of every tile of rows: tokens of a tile, and warps. More tokens or fewer warps spilled for every preset."""
DEAR = 1.5
"""How many times as long as the shortest a candidate without spills may take to issue."""
A_LITTLE = 2048
"""Bytes spilled that are let pass where nothing better is; a thread has 16,384. What is spilled waits for memory, which
no count of instructions shows."""
THREADS = 1024
"""Hardware threads of the card with 256 registers each."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate and what became of it."""

    choice: tuning_table.Choice
    listing: Listing

    @property
    def microseconds(self) -> float:
        """To issue its loop for 4 requests of 8192 tokens."""
        return issue.microseconds(issue.Work(), self.choice.keys, self.choice.warps, self.listing.loop)


def choice(keys: int, warps: int) -> tuning_table.Choice:
    """With programs enough to fill the card about twice."""
    programs = min(512, max(128, 2 * THREADS // warps))
    return tuning_table.Choice(keys, warps, 1, programs, paired=True, options={"grf_mode": "large"})


def judged(key: tuning_table.Key, candidate: tuning_table.Choice) -> Judged:
    """Compile and disassemble a candidate for one row of the table."""
    preset, rows, head_size = key
    config = tuning.launching(candidate, rows, 8)
    module = compiling.attending(Recorder(), compiling.Shape(preset, head_size), config)["attend_splits"]
    return Judged(candidate, disassemble(FOLDER / "ocloc", module.name, module.spirv, module.flags, DEVICE))


def best(key: tuning_table.Key) -> Judged:
    """The candidate to ship."""
    every = sorted((judged(key, choice(*each)) for each in CANDIDATES[key[1]]), key=lambda each: each.microseconds)
    every = [each for each in every if each.listing.spilled_bytes <= A_LITTLE] or every
    clean = next((each for each in every if not each.listing.spilled_bytes), every[0])
    return clean if clean.microseconds <= DEAR * every[0].microseconds else every[0]


def line(found: Judged) -> str:
    """What a person compares."""
    listing = found.listing
    return (f"{found.choice.keys} tokens, {found.choice.warps} warps: {listing.spilled_bytes} bytes spilled, "
            f"{listing.loop} instructions a tile, {listing.matrix_instructions} of them matrix, "
            f"{found.microseconds:.0f} us to issue")  # fmt: skip


def main(arguments: list[str]) -> int:
    """Choose, tell, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.xpu.tune", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--head-sizes", default=",".join(map(str, HEAD_SIZES)))
    given = parser.parse_args(arguments)
    sizes = [int(each) for each in given.head_sizes.split(",")]
    keys = list(itertools.product(given.presets.split(","), CANDIDATES, sizes))
    path = tuning.TABLES / "intel.json"
    table = tuning_table.load(path) if path.exists() else {}
    with ProcessPoolExecutor(2) as pool:
        for key, found in zip(keys, pool.map(best, keys), strict=True):
            table[key] = found.choice
            sys.stdout.write(f"{key[0]:8} head {key[2]:3} rows {key[1]}: {line(found)}\n")
            sys.stdout.flush()
    path.write_text(tuning_table.dump(f"{DEVICE}, compiled only", table))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
