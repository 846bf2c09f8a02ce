"""Walks the way back, after a failure or in the place of a command that was cut off."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from b70ctl.core.journal import Event
from b70ctl.core.losses import lost_words
from b70ctl.core.plan import Step, Verb
from b70ctl.core.progress import Note, StepBegun, StepDone, StepFailed
from b70ctl.edge.files import moment
from b70ctl.edge.steps import LOG_LINES, take
from b70ctl.edge.store import Journal
from b70ctl.edge.world import World
from b70ctl.errors import B70Error, DaemonAway, Interrupted, MachineError, Unproven

DAEMON_PATIENCE = 90.0
RECORDED = (Verb.DISCARD, Verb.NAME, Verb.PROBE, Verb.SERVE, Verb.ADMIT, Verb.DRAINED)
"""Steps whose last act is to write down what they did."""
PROVING = (Verb.START, Verb.AWAIT, Verb.PROBE)
"""Steps of which an engine's log may tell why they failed."""
ENDED = ("created", "exited", "dead", "removing")
"""How Docker calls a container that holds neither card nor port."""


def walk_back(steps: Sequence[Step], world: World, book: Journal, first: str = "") -> bool:
    """Do the undo steps; True when they brought an engine back, proven.

    A daemon that is away is waited for. When it stays away, or an engine can be neither taken away nor stopped, the
    journal stays open for `recover`; when the incumbent itself fails, there is nothing left to try, and the journal is
    closed. A full disk keeps the record, not the way
    back: what could not be recorded is named in `world.unrecorded`. `first` is why the way back is taken, and is told
    before what fails on it.
    """
    if not steps:
        return False
    with tolerant(world):
        book.write(Event.UNDO, what=f"{len(steps)} steps")
    try:
        _wait_for_daemon(world)
        for step in steps:
            _undo(step, world, book, f"{first}; and on the way back: " if first else "")
    except Interrupted as error:
        # what is left can be done later: the journal stays open
        raise Unproven(f"the way back was stopped: {error.what}", hint="b70ctl recover") from error
    return any(step.verb is Verb.SERVE for step in steps)


def _undo(step: Step, world: World, book: Journal, first: str) -> None:
    world.tell(StepBegun(step, undo=True))
    began = time.monotonic()
    try:
        take(step, world)
    except (Interrupted, DaemonAway) as error:
        world.tell(StepFailed(step, error.what, undo=True))
        raise Unproven(f"{first}the way back stopped at `{step.verb} {step.subject}`: {error.what}",
                       hint="b70ctl recover") from error  # fmt: skip
    except Exception as error:
        world.tell(StepFailed(step, why_of(error), undo=True))
        if isinstance(error, MachineError) and step.verb in RECORDED:
            # an engine that is not sensible is another error: here only writing it down has failed
            world.unrecorded += [] if step.verb is Verb.DISCARD else [(str(step), error)]
            return
        if step.verb is Verb.DISCARD:
            _set_aside(step.subject, world, first, error)
            return
        if step.verb in PROVING:
            note_log(step.subject, world)
        if step.verb is Verb.COMPANIONS:
            return  # the engine serves again, and is not less proven because something beside it is missing
        with tolerant(world):
            book.write(Event.END, result="unproven", what="; ".join([first + why_of(error), *losses(world)]))
        if step.verb is Verb.ADMIT:
            raise Unproven(f"{first}{step.subject} serves, and may be out of rotation: {why_of(error)}",
                           hint="b70ctl restore") from error  # fmt: skip
        logs = f"b70ctl logs {step.subject}" if world.store.folder.is_dir() else "docker ps --all"
        raise Unproven(f"{first}{step.subject} could not be brought back: `{step.verb}` failed: {why_of(error)}",
                       hint=logs) from error  # fmt: skip
    world.tell(StepDone(step, time.monotonic() - began, undo=True))


def _set_aside(release: str, world: World, first: str, error: Exception) -> None:
    """An engine that could not be taken away: where it has ended it is in nobody's way, and else nothing is started."""
    with _despite():
        take(Step(verb=Verb.STOP, subject=release, because="it could not be taken away"), world)
    # whoever stopped it: what counts is what Docker shows now
    name = None
    with _despite():
        container = world.container(release)
        if container is None or container.state in ENDED:
            world.tell(Note(f"{release} has stopped, and could not be taken away: {why_of(error)}"))
            return
        name = container.name
    raise Unproven(
        f"{first}{release} could not be taken away, so nothing was started beside it: {why_of(error)}",
        hint=f"docker rm --force {name}; b70ctl recover" if name else "b70ctl recover",
    ) from error


def note_log(release: str, world: World) -> None:
    """Remember what an engine that failed has written since it was started, before another start writes on."""
    with _despite():
        container = world.container(release)
        if container is not None:
            since = moment(f"{container.started[:19]}Z")
            world.said[release] = world.daemon.logs(container.id, LOG_LINES, since)


@contextlib.contextmanager
def _despite() -> Iterator[None]:
    try:
        yield
    except Interrupted:
        raise
    except Exception:  # noqa: BLE001 - the first error is the one that is told
        return


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


def losses(world: World) -> list[str]:
    """What is kept of the requests that an engine cut off when it stopped."""
    return [words for words in map(lost_words, world.lost.values()) if words]
