"""What a systemd unit must know of this machine: where units lie, who owns a site, how this program is called."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

PASSED_ON = (
    "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "B70CTL_COMPOSE",
    "B70CTL_LEASES",
)  # fmt: skip
"""Variables that say where Docker, Compose and the leases are: a unit does not get them from anybody's shell."""


def unit_folder(*, system: bool) -> Path:
    """Where the machine's units lie, or those of the user who asks."""
    if system:
        return Path("/etc/systemd/system")
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "systemd" / "user"


def owner(root: Path) -> str:
    """Who owns a site's directory: whoever else wrote into it would lock its owner out."""
    uid = root.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def own_program() -> tuple[str, ...]:
    """The words that call this b70ctl from anywhere."""
    python = Path(sys.executable)
    script = python.parent / "b70ctl"
    # without -P a directory called b70ctl, where the unit starts, would be taken for the program
    return (str(script),) if os.access(script, os.X_OK) else (str(python), "-P", "-m", "b70ctl")


def passed_on() -> dict[str, str]:
    """Those variables as they are set here."""
    return {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
