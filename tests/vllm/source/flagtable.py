"""What b70ctl's table says that a release accepts, against the release's own lists."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from b70ctl.core.image import within
from b70ctl.core.rules.flagtable import FlagTable, Verdict
from tests.vllm.places import CHECKOUT
from tests.vllm.record import Row
from tests.vllm.source.claims import row
from tests.vllm.source.tree import Tree, members, strings

DATA = json.loads((CHECKOUT / "b70ctl/data/vllm-flags.json").read_text())
ENVS, SPECULATIVE, CACHE = "vllm/envs.py", "vllm/config/speculative.py", "vllm/config/cache.py"
TOOL_PARSERS = "vllm/tool_parsers/__init__.py", "_TOOL_PARSERS_TO_REGISTER"
REASONING_PARSERS = "vllm/reasoning/__init__.py", "_REASONING_PARSERS_TO_REGISTER"
PARSERS = ("engine/arg_utils.py", "cli_args.py", "entrypoints/cli/serve.py", "argparse_utils.py")
"""Files that make the command line, by the ends of their names."""
NO_FLAGS = {"grpc": "<0.20", "quantization-config": ">=0.20.2,<0.22"}
"""Words of those files that are no flag of the server's."""
GAPS = {"VLLM_ROCM_USE_AITER_FP4_ASM_GEMM": ">=0.29,<0.31"}
"""Names that went and came back between two releases of the table, which takes what both have for what all have."""
QUANTIZATION = "vllm/model_executor/layers/quantization/__init__.py"


@dataclass(frozen=True, slots=True)
class Compared:
    """One column of the table: its names, what it says of each, and what the release has."""

    what: str
    names: Mapping[str, int]
    says: Callable[[str, str], Verdict]
    has: Callable[[Tree], set[str]]
    complete: bool = True
    """Whether a name that the release has must stand in the table."""


def comparisons(table: FlagTable) -> tuple[Compared, ...]:
    """Every column that can be read in the sources as well."""

    def choices(flag: str, has: Callable[[Tree], set[str]]) -> Compared:
        return Compared(f"--{flag}", DATA["choices"][flag], partial(table.choice, flag), has)

    return (
        Compared("flag", DATA["flags"], table.flag, flags, complete=False),
        Compared("variable", DATA["env"], table.variable, variables),
        Compared("speculative key", DATA["speculative_keys"], table.speculative_key, keys, complete=False),
        Compared("speculative method", DATA["speculative_methods"], table.method,
                 lambda tree: literal(tree, SPECULATIVE, "SpeculativeMethod")),
        choices("kv-cache-dtype", lambda tree: literal(tree, CACHE, "CacheDType")),
        choices("quantization", lambda tree: literal(tree, QUANTIZATION, "QuantizationMethods")),
        choices("tool-call-parser", lambda tree: entries(tree, *TOOL_PARSERS)),
        choices("reasoning-parser", lambda tree: entries(tree, *REASONING_PARSERS)),
    )  # fmt: skip


def rows(tree: Tree) -> Iterator[Row]:
    """One result for the whole table."""
    table = FlagTable(DATA)
    wrong = [fault for column in comparisons(table) for fault in _faults(column, tree, tree.version in table.versions)]
    note = "" if tree.version in table.versions else "between two releases of the table: what it says for certain"
    yield row(tree, "b70ctl: what the flag table says", wrong, note=note)


def _faults(column: Compared, tree: Tree, listed: bool) -> Iterator[str]:
    found = column.has(tree)
    if not found:
        yield f"no {column.what} was found at all"
    for name in column.names:
        said = column.says(name, tree.version).answer
        gone = name in GAPS and within(tree.version, GAPS[name])
        if said != "perhaps" and (said == "yes") != (name in found or gone):
            yield f"{column.what} {name}: the table says {said}"
    if listed and column.complete:
        yield from (f"{column.what} {name} is not in the table" for name in sorted(found - column.names.keys()))


def flags(tree: Tree) -> set[str]:
    """What the files that make the command line name, as a flag or as a field that becomes one."""
    found: set[str] = set()
    for module in (tree.parsed(path) for path in tree.files if path.endswith(PARSERS)):
        found |= {text[2:].split(".")[0] for text in strings(module) if text.startswith("--") and " " not in text}
        classes = (node for node in ast.walk(module) if isinstance(node, ast.ClassDef))
        found |= {name.replace("_", "-") for each in classes for name, _ in members(each)}
    found -= {name for name, versions in NO_FLAGS.items() if within(tree.version, versions)}
    return found | {other for name in found for other in _opposites(name, tree.version)}


def _opposites(name: str, version: str) -> set[str]:
    """A flag's other forms; from 0.33 on `enable` and `disable` are each other's, and help hides the older form."""
    verb, _, what = name.partition("-")
    opposite = {"enable": "disable", "disable": "enable"}.get(verb)
    paired = within(version, ">=0.33") and opposite is not None
    return {f"no-{name}", f"{opposite}-{what}"} if paired else {f"no-{name}"}


def variables(tree: Tree) -> set[str]:
    """The variables that a release reads by its own table."""
    found = entries(tree, ENVS, "environment_variables")
    return {name for name in found if name.startswith("VLLM_")}


def keys(tree: Tree) -> set[str]:
    """The fields of the speculative config."""
    for name, statement in members(tree.parsed(SPECULATIVE)):
        if name == "SpeculativeConfig" and isinstance(statement, ast.ClassDef):
            return {field for field, _ in members(statement)}
    return set()


def literal(tree: Tree, path: str, name: str) -> set[str]:
    """The strings of a `Literal`, those of other literals that it is made of included."""
    value = _value(tree, path, name)
    if value is None:
        return set()
    further = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} - {"Literal", name}
    return {*strings(value)}.union(*(literal(tree, path, other) for other in further))


def entries(tree: Tree, path: str, name: str) -> set[str]:
    """The keys of a dictionary at a module's own level."""
    value = _value(tree, path, name)
    found = value.keys if isinstance(value, ast.Dict) else []
    return {key.value for key in found if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def _value(tree: Tree, path: str, name: str) -> ast.expr | None:
    for bound, statement in members(tree.parsed(path)):
        if bound == name and isinstance(statement, ast.Assign | ast.AnnAssign):
            return statement.value
    return None
