"""Every name of vLLM that the plugin's own text uses, so that none is forgotten where they are checked."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.vllm.places import CHECKOUT
from tests.vllm.source.tree import Function, members

PLUGIN = CHECKOUT / "kernels" / "b70_kernels" / "plugin"
STANDS_FOR = {("vllm.platforms", "current_platform"): ("vllm.platforms.interface", "Platform")}
"""Objects that are made when vLLM runs, and the classes that say what they have."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A name of one of vLLM's modules, and the file of the plugin that uses it."""

    module: str
    name: str
    file: str


@dataclass(frozen=True, slots=True)
class Subclass:
    """A class of the plugin's that vLLM uses through one of its own."""

    module: str
    base: str
    name: str
    methods: dict[str, Function]
    attributes: tuple[str, ...]
    """What it sets for the class."""


def references(folder: Path = PLUGIN) -> list[Reference]:
    """What the plugin imports, looks up, or reads off what it was given."""
    return sorted({found for path in sorted(folder.glob("*.py")) for found in _of_file(path)})


def subclasses(folder: Path = PLUGIN) -> list[Subclass]:
    """The plugin's classes that have a class of vLLM's as their first base."""
    return [found for path in sorted(folder.glob("*.py")) for found in _classes(path)]


def _of_file(path: Path) -> Iterator[Reference]:
    module = ast.parse(path.read_bytes())
    imported = _imported(module)
    yield from (Reference(*origin, path.name) for origin in imported.values())
    constants = _constants(module) | _siblings(module, path.parent)
    yield from (Reference(*named, path.name) for named in _anchors(module, constants))
    known = {name: STANDS_FOR.get(origin, origin) for name, origin in imported.items()}
    yield from (Reference(*used, path.name) for used in _attributes(module, known))
    for function in ast.walk(module):
        if isinstance(function, Function):
            given = {name: imported[kind] for name, kind in _given(function).items() if kind in imported}
            yield from (Reference(*used, path.name) for used in _attributes(function, given))


def _imported(module: ast.Module) -> dict[str, tuple[str, str]]:
    """Names bound by imports from vLLM, each with its module and its name there."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_vllm(node.module or ""):
            found |= {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: (alias.name, "") for alias in node.names if _is_vllm(alias.name)}
    return found


def _is_vllm(module: str) -> bool:
    return module.split(".")[0] == "vllm"


def _constants(module: ast.Module) -> dict[str, object]:
    return {
        target.id: node.value.value
        for node in ast.walk(module)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _siblings(module: ast.Module, folder: Path) -> dict[str, object]:
    """Constants that it imports from files beside it."""
    found: dict[str, object] = {}
    for node in ast.walk(module):
        path = folder / f"{node.module}.py" if isinstance(node, ast.ImportFrom) and node.level == 1 else None
        if isinstance(node, ast.ImportFrom) and path is not None and path.is_file():
            theirs = _constants(ast.parse(path.read_bytes()))
            found |= {each.asname or each.name: theirs[each.name] for each in node.names if each.name in theirs}
    return found


def _anchors(module: ast.Module, constants: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The plugin's own lookups, `anchor("vllm.platforms", "current_platform")`, with constants put in."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "anchor":
            said = [_text(argument, constants) for argument in node.args]
            yield said[0], said[1] if len(said) > 1 else ""


def _text(node: ast.expr, constants: Mapping[str, object]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if isinstance(constants.get(name), str):
            return str(constants[name])
        case ast.JoinedStr(values=values):
            return "".join(_text(value, constants) for value in values)
        case ast.FormattedValue(value=value):
            return _text(value, constants)
    raise ValueError(f"line {node.lineno}: a name that is looked up is a constant, not {ast.unparse(node)}")


def _attributes(scope: ast.AST, known: dict[str, tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What is read off names that are known to be something of vLLM's."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            module, name = known[node.value.id]
            yield module, f"{name}.{node.attr}".lstrip(".")


def _given(function: Function) -> dict[str, str]:
    """Parameters with the names of their types, and plain copies of them."""
    arguments = (*function.args.args, *function.args.kwonlyargs)
    given = {each.arg: each.annotation.id for each in arguments if isinstance(each.annotation, ast.Name)}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=copy)], value=ast.Name(id=name)) if name in given:
                given[copy] = given[name]
    return given


def _classes(path: Path) -> Iterator[Subclass]:
    module = ast.parse(path.read_bytes())
    imported = _imported(module)
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.bases:
            written = node.bases[0].value if isinstance(node.bases[0], ast.Subscript) else node.bases[0]
            if isinstance(written, ast.Name) and written.id in imported:
                origin, base = imported[written.id]
                methods = {each.name: each for each in node.body if isinstance(each, Function)}
                attributes = tuple(name for name, each in members(node) if isinstance(each, ast.Assign | ast.AnnAssign))
                yield Subclass(origin, base, node.name, methods, attributes)
