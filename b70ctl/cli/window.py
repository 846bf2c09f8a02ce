"""window: profiles on a dark port one after another, a command against each, and back to what served."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import typer

from b70ctl.cli.draining import leave_of, services_exist
from b70ctl.cli.here import Change, Here
from b70ctl.cli.linting import doubts
from b70ctl.cli.options import DARK_PORT
from b70ctl.cli.plans import expected, show
from b70ctl.cli.ready import can_return, companions_fit, foreseen, hook_can_run, obstacles, prepare
from b70ctl.cli.switching import report, to_adopt
from b70ctl.cli.verifying import box_of, signs_of
from b70ctl.core import standing
from b70ctl.core.plan import Plan
from b70ctl.core.preflight import refusal
from b70ctl.core.quiet import lasting
from b70ctl.core.release import Observed, Release, release_id
from b70ctl.core.secrecy import masked
from b70ctl.core.window import LOOPBACK, Turn, in_the_dark, in_words, outcome, plan_window, without_dashes
from b70ctl.edge.ports import listener
from b70ctl.edge.preparing import Wanted
from b70ctl.edge.process import cannot_run
from b70ctl.errors import B70Error, CommandFailed, MachineError, Refused, UsageError, to_type


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants a window for."""

    profiles: tuple[str, ...]
    argv: tuple[str, ...]
    sets: tuple[str, ...] = ()
    port: int = DARK_PORT
    allow_status: str | None = None
    anyway: bool = False
    keep_going: bool = False
    adopt: str | None = None


def window(here: Here, wish: Wish, *, yes: bool, dry_run: bool) -> None:
    """Take production out of service, run the command against each profile, and put production back."""
    _refuse_nonsense(here, wish)
    if dry_run:
        _show(here, wish)
        return
    here.console.require_answer(yes=yes)
    with here.changing() as change:
        every = _every(here, wish, probe=True)
        change.lease([wanted.deployment.cards for wanted in every])
        observed = change.world.observe()
        first = here.store.next_number()
        adopted = change.world.adopted = to_adopt(here, observed, wish.adopt, first, change.command)
        first += 1 if adopted else 0
        incumbent = adopted or _incumbent(here, observed)
        _all_can_run(change, wish, every, incumbent, observed)
        tried = [prepare(change, wanted, first + at, dark=True).id for at, wanted in enumerate(every)]
        plan = _plan(here, wish, tried, incumbent, adopt=adopted is not None)
        here.console.plan(plan, _doubts(here, every))
        _say_what_stays(here, incumbent)
        if not here.console.confirm(f"open a window for {', '.join(wish.profiles)}?", yes=yes):
            raise Refused("not confirmed; nothing was touched")
        _open(change, plan, wish)


def _refuse_nonsense(here: Here, wish: Wish) -> None:
    if not wish.argv:
        known = [entry.name for entry in here.catalog.profiles()]
        profiles, command = without_dashes(wish.profiles, known)
        hint = f"b70ctl window {shlex.join(profiles)} -- {shlex.join(command) or 'COMMAND'}"
        raise UsageError("there is no command to run against the profiles", hint=hint)
    name = wish.argv[0]
    if why := cannot_run(name):
        look = ("ls", "-l") if "/" in name else ("command", "-v")
        raise MachineError(f"`{name}` {why}", hint=to_type(*look, name))


def _every(here: Here, wish: Wish, *, probe: bool) -> list[Wanted]:
    workshop = here.workshop(docker=True)
    found = []
    for profile in wish.profiles:
        wanted = workshop.wanted(profile, wish.sets, port=wish.port, allow_status=wish.allow_status, probe=probe)
        found.append(replace(wanted, deployment=in_the_dark(wanted.deployment, wish.port)))
    return found


def _incumbent(here: Here, observed: Observed) -> Release | None:
    """What is drained and comes back; an engine that a window could not remove is only in the way."""
    found = here.store.releases().get(standing.incumbent(here.store.state(), observed) or "")
    return None if found and found.dark else found


def _in_the_way(
    here: Here, wish: Wish, every: Sequence[Wanted], incumbent: Release | None, observed: Observed
) -> list[B70Error]:
    """Everything that would keep any of the profiles from its turn, once."""
    taken = {here.catalog.site.port, *([incumbent.deployment.address.port] if incumbent else [])}
    if wish.port in taken:
        free = next(port for port in range(DARK_PORT, 65536) if port not in taken and not listener(LOOPBACK, port))
        return [UsageError(f"--port {wish.port} is where clients come, and a window is to be dark",
                           hint=f"b70ctl window --port {free} …")]  # fmt: skip
    found: list[B70Error] = [] if wish.anyway or not incumbent else _unquiet(here)
    found += [error for wanted in every for error in obstacles(here, wanted, incumbent, observed)]
    return list({error.what: error for error in found}.values())


