"""The kernels' package as a release carries it to vLLM: what of it lies on this host."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from b70ctl.core.deployment import Order
from b70ctl.core.kernels import PACKAGE, TABLE
from b70ctl.core.plugin import Kernels, device_of, is_ours, label, read_kernels, refuse_bad_table
from b70ctl.edge.carrying import read_carried
from b70ctl.edge.kernels import carried, digest_of, find
from b70ctl.edge.secretfiles import Inode
from b70ctl.errors import Refused, to_type


def described(root: Path | None, hidden: Mapping[Inode, str] = {}) -> Kernels:
    """The package that a release of this site would carry, and the site's tile sizes.

    Refused when vLLM, or it, could not load them, and when a secret is among them.
    """
    package, origin = find(root)
    files = carried(package, hidden)
    found = read_kernels(str(package), origin, files, digest_of(files))
    table = site_table(root, hidden)
    return replace(found, table=table, tuned_on=device_of(_table(Path(table), hidden)) if table else None)


def in_release(folder: Path) -> Kernels:
    """The package that a release carries; Refused when it is not what was written there."""
    package = folder / "files" / "plugin" / PACKAGE
    files = carried(package)
    return read_kernels(str(package), "release's", files, digest_of(files))


def site_table(root: Path | None, hidden: Mapping[Inode, str] = {}) -> str | None:
    """Where a site's own table of tile sizes is; None where it has none. Refused where the kernels would stop at it."""
    table = root / TABLE if root else None
    if table is None or (content := _table(table, hidden)) is None:
        return None
    refuse_bad_table(str(table), content)
    return str(table)


def _table(path: Path, hidden: Mapping[Inode, str]) -> bytes | None:
    """A site's table of tile sizes; None where it has none. Refused where it cannot be read."""
    try:
        return read_carried(path, hidden)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not path.is_symlink():
            return None
        raise Refused(f"{path}, which `kernels: b70` would carry to the engine, cannot be read: {error.strerror}; "
                      "without it the shipped tile sizes are used",
                      hint=to_type("ls", "-l", path)) from error  # fmt: skip


def table_text(path: Path) -> str | None:
    """A table's text, to be joined with a new one; None where there is none that could be."""
    try:
        return read_carried(path, {}).decode("utf-8")
    except (OSError, ValueError):
        return None


def holds(folder: Path) -> bool:
    """Whether a folder has a package of this name, or says that one is installed; one that is not there has none."""
    try:
        return any(is_ours(each.name) for each in folder.iterdir())
    except (OSError, ValueError):
        return False


def is_archive(place: Path) -> bool:
    """Whether a place on Python's path is a file, or lies inside one: Python reads packages out of those too."""
    try:
        return not stat.S_ISDIR(place.stat().st_mode)
    except NotADirectoryError:
        return True
    except (OSError, ValueError):
        return False


def contents(order: Order, told: str | None, hidden: Mapping[Inode, str] = {}) -> dict[str, bytes]:
    """Everything that the release holds of the plugin; Refused when it is not what the deployment says (`told`)."""
    files = carried(Path(order.source), hidden)
    if told and told not in (order.name, label(order.name, digest_of(files))):
        raise Refused(f"the kernels in {order.source} changed while the release was made",
                      hint="run the command again")  # fmt: skip
    texts = {name: text.encode() for name, text in order.texts.items()}
    inside = {f"{PACKAGE}/{name}": content for name, content in files.items()}
    return {f"{order.to}/{name}": content for name, content in (inside | texts).items()}
