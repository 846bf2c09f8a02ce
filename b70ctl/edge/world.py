"""The neighbours of one changing command, and what it has learnt so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from b70ctl.core.bootfacts import BootFacts
from b70ctl.core.progress import Event
from b70ctl.core.release import Container, Observed, Release, State
from b70ctl.core.site import API_KEY, Site
from b70ctl.edge import filling
from b70ctl.edge.composer import Composer
from b70ctl.edge.daemon import Daemon
from b70ctl.edge.endpoint import Endpoint
from b70ctl.edge.store import Store


@dataclass(slots=True)
class World:
    """The neighbours of one command, and what it has learnt so far."""

    site: Site
    root: Path
    store: Store
    daemon: Daemon
    compose: Callable[[], Composer]
    tell: Callable[[Event], None]
    holds: Callable[[], Sequence[int]] = tuple
    """The descriptors of the locks that this command holds, for the processes that it starts."""
    prepared: filling.Prepared | None = None
    adopted: Release | None = None
    op: int = 0
    leaving: set[str] = field(default_factory=set)
    """Releases that were told to stop and may still be at it: they are not running, whatever Docker says."""
    begun: dict[str, float] = field(default_factory=dict)
    boots: dict[str, BootFacts] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    unrecorded: list[str] = field(default_factory=list)
    """Steps of the way back that were done, and that a full disk kept from being written down."""
    findings: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)

    def release(self, name: str) -> Release:
        """A release that lies in the store."""
        return self.store.release(name)

    def observe(self) -> Observed:
        """What Docker shows of the site now."""
        return self.daemon.observe(self.site.name, self.store.releases())

    def container(self, release: str) -> Container | None:
        """The release's own container."""
        return self.observe().of(release)

    def endpoint(self, release: Release) -> Endpoint:
        """Where the release's engine answers."""
        secrets = filling.kept_secrets(self.store.release_folder(release.id))
        if release.kind == "adopted":
            secrets = filling.read_secrets(self.site, self.root)
        probes = release.deployment.probes
        return Endpoint(release.deployment.address.url, secrets.get(API_KEY), silence=probes.silence)

    def update_state(self, **fields: Any) -> State:
        """Change the site's state file."""
        state = self.store.state().model_copy(update=fields)
        self.store.save_state(state)
        return state


def image_tag(site: Site, release: str) -> tuple[str, str]:
    """The name under which a release keeps its image."""
    return f"b70ctl/{site.name}", release
