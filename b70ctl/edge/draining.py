"""The steps of drain and restore: out of rotation and back, waiting for requests to end, companions that stop."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from b70ctl.core.losses import held_words, lost
from b70ctl.core.metrics import Metrics
from b70ctl.core.plan import Step
from b70ctl.core.progress import Emptying, Lost, Note
from b70ctl.core.release import Drained, Release
from b70ctl.core.rotation import Action, asked
from b70ctl.edge.companions import companions_file, companions_project
from b70ctl.edge.endpoint import Endpoint
from b70ctl.edge.files import now
from b70ctl.edge.router import ask_router
from b70ctl.edge.world import World
from b70ctl.errors import DaemonError, EngineError

LOOK = 0.5
"""Seconds between two looks at the engine's figures."""
CALM = 2
"""Looks in a row that must find no request: one that the router has just sent may not be counted yet."""
PULSE = 1.0
"""Seconds between two reports of an engine that has requests."""
ORDERLY = (0, 143)
"""Exit statuses of an engine that heard SIGTERM."""
PATIENCE = 2.0
"""Seconds that an engine which is stopping may take to say what it has."""


def withdraw(step: Step, world: World) -> None:
    """Ask the router to leave this engine out; that it may have been is known before it is."""
    before = world.store.state()
    world.update_state(withdrawn=before.withdrawn or now(), unsure=before.unsure or not before.withdrawn)
    _ask(step, world, Action.REMOVE)
    world.update_state(unsure=False)


def admit(step: Step, world: World) -> None:
    """Ask the router to take this engine back in."""
    _ask(step, world, Action.ADD)
    world.update_state(withdrawn=None, unsure=False)


def _ask(step: Step, world: World, action: Action) -> None:
    router = world.site.router
    if router is None:
        world.tell(Note(f"site.yaml has no `router` any more, so nobody was asked to {action} the engine"))
        return
    ask_router(asked(router, action, world.release(step.subject).deployment.address.url), world.root, world.secrets())


def settle(step: Step, world: World) -> None:
    """Wait until the engine has no request left, or the site's limit has passed, which is told."""
    release = world.release(step.subject)
    endpoint, limit = world.endpoint(release), world.site.drain.limit
    world.settled.setdefault(release.id, None)
    end, calm, told = time.monotonic() + limit, 0, 0.0
    while calm < CALM:
        figures, trouble = Metrics(), None
        try:
            figures = endpoint.metrics()
        except EngineError as error:
            trouble = error.what
            if not world.observe().runs(step.subject):
                return
        calm = calm + 1 if _requests(figures) == 0 else 0
        left = end - time.monotonic()
        if not calm:
            if left <= 0:
                last = trouble or held_words(figures.running, figures.waiting)
                world.tell(Note(f"not empty after {limit} s ({last}); {_grace_words(release)}"))
                return
            told = _tell_of(release, figures, left, world, told)
        time.sleep(LOOK if calm < CALM else 0)


def _requests(figures: Metrics) -> int | None:
    if figures.running is None or figures.waiting is None:
        return None
    return figures.running + figures.waiting


def _tell_of(release: Release, figures: Metrics, left: float, world: World, told: float) -> float:
    """Report what the engine has, once in a while; gives back when that was last done."""
    if time.monotonic() - told < PULSE:
        return told
    world.tell(Emptying(release.id, figures.running, figures.waiting, left))
    return time.monotonic()


def _grace(release: Release) -> int | None:
    """Seconds that the engine's requests have once it is told to stop; of one that was adopted they are not known."""
    return release.deployment.shutdown_timeout if release.kind == "engine" else None


def _grace_words(release: Release) -> str:
    grace = _grace(release)
    return f"the rest has the engine's own grace{'' if grace is None else f' of {grace} s'}, and is cut off then"


@contextlib.contextmanager
def witnessed(release: Release, world: World) -> Iterator[None]:
    """While an engine whose requests were waited for stops: tell what it still has, and in the end what it cut off."""
    if release.id not in world.settled:
        yield
        return
    began = world.settled[release.id] or time.monotonic()
    world.settled[release.id] = began
    endpoint = Endpoint(release.deployment.address.url, world.key(release), timeout=PATIENCE)
    witness = _Witness(release, world, endpoint, began)
    thread = threading.Thread(target=witness.look, daemon=True)
    thread.start()
    try:
        yield
        ended = time.monotonic()
    finally:
        witness.over.set()
        thread.join(2 * PATIENCE)
    found = witness.lost(ended, orderly=_ended_orderly(release, world))
    world.lost[release.id] = found
    if found != 0:
        world.tell(Lost(release.id, found))


def _ended_orderly(release: Release, world: World) -> bool:
    """Whether the engine ended by itself when it was told to, as far as its exit status says; else it crashed."""
    container = None
    with contextlib.suppress(DaemonError):
        container = world.container(release.id)
    return container is None or container.exit_code in ORDERLY


@dataclass
class _Witness:
    """What an engine that is stopping was last seen to have."""

    release: Release
    world: World
    endpoint: Endpoint
    began: float
    over: threading.Event = field(default_factory=threading.Event)
    requests: int | None = None
    seen: float = 0.0

    @property
    def deadline(self) -> float:
        """When the grace ends: an engine that aborts its requests then has none any more."""
        deployment, grace = self.release.deployment, _grace(self.release)
        return self.began + (deployment.stop_grace if grace is None else grace)

    def look(self) -> None:
        """Ask until the grace or the engine has ended."""
        told = 0.0
        while not self.over.is_set() and (asked_at := time.monotonic()) < self.deadline:
            with contextlib.suppress(EngineError):
                figures = self.endpoint.metrics()
                if (requests := _requests(figures)) is not None and not self.over.is_set():
                    self.requests, self.seen = requests, asked_at
                    if requests:
                        told = _tell_of(self.release, figures, self.deadline - asked_at, self.world, told)
            self.over.wait(LOOK / 2)

    def lost(self, ended: float, *, orderly: bool) -> int | None:
        """What it cut off when it had ended."""
        age = min(ended, self.deadline) - self.seen
        grace = _grace(self.release) if orderly else None
        return lost(self.requests, age=age, seconds=ended - self.began, grace=grace)


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
    lost = world.lost.get(step.subject)
    world.update_state(stopped=True, drained=before or Drained(at=now(), release=step.subject, lost=lost))
