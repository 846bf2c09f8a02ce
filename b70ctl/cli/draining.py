"""drain and restore: the site out of service, and back."""

from __future__ import annotations

from typing import Any

from b70ctl.cli.here import Change, Here
from b70ctl.cli.plans import show
from b70ctl.cli.ready import can_return, companions_fit
from b70ctl.cli.switching import report
from b70ctl.core import standing
from b70ctl.core.plan import Plan, plan_drain, plan_restore
from b70ctl.core.release import Observed
from b70ctl.core.site import Site
from b70ctl.errors import Refused, UsageError


def drain(here: Here, *, yes: bool, dry_run: bool) -> None:
    """Out of rotation, empty, stopped; remembered until `restore`."""
    if dry_run:
        show(here, _drain_plan(here, here.observe()))
        return
    here.console.require_answer(yes=yes)
    with here.changing() as change:
        found = here.store.state().drained
        observed = change.world.observe()
        if found and not standing.incumbent(here.store.state(), observed):
            _told_drained(here)
            return
        plan = _drain_plan(here, observed)
        services_exist(change)
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
        here.console.data({"event": "drained", "release": found.release, "since": found.at})
    here.console.say(f"drained since {found.at}; `b70ctl verify` asks whether the box is quiet, "
                     f"`b70ctl restore` brings {found.release} back")  # fmt: skip


def _drain_plan(here: Here, observed: Observed) -> Plan:
    site, state = here.catalog.site, here.store.state()
    if here.site_root is not None and state.serving is None:
        raise Refused("nothing has served at this site yet, so there is nothing to drain", hint="b70ctl switch PROFILE")
    if state.drained and not observed.runs(state.serving):
        return Plan(command="drain")
    serving = standing.incumbent(state, observed)
    if serving is None:
        raise Refused(f"{state.serving} does not run, so there is nothing to drain", hint="b70ctl verify")
    return plan_drain(serving, **leave_of(site))


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
            here.console.say(f"{plan.incumbent} serves; the site is not drained")
            return
        release = here.store.release(str(plan.wanted))
        change.lease([release.deployment.cards])
        can_return(change, release, None, change.world.observe())
        companions_fit(change)
        here.console.plan(plan)
        change.carry_out(plan)
        report(here, plan)


def _restore_plan(here: Here) -> Plan:
    """From a drain, or from one that left the engine out of rotation."""
    site, state = here.catalog.site, here.store.state()
    observed = here.observe() if here.site_root is not None else Observed()
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