def _unquiet(here: Here) -> list[B70Error]:
    """What would keep the box from being quiet, whatever is drained: nothing is stopped for that."""
    loud = [sign for sign in lasting(box_of(here)) if sign.quiet is False]
    if not loud:
        return []
    site = here.catalog.site
    limit = "`drain.load` in site.yaml" if site.drain.load else "half of the CPUs, as site.yaml has no `drain.load`"
    told = "; ".join(f"{sign.question}: no, {sign.evidence}".replace("limit", f"{limit}:") for sign in loud)
    return [Refused(f"the box would not be quiet: {told}", hint="b70ctl window --anyway …")]


def _all_can_run(
    change: Change, wish: Wish, every: Sequence[Wanted], incumbent: Release | None, observed: Observed
) -> None:
    """Raise, with everything that stands in the way, before anything is stopped."""
    if found := _in_the_way(change.here, wish, every, incumbent, observed):
        raise refusal(found)
    if incumbent:
        can_return(change, incumbent, incumbent, observed)
        hook_can_run(change.here)
        services_exist(change)
        companions_fit(change)


def _plan(here: Here, wish: Wish, tried: Sequence[str], incumbent: Release | None, *, adopt: bool) -> Plan:
    does = f"`{shlex.join(masked(wish.argv, here.secret_values()))}`, to its end"
    return plan_window(tried, incumbent.id if incumbent else None, does=does, port=wish.port,
                       keep_going=wish.keep_going, adopt=adopt, **leave_of(here.catalog.site))  # fmt: skip


def _doubts(here: Here, every: Sequence[Wanted]) -> list[B70Error]:
    """What the rules warn of, with the profile that it is about, where there are several."""
    found: dict[str, B70Error] = {}
    for wanted in every:
        whose = f"{wanted.written.name}: " if len(every) > 1 else ""
        found |= {(what := f"{whose}{each.what}"): Refused(what, hint=each.hint) for each in doubts(here, wanted)}
    return list(found.values())


def _say_what_stays(here: Here, incumbent: Release | None) -> None:
    if incumbent is None:
        serving = here.store.state().serving
        what = f"{serving} does not run" if serving else "nothing serves"
        here.console.say(f"{what}, so nothing is drained, and nothing is started at the end")


def _open(change: Change, plan: Plan, wish: Wish) -> None:
    from b70ctl.edge.world import Errand

    here = change.here
    errand = Errand(wish.argv, signs=lambda: signs_of(here), presses=change.interrupts.presses,
                    attended=change.interrupts.attended, anyway=wish.anyway, aside=here.console.json)  # fmt: skip
    change.world.errand = errand
    # whoever pressed Ctrl-C to end the command presses it again: that is no wish to leave production down
    change.interrupts.patient = True
    went_back = failed = False
    try:
        change.carry_out(plan)
    except B70Error:
        went_back = True
        raise
    except typer.Exit:
        failed = True
    finally:
        _tell(change, plan, errand.turns)
        if plan.wanted and not went_back:
            report(here, plan)
    if failed:
        raise CommandFailed("the window did not go well, as told above", hint="b70ctl history --verbose")


def _tell(change: Change, plan: Plan, turns: Mapping[str, Turn]) -> None:
    """What became of each release, however the window ended."""
    kept = change.here.store.releases()
    found = [outcome(kept[name], turns.get(name), change.world.failures.get(name)) for name in plan.tried
             if name in kept]  # fmt: skip
    if change.here.console.json:
        change.here.console.data({"event": "window", "turns": found})
    for each in found:
        change.here.console.say(f"  {in_words(each)}")


def _show(here: Here, wish: Wish) -> None:
    every = _every(here, wish, probe=False)
    observed = expected(here)
    first = here.store.next_number()
    adopted = to_adopt(here, observed, wish.adopt, first, "plan")
    first += 1 if adopted else 0
    incumbent = adopted or _incumbent(here, observed)
    tried = [release_id(first + at, wanted.written.name, wanted.deployment.digest) for at, wanted in enumerate(every)]
    found = [*_in_the_way(here, wish, every, incumbent, observed), *(each for w in every for each in foreseen(here, w))]
    show(here, _plan(here, wish, tried, incumbent, adopt=adopted is not None), found, _doubts(here, every))
    _say_what_stays(here, incumbent)
    if found:
        raise typer.Exit(int(found[0].exit_code))
