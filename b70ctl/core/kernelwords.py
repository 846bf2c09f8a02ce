"""What the kernels' programs can be told to do only a part of, known before anything is started."""

from __future__ import annotations

from b70ctl.core.kernels import Program
from b70ctl.core.tuning import HEAD_SIZES, PRESETS
from b70ctl.errors import UsageError

KNOWN = {"--presets": ("preset", PRESETS), "--head-sizes": ("head size", tuple(map(str, HEAD_SIZES)))}
"""Flags that take a list, with what each of its words is called and may be."""


def refuse_unknown(program: Program) -> None:
    """UsageError for a word that the program would refuse once it runs."""
    for flag, given in zip(program.words, program.words[1:], strict=False):
        called, known = KNOWN.get(flag, ("", ()))
        if unknown := [word for word in given.split(",") if known and word not in known]:
            raise UsageError(f"there is no {called} `{unknown[0]}`; there are {', '.join(known)}",
                             hint=f"b70ctl kernels {program.name} {flag} {','.join(known[:2])}")  # fmt: skip
