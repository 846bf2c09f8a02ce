"""What a watch does about a fault: captures it, restarts the engine where it still helps and the site allows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from b70ctl.cli.here import Change, Here
from b70ctl.cli.incidents import Capture
from b70ctl.cli.ready import can_return
from b70ctl.cli.watchlines import Lines
from b70ctl.core.plan import plan_restart
from b70ctl.core.watch import COMMAND, Watch, restarts_left
from b70ctl.core.watching import Fault, Kind, Memory, stands
from b70ctl.core.watchlook import resting
from b70ctl.edge.files import now
from b70ctl.edge.incident import FOLDER
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.watching import Lookout, moment, restarts_begun
from b70ctl.errors import B70Error, GaveUp, Interrupted, Refused, RolledBack


@dataclass
class Response:
    """The answers to the faults of one engine, one after another."""

    here: Here
    anew: Callable[[], Here]
    settings: Watch
    lines: Lines
    captured: Kind | None = None
    """The fault whose incident was captured, until it is over or a restart was tried."""
    not_before: float = 0.0
    """When a restart that could not begin is tried again."""

    def answer(self, lookout: Lookout, fault: Fault, memory: Memory) -> bool:
        """Capture, then act; True when what was seen so far says nothing any more.

        Raises GaveUp where a restart is needed and none is allowed.
        """
        if time.monotonic() < self.not_before:
            return False
        left = restarts_left(self.settings, restarts_begun(self.here.store), moment(now()) or 0.0)
        if self.captured is not fault.kind:
            self.captured = fault.kind if fault.acts else None
            self.lines.tell("fault", f"{fault.kind}: {fault.evidence}", kind=fault.kind.value)
            self._capture(Capture(self.here, lookout, fault, left))
        if not fault.acts:
            return False
        if not left:
            allowed = f"{self.settings.restarts} restarts in {self.settings.hours:g} h"
            raise GaveUp(f"{fault.kind}: {fault.evidence}; the site allows {allowed}, so the watch ends",
                         hint=f"ls {self.here.store.folder / FOLDER}; b70ctl diagnose")  # fmt: skip
        return self._restart(lookout, fault, memory)

    def _capture(self, capture: Capture) -> None:
        try:
            self.lines.tell("incident", str(capture.write()))
        except Interrupted:
            raise
        except B70Error as error:
            # a full disk is no reason to leave the engine as it is
            self.lines.tell("incident", f"not captured: {error.what}")

    def _restart(self, lookout: Lookout, fault: Fault, memory: Memory) -> bool:
        """Stop and start the engine under the site's lock, when the fault is still there."""
        here = self.anew()
        before = len(here.store.ops())
        try:
            with here.changing() as change:
                if why := _is_over(here, lookout, fault, memory):
                    self.lines.tell("stood-down", why)
                    return True
                self._carry_out(change, lookout, fault)
        except Interrupted:
            raise
        except RolledBack as error:
            self.lines.tell("restarted", error.what)
        except B70Error as error:
            if Interrupts.heard:
                raise Interrupted(error.what, hint=error.hint) from error
            return self._failed(error, tried=len(here.store.ops()) > before)
        else:
            self.lines.tell("restarted", f"{lookout.release.id} serves again, proven")
        self.captured = None
        return True

    def _carry_out(self, change: Change, lookout: Lookout, fault: Fault) -> None:
        release = lookout.release
        can_return(change, release, None, change.world.observe())
        self.lines.tell("restart", f"{release.id}, because of {fault.kind}")
        change.carry_out(plan_restart(release.id, command=COMMAND, because=f"{fault.kind}: {fault.evidence}"))

    def _failed(self, error: B70Error, *, tried: bool) -> bool:
        self.lines.tell("restart-failed", f"the restart {'failed' if tried else 'could not begin'}: {error.what}")
        if tried:
            self.captured = None
        else:
            self.not_before = time.monotonic() + self.settings.every * 60
        return tried


def _is_over(here: Here, lookout: Lookout, fault: Fault, memory: Memory) -> str | None:
    """Why nothing is to be done any more, as seen with the lock in hand."""
    state = here.store.state()
    if state.serving != lookout.release.id:
        return f"{state.serving} serves now"
    if why := resting(state):
        return why
    look = lookout.look(docker=True)
    if not look.docker:
        raise Refused(f"Docker does not answer: {lookout.away}", hint="docker info")
    # what was well until now is another engine when it was started anew; one that is not may have tried all along
    if look.container and memory.well and memory.started not in (None, look.container.started):
        return "the engine was started anew meanwhile"
    if fault.asked and look.unwell is None:
        look = replace(look, asked=lookout.ask())
    return None if stands(fault, memory, look) else "the fault is gone"
