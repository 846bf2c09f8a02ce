"""The cards of this box, read from the dri path and sysfs."""

from __future__ import annotations

import re
from pathlib import Path

from b70ctl.core.host import Card, Host

RENDER = re.compile(r"pci-([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])-render")


def read_host(dri: Path, sysfs: Path = Path("/sys")) -> Host:
    """The cards below `dri`, by PCI address; none when the path does not exist."""
    cards = []
    try:
        links = sorted((dri / "by-path").iterdir())
    except OSError:
        return Host()
    for link in links:
        match = RENDER.fullmatch(link.name)
        if match:
            card = _card(match[1], link, sysfs)
            cards += [card] if card else []
    return Host(tuple(cards))


def _card(address: str, link: Path, sysfs: Path) -> Card | None:
    try:
        node = link.resolve(strict=True)
        gid = node.stat().st_gid
    except OSError:
        return None
    vendor = sysfs / "bus" / "pci" / "devices" / address / "vendor"
    try:
        return Card(address, str(node), gid, vendor.read_text().strip())
    except OSError:
        return Card(address, str(node), gid)


def holders(node: Path) -> list[tuple[int, str]]:
    """Processes that have the device open, as (pid, name); those of other users are seen only by root."""
    try:
        device = node.stat().st_rdev
    except OSError:
        return []
    processes = (process for process in Path("/proc").iterdir() if process.name.isdigit())
    return [(int(process.name), _name(process)) for process in processes if _holds(process / "fd", device)]


def _holds(descriptors: Path, device: int) -> bool:
    try:
        for descriptor in descriptors.iterdir():
            try:
                if descriptor.stat().st_rdev == device:
                    return True
            except OSError:
                continue
    except OSError:
        pass
    return False


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "?"


def container_of(pid: int) -> str | None:
    """The id of the container that a process runs in, read off its cgroup."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    match = re.search(r"[0-9a-f]{64}", text)
    return match[0] if match else None
