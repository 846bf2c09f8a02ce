"""A table of tile sizes: what the kernels read of it, and how a new one is joined with the one before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from b70ctl.core.kernels import PACKAGE
from b70ctl.errors import B70Error

KEY = ("preset", "rows", "head_size")
LARGEST = 1_000_000
"""Bytes of a file that the kernels read as a table."""
PRESETS = ("k8v4", "4bit_nc", "k3v4_nc", "3bit_nc")
ROWS = (16, 32, 64)
HEAD_SIZES = (64, 128, 256)
KEYS = (16, 32, 64, 128)
WARPS = (1, 2, 4, 8, 16, 32)
STAGES = range(1, 9)
PROGRAMS = range(1, 65_537)
GRF_MODES = ("default", "large", "small", "auto")
REGISTERS = range(24, 256)
NUMBERS: Mapping[str, Sequence[int]] = {"keys": KEYS, "warps": WARPS, "stages": STAGES, "programs": PROGRAMS}
"""What a row's choice must have, and which numbers a GPU takes there."""
SWITCHES = frozenset({"native_fp8", "paired"})
OPTIONS = "options"
"""What the kernels make of a row's choice; NUMBERS alone must be there."""
OPTION_VALUES: Mapping[str, Sequence[Any]] = {"grf_mode": GRF_MODES, "maxnreg": REGISTERS}
"""The options that a table may give to the device's compiler."""


def fault(content: bytes) -> str | None:
    """What is wrong with a table: at what the kernels, or the compiler behind them, would stop; None for a good one."""
    try:
        found = _table(content.decode("utf-8"))
    except UnicodeDecodeError:
        found = None
    if found is None or len(content) > LARGEST:
        return f"it is not a JSON object of {LARGEST:,} bytes at most with `rows`, each of them an object"
    if not isinstance(found.get("device"), str):
        return "it does not say its `device`"
    told = ((number, _row_fault(row)) for number, row in enumerate(found["rows"], 1))
    return next((f"row {number}: {why}" for number, why in told if why), None) or _twice(found["rows"])


def _twice(rows: Sequence[Mapping[str, Any]]) -> str | None:
    keys = [_key(row) for row in rows]
    again = next((number for number, key in enumerate(keys) if key in keys[:number]), None)
    return None if again is None else f"row {again + 1}: it is of {', '.join(keys[again])}, as a row before it is"


def has_rows(text: str | None) -> bool:
    """Whether a program measured anything before it ended."""
    found = _table(text) if text else None
    return bool(found and found["rows"])


def merged(before: str | None, after: str) -> str:
    """A new table, with the rows of the one before that it does not measure anew, where both are of one device.

    Rows at which the kernels would stop are not kept: tuning anew is the way out of them. B70Error for a new table that
    no release could carry.
    """
    new = _table(after)
    if new is None or (why := fault(after.encode())):
        raise B70Error(f"{PACKAGE}.tune wrote no table" + (f": {why}" if new else ""))
    old = _table(before) if before else None
    if old is None or old.get("device") != new.get("device"):
        return after
    rows = {_key(row): row for row in (*(row for row in old["rows"] if not _row_fault(row)), *new["rows"])}
    return json.dumps(new | {"rows": list(rows.values())}, indent=1) + "\n"


def _table(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    rows = found.get("rows") if isinstance(found, Mapping) else None
    return dict(found) if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows) else None


def _row_fault(row: Mapping[str, Any]) -> str | None:
    choice = row.get("choice")
    if unknown := row.keys() - {*KEY, "choice"}:
        return f"there is no `{min(unknown)}` in a row"
    if not isinstance(choice, Mapping):
        return f"`choice` is {_shown(choice)}; an object"
    places = zip(KEY, (PRESETS, ROWS, HEAD_SIZES), strict=True)
    found = (_value_fault(name, row.get(name), known) for name, known in places)
    return next(filter(None, found), None) or _choice_fault(choice)


def _choice_fault(choice: Mapping[str, Any]) -> str | None:
    if unknown := choice.keys() - NUMBERS.keys() - SWITCHES - {OPTIONS}:
        return f"there is no `{min(unknown)}` in a choice"
    for name, known in NUMBERS.items():
        if why := _value_fault(name, choice.get(name), known):
            return why
    for name in sorted(SWITCHES & choice.keys()):
        if not isinstance(choice[name], bool):
            return f"`{name}` is {_shown(choice[name])}; true or false"
    options = choice.get(OPTIONS, {})
    return _options_fault(options) or _family_fault(choice, options)


def _family_fault(choice: Mapping[str, Any], options: Mapping[str, Any]) -> str | None:
    """What the kernels take for Intel's devices they do not take for NVIDIA's as well."""
    intel, nvidia = (choice.get("paired"), "grf_mode" in options), (choice.get("native_fp8"), "maxnreg" in options)
    if any(intel) and any(nvidia):
        return "`paired` and `grf_mode` are for Intel's devices, `native_fp8` and `maxnreg` for NVIDIA's: not both"
    return None


def _options_fault(options: object) -> str | None:
    if not isinstance(options, Mapping):
        return f"`{OPTIONS}` is {_shown(options)}; an object"
    for name, value in options.items():
        if name not in OPTION_VALUES:
            return f"there is no option `{name}`; there are {', '.join(OPTION_VALUES)}"
        if why := _value_fault(name, value, OPTION_VALUES[name]):
            return why
    return None


def _value_fault(name: str, value: object, known: Sequence[Any]) -> str | None:
    """A boolean is an integer too, and 4.0 equals 4: only a value of the very type is one of those."""
    if type(value) is type(known[0]) and value in known:
        return None
    meant = f"from {known[0]} to {known[-1]}" if isinstance(known, range) else f"one of {', '.join(map(str, known))}"
    return f"`{name}` is {_shown(value)}; {meant}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in KEY)
