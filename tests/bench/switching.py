"""What a switch costs beyond the engine's own boot, beside plain `docker compose down` and `up --wait`.

Both replace one stand-in by another on the same daemon, in turn. The probes are taken out of the switch's time, since
plain Compose asks nothing; Compose's health check runs every second, which is the best that it can do.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import yaml

from b70ctl.edge.composer import find_composer
from tests.rig import dockerd
from tests.rig.engine_process import free_port
from tests.rig.images import ensure_images
from tests.rig.standin_site import COMMAND, Site, furnish, standin_site

from .sampling import Sample, heading, in_turn, process, tell

BOOT = 2.0
LIMIT = 1.5


@dataclass(slots=True)
class Plain:
    """The same engines as a person would switch them by hand: one Compose file each."""

    compose: str
    site: Site
    folder: Path
    names: Iterator[str]
    running: str | None = None

    def switch(self) -> float:
        """Seconds for `down` of the one and `up --wait` of the other."""
        name = next(self.names)
        began = time.perf_counter()
        if self.running:
            self._run(self.running, "down", "--timeout", "30")
        self._run(name, "up", "--wait", "--detach")
        self.running = name
        return time.perf_counter() - began

    def stop(self) -> None:
        """Leave the port to the other side."""
        if self.running:
            self._run(self.running, "down", "--timeout", "1")
            self.running = None

    def _run(self, name: str, *words: str) -> None:
        file = self.folder / name / "compose.yaml"
        process((self.compose, "--file", file, *words), cwd=file.parent, env=self.site.env)


def main(n: int = 7) -> None:
    """Print both, and what lies between them."""
    with dockerd.running() as daemon:
        ensure_images(daemon.host)
        with standin_site(daemon.host, "bench") as site:
            process((COMMAND, "init", ".", "--name", site.name), cwd=site.folder, env=site.env)
            furnish(site, boot=BOOT)
            found = _compared(site, n)
    heading(f"switching: wall time, a stand-in that boots in {BOOT:.0f} s", "tests.bench.switching")
    for sample in found.values():
        tell(str(sample))
    plain, switch = found["compose down, up --wait"], found["b70ctl switch, probes apart"]
    above = [one - other for one, other in zip(switch.seconds, plain.seconds, strict=True)]
    middle = sorted(above)[len(above) // 2]
    tell(
        f"  above plain Compose: {middle:+.2f} s ({min(above):+.2f} to {max(above):+.2f}, n={len(above)}), "
        f"{switch.median / plain.median:.2f} x; at most {LIMIT:+} s wanted"
    )


def _compared(site: Site, n: int) -> dict[str, Sample]:
    """Each side switches between the same two profiles, on a port of its own, an old engine to replace every time."""
    names = cycle(("demo-a", "demo-b"))
    probes: list[float] = []
    with _plain(site) as plain:
        found = in_turn(
            {"compose down, up --wait": plain.switch, "b70ctl switch": lambda: _timed(site, next(names), probes)}, n
        )
    switch = found["b70ctl switch"]
    asked = tuple(probes[-n:])
    bare = tuple(whole - part for whole, part in zip(switch.seconds, asked, strict=True))
    return {
        **found,
        "of that, probes": Sample("of that, probes", asked),
        "b70ctl switch, probes apart": Sample("b70ctl switch, probes apart", bare),
    }


@contextmanager
def _plain(site: Site) -> Iterator[Plain]:
    """Compose files as rendered for the profiles, with a project, a port and a health check of their own."""
    folder, port = site.folder.parent / "plain", free_port()
    for name in ("demo-a", "demo-b"):
        shutil.copytree(_release(site, name), folder / name)
        _by_hand(folder / name / "compose.yaml", f"{site.name}-plain-{name}", port)
    plain = Plain(find_composer().binary, site, folder, cycle(("demo-a", "demo-b")))
    try:
        yield plain
    finally:
        plain.stop()


def _release(site: Site, name: str) -> Path:
    """A release of the profile, made by serving it once."""
    _switch(site, name)
    return max((site.folder / ".b70ctl" / "releases").glob(f"*-{name}-*"))


def _by_hand(file: Path, project: str, port: int) -> None:
    document = yaml.safe_load(file.read_text())
    document["name"] = project
    engine = document["services"]["engine"]
    engine["ports"] = [f"127.0.0.1:{port}:8000"]
    engine["healthcheck"]["interval"] = "1s"
    engine["labels"] = {}
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def _switch(site: Site, name: str) -> list[dict[str, Any]]:
    """Switch, and give back the events that it told."""
    argv = (COMMAND, "switch", name, "--yes", "--json")
    ran = subprocess.run(argv, cwd=site.folder, env=site.env, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def _timed(site: Site, name: str, probes: list[float]) -> float:
    began = time.perf_counter()
    events = _switch(site, name)
    seconds = time.perf_counter() - began
    done = [event for event in events if event["event"] == "step-done"]
    probes.append(sum(event["seconds"] for event in done if event["step"]["verb"] == "probe"))
    return seconds


if __name__ == "__main__":
    main()
