"""How profiles build on each other: plain mappings in, one mapping out, before any type is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from b70ctl.errors import UsageError

type_name = {dict: "a mapping", list: "a list", str: "text", int: "a number", bool: "true or false"}


def merge(parent: Mapping[str, Any], child: Mapping[str, Any], *, where: str = "") -> dict[str, Any]:
    """The child over the parent: mappings merge, lists are replaced, `+key` appends, null removes."""
    merged = dict(parent)
    for key, value in child.items():
        if key.startswith("+"):
            merged[key[1:]] = _appended(merged.get(key[1:]), value, f"{where}{key}")
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            inherited = merged.get(key)
            merged[key] = merge(inherited if isinstance(inherited, Mapping) else {}, value, where=f"{where}{key}.")
        else:
            merged[key] = value
    return merged


def _appended(inherited: Any, more: Any, where: str) -> list[Any]:
    if not isinstance(more, list):
        raise UsageError(f"`{where}` appends to a list, so it must be a list, not {kind_of(more)}")
    if inherited is not None and not isinstance(inherited, list):
        raise UsageError(f"`{where}` appends to `{where.replace('+', '')}`, which is {kind_of(inherited)}, not a list")
    return [*(inherited or []), *more]


def lineage(name: str, read: Callable[[str], Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """`name` and its ancestors, the oldest first; a cycle or an `extends` that is not a name is refused."""
    chain: list[tuple[str, Mapping[str, Any]]] = []
    seen: list[str] = []
    current: str | None = name
    while current is not None:
        if current in seen:
            raise UsageError(f"profile `{name}` extends itself: {' -> '.join([*seen, current])}")
        seen.append(current)
        raw = read(current)
        chain.insert(0, (current, raw))
        parent = raw.get("extends")
        if parent is not None and not isinstance(parent, str):
            raise UsageError(f"profile `{current}`: `extends` names one profile, not {kind_of(parent)}")
        current = parent
    return chain


def inherit(chain: list[tuple[str, Mapping[str, Any]]], defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All of a lineage merged, over the site's defaults; `extends` itself does not remain."""
    merged: dict[str, Any] = merge({}, defaults or {})
    for _, raw in chain:
        merged = merge(merged, {key: value for key, value in raw.items() if key != "extends"})
    return merged


def override(raw: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """`raw` with the value at a dotted path replaced; null removes, a `+` before the last key appends."""
    keys = path.split(".")
    if not all(key.strip("+") for key in keys):
        raise UsageError(
            f"`{path}` is not a dotted path", hint="b70ctl render PROFILE --set engine.max_model_len=131072"
        )
    nested: Any = value
    for key in reversed(keys):
        nested = {key: nested}
    return merge(raw, nested)


def kind_of(value: Any) -> str:
    """What a YAML value is, in a person's words."""
    return "nothing" if value is None else type_name.get(type(value), f"a {type(value).__name__}")
