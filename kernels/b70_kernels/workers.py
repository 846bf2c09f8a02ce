"""Processes that share work, of which one may die without taking more than its own job with it.

Compilers crash and are killed for memory. A pool of `concurrent.futures` is broken by that and does not say which job
it was; here every process has a pipe of its own, so that the end of the pipe names the job.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
PATIENCE = 5
"""Seconds that a process has to end by itself."""


@dataclass(frozen=True, slots=True)
class Died:
    """What is known of a job whose process ended under it."""

    status: int | None
    """As `multiprocessing` tells it: less than 0 is a signal."""

    def __str__(self) -> str:
        if self.status is not None and self.status < 0:
            return f"a process died: signal {-self.status}"
        return f"a process died: status {self.status}"


@dataclass(frozen=True, slots=True)
class _Busy(Generic[Job]):
    process: SpawnProcess
    job: Job
    number: int
    """Of the jobs that this process had."""


def outcomes(
    work: Callable[[Job], Result], jobs: Iterable[Job], processes: int, jobs_each: int | None = None
) -> Generator[tuple[Job, Result | Died], None, None]:
    """Every job with what `work` made of it, as soon as there is something, in no order.

    A process is replaced after `jobs_each` jobs, and when it dies. `work` is importable, and what it raises ends its
    process. Closing the iterator kills those that still work.
    """
    waiting = deque(jobs)
    busy: dict[Connection, _Busy[Job]] = {}
    try:
        for _ in range(min(processes, len(waiting))):
            _start(work, waiting.popleft(), busy)
        while busy:
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)  # noqa: S101 - wait gives back what it was given
                done = busy.pop(pipe)
                try:
                    found: Result | Died = pipe.recv()
                except (EOFError, OSError):
                    done.process.join(PATIENCE)
                    found = Died(done.process.exitcode)
                if waiting:
                    if isinstance(found, Died) or done.number == jobs_each:
                        _end(pipe, done.process)
                        _start(work, waiting.popleft(), busy)
                    else:
                        _hand(pipe, _Busy(done.process, waiting.popleft(), done.number + 1), busy)
                else:
                    _end(pipe, done.process)
                yield done.job, found
    finally:
        for pipe, one in busy.items():
            one.process.kill()
            _end(pipe, one.process)


def _start(work: Callable[[Job], Any], job: Job, busy: dict[Connection, _Busy[Job]]) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs), daemon=True)
    # unblocks interrupts when it starts, so it comes first
    resource_tracker.ensure_running()
    # a child keeps the mask: an interrupt is for the process that started them all to answer
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
        _hand(ours, _Busy(process, job, 1), busy)
    finally:
        theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hand(pipe: Connection, one: _Busy[Job], busy: dict[Connection, _Busy[Job]]) -> None:
    busy[pipe] = one
    # one that died idle cannot be written to; its end is read from the pipe, like any other
    with suppress(OSError):
        pipe.send(one.job)


def _end(pipe: Connection, process: SpawnProcess) -> None:
    """A process without a pipe leaves; one that does not is killed."""
    pipe.close()
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()
    process.close()


def _serve(work: Callable[[Job], Any], pipe: Connection) -> None:
    """What a process does: a job, its result, the next, until the pipe ends."""
    with suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(work(pipe.recv()))
