"""Where a log is read from: a file, stdin, a container, the kernel; in blocks of whole lines."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from b70ctl.edge import process
from b70ctl.edge.files import open_regular
from b70ctl.errors import MachineError, Refused, UsageError

if TYPE_CHECKING:
    # a file's log is read without loading Docker's library
    from b70ctl.edge.daemon import Daemon

BLOCK = 1 << 18
LONGEST = 1 << 17
"""Of a longer line the beginning is kept."""
LAST_LINES = 100_000
"""How much of a running container's log is read: it has no end to wait for."""
_KERNEL_LOGS = (("dmesg",), ("journalctl", "--dmesg", "--boot", "--no-pager", "--output=short-monotonic"))


def is_file(name: str) -> bool:
    """Whether a name, however odd, is that of a file."""
    try:
        return Path(name).is_file()
    except OSError:
        return False  # too long for any


def of_file(path: Path) -> Iterator[bytes]:
    """A file's lines; UsageError for what is no file: a device may have no end, and a named pipe no beginning."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            yield from whole_lines(iter(lambda: file.read(BLOCK), b""))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENAMETOOLONG):
            raise UsageError(f"{path} cannot be read: {error.strerror}", hint="COMMAND | b70ctl diagnose -") from error
        raise MachineError(f"{path} cannot be read: {error.strerror}") from error


def of_stdin() -> Iterator[bytes]:
    """Lines that somebody pipes in, until they end."""
    stream = sys.stdin.buffer
    return whole_lines(iter(lambda: stream.read(BLOCK), b""))


def of_container(daemon: Daemon, name: str) -> tuple[Iterator[bytes], bool]:
    """A container's lines, and whether it has ended, so that no more will come."""
    about = daemon.inspect(name)
    if about is None:
        raise Refused(f"there is no container {name}", hint="docker ps --all")
    over = about["State"]["Status"] not in ("running", "restarting", "paused")
    if over:
        return whole_lines(daemon.follow(about["Id"])), over
    return whole_lines([daemon.logs(about["Id"], LAST_LINES).encode("utf-8", errors="replace")]), over


def of_kernel() -> Iterator[bytes]:
    """What the kernel said since the machine started."""
    refusals = []
    for argv in _KERNEL_LOGS:
        try:
            ran = process.run(argv, timeout=30)
        except MachineError as error:
            refusals.append(error.what)
            continue
        if ran.code == 0 and ran.stdout.strip():
            return whole_lines([ran.stdout.encode("utf-8", errors="replace")])
        refusals.append(f"`{argv[0]}`: {ran.stderr.strip().splitlines()[0] if ran.stderr.strip() else 'said nothing'}")
    raise MachineError(f"the kernel's log cannot be read: {'; '.join(refusals)}", hint="sudo b70ctl diagnose --dmesg")


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces cut anywhere, as blocks that end with a line's end; what an endless line has too much is left out."""
    rest = b""
    for piece in pieces:
        text = rest + piece
        head, newline, rest = text.rpartition(b"\n")
        if newline:
            yield head + newline
        if len(rest) > 2 * LONGEST:
            rest = rest[:LONGEST]
    if rest:
        yield rest
