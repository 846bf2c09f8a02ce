"""Releases, what became of them, and the one file that says which of them serves."""

from __future__ import annotations

import re
from typing import Any, Literal

from b70ctl.core.deployment import Deployment, Value

UNSAFE = re.compile(r"[^a-z0-9-]+")


class Release(Value):
    """An immutable folder made from a deployment; an adopted one stands for a container made by hand."""

    id: str
    number: int
    kind: Literal["engine", "adopted"] = "engine"
    key: str
    """A word that only this release's containers carry: what lacks it was not made by us."""
    created: str
    command: str
    """The command that made it, for history."""
    deployment: Deployment
    container: str | None = None
    """adopted: the id of the container."""
    policy: str | None = None
    """adopted: the restart policy that it came with."""
    contents: dict[str, str] = {}
    """sha256 of its files when it was written, by their path in it; none is known of one that is older than this."""
    dark: bool = False
    """Made for a window: it never serves clients, and nothing goes back to it."""

    @property
    def profile(self) -> str:
        """The profile that it was made from, or the adopted container's name."""
        return self.deployment.profile


class Verdict(Value):
    """What became of a release when it was last started."""

    state: Literal["proven", "failed", "interrupted"]
    at: str
    op: int
    """The journal's number of the command that came to it."""
    why: str = ""
    findings: tuple[dict[str, Any], ...] = ()
    answers: dict[str, str] = {}
    """Question → greedy answer, for a later release that must agree."""
    boot: dict[str, Any] = {}
    """Facts read off the boot log."""
    seconds: float = 0
    """From start to proven."""


class Drained(Value):
    """Since when a site is drained, and what served before."""

    at: str
    release: str
    lost: int | None = 0
    """How many requests were cut off for it; None where that is not known."""


class State(Value):
    """What the site serves, as its owner left it; Docker says whether that is so."""

    serving: str | None = None
    stopped: bool = False
    """Stopped by its owner, who wants it to stay so."""
    drained: Drained | None = None
    """Taken out of service by `drain`, until `restore`."""
    withdrawn: str | None = None
    """Since when the router was asked to leave this engine out."""
    unsure: bool = False
    """The router has not said that it did."""
    snapshots: dict[str, str] = {}
    """Name → release."""
    next: int = 1


def release_id(number: int, profile: str, digest: str) -> str:
    """A name that sorts by age without asking a clock and may be part of a Compose project's."""
    return f"{number:04}-{UNSAFE.sub('-', profile.lower()).strip('-')[:40]}-{digest[:6]}"


def number_of(release: str) -> int:
    """The number that a release's name begins with; 0 where it has none."""
    found = re.match(r"[0-9]+", release)
    return int(found[0]) if found else 0


class Container(Value):
    """A container that carries our labels."""

    id: str
    name: str
    release: str
    state: str
    """Docker's word: created, running, restarting, exited, dead, …"""
    exit_code: int = 0
    restarts: int = 0
    """How often Docker started it again since a person, or b70ctl, did."""
    policy: str = "no"
    health: str | None = None
    started: str = ""
    foreign: bool = False
    """It has our labels, and we did not make it."""
    root: str = ""
    """The directory of the site that it was made for, as it says itself."""


class Observed(Value):
    """What Docker shows of a site."""

    containers: tuple[Container, ...] = ()

    def of(self, release: str | None) -> Container | None:
        """The release's own container, when there is one."""
        return next((item for item in self.containers if item.release == release and not item.foreign), None)

    def runs(self, release: str | None) -> bool:
        """Whether the release's own container runs."""
        found = self.of(release)
        return found is not None and found.state in ("running", "restarting", "paused")
