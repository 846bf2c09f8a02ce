"""Which tile sizes a launch of the attention kernel runs with: a table per device family, and an owner's own."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from .presets import Preset

TABLE = "B70_KERNELS_TUNING"
"""Environment variable: the path of a table that `python -m b70_kernels.tune` wrote on this device."""

TABLES = Path(__file__).parent / "tables"
"""One a device family. NVIDIA's was measured on an H200 (`make tune-gpu`). Intel's was chosen on no device, by few
spills and the shortest loop (`make tune-xpu`)."""

Key = tuple[str, int, int]
"""Preset, rows of a tile, head size."""


@dataclass(frozen=True, slots=True)
class Config:
    """How one launch is cut up."""

    rows: int
    """Query rows of a tile: 16, 32 or 64; each is a query position and a head of the group."""
    keys: int
    """Tokens of a tile."""
    warps: int
    stages: int
    splits: int
    """Parts that each context is cut into."""
    native_fp8: bool = False
    """Whether the device converts e4m3 itself; else its bits are moved."""
    paired: bool = False
    """Whether the matrix unit wants the values of two tokens side by side."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further options of the device's compiler."""

    @property
    def launch(self) -> Launch:
        """Of the kernels around it."""
        return INTEL if self.paired else OTHERS


@dataclass(frozen=True, slots=True)
class Launch:
    """How the kernels that store, dequantise, rotate and merge are launched."""

    chunk: int
    """How many rows or columns of the Hadamard matrix are multiplied at a time."""
    warps: int
    stored: int
    """Tokens that one program stores."""
    restored: int
    """Tokens that one program dequantises."""
    merged: int
    """Numbers of a context's parts that are merged at a time."""
    merging_warps: int
    options: dict[str, Any] = field(default_factory=dict)


INTEL = Launch(32, 16, 16, 32, 1024, 2, {"grf_mode": "large"})
"""More does not fit in registers, and at a head size of 256 not in local memory."""

OTHERS = Launch(128, 4, 64, 64, 4096, 1, {"num_stages": 1})
"""Pieces of the matrix are not fetched ahead: two of a head of 256 fill local memory. One warp merges 32 parts of a
head of 128 at a time: a decode in 128 parts took 92.6 us so, and 101.4 with two warps and 8 parts (H200)."""


def launch(device: torch.device) -> Launch:
    """For the device's family."""
    return INTEL if device.type == "xpu" else OTHERS


@dataclass(frozen=True, slots=True)
class Choice:
    """A row of a table."""

    keys: int
    warps: int
    stages: int
    programs: int
    """How many programs fill the device: contexts are split until there are about so many."""
    native_fp8: bool = False
    paired: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def choose(device: torch.device, preset: Preset, head_size: int, rows: int, units: int, tokens: int) -> Config:
    """For `rows` query rows a KV head, `units` pairs of request and KV head, and contexts of at most `tokens`.

    All three are known on the host and do not change with the lengths, so neither does what is compiled.
    """
    tile = tile_rows(rows)
    choice = _tables(device.type)[preset.name, tile, head_size]
    blocks = -(-rows // tile)
    splits = max(1, min(choice.programs // max(1, units * blocks), -(-tokens // choice.keys)))
    return Config(tile, choice.keys, choice.warps, choice.stages, splits, choice.native_fp8, choice.paired,
                  choice.options)  # fmt: skip


def tile_rows(rows: int) -> int:
    """The smallest tile that holds the rows; 64 at most, more become several blocks."""
    return 16 if rows <= 16 else 32 if rows <= 32 else 64


@functools.cache
def _tables(kind: str) -> dict[Key, Choice]:
    """The device family's table, with an owner's own rows over it; NVIDIA's stands in where there is no other."""
    shipped = load(TABLES / ("intel.json" if kind == "xpu" else "nvidia.json"))
    path = os.environ.get(TABLE)
    return shipped | (load(Path(path)) if path else {})


def load(path: Path) -> dict[Key, Choice]:
    """A table from a file; ValueError when it is none."""
    try:
        rows = json.loads(path.read_text())["rows"]
        return {(row["preset"], row["rows"], row["head_size"]): Choice(**row["choice"]) for row in rows}
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no tuning table ({error}); write one with: python -m b70_kernels.tune") from error


def dump(device: str, table: dict[Key, Choice]) -> str:
    """A table as text, for `load`; a line a row."""
    rows = [
        json.dumps({"preset": preset, "rows": rows, "head_size": size, "choice": asdict(choice)})
        for (preset, rows, size), choice in sorted(table.items())
    ]
    return f'{{"device": {json.dumps(device)}, "rows": [\n' + ",\n".join(rows) + "\n]}\n"
