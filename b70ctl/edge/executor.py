"""Walks a plan: the journal before and after each step, and the way back when one fails."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from b70ctl.core.journal import Event
from b70ctl.core.plan import Plan, Step, Verb, way_back
from b70ctl.core.progress import Note, StepBegun, StepDone, StepFailed
from b70ctl.core.window import in_hand
from b70ctl.edge.forgiving import goes_on
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.steps import take
from b70ctl.edge.store import Journal
from b70ctl.edge.world import World
from b70ctl.errors import B70Error, DaemonAway, Interrupted, MachineError, RolledBack, Unproven

DAEMON_PATIENCE = 90.0
RECORDED = (Verb.DISCARD, Verb.NAME, Verb.PROBE, Verb.SERVE, Verb.ADMIT, Verb.DRAINED)
"""Steps whose last act is to write down what they did."""


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
                if not _settled(plan, number) and not goes_on(plan, step, behind, why_of(behind), world):
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
        book.write(Event.END, result="done", what="; ".join(late), **learnt(plan, world))
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
    restored = walk_back(steps, world, book)
    if world.unrecorded:
        later = "; `b70ctl recover` does it once the disk has room" if world.store.folder.is_dir() else ""
        world.tell(Note(f"what was done could not be written down{later}"))
    else:
        with tolerant(world):
            book.write(Event.END, result=_result(error, restored), what=why)
    if restored and isinstance(error, Interrupted):
        error.what = f"{error.what}; {plan.incumbent} serves again, proven"
        return
    if restored:
        hint = f"b70ctl logs {failed}" if failed in world.store.releases() else getattr(error, "hint", None)
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


def walk_back(steps: Sequence[Step], world: World, book: Journal) -> bool:
    """Do the undo steps; True when they brought an engine back, proven.

    A daemon that is away is waited for. When it stays away the journal stays open for `recover`; when the incumbent
    itself fails, there is nothing left to try, and the journal is closed. A full disk keeps the record, not the way
    back: what could not be recorded is named in `world.unrecorded`.
    """
    if not steps:
        return False
    with tolerant(world):
        book.write(Event.UNDO, what=f"{len(steps)} steps")
    try:
        _wait_for_daemon(world)
        for step in steps:
            _undo(step, world, book)
    except Interrupted as error:
        # what is left can be done later: the journal stays open
        raise Unproven(f"the way back was stopped: {error.what}", hint="b70ctl recover") from error
    return any(step.verb is Verb.SERVE for step in steps)


def _undo(step: Step, world: World, book: Journal) -> None:
    world.tell(StepBegun(step, undo=True))
    began = time.monotonic()
    try:
        take(step, world)
    except (Interrupted, DaemonAway) as error:
        world.tell(StepFailed(step, error.what, undo=True))
        raise Unproven(f"the way back stopped at `{step.verb} {step.subject}`: {error.what}",
                       hint="b70ctl recover") from error  # fmt: skip
    except Exception as error:
        world.tell(StepFailed(step, why_of(error), undo=True))
        if isinstance(error, MachineError) and step.verb in RECORDED:
            # an engine that is not sensible is another error: here only writing it down has failed
            world.unrecorded += [] if step.verb is Verb.DISCARD else [str(step)]
            return
        if step.verb is Verb.COMPANIONS:
            return  # the engine serves again, and is not less proven because something beside it is missing
        with tolerant(world):
            book.write(Event.END, result="unproven", what=why_of(error))
        if step.verb is Verb.ADMIT:
            raise Unproven(f"{step.subject} serves, and may be out of rotation: {why_of(error)}",
                           hint="b70ctl restore, which asks the router once more") from error  # fmt: skip
        logs = f"b70ctl logs {step.subject}" if world.store.folder.is_dir() else "docker ps --all"
        raise Unproven(f"{step.subject} could not be brought back: `{step.verb}` failed: {why_of(error)}",
                       hint=logs) from error  # fmt: skip
    world.tell(StepDone(step, time.monotonic() - began, undo=True))


def _wait_for_daemon(world: World) -> None:
    end = time.monotonic() + DAEMON_PATIENCE
    told = False
    while True:
        try:
            world.observe()
        except DaemonAway as error:
            if time.monotonic() > end:
                raise Unproven(f"the way back needs Docker's daemon, which does not answer: {error.what}",
                               hint="sudo systemctl start docker; b70ctl recover") from error  # fmt: skip
            if not told:
                world.tell(Note("Docker's daemon does not answer; waiting for it before going back"))
                told = True
            time.sleep(0.5)
        except Interrupted:
            raise
        except Exception:  # noqa: BLE001 - it answers, and what is wrong with the answer is for the steps to tell
            return
        else:
            return


@contextlib.contextmanager
def tolerant(world: World) -> Iterator[None]:
    """A journal that cannot be written (the disk is full) does not stop the way back."""
    try:
        yield
    except MachineError as error:
        world.tell(Note(error.what))


def why_of(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, B70Error):
        return error.what
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"
