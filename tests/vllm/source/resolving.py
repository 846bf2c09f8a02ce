"""What a dotted name of one of vLLM's modules stands for, found in the text: over imports, base classes and `self`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.vllm.source.tree import Function, Tree, members

Place = tuple[str, ast.AST]
"""A module's dotted name, and what stands in it."""
_FURTHEST = 12


def resolved(tree: Tree, module: str, name: str = "") -> ast.AST | None:
    """The statement that binds `Class.member` in a module, or the module; None where there is none."""
    place = _module(tree, module)
    for part in name.split(".") if name else ():
        place = _member(tree, place, part, _FURTHEST) if place else None
    return place[1] if place else None


def _module(tree: Tree, module: str) -> Place | None:
    path = tree.path_of(module)
    return (module, tree.parsed(path)) if path else None


def _member(tree: Tree, place: Place, name: str, left: int) -> Place | None:
    """A member of a module or a class; of a class also what it inherits and what its methods set on `self`."""
    module, scope = place
    if isinstance(scope, Function) and name == "cache_clear":
        return place if any("cache" in ast.unparse(each) for each in scope.decorator_list) else None
    if left <= 0 or not isinstance(scope, ast.Module | ast.ClassDef):
        return None
    found = next((statement for bound, statement in members(scope) if bound == name), None)
    if isinstance(found, ast.ImportFrom | ast.Import):
        return _imported(tree, module, found, name, left) or (module, found)
    if found is not None:
        return module, found
    if isinstance(scope, ast.Module):
        return _module(tree, f"{module}.{name}") or _lazy(module, scope, name)
    return _own(module, scope, name) or _inherited(tree, place, name, left)


def _imported(tree: Tree, module: str, statement: ast.Import | ast.ImportFrom, name: str, left: int) -> Place | None:
    if isinstance(statement, ast.Import):
        return None
    source = _source(tree, module, statement)
    real = next((alias.name for alias in statement.names if (alias.asname or alias.name) == name), name)
    if submodule := _module(tree, f"{source}.{real}"):
        return submodule
    origin = _module(tree, source)
    return _member(tree, origin, real, left - 1) if origin else None


def _source(tree: Tree, module: str, statement: ast.ImportFrom) -> str:
    """The module that is imported from, a relative one made whole."""
    if not statement.level:
        return statement.module or ""
    path = tree.path_of(module) or ""
    parts = module.split(".") if path.endswith("__init__.py") else module.split(".")[:-1]
    kept = parts[: len(parts) - statement.level + 1]
    return ".".join([*kept, *([statement.module] if statement.module else [])])


def _lazy(module: str, scope: ast.Module, name: str) -> Place | None:
    """What a module's own `__getattr__` gives: its name is a string in the module."""
    has = any(bound == "__getattr__" for bound, _ in members(scope))
    return next(
        ((module, node) for node in ast.walk(scope) if has and isinstance(node, ast.Constant) and node.value == name),
        None,
    )


def _own(module: str, scope: ast.ClassDef, name: str) -> Place | None:
    return next(
        ((module, node) for node in ast.walk(scope) if any(_on_self(each, name) for each in _targets(node))), None
    )


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def _on_self(target: ast.expr, name: str) -> bool:
    return (
        isinstance(target, ast.Attribute)
        and target.attr == name
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    )


def _inherited(tree: Tree, place: Place, name: str, left: int) -> Place | None:
    module, scope = place
    for base in getattr(scope, "bases", ()):
        # `Generic[T]` and the like bring nothing that we name
        written = base.value if isinstance(base, ast.Subscript) else base
        parent = _expression(tree, module, written, left)
        if parent and (found := _member(tree, parent, name, left - 1)):
            return found
    return None


def _expression(tree: Tree, module: str, written: ast.expr, left: int) -> Place | None:
    if isinstance(written, ast.Name):
        here = _module(tree, module)
        return _member(tree, here, written.id, left - 1) if here else None
    if isinstance(written, ast.Attribute):
        owner = _expression(tree, module, written.value, left - 1)
        return _member(tree, owner, written.attr, left - 1) if owner else None
    return None


def calls(scope: ast.AST, name: str) -> bool:
    """Whether a function of that name is called somewhere below."""
    return any(_called(node) == name for node in ast.walk(scope) if isinstance(node, ast.Call))


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def functions(scope: ast.AST) -> Iterator[Function]:
    """Every function below a node."""
    return (node for node in ast.walk(scope) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
