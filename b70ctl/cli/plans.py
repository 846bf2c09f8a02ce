"""A plan that was asked for, shown and not carried out."""

from __future__ import annotations

from collections.abc import Sequence

from b70ctl.cli.console import as_data
from b70ctl.cli.here import Here
from b70ctl.core.journal import recovery
from b70ctl.core.plan import Plan
from b70ctl.core.release import Observed
from b70ctl.core.standing import after
from b70ctl.errors import B70Error


def expected(here: Here) -> Observed:
    """What Docker will show once a command that was cut off is brought to its end, as the next change begins with."""
    observed = here.observe()
    _, op = here.at_work()
    if op is None:
        return observed
    verdict = here.store.verdict(op.plan.wanted) if op.plan.wanted else None
    found = after(recovery(op, observed, verdict).steps, observed)
    here.going = {item.id for item in found.containers if observed.runs(item.release) and item.state == "exited"}
    return found


def show(
    here: Here, found: Plan, in_the_way: Sequence[B70Error] = (), warnings: Sequence[B70Error] = ()
) -> None:  # fmt: skip
    """A plan that was asked for, as data or as text, with what stands in its way and what it is warned of."""
    if cut := here.unfinished():
        here.console.warn(f"{cut}; that comes first, and the plan is the one from there")
    if here.console.json:
        told = {"faults": as_data(in_the_way), "warnings": as_data(warnings)}
        here.console.data(found.model_dump(mode="json") | told)
        return
    here.console.doubt(warnings)
    if in_the_way:
        here.console.text(f"refused as it stands, see below; without that, `{found.command}` would do this:\n")
    if found.steps:
        here.console.text("\n".join(found.lines()))
    else:
        serves = f"{found.incumbent} serves this already; " if found.incumbent else ""
        here.console.text(f"{serves}nothing would change")
    for error in in_the_way:
        here.console.error(error)
