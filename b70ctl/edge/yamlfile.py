"""The only file that reads YAML: bounded, with line numbers, and without YAML 1.1's surprises."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from b70ctl.core.inherit import kind_of
from b70ctl.edge.files import read_bytes
from b70ctl.errors import UsageError, to_type

MOST_BYTES = 1_000_000
MOST_ALIASES = 100
MOST_DEPTH = 50
MOST_DIGITS = 400
"""A whole number of more is refused: no float holds it, and Python writes none of more than 4300."""

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Core(Loader):  # type: ignore[misc]
    """YAML 1.2's core types: `no` is text, `1e3` a number, a date is text."""


_Core.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
):
    _Core.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))


def _int(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node)
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


_Core.add_constructor("tag:yaml.org,2002:int", _int)

TEXT = "tag:yaml.org,2002:str"
INT, FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
MERGE = "tag:yaml.org,2002:merge"


class _Quoting(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes text that either YAML, 1.1 or 1.2, would take for something else."""


for _first_char, _resolvers in _Core.yaml_implicit_resolvers.items():
    for _tag, _regexp in _resolvers:
        _Quoting.add_implicit_resolver(_tag, _regexp, [_first_char])


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file's data, and the line on which each value stands."""

    name: str
    data: dict[str, Any]
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict)

    def depth(self, path: tuple[str | int, ...]) -> int:
        """How many keys of `path` stand in the file."""
        return next((length for length in range(len(path), 0, -1) if path[:length] in self.lines), 0)

    def line(self, path: tuple[str | int, ...]) -> int | None:
        """The line of the value at `path`, or of the closest thing around it."""
        return self.lines.get(path[: self.depth(path)])

    def at(self, path: tuple[str | int, ...]) -> str:
        """`file:line` for messages."""
        line = self.line(path)
        return f"{self.name}:{line}" if line else self.name


def read(path: Path) -> Document:
    """The mapping in a YAML file; UsageError with file and line for anything else."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} has {path.stat().st_size:,} bytes; more than {MOST_BYTES:,} are not read",
                             hint=to_type("head", "-c", 200, path))  # fmt: skip
        raw = read_bytes(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=to_type("ls", "-ld", path)) from error
    return parse(raw, str(path))


def parse(raw: bytes | str, name: str) -> Document:
    """The mapping in YAML text."""
    text = _decoded(raw, name)
    try:
        _bounded(text, name)
        node = yaml.compose(text, Loader=_Core)
        if node is None:
            return Document(name, {})
        lines: dict[tuple[str | int, ...], int] = {}
        _walk(node, (), lines, name)
        data = yaml.load(text, Loader=_Core)  # noqa: S506 - a safe loader with fewer types
    except yaml.YAMLError as error:
        raise UsageError(_said(error, name)) from error
    except RecursionError as error:
        raise UsageError(f"{name}: an alias stands inside what it is an alias of",
                         hint="write out what is meant where the alias stands") from error  # fmt: skip
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    except (KeyError, AttributeError, TypeError) as error:
        # what the library raises at a value that is none of its tag's, as in `!!bool 7`
        raise UsageError(f"{name}: a value is not what its `!!` tag says: {error}", hint="leave the tag out") from error
    if not isinstance(data, dict):
        raise UsageError(f"{name} is {kind_of(data)}, not a mapping of keys to values",
                         hint="a line of it is a key, a colon and a value, as in summary: what it is")  # fmt: skip
    return Document(name, data, lines)


def value(text: str) -> Any:
    """One YAML value, as given to `--set`."""
    return parse("value: " + text if "\n" not in text else "value:\n" + text, "--set").data.get("value")


def dump(data: Any) -> str:
    """Data as YAML for people to read, in the order it is in."""
    text: str = yaml.dump(data, Dumper=_Quoting, sort_keys=False, allow_unicode=True, width=100)
    return text


def _decoded(raw: bytes | str, name: str) -> str:
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{name}:{line}: byte 0x{raw[error.start]:02x} is not UTF-8", hint=to_type("iconv", "-t", "UTF-8", name)
        ) from error


def _bounded(text: str, name: str) -> None:
    """Refuse before anything is built: a small file with nested aliases can grow without end."""
    aliases = depth = 0
    for event in yaml.parse(text, Loader=_Core):
        if isinstance(event, yaml.AliasEvent):
            aliases += 1
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if aliases > MOST_ALIASES or depth > MOST_DEPTH:
            raise UsageError(f"{name}: more than {MOST_ALIASES} aliases or {MOST_DEPTH} levels are not read")
    if "\x00" in text:
        raise UsageError(f"{name} contains a NUL character")


def _walk(node: Any, path: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int], name: str) -> None:
    if len(lines) > MOST_BYTES // 10:
        raise UsageError(f"{name}: its aliases grow to more than {MOST_BYTES // 10:,} values")
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode):
        _refuse_unwritable(node, name)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, child in node.value:
            if key.tag not in (TEXT, MERGE):
                shown = f"`{key.value}`" if isinstance(key, yaml.ScalarNode) else "a list or a mapping"
                raise UsageError(f"{name}:{key.start_mark.line + 1}: a key is text, and {shown} is not; quote it")
            _refuse_unwritable(key, name)
            word = str(key.value)
            if word in seen:
                raise UsageError(f"{name}:{key.start_mark.line + 1}: `{word}` stands here twice")
            seen.add(word)
            lines[(*path, word)] = key.start_mark.line + 1
            _walk(child, (*path, word), lines, name)
    elif isinstance(node, yaml.SequenceNode):
        for number, child in enumerate(node.value):
            _walk(child, (*path, number), lines, name)


def _refuse_unwritable(node: Any, name: str) -> None:
    """Raise for a value that no file and no program could be given again."""
    what = None
    if "\0" in node.value:
        raise UsageError(f"{name}:{node.start_mark.line + 1}: {node.value[:40]!r} holds a NUL character")
    if node.tag == INT and len(node.value) > MOST_DIGITS:
        what = f"{node.value[:20]}… is a number of {len(node.value):,} digits"
    elif node.tag == FLOAT and _endless(node.value):
        what = f"{node.value[:20]} is not a finite number"
    if what:
        raise UsageError(f"{name}:{node.start_mark.line + 1}: {what}", hint="quote it, where text is meant")


def _endless(text: str) -> bool:
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return True  # YAML's own words: .inf, .nan


def _said(error: yaml.YAMLError, name: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{name}:{mark.line + 1}: {problem}" if mark else f"{name}: {problem}"
