"""What to do, in order, and why; and the way back, known before the first step is taken."""

from __future__ import annotations

from enum import StrEnum

from b70ctl.core.deployment import Change, Value


class Verb(StrEnum):
    """One kind of step; each does one thing to one release, and doing it again changes nothing."""

    WRITE = "write"
    ADOPT = "adopt"
    NAME = "name"
    STOP = "stop"
    START = "start"
    AWAIT = "await"
    PROBE = "probe"
    SERVE = "serve"
    COMPANIONS = "companions"
    REMOVE = "remove"
    DISCARD = "discard"
    IDLE = "idle"
    FORGET = "forget"
    WITHDRAW = "withdraw"
    SETTLE = "settle"
    HALT = "halt"
    DRAINED = "drained"
    ADMIT = "admit"
    VERIFY = "verify"
    RUN = "run"


class Step(Value):
    """One step and its reason."""

    verb: Verb
    subject: str
    """The release; for `verify` the box."""
    because: str
    name: str | None = None
    """The snapshot's name, for `name`."""

    def __str__(self) -> str:
        what = f"{self.subject} as {self.name}" if self.name else self.subject
        return f"{self.verb:<10} {what}  ({self.because})"


class Plan(Value):
    """Steps with their reasons, and the steps that lead back; empty when there is nothing to do."""

    command: str
    wanted: str | None = None
    incumbent: str | None = None
    """The release that serves now and is gone back to."""
    steps: tuple[Step, ...] = ()
    undo: tuple[Step, ...] = ()
    changes: tuple[Change, ...] = ()
    tried: tuple[str, ...] = ()
    """The releases that a window brings up on its dark port, one after another."""
    keep_going: bool = False
    """A release that fails there ends its own turn, and not the window."""

    def lines(self) -> list[str]:
        """The plan for a reader: what changes, the steps with their reasons, the way back."""
        changed = [f"{change.what}: {change.before or 'none'} -> {change.after or 'none'}" for change in self.changes]
        back = ["", "way back, if it fails:", *map(str, self.undo)] if self.undo else []
        return [*changed, *([""] if changed else []), *map(str, self.steps), *back]


def plan_switch(
    wanted: str,
    incumbent: str | None,
    *,
    because: str,
    new: bool,
    adopt: bool = False,
    keep: bool = False,
    previous: str | None = None,
    leftovers: tuple[str, ...] = (),
    companions: bool = False,
    admit: bool = False,
    changes: tuple[Change, ...] = (),
    command: str = "switch",
) -> Plan:
    """From the release that runs to another; nothing of the old one is removed before the new one is proven.

    `previous` is the release that served last, running or not: it gets a name to come back to. `leftovers` are stopped
    containers of other releases. `keep` leaves the incumbent's container alone, for one that was made by hand. `admit`
    is for an engine that a drain took out of rotation.
    """
    steps: list[Step] = []
    if adopt and incumbent:
        steps.append(_step(Verb.ADOPT, incumbent, "its container becomes the way back"))
    if new:
        steps.append(_step(Verb.WRITE, wanted, because))
    named = incumbent or previous
    if named and new:
        steps.append(Step(verb=Verb.NAME, subject=named, because="to come back to", name=f"before-{wanted}"))
    if incumbent:
        steps.append(_step(Verb.STOP, incumbent, f"{wanted} needs its card and port; it is kept until that is proven"))
    steps += arrive(wanted)
    if admit:
        steps.append(_step(Verb.ADMIT, wanted, "a drain took the engine out of rotation"))
    if companions:
        steps.append(_step(Verb.COMPANIONS, wanted, "those that do not run yet; running ones are left alone"))
    if incumbent and not (adopt or keep):
        steps.append(_step(Verb.REMOVE, incumbent, f"{wanted} is proven; its release folder stays"))
    steps += (_step(Verb.REMOVE, name, "a container left over") for name in leftovers if name != wanted)
    undo = [_step(Verb.DISCARD, wanted, "it was not proven; its log is kept")]
    if incumbent:
        undo += arrive(incumbent, again=True)
    return Plan(
        command=command, wanted=wanted, incumbent=incumbent, steps=tuple(steps), undo=tuple(undo), changes=changes
    )


def arrive(release: str, *, again: bool = False) -> list[Step]:
    """From a stopped or missing container to a proven one."""
    return [
        _step(Verb.START, release, "it served before" if again else "not running"),
        _step(Verb.AWAIT, release, "its boot log is followed until it serves"),
        _step(Verb.PROBE, release, "a healthy engine may still answer nonsense"),
        _step(Verb.SERVE, release, "recorded, and started again with the box"),
    ]


def plan_stop(serving: str) -> Plan:
    """Stop the engine and remember that its owner wanted that."""
    steps = (
        _step(Verb.STOP, serving, "asked for"),
        _step(Verb.IDLE, serving, "stays stopped until `b70ctl start`"),
    )
    return Plan(command="stop", incumbent=serving, steps=steps, undo=tuple(arrive(serving, again=True)))


