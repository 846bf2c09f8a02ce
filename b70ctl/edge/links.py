"""Links on the way to a file, as a container sees them: there a mounted folder has another place than here."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from pathlib import Path

from b70ctl.core.deployment import Mount

MOST_LINKS = 40
"""As many as the kernel follows before it speaks of a loop."""


def lost(file: Path, mounts: Iterable[Mount]) -> Path | None:
    """The first link to `file` that leads nowhere inside the container; None where the container sees the file.

    An absolute link means the same path in there, and one that climbs out of its mount another one: both are lost
    unless something is mounted where they lead. The file is seen through the deepest mount that holds it. What may not
    be looked at is not called lost.
    """
    try:
        return _lost(file, mounts)
    except OSError:
        return None


def _lost(file: Path, mounts: Iterable[Mount]) -> Path | None:
    everywhere = list(mounts)
    holding = [each for each in everywhere if file.is_relative_to(each.source)]
    mount = max(holding, key=lambda each: len(Path(each.source).parts), default=None)
    if mount is None:
        return None
    here, left = Path(mount.source), list(file.relative_to(mount.source).parts)
    for _ in range(MOST_LINKS + len(left)):
        if not left:
            break
        step = here / left.pop(0)
        if not step.is_symlink():
            here = Path(posixpath.normpath(step))
            continue
        inside = posixpath.join(mount.target, here.relative_to(mount.source), step.readlink())
        aim = posixpath.normpath(inside)
        if not f"{aim}/".startswith(f"{mount.target}/") or step.readlink().is_absolute():
            return None if any(f"{aim}/".startswith(f"{each.target}/") for each in everywhere) else step
        here, left = Path(mount.source), [*Path(posixpath.relpath(aim, mount.target)).parts, *left]
    return None
