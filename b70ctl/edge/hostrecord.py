"""A host on paper: what was read of one, written to a directory and read back equal."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from b70ctl.core.hostfacts import Asked, Entry, HostFacts, Kind
from b70ctl.errors import UsageError

MOST_BYTES = 16 * 2**20
INDEX, FILES, ASKED = "index.tsv", "files", "asked.json"
HEAD = ("kind", "mode", "uid", "gid", "target", "path")
KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}


def record(facts: HostFacts, folder: Path) -> None:
    """Write what was read: an index of modes, owners and link targets, and the texts in files of their own.

    Raises UsageError where `folder` holds something already.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty", hint=f"choose another directory, or: rm -r {folder}")
    rows = io.StringIO()
    table = csv.writer(rows, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    table.writerow(HEAD)
    try:
        for path, entry in sorted(facts.entries.items()):
            table.writerow((entry.kind, f"{entry.mode:04o}", entry.uid, entry.gid, entry.target, path))
            if entry.kind == "file":
                _write(folder / FILES / path.lstrip("/"), entry.text)
        _write(folder / INDEX, rows.getvalue())
        _write(folder / ASKED, facts.asked.model_dump_json(indent=1, exclude_defaults=True) + "\n")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def read_record(folder: Path) -> HostFacts:
    """A host that was recorded; UsageError where `folder` holds no record, or one that cannot be read."""
    try:
        with (folder / INDEX).open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t"))
        entries = {row[-1]: _recorded(folder, row) for row in rows[1:]}
        asked = Asked.model_validate_json((folder / ASKED).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{folder} holds no record of a host: {error.filename} is missing",
                         hint=f"b70ctl doctor --record {folder}") from None  # fmt: skip
    except (OSError, ValueError, IndexError, ValidationError) as error:
        raise UsageError(f"the record in {folder} cannot be read: {str(error).splitlines()[0]}") from None
    return HostFacts(entries, asked)


def _recorded(folder: Path, row: Sequence[str]) -> Entry:
    kind, mode, uid, gid, target, path = row
    if not path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} is not a path of a host")
    if kind not in KINDS:
        raise ValueError(f"{path} is said to be a {kind!r}")
    text = ""
    if kind == "file":
        with (folder / FILES / path.lstrip("/")).open(encoding="utf-8", newline="") as file:
            text = file.read(MOST_BYTES)
    return Entry(KINDS[kind], int(mode, 8), int(uid), int(gid), target, text)
