"""snapshot and prune: what is kept, and what may go."""

from __future__ import annotations

import re

from b70ctl.cli.here import Here
from b70ctl.cli.plans import show
from b70ctl.cli.ready import namesake
from b70ctl.core.history import AUTOMATIC, prunable
from b70ctl.core.plan import Plan, plan_prune, plan_snapshot
from b70ctl.core.preflight import refusal
from b70ctl.errors import Refused, UsageError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def snapshot(here: Here, name: str | None) -> None:
    """Keep the serving release under NAME, for `rollback NAME`; without a NAME list the snapshots."""
    if name is None:
        _list(here)
        return
    if not NAME.fullmatch(name):
        raise UsageError(f"`{name}` cannot be a snapshot's name", hint="letters, digits, dot, dash and underscore")
    if name.startswith(AUTOMATIC):
        raise UsageError(f"`{name}`: names that begin with `{AUTOMATIC}` are given by `switch`, and may be pruned",
                         hint=f"b70ctl snapshot {name.removeprefix(AUTOMATIC) or 'good'}")  # fmt: skip
    with here.changing() as change:
        state = here.store.state()
        if state.serving is None:
            raise Refused(
                "nothing has served at this site yet, so there is nothing to keep", hint="b70ctl switch PROFILE"
            )
        if state.snapshots.get(name) not in (None, state.serving):
            raise Refused(f"snapshot `{name}` is of {state.snapshots[name]}", hint=f"choose another name than `{name}`")
        change.carry_out(plan_snapshot(state.serving, name))
    here.console.say(f"{state.serving} is kept as `{name}`")


def _list(here: Here) -> None:
    snapshots = here.store.state().snapshots
    if here.console.json:
        here.console.data(snapshots)
    elif snapshots:
        # those that a person gave first; the others are there to go back to, and go with their release
        names = sorted(snapshots, key=lambda name: name.startswith(AUTOMATIC))
        kept = {True: "until pruned; a switch gave it", False: "for good"}
        rows = [[name, snapshots[name], kept[name.startswith(AUTOMATIC)]] for name in names]
        here.console.rows(["NAME", "RELEASE", "KEPT"], rows)
    else:
        here.console.say("no snapshots yet")


def prune(here: Here, *, yes: bool, dry_run: bool) -> None:
    """Forget old releases, with their image tags and the caches that nothing else uses."""
    if dry_run:
        show(here, plan_prune(_old(here)))
        return
    here.console.require_answer(yes=yes)
    with here.changing() as change:
        if found := namesake(here, change.world.observe()):
            raise refusal(found)
        plan = plan_prune(_old(here))
        if not plan.steps:
            _told_pruned(here, plan)
            here.console.say("nothing to prune")
            return
        here.console.plan(plan)
        if not here.console.confirm(f"forget {len(plan.steps)} releases?", yes=yes):
            raise Refused("not confirmed; nothing was touched")
        change.carry_out(plan)
    _told_pruned(here, plan)


def _told_pruned(here: Here, plan: Plan) -> None:
    if here.console.json:
        here.console.data({"event": "pruned", "releases": [step.subject for step in plan.steps]})


def _old(here: Here) -> dict[str, str]:
    store = here.store
    kept = store.releases()
    verdicts = {name: store.verdict(name) for name in kept}
    return prunable(store.state(), kept, store.served(), here.catalog.site.keep, verdicts, store.unread())
