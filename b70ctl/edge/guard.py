"""Runs one command, and sees to it that nothing which that started is left: `python guard.py PARENT COMMAND…`

It is a program of its own and needs nothing but the standard library. Whatever the command started becomes its child
in the end, in whichever session it is, and is ended with it: when the command has ended, when SIGTERM asks for that,
and when PARENT, the process that wanted the command, has died. Its exit status is the command's.

What it may not signal it cannot end: a process of another user, as `sudo` starts one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PATIENCE = 3.0
POLL = 0.02
CANNOT_RUN = 127
HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Asked(Exception):
    """SIGTERM came, or the parent has died."""


def main(parent: int, command: list[str]) -> int:
    """The command's exit status, once nothing of it is left."""
    try:
        signal.signal(signal.SIGTERM, _asked)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                # a key on the terminal is for the command; with a handler of ours it gets the signal as it should
                signal.signal(number, lambda *_: None)
        # whoever started this let no signal come before it could be answered
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            raise Asked
        status = _wait(_start(command, prctl))
    except Asked:
        status = 128 + signal.SIGTERM
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sweep()
    return status


def _asked(*_: object) -> None:
    # first: a second one that came on the way to the sweep would skip it
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Asked


def _start(command: list[str], prctl: ctypes._FuncPointer) -> int:
    guard = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        # Python ignores these; a handler of ours ends with the exec, but must not be called before it
        for number in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == guard:
            os.execvp(command[0], command)  # noqa: S606 - it is what a person typed
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(CANNOT_RUN)


def _wait(child: int) -> int:
    while True:
        pid, how = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(how)
            return code if code >= 0 else 128 - code


def sweep(spare: Collection[int] = ()) -> None:
    """End every process below this one but those to `spare`, gently first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        told: set[int] = set()
        end = time.monotonic() + PATIENCE
        while (left := _left(spare)) and time.monotonic() < end:
            for pid in left - told:
                told.add(pid)
                try:
                    os.kill(pid, number)
                except OSError:
                    continue  # gone by now, or not ours to end
            time.sleep(POLL)


def _left(spare: Collection[int]) -> set[int]:
    """Who is to be ended; those that have ended are reaped."""
    left = descendants() - set(spare)
    for pid in tuple(left):
        try:
            left -= {os.waitpid(pid, os.WNOHANG)[0]}
        except ChildProcessError:
            continue  # a grandchild: its own parent's, and ours once that has ended
    return left


def descendants() -> set[int]:
    """Every process below this one."""
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(path.name)] = int(fields[1])
    found: set[int] = set()
    added = {os.getpid()}
    while added:
        added = {pid for pid, parent in parents.items() if parent in added} - found
        found |= added
    return found


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
