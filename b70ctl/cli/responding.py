"""What a watch tells, and what it does about a fault: captures it, restarts the engine where that is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from b70ctl.cli.console import Console
from b70ctl.cli.here import Change, Here
from b70ctl.cli.incidents import Capture
from b70ctl.cli.ready import can_return
from b70ctl.core.plan import plan_restart
from b70ctl.core.standing import resting
from b70ctl.core.watch import COMMAND, Watch, own, restarts_begun, restarts_left
from b70ctl.core.watchfault import Fault, Kind, Memory
from b70ctl.core.watching import stands, started_anew
from b70ctl.edge.files import moment, now
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.watching import Monitor
from b70ctl.errors import B70Error, CutOff, GaveUp, Interrupted, Locked, Refused, RolledBack, Unproven, to_type


@dataclass
class Lines:
    """The lines of one watch, or JSON objects; a condition that lasts is told once."""

    console: Console
    lasting: dict[str, str] = field(default_factory=dict)

    def tell(self, what: str, text: str, **more: Any) -> None:
        """Something happened."""
        if self.console.json:
            self.console.data({"event": what, "at": now(), "text": text, **more})
        else:
            self.console.text(f"{now()}  {what:<14}  {text}")

    def lasts(self, what: str, text: str) -> None:
        """Something is so, and was told already if it is as it was."""
        if self.lasting.get(what) != text:
            self.lasting[what] = text
            self.tell(what, text)

    def over(self, what: str) -> None:
        """It is so no more."""
        if self.lasting.pop(what, None) is not None:
            self.tell(f"{what}-over", "the watch goes on")

    def forget(self, what: str) -> None:
        """It is of no concern any more, and is told anew if it comes again."""
        self.lasting.pop(what, None)


@dataclass
class Response:
    """The answers to the faults of one engine, one after another."""

    here: Here
    anew: Callable[[], Here]
    settings: Watch
    lines: Lines
    clock: Callable[[], float]
    captured: Kind | None = None
    """The fault whose incident was captured, until it is over or a restart was tried."""
    not_before: float = -math.inf
    """When a restart that could not begin is tried again."""
    tried: bool = False
    """Whether the restart was begun, so that it stands in the journal and counts."""

    def forget(self) -> None:
        """The fault is over, or what is followed is in other hands: the next one is answered from the beginning."""
        self.captured, self.not_before = None, -math.inf
        self.lines.forget("stood-down")

    def answer(self, monitor: Monitor, fault: Fault, memory: Memory) -> bool:
        """Capture, then act; True when what was seen so far says nothing any more.

        Raises GaveUp where a restart is needed and none is allowed.
        """
        left = self._left()
        if self.captured is not fault.kind:
            self.captured = fault.kind if fault.acts else None
            self.lines.tell("fault", f"{fault.kind}: {fault.evidence}", kind=fault.kind.value)
            self._capture(Capture(self.here, monitor, fault, left))
        if not fault.acts:
            return False
        if not left:
            allowed = f"{self.settings.restarts} restarts in {self.settings.hours:g} h"
            raise GaveUp(f"{fault.kind}: {fault.evidence}; the site allows {allowed}, so the watch ends",
                         hint=f"{to_type('ls', self.here.store.incidents)}; b70ctl diagnose")  # fmt: skip
        return self.clock() >= self.not_before and self._restart(monitor, fault, memory)

    def _left(self) -> int:
        begun = [moment(stamp) for stamp in restarts_begun(self.here.store.ops())]
        return restarts_left(self.settings, [at for at in begun if at is not None], moment(now()) or 0.0)

    def _capture(self, capture: Capture) -> None:
        try:
            self.lines.tell("incident", str(capture.write()))
        except Interrupted:
            raise
        except B70Error as error:
            # a full disk is no reason to leave the engine as it is
            self.lines.tell("incident", f"not captured: {error.what}")

    def _restart(self, monitor: Monitor, fault: Fault, memory: Memory) -> bool:
        """Stop and start the engine under the site's lock, when the fault is still there."""
        here, self.tried = self.anew(), False
        try:
            with here.changing(recovers=own) as change:
                if why := _is_over(here, monitor, fault, memory):
                    self.lines.tell("stood-down", why)
                    return True
                self._carry_out(change, monitor, fault)
        except Interrupted:
            raise
        except (Locked, CutOff) as error:
            # somebody else is at it, or left it: the next look shows how it stands then
            self.lines.lasts("stood-down", error.what)
            return False
        except RolledBack as error:
            self.lines.tell("restarted", error.what)
        except Exception as error:  # noqa: BLE001 - whatever it was, the engine is followed on
            return self._failed(error)
        else:
            self.lines.tell("restarted", f"{monitor.release.id} serves again, proven")
        self.forget()
        return True

    def _carry_out(self, change: Change, monitor: Monitor, fault: Fault) -> None:
        release = monitor.release
        can_return(change, release, None, change.world.observe())
        self.lines.tell("restart", f"{release.id}, because of {fault.kind}")
        before = change.world.op
        try:
            change.carry_out(plan_restart(release.id, command=COMMAND, because=f"{fault.kind}: {fault.evidence}"))
        finally:
            self.tried = change.world.op != before

    def _failed(self, error: Exception) -> bool:
        if Interrupts.heard and isinstance(error, Unproven):
            raise error  # it is asked to end, and nothing serves: that is no ordinary end
        what = said(error)
        if Interrupts.heard:
            raise Interrupted(what, hint=getattr(error, "hint", None)) from error
        self.lines.tell("restart-failed", f"the restart {'failed' if self.tried else 'could not begin'}: {what}")
        if self.tried:
            self.forget()
        else:
            self.not_before = self.clock() + self.settings.every * 60
        return self.tried


def said(error: Exception) -> str:
    """An error for one line, whoever's it is."""
    return error.what if isinstance(error, B70Error) else f"{type(error).__name__}: {error}"


def _is_over(here: Here, monitor: Monitor, fault: Fault, memory: Memory) -> str | None:
    """Why nothing is to be done any more, as seen with the lock in hand."""
    state = here.store.state()
    if state.serving != monitor.release.id:
        return f"{state.serving} serves now"
    if why := resting(state):
        return why
    look = monitor.look(docker=True)
    if not look.docker:
        raise Refused(f"Docker does not answer: {monitor.away}", hint="docker info")
    if started_anew(fault, look):
        return "the engine was started anew meanwhile"
    if fault.asked and look.unwell is None:
        look = replace(look, asked=monitor.ask())
    return None if stands(fault, memory, look) else "the fault is gone"
