"""The only file that starts a process; none outlives the command that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from b70ctl.errors import EngineError, MachineError

PR_SET_PDEATHSIG = 1
POLL = 0.05
GUARD = Path(__file__).with_name("guard.py")
GUARD_SECONDS = 10.0
"""What the guard needs at most to end a command that does not want to."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a process said when it ended."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str], *, timeout: float, cwd: Path | None = None, env: Mapping[str, str] | None = None,
    hold: Sequence[int] = (),
) -> Ran:  # fmt: skip
    """Run to its end and give back all it said.

    The child dies with this process, and inherits the `hold` descriptors: should a grandchild outlive both, the lock
    that they stand for stays taken until it is gone. It runs in a session of its own, so that a Ctrl-C typed here is
    ours to answer. An exception in the wait (a signal asked to stop) ends the child first.
    """
    try:
        child = subprocess.Popen(
            list(argv), cwd=cwd, env=None if env is None else dict(env), text=True, encoding="utf-8", errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=tuple(hold),
            start_new_session=True, preexec_fn=_die_with_parent(os.getpid()),
        )  # fmt: skip
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename == argv[0]:
            raise MachineError(f"`{argv[0]}` is not installed") from None
        raise MachineError(f"`{argv[0]}` cannot be run: {error.strerror}") from error
    try:
        stdout, stderr = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(child)
        raise EngineError(f"`{' '.join(argv[:4])} …` did not end within {timeout:.0f} s") from None
    except BaseException:
        _end(child)
        raise
    return Ran(tuple(argv), child.returncode, stdout, stderr)


def attend(argv: Sequence[str], *, env: Mapping[str, str], aside: bool = False) -> int:
    """Run a person's command to its end, on our own terminal and in our process group; its exit status.

    Nothing that it started is left when this returns or raises, and nothing when this process dies: a guard sees to
    that. `aside` sends its stdout to our stderr.
    """
    # no lock is handed on: what a killed window leaves behind for a moment must not keep its owner from the way back
    guard = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid())]
    child = subprocess.Popen([*guard, *argv], env=dict(env), stdout=sys.__stderr__ if aside else None)
    try:
        return child.wait()
    except BaseException:
        child.terminate()
        try:
            child.wait(GUARD_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()  # the command itself dies with it
            child.wait()
        raise


def program(name: str) -> str | None:
    """Where a command's program lies, None when it cannot be run."""
    return shutil.which(name)


def _die_with_parent(parent: int) -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def set_signal() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the signal was set
            os._exit(1)

    return set_signal


def _end(child: subprocess.Popen[str]) -> None:
    """Stop a child and its session, gently first."""
    for sign, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, sign)
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if child.poll() is not None:
                break
            time.sleep(POLL)
