"""patches: what they are for, and the bases that an owner took responsibility for."""

from __future__ import annotations

import re

from b70ctl.cli.here import Here
from b70ctl.errors import UsageError


def list_(here: Here) -> None:
    """Every patch, the vLLM versions that it is for, and why it is needed."""
    patches = {name: here.catalog.patch(name) for name in here.catalog.patches()}
    if here.console.json:
        here.console.data({name: patch.model_dump(mode="json") for name, patch in patches.items()})
        return
    rows = [[name, patch.versions, patch.status, patch.summary] for name, patch in patches.items()]
    here.console.rows(["NAME", "VLLM", "WHOSE", "SUMMARY"], rows)


def accept(here: Here, base: str) -> None:
    """Take responsibility for applying a patch to a file that it was not made for."""
    from b70ctl.edge.files import now
    from b70ctl.edge.lock import locked
    from b70ctl.edge.sitelock import read_lock, write_lock

    root = here.site_root
    name, _, digest = base.partition(":")
    here.catalog.patch(name)
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise UsageError(f"`{digest}` is not a sha256 of 64 hex digits", hint="b70ctl images probe IMAGE")
    with locked(here.store.lock_file, f"site {root}", f"patches accept {name}", now()):
        lock = read_lock(root)
        known = lock.patches.get(name, [])
        write_lock(root, lock.model_copy(update={"patches": lock.patches | {name: sorted({*known, digest})}}))
    here.console.say(f"{name} may be applied to a file with sha256 {digest[:12]}… from now on")
