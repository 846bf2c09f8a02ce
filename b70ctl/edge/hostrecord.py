"""A host on paper: what was read of one, written to a directory and read back equal."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from b70ctl.core.hostfacts import Asked, Entry, HostFacts, Kind
from b70ctl.edge.files import read_bytes
from b70ctl.errors import UsageError, to_type

MOST_BYTES = 128 * 2**20
"""More than the longest log that is read of a host."""
INDEX, FILES, ASKED = "index.tsv", "files", "asked.json"
HEAD = ("kind", "mode", "uid", "gid", "target", "path")
KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}


def record(facts: HostFacts, folder: Path) -> None:
    """Write what was read: an index of modes, owners and link targets, and the texts in files of their own.

    Raises UsageError where `folder` holds something already.
    """
    if not _empty(folder):
        raise UsageError(f"{folder} is not an empty directory, and a record is written into one of its own",
                         hint=to_type("b70ctl", "doctor", "--record", _unused(folder)))  # fmt: skip
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


def _empty(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is None
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None


def _unused(folder: Path) -> Path:
    """A name beside it that nothing has."""
    names = (folder.parent / f"{folder.name or 'box'}-{number}" for number in range(2, 1000))
    return next(path for path in names if not path.exists())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def read_record(folder: Path) -> HostFacts:
    """A host that was recorded; UsageError where `folder` holds no record, or one that cannot be read."""
    try:
        rows = list(csv.reader(io.StringIO(_read(folder, INDEX), newline=""), delimiter="\t"))
        entries = {row[-1]: _recorded(folder, row) for row in rows[1:]}
        asked = Asked.model_validate_json(_read(folder, ASKED))
    except FileNotFoundError as error:
        raise UsageError(f"{folder} holds no record of a host: {error.filename} is missing",
                         hint="a record is what `b70ctl doctor --record DIR` wrote on the other box; copy it here whole"
                         ) from None  # fmt: skip
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        raise UsageError(f"the record in {folder} cannot be read: {why}") from None
    except (ValueError, IndexError, csv.Error, ValidationError) as error:
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
        text = _read(folder, f"{FILES}/{path.lstrip('/')}")
    return Entry(KINDS[kind], int(mode, 8), int(uid), int(gid), target, text)


def _read(folder: Path, name: str) -> str:
    """A file of a record, which is what somebody else sent: no link leads out of it, and it has an end."""
    path = folder / name
    if os.path.commonpath([os.path.realpath(path), os.path.realpath(folder)]) != os.path.realpath(folder):
        raise ValueError(f"{path} leads out of the record")
    raw = read_bytes(path, MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ValueError(f"{path} has more than {MOST_BYTES >> 20} MiB")
    return raw.decode("utf-8")
