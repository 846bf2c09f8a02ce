"""Asks of every message that an installed vLLM can log as information or as a warning whether diagnose takes it for a
fault. What it prints is to be looked at: some of them tell a fault, the others are false alarms.

    python -m tests.vllm_messages SITE-PACKAGES/vllm ...
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from b70ctl.core.diagnosis import diagnose_text
from b70ctl.edge.diagnoses import read_causes

LEVELS = {"info": "INFO", "info_once": "INFO", "warning": "WARNING", "warning_once": "WARNING"}
PLACE = re.compile(r"%[-+0-9.]*[sdrfgx]")


def messages(package: Path) -> Iterator[tuple[str, str]]:
    """Level and words of each message of a package."""
    for file in sorted(package.rglob("*.py")):
        yield from said(ast.parse(file.read_bytes()))


def said(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Level and words of each message of a module; where a value would stand, a 7."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            level, text = LEVELS.get(node.func.attr), words_of(node.args[0])
            if level and text:
                yield level, " ".join(text.split())


def words_of(node: ast.expr) -> str:
    """A string as it would be printed."""
    match node:
        case ast.Constant(value=str(text)):
            return PLACE.sub("7", text)
        case ast.JoinedStr(values=values):
            return "".join(words_of(value) if isinstance(value, ast.Constant) else "7" for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return words_of(left) + words_of(right)
    return ""


def main(packages: list[str]) -> None:
    """Print the messages that look like a fault, and how many were asked."""
    causes = read_causes(None)
    known = {message for package in packages for message in messages(Path(package))}
    for level, text in sorted(known):
        line = f"(EngineCore pid=9) {level} 01-01 00:00:00 [x.py:1] {text}"
        for finding in diagnose_text([line], causes).faults:
            sys.stdout.write(f"{finding.cause.id}: {level} {text}\n")
    sys.stdout.write(f"{len(known)} messages of {len(packages)} packages\n")


if __name__ == "__main__":
    main(sys.argv[1:])
