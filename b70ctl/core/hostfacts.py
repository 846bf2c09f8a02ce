"""What was read of a box: files with their modes and owners, and what was asked of its programs; one frozen value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

KMSG = "/dev/kmsg"
"""Where the kernel's log is kept among the files, whichever program gave it."""
DPKG = "/var/lib/dpkg/status"
PACMAN = "/var/lib/pacman/local"
DEBUGFS = "/sys/kernel/debug/dri"
PCI = "/sys/bus/pci/devices"

Kind = Literal["file", "dir", "link", "device", "other", "denied", "broken"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One path; `denied` is one that this user may not read, `broken` one whose driver gave an error."""

    kind: Kind
    mode: int = 0
    uid: int = 0
    gid: int = 0
    target: str = ""
    """Where a link points."""
    text: str = ""
    """What a file holds, as far as it is kept."""


class Told(BaseModel):
    """Something that a program or the system call interface told."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Disk(Told):
    """The file system below a place; `role` says which: docker, site, models or cache."""

    role: str
    free: int
    size: int


class Cache(Told):
    """A cache volume; no size where it may not be read."""

    name: str
    size: int | None


class Holder(Told):
    """A process that has a card open."""

    address: str
    pid: int
    process: str
    container: str | None = None
    site: str | None = None
    """The b70ctl site that the container belongs to."""


class PortUse(Told):
    """The site's port, and who has it."""

    bind: str
    port: int
    by: str | None = None
    container: str | None = None
    site: str | None = None


class Energy(Told):
    """One energy counter in µJ, read twice."""

    path: str
    before: int
    after: int
    seconds: float


class Runtime(Told):
    """The driver stack of an image that this site uses."""

    ref: str
    vllm: str
    kernels: str | None = None
    compute_runtime: str | None = None
    source: str


class Asked(Told):
    """What no file of the box says."""

    uid: int = 0
    gids: tuple[int, ...] = ()
    docker: str | None = None
    docker_trouble: str | None = None
    compose: str | None = None
    compose_trouble: str | None = None
    disks: tuple[Disk, ...] = ()
    caches: tuple[Cache, ...] | None = None
    holders: tuple[Holder, ...] = ()
    port: PortUse | None = None
    energies: tuple[Energy, ...] = ()
    images: tuple[Runtime, ...] = ()
    synchronized: bool | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    """Packages that no file lists in plain text, as rpm keeps them."""
    site: str | None = None
    dri: str = "/dev/dri"
    wanted: tuple[str, ...] = ()
    """The cards that site.yaml names."""
    cardless: tuple[str, ...] = ()
    """Profiles of the site that use no card."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One box at one moment."""

    entries: Mapping[str, Entry]
    asked: Asked

    def text(self, path: str) -> str | None:
        """What a file holds, without white space around it; None where it was not read."""
        entry = self.entries.get(path)
        return entry.text.strip() if entry and entry.kind == "file" else None

    def number(self, path: str) -> int | None:
        """A file that holds one whole number, decimal or 0x…; None where it does not."""
        text = self.text(path) or ""
        return int(text, 0) if re.fullmatch(r"-?[0-9]{1,20}|0x[0-9a-fA-F]{1,16}", text) and _plain(text) else None

    def target(self, path: str) -> str | None:
        """Where a link points."""
        entry = self.entries.get(path)
        return entry.target if entry and entry.kind == "link" else None

    def denied(self, path: str) -> bool:
        """Whether this path, or a directory above it, is closed to the user who looked."""
        above = {path} | {path[:cut] for cut, letter in enumerate(path) if letter == "/" and cut}
        return any(self.entries[each].kind == "denied" for each in above if each in self.entries)

    def matching(self, pattern: str) -> list[str]:
        """Paths that a pattern names, sorted; `*` stands for anything within one name."""
        if "*" not in pattern:
            return [pattern] if pattern in self.entries else []
        wanted = _regex(pattern)
        return sorted(path for path in self.entries if wanted.fullmatch(path))


def _plain(text: str) -> bool:
    # int(text, 0) takes a leading zero for an error
    return text.startswith("0x") or text in ("0", "-0") or not text.lstrip("-").startswith("0")


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile("[^/]*".join(re.escape(part) for part in pattern.split("*")))


def version_in(text: str | None) -> tuple[int, ...] | None:
    """The first dotted version in a text, as numbers: `26.18.38308.1-0` is (26, 18, 38308, 1)."""
    match = re.search(r"(?<![\d.])\d{1,9}(?:\.\d{1,9})+", text or "", re.ASCII)
    return tuple(int(part) for part in match[0].split(".")) if match else None
