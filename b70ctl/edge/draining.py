"""The steps of drain and restore: out of rotation and back, waiting for requests to end, companions that stop."""

from __future__ import annotations

import time

from b70ctl.core.metrics import Metrics
from b70ctl.core.plan import Step
from b70ctl.core.progress import Note
from b70ctl.core.release import Drained
from b70ctl.core.rotation import Action, asked
from b70ctl.edge.companions import companions_file, companions_project
from b70ctl.edge.files import now
from b70ctl.edge.router import ask_router
from b70ctl.edge.world import World
from b70ctl.errors import EngineError

LOOK = 0.5
"""Seconds between two looks at the engine's figures."""
CALM = 2
"""Looks in a row that must find no request: one that the router has just sent may not be counted yet."""
HEARTBEAT = 10.0


def withdraw(step: Step, world: World) -> None:
    """Ask the router to leave this engine out; that it may have been is known before it is."""
    world.update_state(withdrawn=world.store.state().withdrawn or now())
    _ask(step, world, Action.REMOVE)


def admit(step: Step, world: World) -> None:
    """Ask the router to take this engine back in."""
    _ask(step, world, Action.ADD)
    world.update_state(withdrawn=None)


def _ask(step: Step, world: World, action: Action) -> None:
    router = world.site.router
    if router is None:
        world.tell(Note(f"site.yaml has no `router` any more, so nobody was asked to {action} the engine"))
        return
    ask_router(asked(router, action, world.release(step.subject).deployment.address.url), world.root, world.holds())


def settle(step: Step, world: World) -> None:
    """Wait until the engine has no request left, or the site's limit has passed, which is told."""
    endpoint = world.endpoint(world.release(step.subject))
    limit = world.site.drain.limit
    end = time.monotonic() + limit
    told, calm, last = time.monotonic(), 0, "it did not say how many it has"
    while calm < CALM:
        try:
            figures = endpoint.metrics()
            calm = calm + 1 if _idle(figures) else 0
            last = f"{figures.running or 0} running, {figures.waiting or 0} waiting"
        except EngineError as error:
            calm, last = 0, error.what
            if not world.observe().runs(step.subject):
                return
        if calm < CALM and time.monotonic() >= end:
            world.tell(Note(f"not empty after {limit} s ({last}); the engine's own grace is for the rest"))
            return
        if time.monotonic() - told > HEARTBEAT:
            told = time.monotonic()
            world.tell(Note(f"  {last}"))
        time.sleep(LOOK if calm < CALM else 0)


def _idle(figures: Metrics) -> bool:
    return figures.running == 0 and figures.waiting == 0


def halt(_: Step, world: World) -> None:
    """Stop the companions that the site names; their containers stay."""
    named = world.site.drain.companions
    if named:
        file = companions_file(world.site, world.root, world.store.folder)
        services = () if named == "all" else tuple(named)
        world.compose().stop_companions(file, companions_project(world.site), services)


def drained(step: Step, world: World) -> None:
    """Remember that the site is drained; one that was before stays so since then."""
    before = world.store.state().drained
    world.update_state(stopped=True, drained=before or Drained(at=now(), release=step.subject))
