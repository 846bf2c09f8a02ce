"""Files of this host that are copied into a release, or decide what one holds: whole, and none without end."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path

from b70ctl.edge.files import read_bytes

MOST_CARRIED = 64 * 1024 * 1024
"""Bytes of everything that one order, or the kernels, bring into a release."""


def files_below(folder: Path, left_out: Collection[str] = ()) -> list[Path]:
    """Every file below a folder; OSError where one cannot be told, so that none is left out unheard.

    Folders of the names in `left_out` are. A link to a folder is refused: what it leads to may have no end.
    """

    def fail(error: OSError) -> None:
        raise error

    found: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if name not in left_out]
        for path in (Path(place, name) for name in folders):
            if path.is_symlink():
                raise OSError(errno.ELOOP, "it is a link to a folder, and those are not followed", str(path))
        found += [Path(place, name) for name in names if name not in left_out]
    return sorted(found)


def read_carried(path: Path, most: int = MOST_CARRIED) -> bytes:
    """A file's bytes; OSError for what is no file, and for one that has more than `most`, which is not read on."""
    content = read_bytes(path, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than the {MOST_CARRIED:,} bytes that are copied into a release", str(path))
    return content
