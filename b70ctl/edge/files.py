"""Files that are whole or not there, and the clock that they are stamped with."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from b70ctl.core.unwritable import look_at
from b70ctl.errors import B70Error, MachineError, to_type

KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


FRESH = re.compile(r".*\.([0-9]+)-[0-9a-f]{8}\.new", re.DOTALL)
"""The name of a file that a process is writing, before it is whole; the number is the process."""
STDOUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def now() -> str:
    """The time, as the journal writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(stamp: str) -> float | None:
    """A time of the journal in seconds; None for what is none."""
    try:
        return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def unwritable(path: Path, error: OSError, done: str = "written") -> MachineError:
    """The error of a file or folder that cannot be written, with the command that shows why."""
    above = nearest(path.absolute().parent)
    hint = look_at(errno.errorcode.get(error.errno or 0), str(path), str(above))
    return MachineError(f"{path} cannot be {done}: {error.strerror or error}", hint=hint)


def replace(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file so that a reader sees the old one or the new one, and never half of one.

    A link is followed, and stays: what it points to is written. What is there and is no file (a device, a named pipe,
    a socket, a directory) is refused.
    """
    fresh = path
    try:
        target = _target(path)
        # a name of this write's own: another process may be at the same file
        path, fresh = target, target.with_name(f"{target.name[:40]}.{os.getpid()}-{secrets.token_hex(4)}.new")
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            if fresh is not path:
                fresh.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise unwritable(path, error) from error
        raise


def sweep(folder: Path) -> None:
    """Remove what killed processes left half written in a folder; what a living one is writing stays."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            found = FRESH.fullmatch(path.name)
            if found and not Path("/proc", found[1]).exists():
                with contextlib.suppress(OSError):
                    path.unlink()


def _target(path: Path) -> Path:
    try:
        found = path.stat().st_mode
    except FileNotFoundError:
        return path.resolve()
    if stat.S_ISREG(found):
        return path.resolve()
    hint = "leave it out, and it is written to stdout" if str(path) in STDOUT else to_type("ls", "-ld", path)
    raise MachineError(f"{path} cannot be written: {_no_file(path, found).strerror}", hint=hint)


def append(path: Path, line: str) -> None:
    """Add one line; what a crash left of a last line says nothing, and is cut off first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT), "a+b") as file:
            file.seek(0)
            written = file.read()
            if not written.endswith(b"\n"):
                file.truncate(written.rfind(b"\n") + 1)
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise unwritable(path, error) from error


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON file's mapping; None where there is no such file."""
    raw = read_text(path)
    try:
        found: Mapping[str, Any] | None = json.loads(raw) if raw is not None else None
        return dict(found) if found is not None else None
    except (ValueError, TypeError, RecursionError) as error:
        raise B70Error(f"{path} is damaged: {error}", hint=to_type("mv", path, f"{path}.damaged")) from error


def read_text(path: Path) -> str | None:
    """A file's text; None where there is no such file."""
    try:
        # bytes that a disk spoilt are for the reader of the text to find: a journal is read line by line
        return read_bytes(path).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror}") from error


def entries(folder: Path) -> list[Path]:
    """What lies in a folder, by name; nothing where there is none, and MachineError where nobody may look."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise MachineError(f"{folder} cannot be read: {error.strerror}", hint=to_type("ls", "-ld", folder)) from error


def is_there(path: Path | str) -> bool:
    """Whether something lies there; what cannot be looked at does not."""
    try:
        Path(path).stat()
    except (OSError, ValueError):
        return False
    return True


def is_gone(path: Path | str) -> bool:
    """Whether nothing lies there, or nothing can; what may not be looked at is not gone."""
    try:
        Path(path).stat()
    except ValueError:
        return True
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
    return False


def nearest(path: Path) -> Path:
    """The path, or what of it is there."""
    return next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))


def not_allowed(path: Path) -> str | None:
    """Why whoever runs this may not look whether a file is there, or read it; None where they may."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except PermissionError as error:
        return error.strerror
    except (OSError, ValueError):
        pass
    return None


def read_bytes(path: Path, most: int = -1) -> bytes:
    """A file's bytes, of a longer one the first `most`; OSError for what is no file."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read(most)


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """A descriptor of a file; OSError with what it is for anything else.

    A named pipe would be waited for, and some devices answer for ever.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.ENXIO):
            raise
        raise _no_file(path, path.stat().st_mode) from error
    found = os.fstat(descriptor).st_mode
    if stat.S_ISREG(found):
        return descriptor
    os.close(descriptor)
    raise _no_file(path, found)


def _no_file(path: Path, found: int) -> OSError:
    kind = KINDS.get(stat.S_IFMT(found), "something else")
    return OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))


def sync(folder: Path) -> None:
    """Make sure that a folder's entries are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """The same for everything below it."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync(path)
    sync(folder)
