"""The tables of TCP sockets of this host and of a container, as the kernel shows them under /proc."""

from __future__ import annotations

from pathlib import Path

from b70ctl.core.sockets import Socket, read_sockets

TABLES = ("net/tcp", "net/tcp6")


def sockets_of(process: str | int, proc: Path = Path("/proc")) -> tuple[Socket, ...] | None:
    """The sockets in a process's network namespace; None when its tables cannot be read.

    A kernel without IPv6 has one table only.
    """
    texts = []
    for table in TABLES:
        try:
            texts.append((proc / str(process) / table).read_text())
        except OSError:
            if table == TABLES[0]:
                return None
    # a container on the host's own network is in the host's table, once
    return tuple(dict.fromkeys(socket for text in texts for socket in read_sockets(text)))
