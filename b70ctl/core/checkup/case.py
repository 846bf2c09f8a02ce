"""What a judge has before it, and how it answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from b70ctl.core.host import INTEGRATED, INTEL
from b70ctl.core.hostfacts import DEBUGFS, PCI, HostFacts

Severity = Literal["block", "warn", "note"]
State = Literal["ok", "problem", "unknown"]
DISPLAY_CLASS = "0x03"
ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
AS_ROOT = "sudo $(command -v b70ctl) doctor"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge found; severity and remedy are the check's own where none is given."""

    state: State
    evidence: str
    subject: str | None = None
    severity: Severity | None = None
    do: str | None = None


class CardModel(BaseModel):
    """A kind of card by its PCI id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")
    name: str
    family: Literal["battlemage", "alchemist"]
    vram_gib: int | None = None
    verified: bool = True
    """Whether somebody read the id off such a card."""


class Models(BaseModel):
    """The cards that are known, and the PCIe switches that sit on them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cards: tuple[CardModel, ...]
    switches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """A display controller of the box."""

    address: str
    id: str
    """`vendor:device`, four hexadecimal digits each."""
    driver: str | None
    above: tuple[str, ...]
    """PCI addresses from the root port down to the device, itself not among them."""
    node: str | None
    """Its render node, as by-path names it."""
    model: CardModel | None = None

    @property
    def folder(self) -> str:
        """Where sysfs describes it."""
        return f"{PCI}/{self.address}"

    @property
    def serves(self) -> bool:
        """Whether a model could be served from it."""
        return self.id.startswith(INTEL.removeprefix("0x")) and self.address not in INTEGRATED

    @property
    def name(self) -> str:
        """What it is called, with its id."""
        return f"{self.model.name} ({self.id})" if self.model else self.id


@dataclass(frozen=True, slots=True)
class Case:
    """The facts of one box, and the display controllers among them."""

    facts: HostFacts
    devices: tuple[Device, ...]
    switches: tuple[str, ...]

    @property
    def cards(self) -> tuple[Device, ...]:
        """The cards that could serve, in PCI order."""
        return tuple(device for device in self.devices if device.serves)


def understood(facts: HostFacts, models: Models) -> Case:
    """The display controllers of a box, by PCI address."""
    known = {model.id: model for model in models.cards}
    found = []
    for path in facts.matching(f"{PCI}/*/class"):
        address = path.split("/")[-2]
        if ADDRESS.fullmatch(address) and (facts.text(path) or "").startswith(DISPLAY_CLASS):
            found.append(_device(facts, address, known))
    return Case(facts, tuple(found), models.switches)


def pci_id(facts: HostFacts, address: str) -> str:
    """`vendor:device` of a PCI function; question marks where sysfs does not say."""
    parts = [(facts.text(f"{PCI}/{address}/{name}") or "0x????").removeprefix("0x") for name in ("vendor", "device")]
    return ":".join(parts)


def _device(facts: HostFacts, address: str, known: dict[str, CardModel]) -> Device:
    folder = f"{PCI}/{address}"
    driver = facts.target(f"{folder}/driver")
    chain = [part for part in (facts.target(folder) or "").split("/") if ADDRESS.fullmatch(part)]
    node = facts.target(f"{facts.asked.dri}/by-path/pci-{address}-render")
    name = pci_id(facts, address)
    return Device(
        address=address,
        id=name,
        driver=driver.rsplit("/", 1)[-1] if driver else None,
        above=tuple(chain[:-1]),
        node=f"{facts.asked.dri}/{node.rsplit('/', 1)[-1]}" if node else None,
        model=known.get(name),
    )


def debug_folders(facts: HostFacts, address: str) -> list[str]:
    """The debugfs folders of a card: newer kernels name them by address, older ones by number."""
    named = [
        path.removesuffix("/name")
        for path in facts.matching(f"{DEBUGFS}/*/name")
        if address in (facts.text(path) or "")
    ]
    return [*named, f"{DEBUGFS}/{address}"]


def first(facts: HostFacts, patterns: Sequence[str]) -> str | None:
    """The text of the first file that any pattern names and that holds something."""
    for pattern in patterns:
        for path in facts.matching(pattern):
            if text := facts.text(path):
                return text
    return None


def dotted(version: Sequence[int]) -> str:
    """A version as people write it."""
    return ".".join(map(str, version))


def gib(size: int) -> str:
    """A size in GiB, or in MiB where that is less than one."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size // 2**20} MiB"
