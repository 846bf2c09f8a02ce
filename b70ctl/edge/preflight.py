"""Looks at everything that a start needs, and touches none of it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from b70ctl.core.compose import LABEL
from b70ctl.core.deployment import Deployment
from b70ctl.core.host import Card, Host
from b70ctl.core.preflight import CardHolder, Room, Seen
from b70ctl.edge import hardware, ports
from b70ctl.edge.daemon import Daemon
from b70ctl.edge.files import is_gone, nearest
from b70ctl.edge.links import lost
from b70ctl.errors import to_type


def look(
    deployment: Deployment, host: Host, daemon: Daemon, leaving: Collection[str],
    *, root: bool, store: Path | None = None,
) -> Seen:  # fmt: skip
    """What is on the box, without the containers in `leaving`, which will have stopped by then.

    `root` says whether processes of other users can be seen; where they cannot, a container that has the card mapped
    counts as holding it. `store` is the site's memory where an engine is to be stopped, for which the disks need room.
    """
    running = [about for about in daemon.running() if about["Id"] not in leaving]
    ours_publishes = any(_has_port(about, deployment) for about in map(daemon.inspect, leaving) if about)
    holder, container = _port(deployment, running, check_socket=not ours_publishes)
    return Seen(
        image_present=daemon.image(deployment.image) is not None,
        port_holder=holder,
        port_container=container,
        missing=(missing := tuple(_missing(deployment))),
        nearest={path: str(nearest(Path(path))) for path in missing if "\0" not in path},
        lost=tuple(_lost(deployment)),
        holders=tuple(_holders(deployment, host, running, leaving, root=root)),
        rooms=tuple(rooms(store, daemon.root(), root=root)) if store else (),
    )


def rooms(store: Path, docker: Path | None, *, root: bool) -> Iterator[Room]:
    """The disks that need room before an engine is stopped."""
    if (free := _free(store, root=root)) is not None:
        yield Room(str(store), "releases and the journal lie", free, f"b70ctl prune, or: {to_type('df', '-h', store)}")
    if docker is not None and (free := _free(docker, root=True)) is not None:
        yield Room(str(docker), "Docker keeps containers, logs and caches", free, "docker system df")


def _free(folder: Path, *, root: bool) -> int | None:
    """Bytes that may still be written below a folder, which need not be there yet; None where nobody says."""
    for place in (folder, *folder.parents):
        try:
            disk = os.statvfs(place)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        # what a file system holds back is held back for root
        return disk.f_frsize * (disk.f_bfree if root else disk.f_bavail)
    return None


def _has_port(about: Mapping[str, Any], deployment: Deployment) -> bool:
    # one in the host's own network publishes nothing, and listens all the same
    return deployment.address.port in ports.published(about) or about["HostConfig"].get("NetworkMode") == "host"


def _port(
    deployment: Deployment, running: list[dict[str, Any]], *, check_socket: bool
) -> tuple[str | None, str | None]:  # fmt: skip
    address = deployment.address
    for about in ports.publishers(running, address.port):
        name = about["Name"].lstrip("/")
        return f"container {name}{_site(about)}", _adoptable(about)
    return (ports.listener(address.bind, address.port) if check_socket else None), None


def _missing(deployment: Deployment) -> list[str]:
    wanted = [mount.source for mount in deployment.mounts]
    wanted += [*deployment.requires, *(source for source, _ in deployment.devices)]
    # what may not be looked at is the daemon's to find
    return list(dict.fromkeys(path for path in wanted if is_gone(path)))


def _lost(deployment: Deployment) -> Iterator[tuple[str, str]]:
    for path in deployment.requires:
        if not is_gone(path) and (link := lost(Path(path), deployment.mounts)):
            yield str(link), str(link.readlink())


def _holders(
    deployment: Deployment, host: Host, running: list[dict[str, Any]], leaving: Collection[str], *, root: bool
) -> list[CardHolder]:  # fmt: skip
    found = []
    told: set[str] = set()
    names = {about["Id"]: about["Name"].lstrip("/") for about in running}
    for card in (card for card in host.cards if card.address in deployment.cards):
        for about in running:
            if _claims(about, card, root=root):
                name = names[about["Id"]]
                told.add(about["Id"])
                found.append(CardHolder(card.address, f"container {name}{_site(about)}", _adoptable(about)))
        for pid, process in hardware.holders(Path(card.node)):
            container = hardware.container_of(pid)
            if container in leaving or str(container) in told:
                continue
            name = names.get(str(container))
            who = f"process {pid} ({process})" + (f" in container {name}" if name else "")
            found.append(CardHolder(card.address, who, name))
    return found


def _claims(about: Mapping[str, Any], card: Card, *, root: bool) -> bool:
    labels = about["Config"].get("Labels") or {}
    if card.address in labels.get(f"{LABEL}.cards", "").split(","):
        return True
    if root:
        return False  # whoever has the device open is seen; a service that only could open it is left in peace
    devices = [item["PathOnHost"].rstrip("/") for item in about["HostConfig"].get("Devices") or []]
    node = Path(card.node)
    return bool(about["HostConfig"].get("Privileged")) or any(path in (str(node), str(node.parent)) for path in devices)


def _adoptable(about: Mapping[str, Any]) -> str | None:
    """The name of a container that was made by hand; another site's engine is that site's to stop."""
    return None if _site(about) else str(about["Name"]).lstrip("/")


def _site(about: Mapping[str, Any]) -> str:
    site = (about["Config"].get("Labels") or {}).get(f"{LABEL}.site")
    return f" of site `{site}`" if site else ""
