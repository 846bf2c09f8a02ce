"""A plan that was asked for, shown and not carried out."""

from __future__ import annotations

from collections.abc import Sequence

from b70ctl.cli.here import Here
from b70ctl.core.plan import Plan
from b70ctl.errors import B70Error


def show(here: Here, found: Plan, in_the_way: Sequence[B70Error] = ()) -> None:
    """A plan that was asked for, as data or as text, with what stands in its way."""
    here.mention_unfinished()
    if here.console.json:
        faults = [{"message": error.what, "hint": error.hint} for error in in_the_way]
        here.console.data(found.model_dump(mode="json") | {"faults": faults})
        return
    if found.steps:
        here.console.text("\n".join(found.lines()))
    else:
        serves = f"{found.incumbent} serves this already; " if found.incumbent else ""
        here.console.text(f"{serves}nothing would change")
    for error in in_the_way:
        here.console.error(error)
