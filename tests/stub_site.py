"""A site whose daemon is a stub: an engine that serves, another that is wanted, and commands between them."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from b70ctl.core.journal import Op
from b70ctl.core.plan import Plan, Step, Verb, plan_switch
from b70ctl.core.progress import Event
from b70ctl.core.release import Release, State, Verdict
from b70ctl.edge import steps, store, wayback
from b70ctl.edge.executor import execute
from b70ctl.edge.filling import Prepared
from b70ctl.edge.recovering import recover
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.store import Store
from b70ctl.edge.world import World
from b70ctl.errors import EngineError, MachineError
from tests.making import a_release, a_site, a_verdict
from tests.stub_daemon import Killed, StubDaemon, absence, refusal

OLD, NEW = a_release(1, "old"), a_release(2, "new")
FULL = partial(MachineError, "No space left on device")
NONSENSE = partial(EngineError, "nonsense")
FAULTS: dict[str, dict[str, Any]] = {
    "refused": {"error": refusal},
    "done and refused": {"error": refusal, "late": True},
    "refused from then on": {"error": refusal, "lasting": True},
    "away": {"error": absence},
    "done and away": {"error": absence, "late": True},
    "away from then on": {"error": absence, "lasting": True},
    "surprised": {"error": partial(TypeError, "surprise")},
    "no file": {"error": partial(OSError, errno.ENOENT, "No such file")},
    "not sensible": {"error": NONSENSE},
}
"""How a call of the daemon's may fail: words for `StubDaemon.on`."""


@dataclass
class StubSite:
    """Its store is real, its daemon is not."""

    root: Path
    daemon: StubDaemon = field(default_factory=StubDaemon)
    told: list[Event] = field(default_factory=list)
    hear: Callable[[Event], None] = lambda _: None

    @property
    def store(self) -> Store:
        return Store(self.root / ".b70ctl")

    @property
    def state(self) -> State:
        return self.store.state()

    @property
    def last(self) -> Op:
        """The last command."""
        return self.store.ops()[-1]

    @property
    def result(self) -> str | None:
        """How the last command ended; None while its journal is open."""
        return self.last.end.result if self.last.end else None

    def keep(self, release: Release, verdict: Verdict | None = None) -> None:
        """A release that lies in the store."""
        with self.store.writing(release) as folder:
            (folder / "compose.yaml").write_text("name: x\n")
        self.daemon.releases[release.id] = release
        if verdict:
            self.store.save_verdict(release.id, verdict)

    def serve(self, release: Release) -> None:
        """A release that serves, proven by an earlier command."""
        self.keep(release, a_verdict(op=0))
        self.daemon.add(release)
        self.store.save_state(State(serving=release.id, next=release.number + 1))

    def world(self, **more: Any) -> World:
        """What a new command knows."""
        return World(
            site=a_site(companions=["more.yaml"]), root=self.root, store=self.store, daemon=self.daemon,
            compose=lambda: self.daemon, tell=self._tell, **more,
        )  # fmt: skip

    def _tell(self, event: Event) -> None:
        self.told.append(event)
        self.hear(event)

    def carry_out(self, plan: Plan, interrupts: Interrupts | None = None) -> list[str]:
        prepared = Prepared(NEW, "sha256:new", {}, "name: x\n", {})
        self.daemon.releases[NEW.id] = NEW
        return execute(plan, self.world(prepared={NEW.id: prepared}), interrupts or quiet(), f"b70ctl {plan.command}")

    def switch(self) -> list[str]:
        return self.carry_out(SWITCH)

    def recover(self) -> tuple[str | None, list[str]]:
        return recover(self.world(), quiet())

    def outcome(self, act: Callable[[], object]) -> BaseException | None:
        """What an act raised."""
        try:
            act()
        except (Exception, Killed) as error:  # noqa: BLE001 - it is what the test looks at
            return error
        return None


SWITCH = plan_switch(NEW.id, OLD.id, because="asked for", new=True, companions=True)


def quiet() -> Interrupts:
    return Interrupts(terminal=False, warn=lambda _: None)


def a_stub_site(root: Path) -> StubSite:
    """A site that serves OLD."""
    site = StubSite(root)
    (root / "more.yaml").write_text("services: {}\n")
    site.serve(OLD)
    site.daemon.calls.clear()
    return site


def _await(step: Step, world: World) -> None:
    world.daemon.call("await", step.subject)
    if not world.observe().runs(step.subject):
        raise EngineError("the engine ended")


def _probe(step: Step, world: World) -> None:
    world.daemon.call("probe", step.subject)
    world.store.save_verdict(step.subject, a_verdict(op=world.op))


def without_engines(patch: pytest.MonkeyPatch) -> None:
    """Engines that are there serve and answer; no daemon is waited for; what the store writes is counted as `disk`."""
    patch.setitem(steps.STEPS, Verb.AWAIT, _await)
    patch.setitem(steps.STEPS, Verb.PROBE, _probe)
    patch.setattr(wayback, "DAEMON_PATIENCE", -1.0)
    patch.setattr(os, "fsync", lambda _: None)  # power does not fail here, and waiting for the disk is most of the time


def counting_disk(patch: pytest.MonkeyPatch, site: StubSite) -> None:
    """From now on what the store writes is a call `disk`, which may fail like any other."""
    for name in ("append", "replace"):
        patch.setattr(store, name, _counted(site.daemon, getattr(store, name)))


def _counted(daemon: StubDaemon, write: Callable[..., None]) -> Callable[..., None]:
    def counted(path: Path, *args: Any, **more: Any) -> None:
        daemon.call("disk", path.name, *args, effect=lambda: write(path, *args, **more))

    return counted
