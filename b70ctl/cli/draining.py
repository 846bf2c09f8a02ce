"""drain and restore: the site out of service, and back."""

from __future__ import annotations

from typing import Any

import typer

from b70ctl.cli.here import Change, Here
from b70ctl.cli.plans import expected, show
from b70ctl.cli.ready import can_leave, can_return, companions_fit, hook_can_run
from b70ctl.cli.switching import report, serves
from b70ctl.core import standing
from b70ctl.core.losses import lost_words
from b70ctl.core.plan import Plan, plan_drain, plan_restore
from b70ctl.core.release import Observed
from b70ctl.core.site import Site
from b70ctl.errors import B70Error, Interrupted, MachineError, Refused, Unproven, UsageError


def drain(here: Here, *, yes: bool, dry_run: bool, limit: int | None = None) -> None:
    """Out of rotation, empty, stopped; remembered until `restore`. `limit` stands in for the site's own."""
    site = here.catalog.site
    if limit is not None:
        site = site.model_copy(update={"drain": site.drain.model_copy(update={"limit": limit})})
    if dry_run:
        show(here, _drain_plan(here, site, expected(here)))
        return
    here.console.require_answer(yes=yes)
    with here.changing() as change:
        found = here.store.state().drained
        observed = change.world.observe()
        if found and not standing.incumbent(here.store.state(), observed):
            _told_drained(here)
            return
        change.world.site = site
        plan = _drain_plan(here, site, observed)
        services_exist(change)
        if plan.steps:
            can_leave(here)
        here.console.plan(plan)
        if not here.console.confirm("drain this site?", yes=yes):
            raise Refused("not confirmed; nothing was touched")
        change.carry_out(plan)
        _told_drained(here)


def _told_drained(here: Here) -> None:
    found = here.store.state().drained
    if found is None:
        return
    if here.console.json:
        here.console.data({"event": "drained", "release": found.release, "since": found.at, "lost": found.lost})
    lost = lost_words(found.lost)
    since = f"drained since {found.at}" + (f"; {lost}" if lost else "")
    here.console.say(f"{since}; `b70ctl verify` asks whether the box is quiet, `b70ctl restore` brings {found.release} "
                     "back")  # fmt: skip


def _drain_plan(here: Here, site: Site, observed: Observed) -> Plan:
    state = here.store.state()
    if here.site_root is not None and state.serving is None:
        raise Refused("nothing has served at this site yet, so there is nothing to drain", hint="b70ctl switch PROFILE")
    if state.drained and not observed.runs(state.serving):
        return Plan(command="drain")
    serving = standing.incumbent(state, observed)
    if serving is None:
        raise Refused(f"{state.serving} does not run, so there is nothing to drain", hint="b70ctl verify")
    release = here.store.release(serving)
    grace = release.deployment.shutdown_timeout if release.kind == "engine" else None
    return plan_drain(serving, grace=grace, **leave_of(site))


def leave_of(site: Site) -> dict[str, Any]:
    """What the site says of how its engine is taken out of service, for a plan."""
    named = site.drain.companions
    return {
        "limit": site.drain.limit,
        "router": site.router.form if site.router else None,
        "companions": named if isinstance(named, str) else ", ".join(named),
    }


def services_exist(change: Change) -> None:
    """UsageError for a companion to stop that is not there, which would be found once the engine has stopped."""
    from b70ctl.edge.companions import companions_file, companions_project

    site, root = change.here.catalog.site, change.here.site_root
    if isinstance(site.drain.companions, str) or not site.drain.companions:
        return
    file = companions_file(site, root, change.here.store.folder)
    known = change.world.compose().companions(file, companions_project(site)).get("services") or {}
    for name in site.drain.companions:
        if name not in known:
            raise UsageError(f"drain.companions names `{name}`; the companions are {', '.join(known) or 'none'}",
                             hint=f"edit {root / 'site.yaml'}")  # fmt: skip


def restore(here: Here, *, dry_run: bool) -> None:
    """What served before the drain, proven, and back into rotation."""
    if dry_run:
        show(here, _restore_plan(here))
        return
    with here.changing() as change:
        plan = _restore_plan(here)
        if not plan.steps:
            serves(here, here.store.release(str(plan.incumbent)))
            here.console.say(f"{plan.incumbent} serves; the site is not drained")
            return
        release = here.store.release(str(plan.wanted))
        change.lease([release.deployment.cards])
        can_return(change, release, None, change.world.observe())
        companions_fit(change)
        here.console.plan(plan)
        _warn_of_a_missing_hook(here)
        try:
            change.carry_out(plan)
        except B70Error as error:
            _tell_drained_still(here, error)
            raise
        except typer.Exit:
            report(here, plan)
            _told_rotation(here)
            raise
        report(here, plan)


def _warn_of_a_missing_hook(here: Here) -> None:
    """That nobody will ask the router: an engine that serves out of rotation is still better than none."""
    try:
        hook_can_run(here)
    except MachineError as error:
        here.console.warn(f"{error.what}; the engine will serve, and stay out of rotation")


def _tell_drained_still(here: Here, error: B70Error) -> None:
    """Say in the error that a restore ended where it began, and what else can serve."""
    if here.store.state().drained and not isinstance(error, Interrupted | Unproven):
        error.what = f"{error.what}; the site stays drained"
        error.hint = f"{error.hint or 'b70ctl restore'}; to serve another: b70ctl rollback, or b70ctl switch PROFILE"


def _told_rotation(here: Here) -> None:
    """That what serves again is not back in rotation, where that is what failed, and what to type."""
    if here.store.state().withdrawn:
        if here.console.json:
            here.console.data({"event": "out-of-rotation", "hint": "b70ctl restore"})
        here.console.warn("it is out of the router's rotation still, so no client comes by it; "
                          "`b70ctl restore` asks the router once more")  # fmt: skip


def _restore_plan(here: Here) -> Plan:
    """From a drain, or from one that left the engine out of rotation."""
    site, state = here.catalog.site, here.store.state()
    observed = expected(here) if here.site_root is not None else Observed()
    target = state.drained.release if state.drained else state.serving
    if target is None or not (state.drained or state.withdrawn):
        serving = standing.incumbent(state, observed)
        if serving is None:
            raise Refused("the site is not drained, so there is nothing to come back from",
                          hint="b70ctl start, or: b70ctl switch PROFILE")  # fmt: skip
        return Plan(command="restore", incumbent=serving)
    return plan_restore(
        target,
        router=site.router.form if site.router else None,
        companions=bool(site.companions),
        halted=bool(site.drain.companions),
    )