def plan_start(release: str) -> Plan:
    """Start what was stopped; when it cannot be proven it is stopped again."""
    undo = (
        _step(Verb.STOP, release, "it was stopped before"),
        _step(Verb.IDLE, release, "as it was found"),
    )
    return Plan(command="start", wanted=release, steps=tuple(arrive(release)), undo=undo)


def plan_restart(serving: str, *, command: str = "restart", because: str = "asked for") -> Plan:
    """Stop and start the same release; the way back is to start it once more."""
    steps = (_step(Verb.STOP, serving, because), *arrive(serving))
    return Plan(command=command, wanted=serving, incumbent=serving, steps=steps,
                undo=tuple(arrive(serving, again=True)))  # fmt: skip


UNROUTED = (
    "without a router hook clients and routers see /health say 200 and new "
    "requests get 500 until it is gone, then connections are refused"
)


def plan_drain(serving: str, *, limit: int, router: str | None = None, companions: str = "",
               grace: int | None = None) -> Plan:  # fmt: skip
    """Out of rotation, empty, stopped, remembered; a drain that fails puts the engine back, proven.

    `router` says who is asked, `companions` which services stop too; empty, none does. `grace` is how many seconds the
    engine gives to what is still in flight, where that is known.
    """
    steps = [_step(Verb.WITHDRAW, serving, f"out of rotation, by {router}")] if router else []
    ending = f"streams in flight have its grace{'' if grace is None else f' of {grace} s'}, and are cut off then"
    arriving = "" if router else "; without a router hook new ones keep arriving"
    steps += [
        _step(Verb.SETTLE, serving, f"until no request runs or waits, {limit} s at most{arriving}"),
        _step(Verb.STOP, serving, ending if router else f"{ending}; {UNROUTED}"),
    ]
    steps += [_step(Verb.HALT, serving, f"companions that stop with it: {companions}")] if companions else []
    steps += [_step(Verb.DRAINED, serving, "stays stopped, over a reboot too, until `b70ctl restore`")]
    undo = arrive(serving, again=True)
    undo += [_step(Verb.COMPANIONS, serving, "they ran before")] if companions else []
    undo += [_step(Verb.ADMIT, serving, "back into rotation")] if router else []
    return Plan(command="drain", incumbent=serving, steps=tuple(steps), undo=tuple(undo))


def plan_restore(release: str, *, router: str | None = None, companions: bool = False, halted: bool = False) -> Plan:
    """Back from a drain: started, proven, into rotation; when it cannot be proven the site stays drained.

    `halted` says that companions stop with a drain.
    """
    steps = arrive(release, again=True)
    steps += [_step(Verb.ADMIT, release, f"back into rotation, by {router}")] if router else []
    steps += [_step(Verb.COMPANIONS, release, "those that do not run")] if companions else []
    undo = [_step(Verb.WITHDRAW, release, "it was out of rotation")] if router else []
    undo += [_step(Verb.STOP, release, "it was stopped before")]
    undo += [_step(Verb.HALT, release, "they were stopped before")] if companions and halted else []
    undo += [_step(Verb.DRAINED, release, "as it was found")]
    return Plan(command="restore", wanted=release, steps=tuple(steps), undo=tuple(undo))


def plan_snapshot(release: str, name: str) -> Plan:
    """Keep a release under a name."""
    return Plan(command="snapshot", steps=(Step(verb=Verb.NAME, subject=release, because="asked for", name=name),))


def plan_prune(releases: dict[str, str]) -> Plan:
    """Forget releases, each with its reason."""
    steps = tuple(_step(Verb.FORGET, release, because) for release, because in releases.items())
    return Plan(command="prune", steps=steps)


ANSWERS = {
    Verb.ADMIT: {Verb.WITHDRAW},
    Verb.WITHDRAW: {Verb.ADMIT},
    Verb.COMPANIONS: {Verb.HALT},
    Verb.HALT: {Verb.COMPANIONS},
}
"""What makes a step of the way back needed; all others are, once an engine was told to stop or to start."""


def way_back(plan: Plan, begun: int) -> tuple[Step, ...]:
    """The undo steps that are needed when the first `begun` steps were begun.

    As long as the incumbent was not told to stop it still serves, and only what was made or started has to go.
    """
    taken = plan.steps[:begun]
    return tuple(step for step in plan.undo if _is_needed(step, taken))


def discarded(plan: Plan) -> set[str]:
    """The releases whose container goes, and whose log stays with them, where they fail."""
    return {step.subject for step in plan.undo if step.verb is Verb.DISCARD}


def _is_needed(back: Step, taken: tuple[Step, ...]) -> bool:
    if back.verb is Verb.DISCARD:
        own = [step.verb for step in taken if step.subject == back.subject]
        # a later step was begun, so this one was removed already
        gone = any(step.verb is Verb.REMOVE and step.subject == back.subject for step in taken[:-1])
        return not gone and not {Verb.WRITE, Verb.START}.isdisjoint(own)
    return not ANSWERS.get(back.verb, {Verb.STOP, Verb.START}).isdisjoint(step.verb for step in taken)


def _step(verb: Verb, subject: str, because: str) -> Step:
    return Step(verb=verb, subject=subject, because=because)
