"""What a window goes on after: a command that failed, and, where that was asked for, an engine that did."""

from __future__ import annotations

import time

from b70ctl.core.plan import Plan, Step, Verb
from b70ctl.core.progress import StepBegun, StepDone
from b70ctl.core.window import later
from b70ctl.edge.steps import take
from b70ctl.edge.world import World
from b70ctl.errors import CommandFailed, DaemonAway, Interrupted

TURN = (Verb.START, Verb.AWAIT, Verb.PROBE, Verb.RUN)


def goes_on(plan: Plan, step: Step, error: BaseException, why: str, world: World) -> bool:
    """Whether a failed step is no reason to go back; what will not be done any more is passed over from here on.

    After a command that failed the engine is taken down in order, and then its successors are passed over. With
    `keep_going` they get their turn, also after an engine that failed; that one is discarded here.
    """
    if step.subject not in plan.tried or step.verb not in TURN:
        return False
    if isinstance(error, CommandFailed):
        world.passed |= set() if plan.keep_going else later(plan, step.subject)
        return True
    if not plan.keep_going or isinstance(error, (Interrupted, DaemonAway)) or not isinstance(error, Exception):
        return False
    world.failures[step.subject] = why
    for back in (each for each in plan.undo if each.subject == step.subject):
        world.tell(StepBegun(back, undo=True))
        began = time.monotonic()
        take(back, world)
        world.tell(StepDone(back, time.monotonic() - began, undo=True))
    world.passed.add(step.subject)
    return True
