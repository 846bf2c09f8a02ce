"""Processes that share work: a job that ends its process is told by name, and takes no other with it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from b70_kernels.workers import Died, outcomes


def work(job: tuple[str, int]) -> tuple[int, int]:
    kind, number = job
    if kind == "signal":
        os.kill(os.getpid(), number)
    if kind == "leave":
        os._exit(number)
    return number, os.getpid()


def told(job: tuple[str, int]) -> int:
    """Says in a file which process has begun, then never ends."""
    Path(job[0], str(os.getpid())).touch()
    while True:
        time.sleep(0.01)


@pytest.mark.parametrize("processes", [1, 3])
def test_every_job_has_one_outcome_and_a_death_is_told_of_the_job_that_died(processes: int) -> None:
    jobs = [("fine", 1), ("signal", signal.SIGKILL), ("fine", 2), ("signal", signal.SIGSEGV), ("leave", 3), ("fine", 4)]
    found = list(outcomes(work, jobs, processes))
    assert sorted(job for job, _ in found) == sorted(jobs)
    by_job = dict(found)
    dead = {job: str(outcome) for job, outcome in found if isinstance(outcome, Died)}
    assert dead == {
        ("signal", 9): "a process died: signal 9",
        ("signal", 11): "a process died: signal 11",
        ("leave", 3): "a process died: status 3",
    }
    assert [by_job["fine", number][0] for number in (1, 2, 4)] == [1, 2, 4]  # type: ignore[index]


def test_a_process_is_replaced_after_so_many_jobs() -> None:
    found = outcomes(work, [("fine", number) for number in range(5)], 1, jobs_each=2)
    counts: dict[int, int] = {}
    for _, outcome in found:
        assert not isinstance(outcome, Died)
        counts[outcome[1]] = counts.get(outcome[1], 0) + 1
    assert sorted(counts.values()) == [1, 2, 2]


def test_an_interrupt_of_the_whole_group_is_not_answered_by_a_process_that_works() -> None:
    job = ("signal", signal.SIGINT)
    ((done, outcome),) = outcomes(work, [job], 1)
    assert (done, outcome[0]) == (job, signal.SIGINT)  # type: ignore[index]


def test_no_jobs_are_no_outcomes() -> None:
    assert list(outcomes(work, [], 4)) == []


def test_closing_ends_what_still_works(tmp_path: Path) -> None:
    running = outcomes(_first_is_quick, [("", 0), (str(tmp_path), 1)], 2)
    assert next(running) == (("", 0), 0)
    until = time.monotonic() + 60
    while not (begun := list(tmp_path.iterdir())):
        assert time.monotonic() < until, "the second job never began"
        time.sleep(0.02)
    running.close()
    assert not Path("/proc", begun[0].name).exists()


def _first_is_quick(job: tuple[str, int]) -> int:
    return told(job) if job[0] else 0
