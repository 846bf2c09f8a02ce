"""A draft's files on this host: in a directory of its own, or in a cache of hub models, whose files are links."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from b70ctl.core import serving
from b70ctl.core.deployment import Deployment, Mount, Order
from b70ctl.core.draft import Reach, described, overridden
from b70ctl.edge.carrying import refuse_uncarried
from b70ctl.edge.files import read_bytes
from b70ctl.edge.links import lost
from b70ctl.edge.secretfiles import Inode
from b70ctl.errors import B70Error, Refused, to_type

MOST = 4 * 1024 * 1024
"""Bytes of a config.json that is still one."""


def commit(repository: Path, revision: str | None) -> str | None:
    """What a revision stands for in a repository's folder, found as the hub's own library does; None for nothing."""
    name = revision or "main"
    try:
        found = read_bytes(repository / "refs" / name, 256).decode().strip()
    except (OSError, ValueError):
        found = name
    if found in ("", ".", "..") or "/" in found:
        return None
    try:
        return found if (repository / "snapshots" / found).is_dir() else None
    except OSError:
        return None


def reach(file: Path) -> Reach:
    """How far a draft reaches; nothing is known of one whose config cannot be read."""
    try:
        return described(config(file))
    except Refused:
        return Reach()


def config(file: Path, hidden: Mapping[Inode, str] = {}) -> dict[str, Any]:
    """A draft's config.json; Refused, with what is wrong with it, for one that is none, or is `hidden`."""
    try:
        refuse_uncarried(file, hidden)
        content = read_bytes(file, MOST + 1)
        if len(content) > MOST:
            raise ValueError(f"it has more than {MOST:,} bytes, and none of a model's configs has")
        found = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise Refused(f"the draft's {file} cannot be read: {why}", hint=to_type("ls", "-lL", file)) from error
    if not isinstance(found, dict):
        raise Refused(f"the draft's {file} is not a JSON object", hint=to_type("head", "-c", 200, file))
    return found


def changed(order: Order, mounts: Iterable[Mount], hidden: Mapping[Inode, str] = {}) -> bytes:
    """The config with its overrides; Refused for one that the container would not find where it looks for it."""
    made = overridden(config(Path(order.source), hidden), order.overrides)
    refuse_lost(order, tuple(mounts))
    return json.dumps(made, indent=2).encode()


def in_the_way(
    deployment: Deployment, missing: Collection[str], hidden: Mapping[Inode, str] = {}
) -> list[B70Error]:  # fmt: skip
    """What keeps a release from carrying a draft's changed config.

    What is `missing`, or lost on the way to what must lie on this host, is told with that and not again.
    """
    found: list[B70Error] = []
    for order in deployment.files:
        if order.kind == "draft-config" and order.source not in missing:
            try:
                overridden(config(Path(order.source), hidden), order.overrides)
                if order.source not in deployment.requires:
                    refuse_lost(order, deployment.mounts)
            except Refused as error:
                found.append(error)
    return found


def refuse_lost(order: Order, mounts: Collection[Mount]) -> None:
    """Raise for a draft's config that the container would not find where it looks for it."""
    file = Path(order.source)
    if link := lost(file, mounts):
        # a draft of one's own lies below the site's models, wherever it was before
        models = next((mount.source for mount in mounts if mount.target == serving.MODELS), None)
        name = f"{Path(order.name).name}-copied"
        copied = to_type("cp", "-rL", file.parent, f"{models or 'MODELS'}/{name}")
        setting = "" if models else "; in site.yaml: models: MODELS"
        raise Refused(
            f"the draft's {link} is a link to {link.readlink()}, which the container does not have: the engine would "
            "not find the draft",
            hint=f"{copied}{setting}; then in the profile, with the same overrides: draft: {{path: {name}}}",
        )
