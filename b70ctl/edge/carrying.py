"""Files of this host that are copied into a release, or decide what one holds: whole, and none without end."""

from __future__ import annotations

import errno
from pathlib import Path

from b70ctl.edge.files import read_bytes

MOST_CARRIED = 64 * 1024 * 1024
"""Bytes of everything that one order, or the kernels, bring into a release."""


def read_carried(path: Path, most: int = MOST_CARRIED) -> bytes:
    """A file's bytes; OSError for what is no file, and for one that has more than `most`, which is not read on."""
    content = read_bytes(path, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than the {MOST_CARRIED:,} bytes that are copied into a release", str(path))
    return content
