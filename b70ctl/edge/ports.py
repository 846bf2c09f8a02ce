"""Who has a port: a container that publishes it, or a process that listens."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

LISTEN = "0A"


def publishers(containers: Iterable[Mapping[str, Any]], port: int) -> list[Mapping[str, Any]]:
    """The running containers that publish a host port."""
    return [about for about in containers if port in published(about)]


def published(about: Mapping[str, Any]) -> set[int]:
    """Host ports of one container; one in the host's own network publishes none that Docker knows of."""
    bindings = ((about.get("NetworkSettings") or {}).get("Ports") or {}).values()
    return {int(each["HostPort"]) for binding in bindings for each in binding or [] if each.get("HostPort")}


def listener(address: str, port: int) -> str | None:
    """Who listens where the daemon would have to, as words for a message; None when the port is free for it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EACCES:
                return None  # a low port, which the daemon may take and we may not
            if error.errno == errno.EADDRNOTAVAIL:
                return f"nobody: {address} is no address of this host"
            return _process(port) or (error.strerror or "unknown").lower()
    return None


def _process(port: int) -> str | None:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            rows = [row.split() for row in Path(table).read_text().splitlines()[1:]]
            inodes |= {row[9] for row in rows if row[3] == LISTEN and int(row[1].rsplit(":", 1)[1], 16) == port}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _has_socket(process, inodes):
            with contextlib.suppress(OSError):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
            return f"process {process.name}"
    return None


def _has_socket(process: Path, inodes: set[str]) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    return True
    return False
