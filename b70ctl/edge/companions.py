"""The user's own services beside the engine: included as they are, never rewritten."""

from __future__ import annotations

from pathlib import Path

from b70ctl.core.compose import quoted
from b70ctl.core.site import Site
from b70ctl.edge.files import replace
from b70ctl.errors import UsageError


def companion_files(site: Site, root: Path) -> list[Path]:
    """The companions' own files; UsageError when one is not there."""
    paths = [(root / Path(companion).expanduser()).absolute() for companion in site.companions]
    for path in paths:
        if not path.is_file():
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
