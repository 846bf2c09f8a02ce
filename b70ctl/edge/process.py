"""The only file that starts a process; none outlives the command that started it.

Compose alone inherits the locks (`run(hold=…)`): cut off in the middle it may still make or stop a container, and
until it is gone nobody else may. What a person wrote, a hook or a window's command, inherits none and is guarded
instead: a daemon that it left behind would hold the site for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b70ctl.edge import guard
from b70ctl.edge.signals import held_back
from b70ctl.errors import EngineError, MachineError

POLL = 0.05
GUARD = Path(guard.__file__)
GUARD_SECONDS = 10.0
"""What the guard needs at most to end a command that does not want to."""
LAST_WORDS = 1.0
"""Seconds that are waited for the rest of an output: who took the stream along does not keep us."""
HEAD = 256
"""Bytes at a program's beginning that say what runs it."""
KEPT = 400
"""Lines of a hook's output that are kept."""


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
    prepare = _die_with_parent(os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    try:
        with _started(
            argv, _end, cwd=cwd, env=None if env is None else dict(env), text=True, encoding="utf-8", errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=tuple(hold),
            start_new_session=True, preexec_fn=prepare,
        ) as child:  # fmt: skip
            stdout, stderr = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise EngineError(f"`{' '.join(argv[:4])} …` did not end within {timeout:.0f} s") from None
    return Ran(tuple(argv), child.returncode, stdout, stderr)


def consult(argv: Sequence[str], *, timeout: float, cwd: Path, env: Mapping[str, str]) -> Ran:
    """Run a person's hook to its end, with nobody at its terminal, and give back the last lines that it said.

    It is guarded as `attend` guards a command. Only the hook itself is waited for: its output ends with it. Errors
    name the program, and none of its words, which may be a script or a secret.
    """
    said: tuple[deque[str], deque[str]] = (deque(maxlen=KEPT), deque(maxlen=KEPT))
    with _guarded(
        argv, env=dict(env), cwd=cwd, text=True, encoding="utf-8", errors="replace", start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        streams = zip((child.stdout, child.stderr), said, strict=True)
        readers = [threading.Thread(target=kept.extend, args=(stream,), daemon=True) for stream, kept in streams]
        for reader in readers:
            reader.start()
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise EngineError(f"`{argv[0]}` did not end within {timeout:.0f} s") from None
        for reader in readers:
            reader.join(LAST_WORDS)
    stdout, stderr = ("".join(tuple(kept)) for kept in said)
    return Ran(tuple(argv), code, stdout, stderr)


def attend(argv: Sequence[str], *, env: Mapping[str, str], aside: bool = False) -> int:
    """Run a person's command to its end, on our own terminal and in our process group; its exit status.

    Nothing that it started is left when this returns or raises, and nothing when this process dies: a guard sees to
    that. A process of another user, as `sudo` starts one, is beyond it. `aside` sends its stdout to our stderr.
    """
    with _guarded(argv, env=dict(env), stdout=sys.__stderr__ if aside else None) as child:
        return child.wait()


def overhear(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, hear: Callable[[str, bool], None]) -> int:
    """The same with nobody at its terminal: each line is given to `hear` as it comes, and whether it is of stderr."""
    with _guarded(
        argv, env=dict(env), cwd=cwd, text=True, encoding="utf-8", errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        aside = threading.Thread(target=_hear, args=(child.stderr, True, hear), daemon=True)
        aside.start()
        _hear(child.stdout, False, hear)
        aside.join()
        return child.wait()


def _hear(stream: Iterable[str] | None, aside: bool, hear: Callable[[str, bool], None]) -> None:
    for line in stream or ():
        hear(line.rstrip("\r\n"), aside)


def _guard() -> list[str]:
    # no lock is handed on: what a killed command leaves behind for a moment must not keep its owner from the way back
    return [sys.executable, "-I", "-S", str(GUARD), str(os.getpid())]


@contextlib.contextmanager
def _guarded(argv: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[Any]]:
    """A guard with a command; MachineError when it was killed, once what it left has been ended here."""
    prctl = ctypes.CDLL(None).prctl
    others = guard.descendants()
    prctl(guard.PR_SET_CHILD_SUBREAPER, 1)  # what a guard that was killed leaves becomes ours
    try:
        with _started([*_guard(), *argv], _relieve, **how) as child:
            yield child
        if child.returncode is not None and child.returncode < 0:
            with held_back():
                guard.sweep(others)
            raise MachineError(f"the process that guards `{argv[0]}` was ended by signal {-child.returncode}, "
                               "and the command with it")  # fmt: skip
    finally:
        prctl(guard.PR_SET_CHILD_SUBREAPER, 0)


@contextlib.contextmanager
def _started(
    argv: Sequence[str], end: Callable[[subprocess.Popen[Any]], None], **how: Any
) -> Iterator[subprocess.Popen[Any]]:  # fmt: skip
    """A child, ended where the block is left by an exception; no signal comes between, or before that is done."""
    child: subprocess.Popen[Any] | None = None
    try:
        with held_back():
            child = _popen(argv, **how)
        yield child
    except BaseException:
        if child is not None:
            with held_back():
                end(child)
        raise


def _popen(argv: Sequence[str], **how: Any) -> subprocess.Popen[Any]:
    try:
        return subprocess.Popen(list(argv), **how)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename == argv[0]:
            raise MachineError(f"`{argv[0]}` is not installed") from None
        raise MachineError(f"`{argv[0]}` cannot be run: {error.strerror}") from error


def _relieve(child: subprocess.Popen[Any]) -> None:
    """Ask a guard to end its command, and wait until it has."""
    child.terminate()
    try:
        child.wait(GUARD_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()  # the command itself dies with it
        child.wait()


def program(name: str) -> str | None:
    """Where a command's program lies, None when it cannot be run."""
    return shutil.which(name)


def cannot_run(name: str, folder: Path = Path()) -> str | None:
    """Why a program would not start in a folder, None where nothing is known against it."""
    # a name without a slash is looked for along PATH, any other from the folder
    found = program(str((folder / name).absolute()) if "/" in name else name)
    if found is None:
        return "is not a program that can be run from here"
    try:
        with Path(found).open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return None  # it may be run, and not read
    if not head.startswith(b"#!"):
        # what is no text may be of a format that this kernel knows
        return None if b"\0" in head else "has no `#!` line, so the system does not know what runs it"
    words = head[2:].partition(b"\n")[0].split()
    interpreter = os.fsdecode(words[0]) if words else ""
    return None if shutil.which(interpreter) else f"is to be run by `{interpreter}`, which is not there"


def _die_with_parent(parent: int, mask: Iterable[int]) -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def set_signal() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        prctl(guard.PR_SET_PDEATHSIG, signal.SIGKILL)
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
