"""Which tile sizes a launch of the attention kernel runs with: a table per device family, and an owner's own."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import triton

from .presets import Preset
from .tuning_table import Choice, Key, Table, load, read

TABLE = "B70_KERNELS_TUNING"
"""Environment variable: the path of a table that `python -m b70_kernels.tune` wrote on this device."""

TABLES = Path(__file__).parent / "tables"
"""One a device family. NVIDIA's was measured on an H200 (`make tune-gpu`). Intel's was chosen on no device, by few
spills and the shortest loop (`make tune-xpu`)."""


UNFUSED = {"enable_fp_fusion": False}
"""A multiplication and an addition become one step where a kernel says `tl.fma`, and nowhere else. Left to itself,
NVIDIA's compiler does so in some rows of a tile and not in others: a row of a verify was not the decode to the bit."""


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

    @property
    def compiler_options(self) -> dict[str, Any]:
        """What this Triton is told."""
        return UNFUSED | spoken(self.options, triton.__version__)


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

    @property
    def compiler_options(self) -> dict[str, Any]:
        """What this Triton is told."""
        return UNFUSED | spoken(self.options, triton.__version__)


INTEL = Launch(32, 16, 16, 32, 1024, 2, {"grf_mode": "large"})
"""More does not fit in registers, and at a head size of 256 not in local memory."""

OTHERS = Launch(128, 4, 64, 64, 4096, 1, {"num_stages": 1})
"""Pieces of the matrix are not fetched ahead: two of a head of 256 fill local memory. One warp merges 32 parts of a
head of 128 at a time: a decode in 128 parts took 92.6 us so, and 101.4 with two warps and 8 parts (H200)."""


COUNTED = {"large": "256", "small": "128"}
"""Modes of registers as Intel's backend calls them from Triton 3.6 on, by their number; others it refuses
(intel-xpu-backend-for-triton #5430, Liger-Kernel #1016)."""


def spoken(options: dict[str, Any], version: str) -> dict[str, Any]:
    """A table's options as a version of Triton takes them. Tables say `large` and `small`, whatever the version."""
    major, minor = (int(part) for part in version.split(".")[:2])
    mode = options.get("grf_mode")
    return options | {"grf_mode": COUNTED[mode]} if mode in COUNTED and (major, minor) >= (3, 6) else options


def launch(device: torch.device) -> Launch:
    """For the device's family."""
    return INTEL if device.type == "xpu" else OTHERS


def choose(device: torch.device, preset: Preset, head_size: int, rows: int, units: int, tokens: int) -> Config:
    """For `rows` query rows a KV head, `units` pairs of request and KV head, and contexts of at most `tokens`.

    All three are known on the host and do not change with the lengths, so neither does what is compiled.
    """
    tile = tile_rows(rows)
    choice = _choices(device)[preset.name, tile, head_size]
    blocks = -(-rows // tile)
    splits = max(1, min(choice.programs // max(1, units * blocks), -(-tokens // choice.keys)))
    return launching(choice, tile, splits)


def launching(choice: Choice, rows: int, splits: int) -> Config:
    """What a row of the table, for tiles of so many query rows, makes of a launch."""
    return Config(rows, choice.keys, choice.warps, choice.stages, splits, choice.native_fp8, choice.paired,
                  choice.options)  # fmt: skip


def tile_rows(rows: int) -> int:
    """The smallest tile that holds the rows; 64 at most, more become several blocks."""
    return 16 if rows <= 16 else 32 if rows <= 32 else 64


@functools.cache
def _choices(device: torch.device) -> dict[Key, Choice]:
    """The device family's table, with an owner's own rows over it; NVIDIA's stands in where there is no other."""
    own = _own(device)
    every = load(shipped(device)) | (own[1].choices if own else {})
    if converts_fp8(device):
        return every
    return {key: replace(choice, native_fp8=False) for key, choice in every.items()}


def shipped(device: torch.device) -> Path:
    """The table that comes with the kernels, for the device's family."""
    return TABLES / ("intel.json" if device.type == "xpu" else "nvidia.json")


def in_use(device: torch.device) -> str:
    """The table that launches run with, and the device that it was measured on; ValueError for a broken one."""
    if own := _own(device):
        return f"{own[0]} ({own[1].device})"
    path = shipped(device)
    return f"shipped {path.name} ({read(path).device})"


def _own(device: torch.device) -> tuple[str, Table] | None:
    """An owner's table, where the environment names one."""
    path = os.environ.get(TABLE)
    if not path:
        return None
    try:
        return path, fitting(Path(path), device)
    except ValueError as error:
        raise ValueError(f"{error}; measure one here with: python -m b70_kernels.tune --out NEW.json") from error


@functools.cache
def converts_fp8(device: torch.device) -> bool:
    """Whether the device has an instruction from e4m3 to fp16; Triton's interpreter has one, on the CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 9)
    return device.type == "cpu"


def fitting(path: Path, device: torch.device) -> Table:
    """A table from a file; ValueError when it is none, or of another family of devices."""
    found = read(path)
    ours, others = ("Intel", "NVIDIA") if device.type == "xpu" else ("NVIDIA", "Intel")
    foreign = next((key for key, choice in found.choices.items() if others in choice.families), None)
    if found.device.startswith(others) or foreign:
        row = f", row {foreign}" if foreign else ""
        raise ValueError(
            f"{path}: measured on {found.device}{row}: that is for {others}'s devices, and {device} takes {ours}'s"
        )
    return found
