"""Looks at everything that could disturb a measurement; changes nothing, asks the engine nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from b70ctl.core.checkup.sensors import read_memory
from b70ctl.core.host import Card
from b70ctl.core.hostfacts import DEBUGFS
from b70ctl.core.quiet import Box, CardSeen, Inside
from b70ctl.core.release import Observed
from b70ctl.core.site import Site
from b70ctl.edge import hardware
from b70ctl.edge.daemon import Daemon
from b70ctl.edge.sockets import sockets_of

HALF = 0.5


def look(
    site: Site, port: int, cards: Sequence[Card], daemon: Daemon | None, observed: Observed | None, *, root: bool,
    companions: Sequence[str] = (), cardless: bool = False,
) -> Box:  # fmt: skip
    """What is on the box now; without a daemon what can be seen without it.

    `companions` are the containers of the site's companions that run and that a drain would stop; `cardless`
    says that the site serves without a card.
    """
    ours = [item for item in observed.containers if item.state == "running" and not item.foreign] if observed else []
    running = None if observed is None else (*(item.name for item in ours), *companions)
    inside = [_inside(about, port) for item in ours if daemon and (about := daemon.inspect(item.id))]
    return Box(
        port=port,
        host=sockets_of("self"),
        inside=inside[0] if inside else None,
        running=running,
        feeders=tuple(site.feeders),
        load=os.getloadavg()[0],
        load_limit=site.drain.load or HALF * (os.cpu_count() or 1),
        cards=tuple(_card(card) for card in cards),
        cardless=cardless,
        root=root,
    )


def _inside(about: dict[str, Any], port: int) -> Inside:
    bindings = (about["NetworkSettings"].get("Ports") or {}).items()
    behind = [int(inner.split("/")[0]) for inner, outer in bindings
              if any(each.get("HostPort") == str(port) for each in outer or [])]  # fmt: skip
    pid = about["State"].get("Pid") or 0
    return Inside(
        container=about["Name"].lstrip("/"),
        ports=tuple(dict.fromkeys(behind)) or (port,),
        sockets=sockets_of(pid) if pid else None,
    )


def _card(card: Card) -> CardSeen:
    holders = tuple(f"process {pid} ({name})" for pid, name in hardware.holders(Path(card.node)))
    return CardSeen(address=card.address, holders=holders, memory=read_memory(_memory_text(card.address)))


def _memory_text(address: str, debugfs: Path = Path(DEBUGFS)) -> str:
    """What debugfs says of a card's memory; newer kernels name its folder by address, older ones by number."""
    try:
        folders = [folder for folder in debugfs.iterdir()
                   if folder.name == address or address in _text(folder / "name")]  # fmt: skip
    except OSError:
        return ""
    return next(filter(None, (_text(folder / "tile0" / "vram_mm") for folder in folders)), "")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
