"""The rooms: core decides and touches nothing, edge touches and decides nothing, cli speaks; imports must show it."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "b70ctl"

# what core may name besides core itself: values and arithmetic, nothing that can reach outside the process
PURE = {
    "__future__", "collections", "dataclasses", "difflib", "enum", "functools", "hashlib", "ipaddress", "itertools",
    "bisect", "json", "math", "packaging", "posixpath", "pydantic", "re", "shlex", "types", "typing", "unicodedata",
}  # fmt: skip
# files of core that may name one thing more
MORE = {"core/compose.py": {"jinja2"}, "core/plugin.py": {"ast"}, "core/syntax.py": {"warnings"}}
TOUCHING = {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint"}
COMPILING = "core/syntax.py"
"""It compiles a text to hear what is wrong with it, and may not run what comes out."""

NEIGHBOURS = {"core": {"core"}, "edge": {"edge", "core"}, "cli": {"cli", "edge", "core"}}
"""Which rooms a room may import."""

OWNERS = {
    "subprocess": "edge/process.py",
    "ctypes": "edge/process.py",
    "fcntl": "edge/lock.py",
    "signal": "edge/signals.py",
    "socket": "edge/ports.py",
    "docker": "edge/daemon.py",
    "requests": "edge/daemon.py",
    "httpx": "edge/endpoint.py",
    "yaml": "edge/yamlfile.py",
    "jinja2": "core/compose.py",
    "rich": "cli/console.py",
}
"""The one file that may name a module."""
SHARED = {
    ("signal", "edge/process.py"), ("signal", "edge/guard.py"), ("ctypes", "edge/guard.py"),
    ("docker", "edge/speaking.py"), ("requests", "edge/speaking.py"),
}  # fmt: skip
"""process.py ends children by signal; signals.py answers those that are sent to us; guard.py is another process;
speaking.py makes the errors of Docker's library ours."""
ROOM_OF = {"typer": "cli", "click": "cli"}
"""Modules that one room may name."""
STREAM = re.compile(r"sys\.(stdout|stderr)\.(.*\.)?write(lines)?")


