"""One release of vLLM as text and syntax trees; nothing of it is imported."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from tests.vllm.sdist import sources

Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Tree:
    """The files of one release, read and parsed when they are asked for."""

    def __init__(self, version: str, folder: Path) -> None:
        self.version = version
        self.folder = folder
        self._parsed: dict[str, ast.Module] = {}

    @classmethod
    def of(cls, version: str) -> Tree:
        """The release's source distribution, fetched where it is not at hand."""
        return cls(version, sources(version))

    def has(self, path: str) -> bool:
        """Whether there is such a file, `vllm/envs.py` for one."""
        return (self.folder / path).is_file()

    def text(self, path: str) -> str:
        """A file as `core.patch` takes it; empty where there is none."""
        return self.raw(path).decode("utf-8", errors="surrogateescape")

    def raw(self, path: str) -> bytes:
        """A file's bytes; none where there is none."""
        return (self.folder / path).read_bytes() if self.has(path) else b""

    def digest(self, path: str) -> str:
        """A file's sha256, or `absent`."""
        return hashlib.sha256(self.raw(path)).hexdigest() if self.has(path) else "absent"

    def parsed(self, path: str) -> ast.Module:
        """A file's syntax tree; an empty one where there is no such file."""
        if path not in self._parsed:
            self._parsed[path] = ast.parse(self.raw(path))
        return self._parsed[path]

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Every Python file of the package with its bytes."""
        found = sorted((self.folder / "vllm").rglob("*.py"))
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in found}

    def containing(self, words: str) -> Iterator[str]:
        """The Python files in which some words stand."""
        wanted = words.encode()
        return (path for path, content in self.files.items() if wanted in content)

    def path_of(self, module: str) -> str | None:
        """The file of a module's dotted name; None where the release has none."""
        base = module.replace(".", "/")
        return next((path for path in (f"{base}.py", f"{base}/__init__.py") if self.has(path)), None)


def members(scope: Scope) -> Iterator[tuple[str, ast.stmt]]:
    """Names that a module, class or function binds at its own level, branches and imports included."""
    for statement in _flat(scope.body):
        for name in _bound(statement):
            yield name, statement


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            handlers = [line for handler in getattr(statement, "handlers", ()) for line in handler.body]
            yield from _flat([*statement.body, *getattr(statement, "orelse", ()), *handlers])


def _bound(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.ImportFrom(names=names) | ast.Import(names=names):
            return [alias.asname or alias.name.split(".")[0] for alias in names]
    return []


def parameters(function: Function) -> list[str]:
    """What a function may be called with, by name."""
    taken = function.args
    return [argument.arg for argument in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]


def strings(node: ast.AST) -> Iterator[str]:
    """Every string constant below a node."""
    for found in ast.walk(node):
        if isinstance(found, ast.Constant) and isinstance(found.value, str):
            yield found.value
