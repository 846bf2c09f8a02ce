"""A plan that was asked for, shown and not carried out."""

from __future__ import annotations

from b70ctl.cli.here import Here
from b70ctl.core.plan import Plan


def show(here: Here, found: Plan) -> None:
    """A plan that was asked for, as data or as text."""
    here.mention_unfinished()
    if here.console.json:
        here.console.data(found.model_dump(mode="json"))
    elif found.steps:
        here.console.text(_text(found))
    else:
        serves = f"{found.incumbent} serves this already; " if found.incumbent else ""
        here.console.text(f"{serves}nothing would change")


def _text(found: Plan) -> str:
    lines = [f"{change.what}: {change.before or 'none'} -> {change.after or 'none'}" for change in found.changes]
    steps = [str(step) for step in found.steps]
    undo = [str(step) for step in found.undo]
    back = ["", "way back, if it fails:", *undo] if undo else []
    return "\n".join([*lines, *([""] if lines else []), *steps, *back])
