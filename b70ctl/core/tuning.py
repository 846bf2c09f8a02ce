"""A table of tile sizes: what the kernels read of it, and how a new one is joined with the one before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from b70ctl.core.kernels import PACKAGE
from b70ctl.errors import B70Error

KEY = ("preset", "rows", "head_size")
NUMBERS = frozenset({"keys", "warps", "stages", "programs"})
SWITCHES = frozenset({"native_fp8", "paired"})
OPTIONS = "options"
"""What the kernels make of a row's choice; NUMBERS alone must be there."""


def is_table(content: bytes) -> bool:
    """Whether a file is a table that the kernels can read: each row says what it is for, and what was chosen."""
    try:
        found = _table(content.decode("utf-8"))
    except UnicodeDecodeError:
        return False
    return found is not None and all(map(_is_row, found["rows"]))


def merged(before: str | None, after: str) -> str:
    """A new table, with the rows of the one before that it does not measure anew, where both are of one device.

    Rows at which the kernels would stop are not kept: tuning anew is the way out of them.
    """
    new = _table(after)
    if new is None:
        raise B70Error(f"{PACKAGE}.tune wrote no table")
    old = _table(before) if before else None
    if old is None or old.get("device") != new.get("device"):
        return after
    rows = {_key(row): row for row in (*filter(_is_row, old["rows"]), *new["rows"])}
    return json.dumps(new | {"rows": list(rows.values())}, indent=1) + "\n"


def _table(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    rows = found.get("rows") if isinstance(found, Mapping) else None
    return dict(found) if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows) else None


def _is_row(row: Mapping[str, Any]) -> bool:
    choice, preset, *sizes = (row.get(name) for name in ("choice", *KEY))
    return isinstance(preset, str) and all(map(_is_size, sizes)) and isinstance(choice, Mapping) and _is_choice(choice)


def _is_choice(choice: Mapping[str, Any]) -> bool:
    known = NUMBERS | SWITCHES | {OPTIONS}
    return (
        NUMBERS <= choice.keys() <= known
        and all(_is_size(choice[name]) for name in NUMBERS)
        and all(isinstance(choice[name], bool) for name in SWITCHES & choice.keys())
        and isinstance(choice.get(OPTIONS, {}), Mapping)
    )


def _is_size(value: object) -> bool:
    return type(value) is int and value > 0  # a boolean is an integer too, and no size


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in KEY)
