"""The plugin against a release: its names are there, it is loaded in every process, its classes fit."""

from __future__ import annotations

from collections.abc import Iterator

from tests.vllm.record import Row
from tests.vllm.source import overriding
from tests.vllm.source.anchors import LOADED, anchors
from tests.vllm.source.claims import row
from tests.vllm.source.tree import Tree


def rows(tree: Tree) -> Iterator[Row]:
    """A result for each of the three."""
    yield row(tree, "plugin: the names that it holds on to", _faults(tree))
    yield row(tree, "plugin: its classes in the place of vLLM's", overriding.faults(tree))
    yield row(tree, "plugin: loaded in every process", (fault for each in LOADED if (fault := each.fault(tree))))


def _faults(tree: Tree) -> Iterator[str]:
    return (fault for anchor in anchors() if (fault := anchor.fault(tree)))
