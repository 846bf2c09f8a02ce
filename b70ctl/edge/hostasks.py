"""What a host's programs and system calls tell: Docker, Compose, disks, holders of cards, the clock."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from b70ctl.core.checkup.case import ADDRESS
from b70ctl.core.compose import LABEL
from b70ctl.core.hostfacts import DPKG, Asked, Cache, Disk, Energy, Entry, Holder, HostFacts, PortUse, Runtime
from b70ctl.core.hosttext import scrub
from b70ctl.edge import hardware, hostfiles, ports
from b70ctl.edge.process import run
from b70ctl.errors import B70Error, EngineError, MachineError

PATIENCE = 1.5
"""Seconds that Docker may take; a daemon that hangs is a finding, not a reason to wait."""
INTERVAL = 0.5
"""Seconds between two readings of an energy counter."""
MOST_ENTRIES = 100_000
"""Files of a cache volume that are counted before its size is left unknown."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the host on behalf of a site; without one, of the box alone."""

    dri: str = "/dev/dri"
    site: str | None = None
    bind: str = "127.0.0.1"
    port: int = 8000
    places: Mapping[str, Path] = field(default_factory=dict)
    """Directories whose disk matters, by their role."""
    wanted: tuple[str, ...] = ()
    cardless: tuple[str, ...] = ()
    images: tuple[Runtime, ...] = ()


@dataclass(slots=True)
class _Docker:
    """What Docker's daemon told, as far as it came."""

    version: str | None = None
    trouble: str | None = None
    root: str | None = None
    running: list[dict[str, Any]] = field(default_factory=list)
    caches: tuple[Cache, ...] | None = None


def read_host(question: Question) -> HostFacts:
    """This box, now."""
    private = private_words()
    entries = hostfiles.read_files(question.dri, private=private)
    before, began = hostfiles.energy_counters(entries), time.monotonic()
    asked = _ask(question, _in_time(question.site), entries, private)
    if before:
        time.sleep(max(0.0, INTERVAL - (time.monotonic() - began)))
    after, seconds = hostfiles.energy_counters(entries), time.monotonic() - began
    energies = tuple(Energy(path=path, before=value, after=after[path], seconds=round(seconds, 3))
                     for path, value in before.items() if path in after)  # fmt: skip
    return HostFacts(entries, asked.model_copy(update={"energies": energies}))


def private_words() -> tuple[str, ...]:
    """Names of this host and of who asks: they are kept out of what may be shown to others."""
    host = os.uname().nodename
    names = [host, host.split(".")[0]]
    with contextlib.suppress(OSError, KeyError):  # a user id without a name
        names.append(getpass.getuser())
    return tuple(dict.fromkeys(name for name in names if name not in ("localhost", "root", "xe", "drm", "docker")))


def _ask(
    question: Question, docker: _Docker, entries: Mapping[str, Entry], private: tuple[str, ...]
) -> Asked:  # fmt: skip
    compose, compose_trouble = _compose()
    places = dict(question.places) | ({"docker": Path(docker.root)} if docker.root else {})
    return Asked(
        uid=os.geteuid(),
        gids=tuple(sorted({os.getegid(), *os.getgroups()})),
        docker=docker.version,
        docker_trouble=docker.trouble and scrub(docker.trouble, private),
        compose=compose,
        compose_trouble=compose_trouble and scrub(compose_trouble, private),
        disks=tuple(disk for role, place in places.items() if (disk := _disk(role, place))),
        caches=docker.caches,
        holders=tuple(_holders(question.dri, docker.running)),
        port=_port(question, docker.running) if question.site else None,
        images=question.images,
        synchronized=_synchronized(),
        packages={} if DPKG in entries else hostfiles.rpm_packages(),
        site=question.site,
        dri=question.dri,
        wanted=question.wanted,
        cardless=question.cardless,
    )


def _in_time(site: str | None) -> _Docker:
    told = _Docker(trouble=f"Docker's daemon did not answer within {PATIENCE:g} s")
    thread = threading.Thread(target=_docker, args=(site, told), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    # a copy: what comes after this moment comes too late
    return _Docker(told.version, told.trouble, told.root, list(told.running), told.caches)


def _docker(site: str | None, told: _Docker) -> None:
    from b70ctl.edge.daemon import connect

    try:
        daemon = connect()
        about = daemon.client.info()
        told.root = str(about.get("DockerRootDir") or "") or None
        told.running = daemon.running()
        told.version, told.trouble = str(about.get("ServerVersion")), None
        if site:
            told.caches = tuple(_cache(name, told.root) for name in daemon.volumes(site))
    except B70Error as error:
        told.trouble = told.trouble and error.what
    except OSError as error:  # what the Docker library raises for a daemon that goes away
        told.trouble = told.trouble and f"Docker's daemon went away: {type(error).__name__}"


def _cache(name: str, root: str | None) -> Cache:
    folder = Path(root or "/nonexistent") / "volumes" / name / "_data"
    return Cache(name=name, size=_size(folder))


def _size(folder: Path) -> int | None:
    size = count = 0
    failures: list[OSError] = []
    for place, _, files in os.walk(folder, onerror=failures.append):
        count += len(files) + 1
        if count > MOST_ENTRIES:
            return None
        for name in files:
            with contextlib.suppress(OSError):
                size += (Path(place) / name).lstat().st_blocks * 512
    return None if failures else size


def _compose() -> tuple[str | None, str | None]:
    from b70ctl.edge.composer import find_composer

    try:
        return find_composer().text, None
    except MachineError as error:
        return None, error.what


def _disk(role: str, place: Path) -> Disk | None:
    for folder in (place, *place.parents):
        with contextlib.suppress(OSError):
            usage = shutil.disk_usage(folder)
            return Disk(role=role, free=usage.free, size=usage.total)
    return None


def _holders(dri: str, running: list[dict[str, Any]]) -> list[Holder]:
    containers = {about["Id"]: about for about in running}
    found = []
    for address, node in _nodes(Path(dri)):
        for pid, process in hardware.holders(node):
            about = containers.get(str(hardware.container_of(pid)))
            found.append(Holder(address=address, pid=pid, process=process, container=_name(about), site=_site(about)))
    return found


def _nodes(dri: Path) -> list[tuple[str, Path]]:
    found = []
    with contextlib.suppress(OSError):
        for link in sorted((dri / "by-path").iterdir()):
            address = link.name.removeprefix("pci-").removesuffix("-render")
            if link.name.endswith("-render") and ADDRESS.fullmatch(address):
                found.append((address, link.resolve()))
    return found


def _port(question: Question, running: list[dict[str, Any]]) -> PortUse:
    use = PortUse(bind=question.bind, port=question.port)
    for about in ports.publishers(running, question.port):
        name = _name(about)
        return use.model_copy(update={"by": f"container {name}", "container": name, "site": _site(about)})
    return use.model_copy(update={"by": ports.listener(question.bind, question.port)})


def _name(about: Mapping[str, Any] | None) -> str | None:
    return about["Name"].lstrip("/") if about else None


def _site(about: Mapping[str, Any] | None) -> str | None:
    labels = ((about or {}).get("Config") or {}).get("Labels") or {}
    return labels.get(f"{LABEL}.site")


def _synchronized() -> bool | None:
    if Path("/run/systemd/timesync/synchronized").exists():
        return True
    try:
        ran = run(("timedatectl", "show", "-p", "NTPSynchronized", "--value"), timeout=2)
    except (MachineError, EngineError):
        return None
    return {"yes": True, "no": False}.get(ran.stdout.strip()) if ran.code == 0 else None
