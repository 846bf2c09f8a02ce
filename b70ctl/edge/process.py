"""The only file that starts a process; none outlives the command that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from b70ctl.errors import EngineError, MachineError

PR_SET_PDEATHSIG = 1
POLL = 0.05


@dataclass(frozen=True, slots=True)
class Ran:
    """What a process said when it ended."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str], *, timeout: float, cwd: Path | None = None, env: Mapping[str, str] | None = None,
    hold: Sequence[int] = (), stdin: str | None = None,
) -> Ran:  # fmt: skip
    """Run to its end and give back all it said.

    The child dies with this process, and inherits the `hold` descriptors: should a grandchild outlive both, the lock
    that they stand for stays taken until it is gone. It runs in a session of its own, so that a Ctrl-C typed here is
    ours to answer. An exception in the wait (a signal asked to stop) ends the child first.
    """
    try:
        child = subprocess.Popen(
            list(argv), cwd=cwd, env=None if env is None else dict(env), text=True, encoding="utf-8", errors="replace",
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=tuple(hold), start_new_session=True,
            preexec_fn=_die_with_parent(os.getpid()),
        )  # fmt: skip
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename == argv[0]:
            raise MachineError(f"`{argv[0]}` is not installed") from None
        raise MachineError(f"`{argv[0]}` cannot be run: {error.strerror}") from error
    try:
        stdout, stderr = child.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(child)
        raise EngineError(f"`{' '.join(argv[:4])} …` did not end within {timeout:.0f} s") from None
    except BaseException:
        _end(child)
        raise
    return Ran(tuple(argv), child.returncode, stdout, stderr)


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
