"""The kernel's tables of TCP sockets, as /proc/net/tcp and /proc/net/tcp6 write them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

ESTABLISHED, SYN_RECV = 0x01, 0x03
LIVE = frozenset({ESTABLISHED, SYN_RECV})
"""States in which somebody is at the other end; a socket in TIME-WAIT has nobody."""


@dataclass(frozen=True, slots=True)
class Socket:
    """One end of one connection."""

    local: str
    local_port: int
    remote: str
    remote_port: int
    state: int

    @property
    def live(self) -> bool:
        """Whether somebody is at the other end."""
        return self.state in LIVE

    @property
    def within(self) -> bool:
        """Whether both ends are in one network namespace, as a container's own health check is."""
        return ipaddress.ip_address(self.remote).is_loopback

    @property
    def peer(self) -> str:
        """The other end, for a reader."""
        host = f"[{self.remote}]" if ":" in self.remote else self.remote
        return f"{host}:{self.remote_port}"


def read_sockets(text: str) -> tuple[Socket, ...]:
    """The sockets of one table; a line that is no socket is passed over."""
    found = (_socket(line.split()) for line in text.splitlines())
    return tuple(socket for socket in found if socket)


def _socket(row: list[str]) -> Socket | None:
    try:
        (local, local_port), (remote, remote_port) = _end(row[1]), _end(row[2])
        return Socket(local, local_port, remote, remote_port, int(row[3], 16))
    except (ValueError, IndexError):
        return None


def _end(text: str) -> tuple[str, int]:
    address, port = text.split(":")
    raw = bytes.fromhex(address)
    # the kernel prints words of four bytes as numbers of a little-endian machine
    words = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    found = ipaddress.ip_address(words)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found), int(port, 16)