@dataclass(frozen=True)
class Source:
    """One file of the package and what it names."""

    path: str
    tree: ast.Module

    @property
    def room(self) -> str:
        return self.path.split("/")[0] if "/" in self.path else ""

    def imports(self) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Line, module and names of every import, wherever in the file it stands; relative ones spelled out."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name, ()) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.lineno, self._absolute(node), tuple(alias.name for alias in node.names)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = ["b70ctl", *self.path.split("/")[:-1]]
        base = parts[: len(parts) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])

    def calls(self) -> Iterator[tuple[int, str]]:
        """Line and dotted name of every call."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and (name := _dotted(node.func)):
                yield node.lineno, name

    def rooms(self) -> Iterator[tuple[int, str]]:
        """Line and room of every import from the package's own rooms."""
        for line, module, names in self.imports():
            if module == "b70ctl":
                yield from ((line, name) for name in names if name in NEIGHBOURS)
            elif module.startswith("b70ctl.") and (room := module.split(".")[1]) in NEIGHBOURS:
                yield line, room


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def sources(package: Path) -> list[Source]:
    """Every Python file below a package."""
    paths = sorted(package.rglob("*.py"))
    return [Source(str(path.relative_to(package)), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


# --- the laws: each gives back its violations -------------------------------------------------------------------------


def reaching(found: list[Source]) -> list[str]:
    """A room reaches into one that it may not know."""
    return [
        f"{source.path}:{line} imports {room}"
        for source in found
        if source.room in NEIGHBOURS
        for line, room in source.rooms()
        if room not in NEIGHBOURS[source.room]
    ]


def impure(found: list[Source]) -> list[str]:
    """core names something that can reach outside the process, or that differs from one run to the next."""
    faults = []
    for source in (source for source in found if source.room == "core"):
        allowed = PURE | {"b70ctl"} | MORE.get(source.path, set())
        faults += [
            f"{source.path}:{line} imports {module}"
            for line, module, _ in source.imports()
            if module.split(".")[0] not in allowed
        ]
        touching = TOUCHING - ({"compile"} if source.path == COMPILING else set())
        faults += [f"{source.path}:{line} calls {name}" for line, name in source.calls() if name in touching]
    return faults


def misplaced(found: list[Source]) -> list[str]:
    """A module is named outside the one file, or the one room, that may name it."""
    faults = []
    for source in found:
        for line, module, _ in source.imports():
            top = module.split(".")[0]
            owner = OWNERS.get(top)
            if owner and source.path != owner and (top, source.path) not in SHARED:
                faults.append(f"{source.path}:{line} imports {top}, which only {owner} may")
            if ROOM_OF.get(top, source.room) != source.room:
                faults.append(f"{source.path}:{line} imports {top}, which only {ROOM_OF[top]} may")
    return faults


def speaking(found: list[Source]) -> list[str]:
    """Something is said elsewhere than in cli/console.py."""
    return [
        f"{source.path}:{line} calls {name}"
        for source in found
        if source.path != "cli/console.py"
        for line, name in source.calls()
        if name in ("print", "input", "typer.echo", "typer.secho") or STREAM.fullmatch(name)
    ]


def prying(found: list[Source]) -> list[str]:
    """A file takes what another file calls its own."""
    return [
        f"{source.path}:{line} takes {name} of {module}"
        for source in found
        for line, module, names in source.imports()
        if module.split(".")[0] == "b70ctl"
        for name in (*module.split(".")[1:], *names)
        if name.startswith("_") and not name.startswith("__")
    ]


def swept_up(found: list[Source]) -> list[str]:
    """An import takes everything, so that a reader cannot see what."""
    return [f"{source.path}:{line} imports * from {module}" for source in found
            for line, module, names in source.imports() if "*" in names]  # fmt: skip


def knowing_outsiders(found: list[Source]) -> list[str]:
    """A file beside the rooms names one of them; only the entry point may, and only the cli."""
    faults = []
    for source in (source for source in found if not source.room):
        allowed = {"cli"} if source.path == "__main__.py" else set()
        faults += [f"{source.path}:{line} imports {room}" for line, room in source.rooms() if room not in allowed]
    return faults


LAWS = (reaching, impure, misplaced, speaking, prying, swept_up, knowing_outsiders)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_no_room_reaches_where_it_may_not(law):
    assert law(sources(PACKAGE)) == []


LONGEST = 250


@pytest.mark.parametrize("folder", ["b70ctl", "tests/rig"])
def test_no_file_is_longer_than_can_be_read_at_once(folder):
    lengths = {file: len(file.read_text().splitlines()) for file in (PACKAGE.parent / folder).rglob("*.py")}
    assert lengths
    assert {str(file): length for file, length in lengths.items() if length > LONGEST} == {}


def test_every_room_has_files_to_look_at():
    rooms = [source.room for source in sources(PACKAGE)]
    assert all(rooms.count(room) > 10 for room in NEIGHBOURS)
    assert {owner for owner in OWNERS.values() if not (PACKAGE / owner).is_file()} == set()


VIOLATIONS = [
    (reaching, "core/a.py", "from b70ctl.edge.store import Store"),
    (reaching, "core/a.py", "from b70ctl import edge"),
    (reaching, "core/a.py", "def late():\n    import b70ctl.cli.here"),
    (reaching, "core/rules/a.py", "from ...edge import places"),
    (reaching, "core/rules/a.py", "from ... import cli"),
    (reaching, "edge/a.py", "from b70ctl.cli.console import console"),
    (reaching, "edge/a.py", "from ..cli import app"),
    (impure, "core/a.py", "import os"),
    (impure, "core/a.py", "import sys"),
    (impure, "core/a.py", "from time import monotonic"),
    (impure, "core/a.py", "import datetime as clock"),
    (impure, "core/a.py", "from pathlib import Path"),
    (impure, "core/a.py", "import socket"),
    (impure, "core/a.py", "import random"),
    (impure, "core/a.py", "import secrets"),
    (impure, "core/a.py", "import importlib"),
    (impure, "core/a.py", "import jinja2"),
    (impure, "core/a.py", "def decide():\n    import subprocess"),
    (impure, "core/a.py", "if True:\n    from os import environ"),
    (impure, "core/a.py", "text = open('x').read()"),
    (impure, "core/a.py", "print('x')"),
    (impure, "core/a.py", "answer = input()"),
    (impure, "core/a.py", "exec('x = 1')"),
    (impure, "core/a.py", "x = eval('1')"),
    (impure, "core/a.py", "x = compile('1', '', 'exec')"),
    (impure, "core/syntax.py", "exec(compile('1', '', 'exec'))"),
    (misplaced, "edge/a.py", "import subprocess"),
    (misplaced, "edge/a.py", "from yaml import safe_load"),
    (misplaced, "edge/a.py", "import httpx"),
    (misplaced, "edge/a.py", "import docker.errors"),
    (misplaced, "edge/a.py", "from requests import get"),
    (misplaced, "edge/a.py", "import jinja2"),
    (misplaced, "cli/a.py", "from rich.table import Table"),
    (misplaced, "cli/a.py", "import subprocess"),
    (misplaced, "edge/a.py", "import typer"),
    (misplaced, "core/a.py", "from typer import Exit"),
    (misplaced, "errors.py", "import typer"),
    (speaking, "edge/a.py", "print('x')"),
    (speaking, "cli/a.py", "print('x')"),
    (speaking, "cli/a.py", "import sys\nsys.stdout.write('x')"),
    (speaking, "cli/a.py", "import sys\nsys.stdout.buffer.write(b'x')"),
    (speaking, "edge/a.py", "import sys\nsys.stderr.write('x')"),
    (prying, "cli/a.py", "from b70ctl.edge.store import _read"),
    (prying, "edge/a.py", "from ..core.resolve import _groups"),
    (prying, "edge/a.py", "from b70ctl.edge._own import thing"),
    (swept_up, "core/a.py", "from b70ctl.core.profile import *"),
    (knowing_outsiders, "errors.py", "from b70ctl.core.plan import Plan"),
    (knowing_outsiders, "__init__.py", "from . import cli"),
    (knowing_outsiders, "__main__.py", "from b70ctl.edge import places"),
]


@pytest.mark.parametrize(
    ("law", "path", "text"), VIOLATIONS, ids=[f"{law.__name__}: {t!r}" for law, _, t in VIOLATIONS]
)
def test_each_law_sees_its_violation(tmp_path, law, path, text):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert len(law(sources(tmp_path))) == 1


def test_a_file_may_do_what_its_room_is_for(tmp_path):
    allowed = {
        "core/compose.py": "import jinja2\nfrom b70ctl.core.profile import Profile\nfrom b70ctl.errors import Refused",
        "edge/process.py": "import signal, subprocess\nfrom b70ctl.core.plan import Plan",
        "edge/lock.py": "import fcntl, os, time\nfrom . import places\nopen('x')",
        "cli/console.py": "import rich\nprint('x')",
        "cli/a.py": "import typer\nfrom b70ctl.edge.store import Store\nfrom b70ctl.core import plan",
        "__main__.py": "from b70ctl.cli import app",
        "errors.py": "from enum import IntEnum",
    }
    for path, text in allowed.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert [fault for law in LAWS for fault in law(sources(tmp_path))] == []
