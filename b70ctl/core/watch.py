"""How the site wants its engine followed: when to look, what is a fault, how often a restart is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from b70ctl.core.journal import Op
from b70ctl.core.strict import Strict

COMMAND = "watch"
"""The plan's command in the journal, by which restarts are counted."""
_WAYS_BACK = ("restart", "start", "switch", "rollback", "restore")
_PROVEN = ("done", "finished")


class Watch(Strict):
    """How `b70ctl watch` follows the engine, what it takes for a fault, and how often it may restart."""

    every: Annotated[float, Field(gt=0, le=1440)] = 5
    """Minutes between two probes."""
    tick: Annotated[float, Field(ge=0.1, le=300)] = 15
    """Seconds between two looks at /health and /metrics."""
    confirm: Annotated[int, Field(ge=1, le=10)] = 2
    """Probes in a row that must fail before that is a fault."""
    unreachable: Annotated[float, Field(ge=0, le=86400)] = 120
    """Seconds without a 200 from /health before that is a fault; an engine that was started anew has its profile's
    `boot.budget`."""
    silence: Annotated[float, Field(gt=0, le=86400)] = 180
    """Seconds in which requests run and no token comes, before that is a fault; also the longest that a probe waits."""
    drift: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Part of its own decode rate that the release may lose before it is told; 0.3 tells below 70 %."""
    kv: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Part of the KV cache in use from which on it is told."""
    restarts: Annotated[int, Field(ge=0, le=100)] = 3
    """Restarts that are allowed within `hours`; with 0 the first fault is captured and ends the watch."""
    hours: Annotated[float, Field(gt=0, le=8760)] = 24
    """Hours in which restarts are counted."""
    incidents: Annotated[int, Field(ge=1, le=10000)] = 20
    """Incident folders that are kept, the newest."""


def own(op: Op) -> bool:
    """Whether a command of the journal is a restart by a watch."""
    return op.plan.command == COMMAND


def restarts_begun(history: Iterable[Op]) -> list[str]:
    """When each restart by a watch was begun, as the journal is stamped, since a person last proved an engine here.

    They looked and saw to it: from then on it is another count.
    """
    begun: list[str] = []
    for op in history:
        if own(op):
            begun.append(op.begin.at)
        elif _proved(op):
            begun.clear()
    return begun


def _proved(op: Op) -> bool:
    return op.plan.command in _WAYS_BACK and bool(op.plan.steps) and op.end is not None and op.end.result in _PROVEN


def restarts_left(watch: Watch, begun: Iterable[float], now: float) -> int:
    """How many restarts are still allowed; `begun` and `now` are seconds of the wall's clock.

    A clock that was set back a little forgives none. One that was far ahead, as without a battery, does not keep the
    watch from its work until its time has come.
    """
    recent = sum(abs(now - each) < watch.hours * 3600 for each in begun)
    return max(0, watch.restarts - recent)
