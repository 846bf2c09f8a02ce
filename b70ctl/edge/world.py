"""The neighbours of one changing command, and what it has learnt so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from b70ctl.core.bootfacts import BootFacts
from b70ctl.core.progress import Event
from b70ctl.core.quiet import Sign
from b70ctl.core.release import Container, Observed, Release, State
from b70ctl.core.site import Site
from b70ctl.core.window import Turn
from b70ctl.edge import filling, secretfiles
from b70ctl.edge.composer import Composer
from b70ctl.edge.daemon import Daemon
from b70ctl.edge.endpoint import Endpoint
from b70ctl.edge.store import Store
from b70ctl.errors import MachineError, Refused


@dataclass(slots=True)
class Errand:
    """What a window is opened for, and what became of it."""

    argv: tuple[str, ...]
    signs: Callable[[], Sequence[Sign]]
    """Asks whether the box is quiet."""
    presses: Callable[[], int] = int
    """How often Ctrl-C was pressed."""
    attended: Callable[[], AbstractContextManager[None]] = nullcontext
    """Around the command: Ctrl-C is its own then."""
    anyway: bool = False
    """A box that is not quiet is good enough."""
    aside: bool = False
    """The command's stdout goes to stderr, since ours is for data."""
    turns: dict[str, Turn] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """The neighbours of one command, and what it has learnt so far."""

    site: Site
    root: Path
    store: Store
    daemon: Daemon
    compose: Callable[[], Composer]
    tell: Callable[[Event], None]
    prepared: dict[str, filling.Prepared] = field(default_factory=dict)
    """What is to be written, by release."""
    errand: Errand | None = None
    adopted: Release | None = None
    known: dict[str, Release] = field(default_factory=dict)
    """Every release that was seen in the store."""
    op: int = 0
    leaving: set[str] = field(default_factory=set)
    """Releases that were told to stop and may still be at it: they are not running, whatever Docker says."""
    settled: dict[str, float | None] = field(default_factory=dict)
    """Releases whose requests were waited for, and when each was told to stop."""
    lost: dict[str, int | None] = field(default_factory=dict)
    """How many requests each of those cut off when it stopped; None where that is not known."""
    begun: dict[str, float] = field(default_factory=dict)
    boots: dict[str, BootFacts] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    """The logs of engines that failed and keep their container."""
    passed: set[str] = field(default_factory=set)
    """Releases whose steps are passed over: their turn in a window ended early, or will not come."""
    unrecorded: list[tuple[str, MachineError]] = field(default_factory=list)
    """Steps of the way back that were done, and what kept them from being written down: a full disk, most often."""
    findings: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)

    def release(self, name: str) -> Release:
        """A release of the store; one that was seen there stays known, so that no way back is lost with its folder."""
        try:
            return self.store.release(name)
        except Refused:
            if name in self.known:
                return self.known[name]
            raise

    def observe(self) -> Observed:
        """What Docker shows of the site now."""
        self.known |= self.store.releases()
        return self.daemon.observe(self.site.name, self.known)

    def container(self, release: str) -> Container | None:
        """The release's own container."""
        return self.observe().of(release)

    def key(self, release: Release) -> str | None:
        """The API key that the release's engine asks for, where it does."""
        return secretfiles.api_key(release, self.store.release_folder(release.id), self.site, self.root)

    def secrets(self) -> list[str]:
        """What must be shown to nobody."""
        return secretfiles.secret_values(self.site, self.root)

    def endpoint(self, release: Release) -> Endpoint:
        """Where the release's engine answers."""
        probes = release.deployment.probes
        return Endpoint(release.deployment.address.url, self.key(release), silence=probes.silence)

    def update_state(self, **fields: Any) -> State:
        """Change the site's state file."""
        state = self.store.state().model_copy(update=fields)
        self.store.save_state(state)
        return state


def image_tag(site: Site, release: str) -> tuple[str, str]:
    """The name under which a release keeps its image."""
    return f"b70ctl/{site.name}", release
