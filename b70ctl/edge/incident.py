"""Incident folders: whole or not there, readable by their owner alone; and the views of a process that go into them."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from b70ctl.core.incident import incident_name, limited, surplus
from b70ctl.edge import process
from b70ctl.edge.files import sync, unwritable
from b70ctl.errors import B70Error, DaemonAway, EngineError, Interrupted, MachineError

if TYPE_CHECKING:
    from b70ctl.edge.daemon import Daemon

PARTIAL = ".partial-"
MOST_STACKS = 8
STACK_SECONDS = 10
_COLUMNS = "pid,ppid,stat,pcpu,etime,wchan:24,args"

Found = TypeVar("Found")
Part = Callable[[], str]
"""Makes the text of one file; what it raises stands in the file instead."""


def write_incident(folder: Path, at: str, kind: str, parts: Mapping[str, Part], keep: int) -> Path:
    """Write every part into a folder of its own, which is there once all of them are; older ones go beyond `keep`.

    A part that fails says so in its file, and keeps none of the others from being written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        sweep(folder)
        final = folder / incident_name(at, kind, known(folder))
        partial = folder / f"{PARTIAL}{final.name}"
        partial.mkdir(mode=0o700)
        for name, part in parts.items():
            _write(partial / name, limited(_made(part).encode("utf-8", errors="replace")))
        sync(partial)
        partial.rename(final)
        sync(folder)
        for name in surplus((name for name in known(folder) if name != final.name), keep - 1):
            shutil.rmtree(folder / name, ignore_errors=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return final


def known(folder: Path) -> list[str]:
    """The incidents that are kept, oldest first; none where the folder cannot be looked into: `hindrance` says why."""
    with contextlib.suppress(OSError):
        return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(PARTIAL))
    return []


def hindrance(folder: Path) -> str | None:
    """Why the incidents cannot be told, where something lies there that cannot be looked into."""
    try:
        next(folder.iterdir(), None)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return None


def sweep(folder: Path) -> None:
    """Remove what a watch that was killed left half written."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{PARTIAL}*"):
            shutil.rmtree(path, ignore_errors=True)


def _write(path: Path, raw: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def _made(part: Part) -> str:
    try:
        return part()
    except Interrupted:
        raise
    except B70Error as error:
        return f"not captured: {error.what}\n"
    except Exception as error:  # noqa: BLE001 - the other parts are worth having, whatever this one met
        return f"not captured: {type(error).__name__}: {error}\n"


def with_timeout(seconds: float, make: Callable[[], Found]) -> Found:
    """What Docker gives, waited for no longer than `seconds`: it may hang for the same reason as the engine.

    DaemonAway when the time is over.
    """
    found: list[Found] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            found.append(make())
        except Exception as error:  # noqa: BLE001 - raised again, in the thread that waits for it
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not found:
        raise DaemonAway(f"Docker gave no answer within {seconds:g} s", hint="docker info")
    return found[0]


# --- processes --------------------------------------------------------------------------------------------------------


def processes(daemon: Daemon, container: str) -> dict[str, Any]:
    """The container's processes: state, load, where in the kernel they wait."""
    return daemon.top(container, _COLUMNS)


def table(found: Mapping[str, Any]) -> str:
    """Processes as `ps` shows them."""
    rows = [found["Titles"], *found["Processes"]]
    return "".join("  ".join(f"{cell:>8}" for cell in row) + "\n" for row in rows)


def stacks(found: Mapping[str, Any]) -> str:
    """Where each Python process of these is, where py-spy is installed here and may look."""
    if shutil.which("py-spy") is None:
        raise MachineError("py-spy is not installed on this host; `pip install py-spy`, for root's PATH")
    rows = [row for row in found["Processes"] if Path(f"/proc/{row[0]}").exists()]
    if not rows:
        raise MachineError("the container's processes are not to be seen from here")
    return "\n".join(_stack(row[0], row[-1]) for row in rows[:MOST_STACKS])


def _stack(pid: str, words: str) -> str:
    head = f"--- {pid}: {words}\n"
    try:
        ran = process.run(("py-spy", "dump", "--pid", pid), timeout=STACK_SECONDS)
    except (MachineError, EngineError) as error:
        return f"{head}not captured: {error.what}\n"
    return head + (ran.stdout if ran.code == 0 else f"not captured: {ran.stderr.strip()}\n")
