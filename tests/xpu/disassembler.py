"""The instructions that Intel's offline compiler makes of a kernel for the card."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SPILL = re.compile(r"^//\.spill size (\d+)", re.MULTILINE)
TOTAL_SPILL = re.compile(r"spill_size: +(\d+)")
LABEL = re.compile(r"^([A-Za-z_]\w*):")
INSTRUCTION = re.compile(r"^(?:\([^)]*\))?\s+(?P<name>[a-z][\w.]*)(?P<rest>.*)")
JUMPS = frozenset({"jmpi", "goto", "while", "brc", "brd"})


@dataclass(frozen=True, slots=True)
class Listing:
    """What one kernel became, per hardware thread."""

    spilled_bytes: int
    registers: int
    instructions: int
    loop: int
    """Instructions of the longest loop, each once: what is skipped by a jump is counted too."""
    matrix_instructions: int
    """Of that loop."""


def disassemble(ocloc: Path, name: str, spirv: bytes, flags: str, device: str) -> Listing:
    """Compile the kernel `name` for a device; raises RuntimeError with what the compiler said where it refuses."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "kernel.spv").write_bytes(spirv)
        argv = (str(ocloc), "compile", "-file", "kernel.spv", "-spirv_input", "-device", device, "-output", "kernel",
                "-options", flags)  # fmt: skip
        env = {**os.environ, "IGC_ShaderDumpEnable": "1", "IGC_DumpToCustomDir": str(folder / "dump")}
        ran = subprocess.run(
            argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if ran.returncode != 0:
            raise RuntimeError(f"ocloc ended with exit {ran.returncode}: {(ran.stdout + ran.stderr).strip()[-500:]}")
        found = TOTAL_SPILL.search(next((folder / "dump").glob("*.zeinfo")).read_text(errors="replace"))
        spilled = int(found[1]) if found else 0
        texts = (each.read_text(errors="replace") for each in sorted((folder / "dump").glob("*entry*.asm")))
        # a kernel that spills is compiled once more, some other way: what counts is the one that was taken
        return [read(each) for each in texts if f".kernel {name}\n" in each and _spilled(each) == spilled][-1]


def _spilled(text: str) -> int:
    found = SPILL.search(text)
    return int(found[1]) if found else 0


def read(text: str) -> Listing:
    """Counts of an assembly listing."""
    places: dict[str, int] = {}
    names: list[str] = []
    loop = range(0)
    for line in text.splitlines():
        label = LABEL.match(line)
        if label:
            places[label[1]] = len(names)
            continue
        instruction = INSTRUCTION.match(line.split("//")[0])
        if not instruction:
            continue
        names.append(instruction["name"])
        if instruction["name"] in JUMPS:
            back = [places[word] for word in re.findall(r"[A-Za-z_]\w*", instruction["rest"]) if word in places]
            if back and len(names) - min(back) > len(loop):
                loop = range(min(back), len(names))
    registers = re.search(r"numGRF=(\d+)", text)
    return Listing(_spilled(text), int(registers[1]) if registers else 0, len(names), len(loop),
                   sum(names[each].startswith("dpas") for each in loop))  # fmt: skip
