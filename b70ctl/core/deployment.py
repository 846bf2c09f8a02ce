"""What will run: a profile with every choice settled."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict

from b70ctl.core.profile import Boot, ProbeSettings

CONTAINER_PORT = 8000
OWN = "/opt/b70ctl"
"""The container's folder that a release fills with what is b70ctl's own."""
STOP_MARGIN = 15
"""Seconds that Docker waits beyond vLLM's own grace before it kills."""
BY_HAND = "none"
"""The template of a deployment that describes a container which was made by hand."""


class Value(BaseModel):
    """A frozen value that is written as JSON and read back equal."""

    # a release that another version wrote may have keys that this one does not know; it is a way back all the same
    model_config = ConfigDict(extra="ignore", frozen=True)


class Mount(Value):
    """A bind mount; a source that begins with `./` lies in the release."""

    source: str
    target: str
    read_only: bool


class Order(Value):
    """A file that the release brings, mounted from it and never from where it came."""

    kind: Literal["patched", "overlay", "draft-config", "copy", "tree", "plugin"]
    to: str
    """Path below the release."""
    target: str
    """Path in the container."""
    name: str
    """The patch or draft that asked for it; for a plugin what its own log line begins with."""
    source: str = ""
    """patched: path below site-packages; draft-config: the host's config.json; the others: a path of the host."""
    sha256: str | None = None
    """The only content that may be copied, where the patch names it."""
    overrides: dict[str, bool | int | float | str] = {}
    texts: dict[str, str] = {}
    """Files that no host has, by their path below `to`."""


class Changed(Value):
    """A file of the image that a patch changes; after the start it must be the one that Python imports."""

    patch: str
    file: str
    """Below site-packages."""
    target: str
    """Path in the container."""
    to: str | None = None
    """Path below the release, where the release brings the whole file."""
    markers: tuple[str, ...] = ()
    """What must stand in it."""


class Address(Value):
    """Where the engine can be reached from this host."""

    bind: str
    port: int

    @property
    def url(self) -> str:
        """The base URL; an engine that is published on every address is asked on loopback."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.bind, self.bind)  # noqa: S104 - compared, not bound
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


class Deployment(Value):
    """Equal deployments run alike; nothing in it is left to be decided."""

    profile: str
    overrides: tuple[str, ...] = ()
    summary: str
    site: str
    image: str
    """What is started: a digest or an image id, or the profile's reference where neither is known yet."""
    image_ref: str
    """What the profile calls it."""
    vllm: str
    template: str
    entrypoint: tuple[str, ...]
    argv: tuple[str, ...]
    env: dict[str, str]
    secrets: tuple[str, ...]
    working_dir: str
    address: Address
    network: str
    cards: tuple[str, ...]
    """PCI addresses; empty without a card, and where the host is not known."""
    card_count: int
    devices: tuple[tuple[str, str], ...]
    groups: tuple[int, ...]
    mounts: tuple[Mount, ...]
    files: tuple[Order, ...]
    cache_volume: str
    shm_size: str
    ipc: str
    ulimits: dict[str, int]
    cap_add: tuple[str, ...]
    shutdown_timeout: int
    boot: Boot
    probes: ProbeSettings
    served_names: tuple[str, ...]
    max_model_len: int | None
    tools: bool
    reasoning: bool
    speculative: str | None
    draft_limit: int | None = None
    """The draft's own position limit, where its config is at hand; the long probe goes past it."""
    requires: tuple[str, ...]
    """Host paths that must exist before a start: the weights, the draft."""
    contents: dict[str, str] = {}
    """What the release carries from this host, as hashes: a file that changed is a changed deployment. `secrets.env`
    is hashed with the site's salt. Empty where only the text is rendered."""
    chat: bool = True
    """Whether the model has a chat template; without one it is proven through completions."""
    patches: dict[str, str]
    """Each patch with the digest of its definition, so that a changed patch is a changed deployment."""
    changed: tuple[Changed, ...] = ()
    """What the patches do to the image's files, to be proven after the start."""
    kernels: str | None = None
    """The attention kernels that are carried to vLLM as a plugin, with a hash of their files; None for the image's own.
    The hash is left out where only the text is rendered."""

    @property
    def digest(self) -> str:
        """sha256 over everything that a container sees; where a file came from is not part of it, what it holds is."""
        seen = self.model_dump(mode="json", exclude={"requires", "changed"})
        for order in seen["files"]:
            del order["source"]
        return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()

    def canonical(self) -> str:
        """The deployment as JSON with sorted keys; equal deployments give equal text."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False, indent=1)

    @property
    def stop_grace(self) -> int:
        """Seconds that Docker gives the engine to stop."""
        return self.shutdown_timeout + STOP_MARGIN


class Change(Value):
    """One difference between what runs and what is wanted."""

    what: str
    before: str | None = None
    after: str | None = None
