"""The journal: one line before and after each step, and what an unfinished command asks of the next one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from b70ctl.core.deployment import Value
from b70ctl.core.plan import Plan, Step, Verb, way_back
from b70ctl.core.release import Observed, Verdict


class Event(StrEnum):
    """What a line says."""

    BEGIN = "begin"
    BEFORE = "before"
    AFTER = "after"
    FAILED = "failed"
    UNDO = "undo"
    END = "end"


class Line(Value):
    """One line of the journal."""

    op: int
    at: str
    event: Event
    step: int | None = None
    what: str = ""
    plan: Plan | None = None
    by: str | None = None
    """begin: the command line, without secrets: they are never part of one."""
    boot: dict[str, Any] | None = None
    """end: what the boot told, for history: the release keeps only what its latest start told."""
    seconds: float | None = None
    """end: from start to proven."""
    result: str | None = None
    """end: done, finished, rolled-back, failed, unproven, interrupted, recovered."""
    late: int = 0
    """end: how many steps failed once there was nothing to go back to any more."""


class Book(Value):
    """A journal as it was read."""

    lines: tuple[Line, ...] = ()
    damaged: tuple[int, ...] = ()
    """Numbers of the lines that cannot be read; a last line that a crash cut off is not one of them."""

    @property
    def next_op(self) -> int:
        """A number that no command has had."""
        return max((line.op for line in self.lines), default=0) + 1


def parse(text: str) -> Book:
    """Every line that can be read; one that cannot is named, and does not keep its owner from the way back."""
    lines: list[Line] = []
    damaged: list[int] = []
    written = text.split("\n")
    for number, raw in enumerate(written, start=1):
        if not raw.strip():
            continue
        try:
            lines.append(Line.model_validate(json.loads(raw)))
        except (ValueError, RecursionError):
            damaged += [number] if number < len(written) else []
    return Book(lines=tuple(lines), damaged=tuple(damaged))


class Op(Value):
    """One command as the journal tells it."""

    number: int
    begin: Line
    plan: Plan
    begun: int = 0
    """How many steps were begun."""
    done: int = 0
    """How many steps were finished."""
    undoing: bool = False
    failures: tuple[str, ...] = ()
    end: Line | None = None


def ops(lines: Iterable[Line]) -> list[Op]:
    """The commands in order; lines of a command whose beginning is lost are passed over."""
    found: dict[int, dict[str, Any]] = {}
    for line in lines:
        if line.event is Event.BEGIN and line.plan is not None:
            found[line.op] = {"number": line.op, "begin": line, "plan": line.plan}
        elif line.op in found:
            _read(found[line.op], line)
    return [Op(**fields) for fields in found.values()]


def _read(op: dict[str, Any], line: Line) -> None:
    match line.event:
        case Event.BEFORE if not op.get("undoing"):
            op["begun"] = (line.step or 0) + 1
        case Event.AFTER if not op.get("undoing"):
            op["done"] = (line.step or 0) + 1
        case Event.UNDO:
            op["undoing"] = True
        case Event.FAILED:
            # the way back was decided on, though it may have been cut off before its first line
            op["undoing"] = True
            op["failures"] = (*op.get("failures", ()), line.what)
        case Event.END:
            op["end"] = line


def unfinished(history: list[Op]) -> Op | None:
    """The command that was cut off, if one was: only the last can be, since the next one recovers it first."""
    return history[-1] if history and history[-1].end is None else None


class Recovery(Value):
    """How an unfinished command is brought to its end."""

    finish: bool
    """Go on, since the new state was reached and only not recorded; else undo."""
    steps: tuple[Step, ...]
    because: str


def recovery(op: Op, observed: Observed, verdict: Verdict | None) -> Recovery:
    """Finish what was proven and only not recorded; undo everything else.

    `verdict` is the wanted release's, `observed` what Docker shows now.
    """
    rest = op.plan.steps[op.done :]
    if op.plan.command in ("prune", "snapshot"):
        return Recovery(finish=True, steps=rest, because="each of its steps stands alone")
    if op.plan.command in ("stop", "drain") and op.begun and not op.undoing and not observed.runs(op.plan.incumbent):
        return Recovery(finish=True, steps=rest, because="the engine has stopped; only the record is missing")
    proven = verdict is not None and verdict.state == "proven" and verdict.op == op.number
    if proven and observed.runs(op.plan.wanted) and not op.undoing:
        left = tuple(step for step in rest if step.verb not in (Verb.START, Verb.AWAIT, Verb.PROBE))
        return Recovery(finish=True, steps=left, because=f"{op.plan.wanted} was proven; only the record is missing")
    return Recovery(finish=False, steps=way_back(op.plan, op.begun), because=_cut(op))


def _cut(op: Op) -> str:
    if op.begun == 0:
        return "it was cut off before its first step"
    step = op.plan.steps[op.begun - 1]
    return f"it was cut off at `{step.verb} {step.subject}`"
