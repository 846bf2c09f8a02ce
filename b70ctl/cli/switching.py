"""switch, rollback and plan: from what serves to what is wanted."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from b70ctl.cli.here import Change, Here
from b70ctl.cli.linting import doubts
from b70ctl.cli.plans import expected, show
from b70ctl.cli.ready import can_become, can_return, companions_fit, foreseen, obstacles, prepare
from b70ctl.core import standing
from b70ctl.core.changes import changes
from b70ctl.core.history import before, meant
from b70ctl.core.plan import Plan, plan_switch
from b70ctl.core.release import Observed, Release, release_id
from b70ctl.edge.preparing import Wanted
from b70ctl.errors import B70Error, Exit, Refused, UsageError


@dataclass(frozen=True, slots=True)
class Wish:
    """The profile that somebody asked for, and how."""

    profile: str
    sets: tuple[str, ...] = ()
    port: int | None = None
    allow_status: str | None = None
    adopt: str | None = None


def switch(here: Here, wish: Wish, *, yes: bool, dry_run: bool) -> None:
    """Serve PROFILE instead of what serves now, proven, or go back."""
    if dry_run:
        plan(here, wish, exit_code=False)
        return
    here.console.require_answer(yes=yes)
    with here.changing() as change:
        wanted = _wanted(here, wish, probe=True)
        change.lease([wanted.deployment.cards])
        _replace(change, wanted, wish.adopt, yes=yes)


def _wanted(here: Here, wish: Wish, *, probe: bool) -> Wanted:
    return here.workshop(docker=True).wanted(
        wish.profile, wish.sets, port=wish.port, allow_status=wish.allow_status, probe=probe
    )


def _replace(change: Change, wanted: Wanted, adopt: str | None, *, yes: bool) -> None:
    here, world = change.here, change.world
    observed = world.observe()
    kept = here.store.releases()
    number = here.store.next_number()
    incumbent = kept.get(standing.incumbent(here.store.state(), observed) or "")
    world.adopted = to_adopt(here, observed, adopt, number, change.command)
    number += 1 if world.adopted else 0
    incumbent = world.adopted or incumbent
    if incumbent and _same(here, incumbent, wanted, observed):
        serves(here, incumbent)
        here.console.say(f"{incumbent.id} serves this already; `b70ctl restart` starts it anew")
        return
    can_become(here, wanted, incumbent, observed)
    companions_fit(change)
    release = prepare(change, wanted, number)
    plan = _switch_plan(here, release.id, wanted, incumbent, observed, adopt=world.adopted is not None)
    here.console.plan(plan, doubts(here, wanted))
    if not here.console.confirm(f"switch to {wanted.deployment.profile}?", yes=yes):
        raise Refused("not confirmed; nothing was touched")
    change.carry_out(plan)
    report(here, plan)


def _same(here: Here, incumbent: Release, wanted: Wanted, observed: Observed) -> bool:
    return standing.serves_already(incumbent, wanted.deployment, observed, here.store.verdict(incumbent.id))


def to_adopt(here: Here, observed: Observed, name: str | None, number: int, command: str) -> Release | None:
    """What a container made by hand becomes; None when none is named, or when this one was adopted and serves again."""
    from b70ctl.edge.adopting import adopted_release
    from b70ctl.edge.secretfiles import read_secrets

    if name is None:
        return None
    serving = standing.incumbent(here.store.state(), observed)
    about = here.daemon.inspect(name)
    if serving and about is not None and about["Id"] == here.store.release(serving).container:
        return None
    if serving:
        raise Refused("the site has an engine of its own that serves, so nothing is adopted", hint="b70ctl status")
    keys = read_secrets(here.catalog.site, here.site_root)
    return adopted_release(here.daemon, name, here.catalog.site, number, command, keys)


def _switch_plan(
    here: Here, release: str, wanted: Wanted, incumbent: Release | None, observed: Observed, *, adopt: bool
) -> Plan:
    state = here.store.state()
    kept = here.store.releases()
    return plan_switch(
        release,
        incumbent.id if incumbent else None,
        because=f"a release of {wanted.deployment.profile}",
        new=True,
        adopt=adopt,
        keep=incumbent is not None and incumbent.kind == "adopted",
        previous=state.serving if state.serving in kept else None,
        leftovers=standing.leftovers(kept, observed, incumbent.id if incumbent else None),
        companions=bool(here.catalog.site.companions),
        admit=_out_of_rotation(here),
        changes=changes(incumbent.deployment if incumbent else None, wanted.deployment),
    )


def _out_of_rotation(here: Here) -> bool:
    """Whether a drain left the router to be asked to take the engine back in."""
    return here.store.state().withdrawn is not None and here.catalog.site.router is not None


def report(here: Here, plan: Plan) -> None:
    """What serves now, and what its boot told."""
    from b70ctl.cli.past import boot_lines

    release = here.store.release(str(plan.wanted))
    for line in boot_lines(here.store, release):
        here.console.say(f"  {line}")
    serves(here, release)
    address = release.deployment.address
    here.console.say(f"{release.id} serves {', '.join(release.deployment.served_names)} at {address.url}/v1")


def serves(here: Here, release: Release) -> None:
    """The same for a program, whether or not there was anything to do."""
    if here.console.json:
        deployment = release.deployment
        here.console.data({"event": "serving", "release": release.id, "models": deployment.served_names,
                           "url": f"{deployment.address.url}/v1"})  # fmt: skip


def rollback(here: Here, name: str | None, *, yes: bool, dry_run: bool) -> None:
    """Go back to the release before, or to a NAME."""
    if name is not None and not name.strip():
        raise UsageError("the name to go back to is empty; without one it is the release before",
                         hint="b70ctl rollback")  # fmt: skip
    if dry_run:
        show(here, _rollback_plan(here, name, expected(here)))
        return
    here.console.require_answer(yes=yes)
    with here.changing() as change:
        observed = change.world.observe()
        plan = _rollback_plan(here, name, observed)
        target = here.store.release(str(plan.wanted))
        change.lease([target.deployment.cards])
        if not plan.steps:
            serves(here, target)
            here.console.say(f"{plan.wanted} serves already")
            return
        can_return(change, target, here.store.releases().get(plan.incumbent or ""), observed)
        companions_fit(change)
        here.console.plan(plan)
        if not here.console.confirm(f"go back to {plan.wanted}?", yes=yes):
            raise Refused("not confirmed; nothing was touched")
        change.carry_out(plan)
        report(here, plan)


def _rollback_plan(here: Here, name: str | None, observed: Observed) -> Plan:
    store = here.store
    kept, state = store.releases(), store.state()
    verdicts = {release: store.verdict(release) for release in kept}
    target = meant(name, state, kept, verdicts) if name else before(state, store.served(), kept)
    incumbent = standing.incumbent(state, observed)
    if target == incumbent:
        return Plan(command="rollback", wanted=target, incumbent=incumbent)
    adopted = incumbent is not None and kept[incumbent].kind == "adopted"
    return plan_switch(
        target, incumbent, because="asked for", new=False, command="rollback", keep=adopted,
        leftovers=standing.leftovers(kept, observed, incumbent),
        companions=bool(here.catalog.site.companions),
        admit=_out_of_rotation(here),
        changes=changes(kept[incumbent].deployment if incumbent else None, kept[target].deployment),
    )  # fmt: skip


def plan(here: Here, wish: Wish, *, exit_code: bool) -> None:
    """Show what a switch to PROFILE would change, step by step, with reasons and the way back; touch nothing."""
    found, in_the_way, warnings = _plan(here, wish)
    show(here, found, in_the_way, warnings)
    if in_the_way:
        raise typer.Exit(int(in_the_way[0].exit_code))
    if exit_code and found.steps:
        raise typer.Exit(int(Exit.DIFFERENT))


def _plan(here: Here, wish: Wish) -> tuple[Plan, list[B70Error], list[B70Error]]:
    """The plan from what can be read, what stands in its way, and what it is warned of; an image that was never asked
    is taken from the catalog."""
    wanted = _wanted(here, wish, probe=False)
    observed = expected(here)
    kept = here.store.releases()
    incumbent = kept.get(standing.incumbent(here.store.state(), observed) or "")
    number = here.store.next_number()
    adopted = to_adopt(here, observed, wish.adopt, number, "plan")
    incumbent = adopted or incumbent
    if incumbent and _same(here, incumbent, wanted, observed):
        return Plan(command="switch", wanted=incumbent.id, incumbent=incumbent.id), [], []
    name = release_id(number + (1 if adopted else 0), wish.profile, wanted.deployment.digest)
    found = _switch_plan(here, name, wanted, incumbent, observed, adopt=adopted is not None)
    in_the_way = [*obstacles(here, wanted, incumbent, observed), *foreseen(here, wanted)]
    return found, in_the_way, doubts(here, wanted)
