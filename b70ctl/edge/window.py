"""The steps of a window: waiting for a quiet box, and running the command."""

from __future__ import annotations

import os
import time

from b70ctl.core.plan import Step
from b70ctl.core.progress import CommandEnded, Note
from b70ctl.core.window import Turn, told
from b70ctl.edge.process import attend
from b70ctl.edge.world import Errand, World
from b70ctl.errors import CommandFailed, EngineError, Interrupted, Refused

LOOK = 1.0
HEARTBEAT = 15.0


def verify(_: Step, world: World) -> None:
    """Wait until nothing says that the box is not quiet; Refused when something still does at the site's limit.

    A load average falls slowly, long after its cause has gone. What cannot be known is told, and accepted.
    """
    errand = _errand(world)
    limit = world.site.drain.limit
    end, said = time.monotonic() + limit, 0.0
    while True:
        found = errand.signs()
        noisy = "; ".join(f"{sign.question}: no, {sign.evidence}" for sign in found if sign.quiet is False)
        if not noisy or errand.anyway:
            break
        if time.monotonic() >= end:
            raise Refused(f"the box is not quiet after {limit} s: {noisy}", hint="b70ctl window --anyway …")
        if time.monotonic() - said > HEARTBEAT:
            said = time.monotonic()
            world.tell(Note(f"  not quiet yet: {noisy}"))
        time.sleep(LOOK)
    if noisy:
        world.tell(Note(f"  not quiet, and accepted: {noisy}"))
    for sign in found:
        if sign.quiet is None:
            world.tell(Note(f"  unknown: {sign.question}: {sign.evidence}"))


def leave(release: str, world: World) -> None:
    """Take away the network that an engine had in the dark, once it is gone."""
    found = world.known.get(release)
    if found is not None and found.dark:
        world.daemon.remove_network(found.deployment.network, world.site.name)


def run(step: Step, world: World) -> None:
    """Run the command against the engine whose turn it is.

    Raises CommandFailed when it ends with anything but 0, EngineError when the engine did not live as long as it,
    Interrupted when Ctrl-C was pressed, however the command took that.
    """
    errand = _errand(world)
    release = world.release(step.subject)
    pressed, began = errand.presses(), time.monotonic()
    env = {**os.environ, **told(release, world.key(release))}
    with errand.attended():
        code = attend(errand.argv, env=env, aside=errand.aside)
    turn = Turn(code=code, seconds=round(time.monotonic() - began, 1))
    errand.turns[release.id] = turn
    world.tell(CommandEnded(release.id, turn.code, turn.seconds))
    if errand.presses() > pressed:
        raise Interrupted("interrupted by SIGINT while the command ran")
    container = world.container(release.id)
    if container is None or container.state != "running":
        how = f"ended with exit {container.exit_code}" if container else "is gone"
        raise EngineError(f"the engine {how}, while the command ran")
    if code:
        raise CommandFailed(f"the command ended with exit {code}")


def _errand(world: World) -> Errand:
    if world.errand is None:
        raise Refused("there is no command for a window to run")
    return world.errand
