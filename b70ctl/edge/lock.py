"""One command at a time: a site's lock, and the machine-wide leases of cards."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from b70ctl.edge.files import open_regular, read_bytes, unwritable
from b70ctl.errors import Locked, MachineError

OPEN = os.O_RDWR | os.O_NOFOLLOW


@contextmanager
def locked(path: Path, what: str, command: str, since: str) -> Iterator[int]:
    """Hold a lock file, and give its descriptor; Locked names the holder when somebody else does.

    The kernel frees the lock when the last process that inherited the descriptor ends, however it ends.
    """
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked(f"{what} is held by {_holder(path)}", hint="b70ctl status") from None
        _write(descriptor, {"pid": os.getpid(), "command": command, "since": since})
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def leased(folder: Path, cards: Sequence[str], command: str, since: str) -> Iterator[tuple[int, ...]]:
    """Hold the leases of several cards, by PCI address, in one order for everybody."""
    with ExitStack() as stack:
        if cards:
            _shared(folder)
        yield tuple(
            stack.enter_context(locked(folder / f"card-{card}.lock", f"card {card}", command, since))
            for card in sorted(set(cards))
        )


def holder(path: Path) -> str | None:
    """Who holds a lock, or None when nobody does.

    The kernel's table is read instead of trying the lock: a reader must not be in the way of a command that starts.
    """
    try:
        about = path.stat()
        table = Path("/proc/locks").read_text()
    except OSError:
        return None
    return _holder(path) if is_taken(table, about.st_dev, about.st_ino) else None


def is_taken(table: str, device: int, inode: int) -> bool:
    """Whether the kernel's table names a file as locked; one that waits for a lock has none."""
    rows = (row.split() for row in table.splitlines())
    files = (row[5].split(":") for row in rows if len(row) > 5 and row[1] == "FLOCK")
    return any(len(file) == 3 and _is(file, device, inode) for file in files)


def _is(file: list[str], device: int, inode: int) -> bool:
    major, minor, number = file
    if number != str(inode) or int(major, 16) != os.major(device):
        return False
    # a file system without a disk of its own, as a subvolume, may have another minor here than in the kernel's table
    return os.major(device) == 0 or int(minor, 16) == os.minor(device)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # without O_CREAT: a kernel that protects shared directories refuses it for another user's file
            return open_regular(path, OPEN)
        except FileNotFoundError:
            descriptor = open_regular(path, OPEN | os.O_CREAT)
            os.fchmod(descriptor, 0o666)  # another user of this machine must be able to take it too
            return descriptor
    except OSError as error:
        raise unwritable(path, error, "opened") from error


def _shared(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(0o1777)
    except OSError as error:
        what = f"{folder}, where cards are leased, cannot be made: {error.strerror}"
        raise MachineError(what, hint=unwritable(folder, error).hint) from error


def _write(descriptor: int, holder: dict[str, object]) -> None:
    text = json.dumps(holder).encode()
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text, 0)
    except OSError:
        pass  # who holds it is a courtesy; the lock itself is the kernel's


def _holder(path: Path) -> str:
    try:
        known = json.loads(read_bytes(path))
        return f"`{known['command']}` (pid {known['pid']}, since {known['since']})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another command"
