"""The private daemon as a process: its command line, its record, its start, its end and what it leaves."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from b70ctl.errors import DaemonError

from . import network
from .engine_api import answers
from .places import cache_dir
from .talk import say

RUN = Path("/run/b70ctl-rig")
SOCKET = RUN / "docker.sock"
HOST = f"unix://{SOCKET}"
STATE = RUN / "state.json"
START_SECONDS = 60
STOP_SECONDS = 90


@dataclass(frozen=True, slots=True)
class State:
    """What `down` must know about the daemon that `up` started, and about the machine before it."""

    pid: int
    argv: tuple[str, ...]
    network: network.Before


def start() -> None:
    """Start it fresh, with the best storage driver that works here; DaemonError when none does."""
    RUN.mkdir(mode=0o755, parents=True, exist_ok=True)
    # a daemon that was killed has left its traces; what was before it is what counts
    crashed = recorded()
    before = crashed.network if crashed else network.Before.now()
    say(f"no Docker Engine answers: starting a private one on {HOST} (images in {_data_root()})")
    try:
        launch(_argv("overlay2"), before)
    except DaemonError as failed:
        if "overlay" not in failed.what:
            raise
        say("overlay2 does not work under this cache directory: falling back to vfs, which copies every layer")
        launch(_argv("vfs"), before)


def _data_root() -> Path:
    return cache_dir() / "dockerd"


def _argv(driver: str) -> tuple[str, ...]:
    return (
        shutil.which("dockerd") or "dockerd",
        "--data-root", str(_data_root()),
        "--exec-root", str(RUN / "exec"),
        "--pidfile", str(RUN / "dockerd.pid"),
        "--host", HOST,
        "--storage-driver", driver,
        "--shutdown-timeout", "10",
    )  # fmt: skip


def launch(argv: tuple[str, ...], before: network.Before) -> None:
    """Start the process and wait until it answers; it outlives the caller, and its record is written first."""
    log = cache_dir() / "dockerd.log"
    (RUN / "dockerd.pid").unlink(missing_ok=True)
    with log.open("wb") as sink:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True)
    part = STATE.with_suffix(".part")
    part.write_text(json.dumps(asdict(State(process.pid, argv, before))))
    part.replace(STATE)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise DaemonError(f"dockerd exited with {process.returncode}: {_tail(log)}", hint=f"less {log}")
        if answers(HOST):
            return
        time.sleep(0.1)
    stop(process.pid, signal.SIGKILL)
    raise DaemonError(f"dockerd did not answer within {START_SECONDS} s: {_tail(log)}", hint=f"less {log}")


def recorded() -> State | None:
    """The recorded daemon; None when nothing was recorded or the record cannot be read."""
    return read(STATE)


def read(path: Path) -> State | None:
    """A daemon's record from this file; None when it cannot be one."""
    try:
        raw = json.loads(path.read_text())
        before = {**raw["network"], "bridges": tuple(raw["network"]["bridges"])}
        return State(int(raw["pid"]), tuple(raw["argv"]), network.Before(**before))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def stop(pid: int, first: signal.Signals) -> None:
    """End a process of the rig's and wait for it; any other process is left alone."""
    for number, patience in ((first, STOP_SECONDS), (signal.SIGKILL, 10)):
        if not _is_ours(pid):
            return
        os.kill(pid, number)
        deadline = time.monotonic() + patience
        while _is_ours(pid) and time.monotonic() < deadline:
            time.sleep(0.05)


def _is_ours(pid: int) -> bool:
    """True for a live process whose command line names the rig's run directory."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        return str(RUN).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def clear() -> None:
    """Remove what a daemon that hangs or died badly has left: itself, containerd, shims, mounts, files."""
    _stop_recorded(RUN / "dockerd.pid", signal.SIGTERM)
    stop_containerd()
    for pid in (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()):
        if pid != os.getpid() and _is_shim(pid):
            stop(pid, signal.SIGKILL)
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        point = line.split()[1]
        if f"{point}/".startswith((f"{RUN}/", f"{_data_root()}/")):
            subprocess.run(("umount", "-l", point), capture_output=True, check=False)
    shutil.rmtree(RUN / "exec", ignore_errors=True)
    SOCKET.unlink(missing_ok=True)


def stop_containerd() -> None:
    """End the containerd that the daemon started and a killed daemon leaves behind."""
    record = RUN / "exec/containerd/containerd.pid"
    _stop_recorded(record, signal.SIGTERM)
    # an unreaped process still has its number, and the next daemon would wait for it
    record.unlink(missing_ok=True)


def _stop_recorded(pidfile: Path, first: signal.Signals) -> None:
    with contextlib.suppress(OSError, ValueError):
        stop(int(pidfile.read_text()), first)


def _is_shim(pid: int) -> bool:
    with contextlib.suppress(OSError):
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return b"containerd-shim" in argv[0] and any(str(RUN).encode() in part for part in argv[1:])
    return False


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return " | ".join(lines[-5:])
