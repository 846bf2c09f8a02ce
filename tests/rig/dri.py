"""A directory that looks like /dev/dri on a machine with cards, for machines without any.

The nodes are the kernel's "full" device (1:7): they can be opened, held and counted like a card's, a
container may use them by default, and nothing happens.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from b70ctl.errors import MachineError

DEVICE = os.makedev(1, 7)
FIRST_RENDER = 128


@dataclass(frozen=True, slots=True)
class FakeCard:
    """One card as the directory shows it."""

    pci: str
    render: Path
    primary: Path


def make_dri(
    directory: Path, cards: int = 1, gid: int = 992, video_gid: int = 44, domain: str = "0000"
) -> list[FakeCard]:
    """Render and primary nodes for `cards` cards, with by-path links; needs root, repeats harmlessly."""
    if os.geteuid() != 0:
        raise MachineError("device nodes can only be made by root", hint="sudo make test")
    links = directory / "by-path"
    links.mkdir(parents=True, exist_ok=True)
    made = [_card(directory, number, domain) for number in range(cards)]
    for card in made:
        _node(card.render, gid)
        _node(card.primary, video_gid)
        _link(links / f"pci-{card.pci}-render", card.render)
        _link(links / f"pci-{card.pci}-card", card.primary)
    return made


def _card(directory: Path, number: int, domain: str) -> FakeCard:
    pci = f"{domain}:{3 + 4 * number:02x}:00.0"
    return FakeCard(pci, directory / f"renderD{FIRST_RENDER + number}", directory / f"card{number}")


def _node(path: Path, gid: int) -> None:
    if not path.exists():
        os.mknod(path, stat.S_IFCHR | 0o660, DEVICE)
    path.chmod(0o660)
    os.chown(path, 0, gid)


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(f"../{target.name}")
