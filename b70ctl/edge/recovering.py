"""Brings a command that was cut off to its end, before the next one begins."""

from __future__ import annotations

import time
from collections.abc import Sequence

from b70ctl.core.journal import Event, Op, recovery, unfinished
from b70ctl.core.losses import lost_words
from b70ctl.core.plan import Step, Verb
from b70ctl.core.progress import Note, StepBegun, StepDone, StepFailed
from b70ctl.edge.executor import learnt, note_leaving
from b70ctl.edge.files import sweep
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.steps import take
from b70ctl.edge.store import Journal
from b70ctl.edge.wayback import walk_back, why_of
from b70ctl.edge.world import World
from b70ctl.errors import DaemonAway, MachineError

RECORDS = (Verb.SERVE, Verb.IDLE, Verb.DRAINED)
"""The steps that write down the new state."""


def recover(world: World, interrupts: Interrupts) -> tuple[str | None, list[str]]:
    """Bring a command that was cut off to its end.

    Gives back what was done, None when there was nothing to do, and what failed of the tidying up. Raises when the
    new state could not be recorded, or the old one not be brought back.
    """
    world.store.sweep()
    for folder in (world.root, world.root / "profiles"):
        sweep(folder)
    op = unfinished(world.store.ops())
    if op is None:
        return None, []
    book = Journal(world.store, op.number)
    world.op = op.number
    verdict = world.store.verdict(op.plan.wanted) if op.plan.wanted else None
    plan = recovery(op, world.observe(), verdict)
    world.tell(Note(f"`{op.begin.by}` was not finished: {plan.because}"))
    if plan.finish:
        return _finish(op, plan.steps, world, book)
    for release in filter(None, (op.plan.wanted, *op.plan.tried)):
        world.failures[release] = f"interrupted: {plan.because}"
    interrupts.begin_undo()
    note_leaving(op.plan, op.begun, world)
    world.leaving -= _started_since(op, world)
    restored = walk_back(plan.steps, world, book)
    if world.unrecorded:
        step, error = world.unrecorded[0]
        hint = f"{error.hint}; then: b70ctl recover" if error.hint else "b70ctl recover"
        raise MachineError(f"{step}: done, and could not be recorded: {error.what}", hint=hint)
    book.write(Event.END, result="rolled-back" if restored else "recovered", what=plan.because)
    return (f"undone: {op.plan.incumbent} serves again, proven" if restored else "undone"), []


def _started_since(op: Op, world: World) -> set[str]:
    """Engines that the way back had already started: they were told to stop before that, and are not at it now."""
    containers = world.observe().containers
    return {item.release for item in containers if not item.foreign and item.started[:19] > op.begin.at[:19]}


def _losses(op: Op, world: World) -> list[str]:
    """Whether a drain cut requests off was known to whoever waited for its engine."""
    found = world.store.state().drained if op.plan.command == "drain" else None
    words = lost_words(found.lost) if found else None
    return [words] if words else []


def _finish(op: Op, steps: Sequence[Step], world: World, book: Journal) -> tuple[str, list[str]]:
    """The steps that are left; the new state must be written down, and everything else is tidying up."""
    late: list[str] = []
    for step in steps:
        world.tell(StepBegun(step))
        began = time.monotonic()
        try:
            take(step, world)
        except DaemonAway:
            raise
        except Exception as error:
            world.tell(StepFailed(step, why_of(error)))
            if step.verb in RECORDS:
                raise
            late.append(f"{step.verb} {step.subject}: {why_of(error)}")
        else:
            world.tell(StepDone(step, time.monotonic() - began))
    told = _losses(op, world)
    book.write(Event.END, result="finished", what="; ".join([*late, *told]), late=len(late), **learnt(op.plan, world))
    return f"finished: {op.plan.wanted or op.plan.command}", late
