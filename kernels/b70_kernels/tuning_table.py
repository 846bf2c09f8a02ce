"""A table of tile sizes as a file: what a row may say, and refusals of everything else."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .presets import HEAD_SIZES, PRESETS

Key = tuple[str, int, int]
"""Preset, rows of a tile, head size."""

LARGEST = 1_000_000
"""Bytes of a file that may be a table; one with every row has 6,000."""
ROWS = (16, 32, 64)
KEYS = (16, 32, 64, 128)
WARPS = (1, 2, 4, 8, 16, 32)
STAGES = range(1, 9)
PROGRAMS = range(1, 65537)
GRF_MODES = ("default", "large", "small", "auto")
REGISTERS = range(24, 256)
NUMBERS: dict[str, tuple[int, ...] | range] = {"keys": KEYS, "warps": WARPS, "stages": STAGES, "programs": PROGRAMS}
MARKS = ("native_fp8", "paired")


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

    @property
    def families(self) -> tuple[str, ...]:
        """Whose devices alone it is for; none where any would take it."""
        intel = self.paired or "grf_mode" in self.options
        nvidia = self.native_fp8 or "maxnreg" in self.options
        return (*(["Intel"] if intel else []), *(["NVIDIA"] if nvidia else []))


@dataclass(frozen=True, slots=True)
class Table:
    """What a file says."""

    device: str
    """The name of the device that it was measured on."""
    choices: dict[Key, Choice]


def load(path: Path) -> dict[Key, Choice]:
    """The rows of a table from a file; ValueError when it is none."""
    return read(path).choices


def read(path: Path) -> Table:
    """A table from a file; ValueError with the path, the row and what is wrong with it."""
    try:
        return parse(_text(path))
    except OSError as error:
        raise ValueError(f"{path}: no tuning table: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path}: no tuning table: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{path}: no tuning table: nested too deeply") from error


def parse(text: str) -> Table:
    """A table from its text; ValueError with the row and what is wrong with it."""
    said = json.loads(text)
    if not isinstance(said, dict) or not isinstance(said.get("device"), str) or not isinstance(said.get("rows"), list):
        raise ValueError("it says no `device` and `rows`")
    choices: dict[Key, Choice] = {}
    for number, row in enumerate(said["rows"], 1):
        try:
            key, choice = _row(row)
            if key in choices:
                raise ValueError(f"{key} stands there twice")
        except ValueError as error:
            raise ValueError(f"row {number}: {error}") from error
        choices[key] = choice
    return Table(said["device"], choices)


def dump(device: str, choices: dict[Key, Choice]) -> str:
    """A table as text, for `read`; a line a row."""
    rows = [
        json.dumps({"preset": preset, "rows": rows, "head_size": size, "choice": asdict(choice)})
        for (preset, rows, size), choice in sorted(choices.items())
    ]
    return f'{{"device": {json.dumps(device)}, "rows": [\n' + ",\n".join(rows) + "\n]}\n"


class Unwritten(Exception):
    """A file that could not be written, and why."""


def write(path: Path, text: str) -> None:
    """Put a text in the place of a file, whole or not at all; Unwritten when it cannot be, and nothing is left."""
    place = path.resolve()
    try:
        handle, part = tempfile.mkstemp(prefix=f"{place.name}.", suffix=".part", dir=place.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(part).chmod(0o644)
            Path(part).replace(place)
        finally:
            Path(part).unlink(missing_ok=True)
    except OSError as error:
        raise Unwritten(f"{path} cannot be written: {error.strerror}") from error


def _text(path: Path) -> str:
    with path.open("rb") as file:
        found = file.read(LARGEST + 1)
    if len(found) > LARGEST:
        raise ValueError(f"more than {LARGEST} bytes")
    return found.decode()


def _row(row: Any) -> tuple[Key, Choice]:
    _names(row, {"preset", "rows", "head_size", "choice"})
    preset = row["preset"]
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ValueError(f"preset {preset!r} is none of {', '.join(PRESETS)}")
    key = (preset, _number("rows", row["rows"], ROWS), _number("head_size", row["head_size"], HEAD_SIZES))
    try:
        return key, _choice(row["choice"])
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _choice(said: Any) -> Choice:
    _names(said, set(NUMBERS), {*MARKS, "options"})
    numbers = {name: _number(name, said[name], allowed) for name, allowed in NUMBERS.items()}
    marks = {name: said.get(name, False) for name in MARKS}
    if odd := [name for name, mark in marks.items() if not isinstance(mark, bool)]:
        raise ValueError(f"{odd[0]} {marks[odd[0]]!r} is neither true nor false")
    choice = Choice(
        numbers["keys"], numbers["warps"], numbers["stages"], numbers["programs"], marks["native_fp8"],
        marks["paired"], _options(said.get("options", {})),
    )  # fmt: skip
    if len(choice.families) > 1:
        raise ValueError("it is for Intel's compiler and for NVIDIA's at once")
    return choice


def _options(said: Any) -> dict[str, Any]:
    """Of the device's compiler: one of Intel's or one of NVIDIA's."""
    if not isinstance(said, dict) or said.keys() - {"grf_mode", "maxnreg"}:
        raise ValueError(f"options {said!r:.100}: there are grf_mode and maxnreg")
    if "grf_mode" in said and (not isinstance(said["grf_mode"], str) or said["grf_mode"] not in GRF_MODES):
        raise ValueError(f"grf_mode {said['grf_mode']!r:.100} is none of {', '.join(GRF_MODES)}")
    if "maxnreg" in said:
        _number("maxnreg", said["maxnreg"], REGISTERS)
    return said


def _number(name: str, said: Any, allowed: tuple[int, ...] | range) -> int:
    # a bool is an int to Python, and none here
    if type(said) is not int or said not in allowed:
        among = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else ", ".join(map(str, allowed))
        raise ValueError(f"{name} {said!r:.100} is none of {among}")
    return said


def _names(said: Any, needed: set[str], more: set[str] | None = None) -> None:
    if not isinstance(said, dict):
        raise ValueError(f"{said!r:.100} has no names")
    if missing := sorted(needed - said.keys()):
        raise ValueError(f"it says no {missing[0]}")
    if odd := sorted(said.keys() - needed - (more or set())):
        raise ValueError(f"it says {odd[0]!r:.100}, which means nothing")
