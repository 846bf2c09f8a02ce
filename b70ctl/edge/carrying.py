"""Files of this host that are copied into a release, or decide what one holds: whole, none without end, no secrets."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from b70ctl.edge.files import read_bytes
from b70ctl.edge.secretfiles import Inode, refuse_secret, secret_in

MOST_CARRIED = 64 * 1024 * 1024
"""Bytes of everything that one order, or the kernels, bring into a release."""
SYSTEM_FOLDERS = ("/proc/", "/sys/")
SYSTEM_KINDS = frozenset({"proc", "sysfs"})
MOUNTS = Path("/proc/self/mountinfo")


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


def read_carried(path: Path, hidden: Mapping[Inode, str], most: int = MOST_CARRIED) -> bytes:
    """A file's bytes, of one that `refuse_uncarried` lets through.

    OSError too for what is no file, and for one that has more than `most` bytes, which is not read on.
    """
    refuse_uncarried(path, hidden)
    content = read_bytes(path, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than the {MOST_CARRIED:,} bytes that are copied into a release", str(path))
    return content


def refuse_uncarried(path: Path, hidden: Mapping[Inode, str]) -> None:
    """Raise for what no release may hold, whatever it is called here: Refused for the file of a `hidden` secret.

    OSError for what the system tells of itself: the environment of a process, which may hold one, is such a file.
    """
    refuse_secret(path, hidden)
    if where := told_by_the_system(path):
        raise OSError(errno.EINVAL, f"it is {where}, which is no file of a disk but what the system tells of itself",
                      str(path))  # fmt: skip


def uncarried_below(source: Path, hidden: Mapping[Inode, str], left_out: Collection[str] = ()) -> str | None:
    """What is found first, in a file or folder, that `refuse_uncarried` refuses; None where nobody can look."""
    with contextlib.suppress(OSError):
        for path in files_below(source, left_out) if source.is_dir() else [source]:
            if whose := secret_in(path, hidden):
                return f"{whose} by another name, {path}"
            if where := told_by_the_system(path):
                return f"{where}, what the system tells of itself, as {path}"
    return None


def told_by_the_system(path: Path) -> str | None:
    """Where a file really lies that is on no disk but made up as it is read; None for every other."""
    try:
        device = path.stat().st_dev
    except OSError:
        return None
    real = os.path.realpath(path)
    return real if real.startswith(SYSTEM_FOLDERS) or is_the_systems(device) else None


@functools.cache
def is_the_systems(device: int) -> bool:
    """Whether a device is one on which the system tells of itself, wherever it is mounted."""
    if os.major(device):
        return False  # a disk
    try:
        mounts = MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return False
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found = (line.partition(" - ") for line in mounts)
    return any(before.split()[2] == wanted and kind.split()[0] in SYSTEM_KINDS for before, _, kind in found if kind)
