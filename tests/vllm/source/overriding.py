"""The plugin's classes in the place of vLLM's: what vLLM calls on them is there, and takes what vLLM passes."""

from __future__ import annotations

from collections.abc import Iterator

from b70ctl.core.image import within
from tests.vllm.source.claims import ALL
from tests.vllm.source.references import Subclass, subclasses
from tests.vllm.source.resolving import resolved
from tests.vllm.source.tree import Function, Tree, parameters

ASKED = {
    "accept_output_buffer": "<0.20",
    "supports_dcp": ">=0.26",
    "get_kv_cache_shape": "<0.29",
    "customize_spec": ">=0.28",
    "supported_kv_cache_layouts": ">=0.29",
    "supports_sliding_window": ">=0.26",
    "get_varlen_cudagraph_max_query_len": ">=0.31",
}
"""What only some releases ask for."""
OWN = frozenset({"varlen_attention", "do_kv_cache_update"})
"""Methods that vLLM's classes do not declare: one is the tests', the other is called where it is there (anchors.py)."""
DATA = frozenset({"AttentionMetadata"})
"""Classes whose subclasses hold what they like."""


def faults(tree: Tree) -> Iterator[str]:
    """What does not fit in a release."""
    for ours in subclasses():
        if ours.base not in DATA:
            yield from (fault for name in ours.attributes if (fault := _there(ours, name, tree)))
        for name, method in ours.methods.items():
            if name not in OWN and (name == "__init__" or not name.startswith("_")):
                yield from _method(ours, name, method, tree)


def _there(ours: Subclass, name: str, tree: Tree) -> str | None:
    there = resolved(tree, ours.module, f"{ours.base}.{name}") is not None
    asked = within(tree.version, ASKED.get(name, ALL))
    return None if there == asked else f"{ours.base} {'has' if there else 'has no'} {name}"


def _method(ours: Subclass, name: str, method: Function, tree: Tree) -> Iterator[str]:
    if fault := _there(ours, name, tree):
        yield fault
    theirs = resolved(tree, ours.module, f"{ours.base}.{name}")
    if isinstance(theirs, Function):
        missing = _untaken(method, theirs)
        if missing:
            yield f"{ours.name}.{name} does not take {', '.join(missing)} as {ours.base} does"


def _untaken(ours: Function, theirs: Function) -> list[str]:
    """Parameters of theirs that ours has not, or at another place."""
    mine, wanted = parameters(ours), parameters(theirs)
    if ours.args.kwarg is not None:
        return [name for name in wanted if name in mine and mine.index(name) != wanted.index(name)]
    return [name for at, name in enumerate(wanted) if mine[at : at + 1] != [name] and name not in _keywords(ours)]


def _keywords(function: Function) -> set[str]:
    return {argument.arg for argument in function.args.kwonlyargs}
