"""Everything that is asked of one release's sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.vllm.record import Row
from tests.vllm.source import assumptions, bootlog, flagtable, patches, plugin
from tests.vllm.source.tree import Tree

IN_CI = ("0.19.0", "0.21.0", "0.33.0")
"""The two that the shipped profiles are for, the oldest of them included, and the newest."""
AREAS: dict[str, Callable[[Tree], Iterator[Row]]] = {
    "plugin": plugin.rows,
    "patches": patches.rows,
    "flag table": flagtable.rows,
    "boot log": bootlog.rows,
    "assumptions": assumptions.rows,
}


def rows(tree: Tree) -> list[Row]:
    """Every result of a release."""
    return [row for area in AREAS.values() for row in area(tree)]
