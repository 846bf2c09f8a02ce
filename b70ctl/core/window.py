"""A window: production steps aside, profiles come up on a dark port one after another, and production comes back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any

from b70ctl.core.deployment import Address, Deployment, Value
from b70ctl.core.journal import Op
from b70ctl.core.plan import Plan, Step, Verb, plan_drain, plan_restore
from b70ctl.core.release import Release
from b70ctl.errors import CommandFailed, DaemonAway, Interrupted

LOOPBACK = "127.0.0.1"
THE_BOX = "the box"


TURN = (Verb.START, Verb.AWAIT, Verb.PROBE, Verb.RUN)


class After(StrEnum):
    """What follows a step that failed."""

    BACK = "back"
    """The way back."""
    ON = "on"
    """The next step: the engine is taken down in order."""
    LAST = "last"
    """The same, and nobody else has a turn."""
    NEXT = "next"
    """The next one's turn, once the engine has been discarded."""


class Turn(Value):
    """How the command ended with one release."""

    code: int
    seconds: float


def in_the_dark(deployment: Deployment, port: int) -> Deployment:
    """The same deployment where no client comes: on loopback, on a port and a network of its own.

    On the site's network companions would find it under the name that they know.
    """
    address = Address(bind=LOOPBACK, port=port)
    return deployment.model_copy(update={"address": address, "network": f"{deployment.network}-dark"})


def plan_window(
    tried: Sequence[str], serving: str | None, *, does: str, port: int, limit: int, router: str | None = None,
    companions: str = "", keep_going: bool = False, adopt: bool = False,
) -> Plan:  # fmt: skip
    """Production out of service, each release in its turn, production back; the way back is the same from anywhere.

    `does` is the command in words. Without a serving release nothing is drained, and nothing started at the end.
    Everything is written before the drain, so that a full disk costs no service.
    """
    steps = [_step(Verb.ADOPT, serving, "its container is what the window comes back to")] if adopt and serving else []
    steps += [_step(Verb.WRITE, name, f"for the window, on {LOOPBACK}:{port}") for name in tried]
    undo = [_step(Verb.DISCARD, name, "its turn is over") for name in tried]
    after: list[Step] = []
    if serving:
        drain = plan_drain(serving, limit=limit, router=router, companions=companions)
        restore = plan_restore(serving, router=router, companions=bool(companions))
        steps += [step for step in drain.steps if step.verb is not Verb.DRAINED]
        undo += drain.undo
        after += restore.steps
    steps += [_step(Verb.VERIFY, THE_BOX, "what is measured on a box that is not quiet means nothing")]
    for name in tried:
        steps += _turn(name, does)
    return Plan(command="window", wanted=serving, incumbent=serving, steps=(*steps, *after), undo=tuple(undo),
                tried=tuple(tried), keep_going=keep_going)  # fmt: skip


def _turn(release: str, does: str) -> list[Step]:
    """One release from nothing to nothing, never beside another."""
    return [
        _step(Verb.START, release, "its turn"),
        _step(Verb.AWAIT, release, "its boot log is followed until it serves"),
        _step(Verb.PROBE, release, "figures of an engine that answers nonsense mean nothing"),
        _step(Verb.RUN, release, does),
        _step(Verb.STOP, release, "its turn is over"),
        _step(Verb.REMOVE, release, "the card is for the next; its release folder stays"),
    ]


def in_hand(plan: Plan, begun: int) -> str | None:
    """The release that a failure after `begun` steps is about: the wanted one, in a window the one whose turn it was.

    None where it is about the box, or about production.
    """
    if not plan.tried:
        return plan.wanted
    subject = plan.steps[begun - 1].subject if begun else None
    return subject if subject in plan.tried else None


def later(plan: Plan, release: str) -> set[str]:
    """The releases whose turn would come after this one's."""
    return set(plan.tried[plan.tried.index(release) + 1 :])


def without_dashes(words: Sequence[str], known: Collection[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Profiles, and the command that stands behind them where somebody forgot the `--`."""
    at = next((at for at, word in enumerate(words) if at and word not in known), len(words))
    return words[:at], words[at:]


def after_failure(plan: Plan, step: Step, error: BaseException) -> After:
    """What follows where a step failed: a command that fails says nothing against its engine."""
    if step.subject not in plan.tried or step.verb not in TURN:
        return After.BACK
    if isinstance(error, CommandFailed):
        return After.ON if plan.keep_going else After.LAST
    if not plan.keep_going or isinstance(error, (Interrupted, DaemonAway)) or not isinstance(error, Exception):
        return After.BACK
    return After.NEXT


def is_open(op: Op | None, *, alive: bool) -> str | None:
    """What `status` says of a window that has not ended; `alive` says that its command is still at work."""
    if op is None or not op.plan.tried:
        return None
    back = f"{op.plan.incumbent} serves again" if op.plan.incumbent else "nothing serves, as before,"
    if not alive:
        return f"cut off, open since {op.begin.at}; {back} after `b70ctl recover` or the next change"
    step = op.plan.steps[op.begun - 1] if op.begun else None
    at = "on its way back" if op.undoing else f"at `{step.verb} {step.subject}`" if step else "about to begin"
    return f"open since {op.begin.at}, {at}; {back} when it ends"


def told(release: Release, key: str | None) -> dict[str, str]:
    """What the command finds in its environment."""
    url = release.deployment.address.url
    found = {
        "B70CTL_ENDPOINT": url,
        "OPENAI_BASE_URL": f"{url}/v1",
        "B70CTL_PROFILE": release.profile,
        "B70CTL_MODEL": release.deployment.served_names[0],
        "B70CTL_RELEASE": release.id,
    }
    return found | ({"OPENAI_API_KEY": key} if key else {})


def outcome(release: Release, turn: Turn | None, why: str | None) -> dict[str, Any]:
    """What became of one release, for a program; `why` its engine failed, where it did."""
    status = turn.code if turn else None
    word = "failed" if why else "not reached" if turn is None else "done" if turn.code == 0 else "command failed"
    return {"profile": release.profile, "release": release.id, "result": word, "status": status,
            "seconds": turn.seconds if turn else None, "why": why}  # fmt: skip


def in_words(found: dict[str, Any]) -> str:
    """The same for a person, in one line."""
    if found["status"] is None or found["why"]:
        return f"{found['release']}: {found['result']}" + (f": {found['why']}" if found["why"] else "")
    return f"{found['release']}: exit {found['status']} after {found['seconds']:.1f} s"


def _step(verb: Verb, subject: str, because: str) -> Step:
    return Step(verb=verb, subject=subject, because=because)
