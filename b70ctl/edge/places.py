"""Where things are: what is shipped, in a checkout or a wheel, and the site that a command means."""

from __future__ import annotations

import os
from pathlib import Path

from b70ctl.errors import UsageError

SITE_FILE = "site.yaml"
STATE = ".b70ctl"


def shipped(kind: str) -> Path:
    """The directory of shipped `profiles`, `templates` or `patches`."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_share" / kind
    return installed if installed.is_dir() else package.parent / kind


def data(name: str) -> Path:
    """A data file of the package."""
    return Path(__file__).resolve().parent.parent / "data" / name


def site_root(given: Path | None) -> Path | None:
    """The site's directory: as given, else `B70CTL_SITE`, else upwards from here, else the XDG default.

    None when there is no site at all; UsageError when the one that was named is none.
    """
    named = given or (Path(os.environ["B70CTL_SITE"]) if os.environ.get("B70CTL_SITE") else None)
    if named is not None:
        root = named.expanduser().absolute()
        if not (root / SITE_FILE).is_file():
            raise UsageError(f"{root} has no {SITE_FILE}, so it is not a site", hint=f"b70ctl init {root}")
        return root
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current directory does not exist any more", hint="cd, or use --site DIR") from None
    for directory in (here, *here.parents):
        if (directory / SITE_FILE).is_file():
            return directory
    fallback = default_site()
    return fallback if (fallback / SITE_FILE).is_file() else None


def default_site() -> Path:
    """The site of those who have only one."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "b70ctl"


def leases() -> Path:
    """The machine-wide directory in which cards are leased, whoever runs b70ctl."""
    return Path(os.environ.get("B70CTL_LEASES") or "/run/lock/b70ctl")
