"""The user's own services beside the engine: included as they are, never rewritten."""

from __future__ import annotations

import time
from pathlib import Path

from b70ctl.core.companions import ended_at_once
from b70ctl.core.compose import quoted
from b70ctl.core.plan import Step
from b70ctl.core.site import Site
from b70ctl.edge.files import replace
from b70ctl.edge.places import expanded
from b70ctl.edge.sitefiles import is_file
from b70ctl.edge.world import World
from b70ctl.errors import DaemonError, UsageError

PATIENCE = 2.0
"""Seconds in which a companion that was just started shows that it cannot."""
LOOK = 0.2


def companion_files(site: Site, root: Path) -> list[Path]:
    """The companions' own files; UsageError when one is not there."""
    paths = [(root / expanded(companion)).absolute() for companion in site.companions]
    for path in paths:
        if not is_file(path):
            raise UsageError(f"companion {path} does not exist", hint=f"edit companions in {root / 'site.yaml'}")
    return paths


def companions_project(site: Site) -> str:
    """The Compose project that the site's companions are."""
    return f"{site.name}-companions"


def companions_file(site: Site, root: Path, state: Path) -> Path:
    """The site's own Compose project: nothing but includes and the shared network.

    `include` keeps each file's relative paths and `.env`; handing the files over with `-f` would move both.
    """
    lines = [f"name: {quoted(companions_project(site))}", "include:"]
    lines += [f"  - path: {quoted(str(path))}" for path in companion_files(site, root)]
    lines += ["networks:", "  default:", f"    name: {quoted(site.network)}", "    external: true", ""]
    file = state / "companions.yaml"
    replace(file, "\n".join(lines))
    return file


def start_companions(_: Step, world: World) -> None:
    """Start the companions that do not run yet; DaemonError when one of them ends at once."""
    if not world.site.companions:
        return
    project = companions_project(world.site)
    file = companions_file(world.site, world.root, world.store.folder)
    before = _running(world, project)
    world.daemon.ensure_network(world.site.network, world.site.name)
    world.compose().up_companions(file, project)
    end = time.monotonic() + PATIENCE
    while True:
        if ended := ended_at_once(world.daemon.of_project(project), before):
            raise DaemonError("; ".join(ended))
        if _running(world, project) == before or time.monotonic() > end:
            return
        time.sleep(LOOK)


def _running(world: World, project: str) -> set[str]:
    return {about["Id"] for about in world.daemon.of_project(project) if about["State"]["Status"] == "running"}
