"""stop, start, restart and recover: the serving release itself."""

from __future__ import annotations

from collections.abc import Callable

from b70ctl.cli.here import Here
from b70ctl.cli.plans import show
from b70ctl.cli.ready import can_return, stop_is_recorded
from b70ctl.cli.switching import serves
from b70ctl.core.plan import Plan, plan_restart, plan_start, plan_stop
from b70ctl.core.standing import down, paused
from b70ctl.errors import Refused


def stop(here: Here, *, yes: bool, dry_run: bool) -> None:
    """Stop the engine, and leave it stopped until `start`; running requests get vLLM's own grace."""
    _run(here, plan_stop, "stop the engine?", yes=yes, dry_run=dry_run)


def start(here: Here, *, dry_run: bool) -> None:
    """Start the engine that was stopped, follow its boot, and prove it."""
    _run(here, plan_start, "", yes=True, dry_run=dry_run)


def restart(here: Here, *, yes: bool, dry_run: bool) -> None:
    """Stop the engine and start it again, proven."""
    _run(here, plan_restart, "restart the engine?", yes=yes, dry_run=dry_run)


def recover(here: Here) -> None:
    """Bring a command that was cut off (kill -9, power, a lost daemon) to its end."""
    with here.changing() as change:
        if here.console.json:
            here.console.data({"event": "recovered", "what": change.recovered})
        elif change.recovered is None:
            here.console.say("no command was cut off")


def _serving(here: Here) -> str:
    state = here.store.state()
    if here.site_root is not None and state.serving is None:
        raise Refused("nothing has served at this site yet", hint="b70ctl switch PROFILE")
    return here.store.release(str(state.serving)).id


def _plan(here: Here, planner: Callable[[str], Plan], release: str) -> Plan:
    # what its owner had stopped is stopped again when it cannot be proven
    return plan_start(release) if planner is plan_restart and here.store.state().stopped else planner(release)


def _run(here: Here, planner: Callable[[str], Plan], question: str, *, yes: bool, dry_run: bool) -> None:
    if dry_run:
        show(here, _plan(here, planner, _serving(here)))
        return
    here.console.require_answer(yes=yes)
    with here.changing() as change:
        observed = change.world.observe()
        release = _serving(here)
        plan = _plan(here, planner, release)
        if plan.command != "stop" and here.store.state().drained:
            raise Refused(f"the site is drained, so {release} is not {plan.command}ed but restored, into rotation too",
                          hint="b70ctl restore")  # fmt: skip
        if plan.command == "start" and (halted := paused(release, observed)):
            raise Refused(halted[0], hint=halted[1])
        if plan.command == "start" and observed.runs(release) and (fallen := down(release, observed)):
            raise Refused(fallen[0], hint=fallen[1])
        if plan.command == "start" and observed.runs(release) and not here.store.state().stopped:
            serves(here, here.store.release(release))
            here.console.say(f"{release} runs already; `b70ctl restart` starts it anew")
            return
        if plan.command == "stop" and not observed.runs(release) and here.store.state().stopped:
            _told_stopped(here, release, "is stopped already")
            return
        if plan.command == "stop":
            stop_is_recorded(here)
        else:
            can_return(change, here.store.release(release), None, observed)
        if not here.console.confirm(question, yes=yes):
            raise Refused("not confirmed; nothing was touched")
        change.carry_out(plan)
    if plan.command == "stop":
        _told_stopped(here, release, "is stopped")
    else:
        serves(here, here.store.release(release))
        here.console.say(f"{release} serves")


def _told_stopped(here: Here, release: str, text: str) -> None:
    if here.console.json:
        here.console.data({"event": "stopped", "release": release})
    here.console.say(f"{release} {text}")
