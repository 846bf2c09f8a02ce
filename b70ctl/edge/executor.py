"""Walks a plan: the journal before and after each step, and the way back when one fails."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from b70ctl.core.journal import Event
from b70ctl.core.plan import Plan, Step, Verb, discarded, way_back
from b70ctl.core.progress import Note, StepBegun, StepDone, StepFailed
from b70ctl.core.window import After, after_failure, in_hand, later
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.steps import take
from b70ctl.edge.store import Journal
from b70ctl.edge.wayback import losses, note_log, tolerant, walk_back, why_of
from b70ctl.edge.world import World
from b70ctl.errors import B70Error, Interrupted, RolledBack, Unpatched


def execute(plan: Plan, world: World, interrupts: Interrupts, by: str) -> list[str]:
    """Do a plan whole, or bring everything back to where it was.

    Gives back what failed after the new release was already proven and recorded, which is no reason to go back.
    Raises RolledBack when the incumbent serves again, proven; Unproven when it does not; Interrupted when a person
    asked to stop and it was undone; and the step's own error when nothing that served was disturbed.
    """
    book: Journal | None = None
    begun = 0
    late: list[str] = []
    try:
        with interrupts.shielded():
            book = world.store.begin(plan, by)
            world.op = book.op
            interrupts.begin()
        for number, step in enumerate(plan.steps):
            if step.subject in world.passed:
                continue
            try:
                with interrupts.shielded():
                    book.write(Event.BEFORE, step=number, what=str(step))
                begun = number + 1
                _step(step, number, world, book, interrupts)
            except Exception as error:
                # after the new state is recorded there is nothing to go back to, and the rest is tidying up
                behind = interrupts.behind(error)
                if not _settled(plan, number) and not _goes_on(plan, step, behind, world):
                    raise
                late.append(f"{step.verb} {step.subject}: {why_of(error)}")
                interrupts.answered()
    except BaseException as caught:
        if book is None:
            raise
        behind = interrupts.behind(caught)
        try:
            _fail(behind, plan, begun, world, book, interrupts)
        finally:
            interrupts.end()
        raise behind from caught.__cause__
    with contextlib.suppress(Interrupted), interrupts.shielded():  # all is done: there is nothing left to stop
        book.write(Event.END, result="done", what="; ".join([*late, *losses(world)]), late=len(late),
                   **learnt(plan, world))  # fmt: skip
        interrupts.answered()
        interrupts.end()
    return late


def learnt(plan: Plan, world: World) -> dict[str, Any]:
    """What the last line of a command keeps of the boot that it waited for."""
    verdict = world.store.verdict(plan.wanted) if plan.wanted else None
    if verdict is None or verdict.op != world.op:
        return {}
    return {"boot": verdict.boot, "seconds": verdict.seconds}


def _settled(plan: Plan, number: int) -> bool:
    """Whether the step comes after the new state was recorded."""
    recorded = [at for at, step in enumerate(plan.steps) if step.verb is Verb.SERVE]
    return bool(recorded) and number > recorded[-1]


def _goes_on(plan: Plan, step: Step, error: BaseException, world: World) -> bool:
    """Whether a failed step is no reason to go back; what will not be done any more is passed over from here on."""
    answer = after_failure(plan, step, error)
    if answer is After.LAST:
        world.passed |= later(plan, step.subject)
    elif answer is After.NEXT:
        world.failures[step.subject] = why_of(error)
        for back in (each for each in plan.undo if each.subject == step.subject):
            world.tell(StepBegun(back, undo=True))
            began = time.monotonic()
            take(back, world)
            world.tell(StepDone(back, time.monotonic() - began, undo=True))
        world.passed.add(step.subject)
    return answer is not After.BACK


def _step(step: Step, number: int, world: World, book: Journal, interrupts: Interrupts) -> None:
    world.tell(StepBegun(step))
    began = time.monotonic()
    try:
        take(step, world)
    except BaseException as error:
        world.tell(StepFailed(step, why_of(error)))
        raise
    # without this line a recovery does the step again, which changes nothing: no reason to undo what was done
    with interrupts.shielded(), tolerant(world):
        book.write(Event.AFTER, step=number)
    world.tell(StepDone(step, time.monotonic() - began))


def _fail(
    error: BaseException, plan: Plan, begun: int, world: World, book: Journal, interrupts: Interrupts
) -> None:  # fmt: skip
    """Go back, and say how that went."""
    why = why_of(error)
    failed = in_hand(plan, begun)
    if failed:
        world.failures[failed] = "interrupted" if isinstance(error, Interrupted) else why
    why = f"{failed}: {why}" if failed in plan.tried else why
    steps = way_back(plan, begun)
    note_leaving(plan, begun, world)
    interrupts.begin_undo()
    with tolerant(world):
        book.write(Event.FAILED, what=why)
    if failed and not isinstance(error, Interrupted) and failed not in discarded(plan):
        note_log(failed, world)
    restored = walk_back(steps, world, book, why)
    if world.unrecorded:
        later = "; `b70ctl recover` does it once that can be done" if world.store.folder.is_dir() else ""
        world.tell(Note(f"what was done could not be written down{later}"))
    else:
        with tolerant(world):
            book.write(Event.END, result=_result(error, restored), what="; ".join([why, *losses(world)]))
    if restored and isinstance(error, Interrupted):
        error.what = f"{error.what}; {plan.incumbent} serves again, proven"
        return
    if restored:
        told_by_log = failed in world.store.releases() and not isinstance(error, Unpatched)
        hint = f"b70ctl logs {failed}" if told_by_log else getattr(error, "hint", None)
        raise RolledBack(f"{why}; {plan.incumbent} serves again, proven", hint=hint) from error
    if isinstance(error, B70Error):
        if plan.incumbent and not restored:
            admitted = any(step.verb is Verb.ADMIT for step in steps)
            error.what = f"{error.what}; {plan.incumbent} {'is back in rotation' if admitted else 'was not touched'}"
        if error.hint is None and failed in world.store.releases():
            error.hint = f"b70ctl logs {failed}"


def note_leaving(plan: Plan, begun: int, world: World) -> None:
    """Remember which engines were told to stop."""
    world.leaving |= {step.subject for step in plan.steps[:begun] if step.verb is Verb.STOP}


def _result(error: BaseException, restored: bool) -> str:
    if isinstance(error, Interrupted):
        return "interrupted"
    return "rolled-back" if restored else "failed"
