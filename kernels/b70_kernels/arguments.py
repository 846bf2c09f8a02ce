"""What the programs are told on the command line: argparse calls these, and says what was wrong with a word."""

from __future__ import annotations

import argparse

import torch
from triton import knobs

from .presets import HEAD_SIZES, PRESETS

KINDS = ("cuda", "xpu")
MOST_PROCESSES = 1024


def a_device() -> str:
    """The one to take where none is named."""
    return "cuda" if torch.cuda.is_available() else "xpu"


def device(word: str) -> torch.device:
    """A device that is there and that kernels run on, made the current one: Triton launches there and nowhere else."""
    try:
        found = torch.device(word)
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{word!r} names no device: cuda, cuda:1 or xpu would") from error
    if found.type not in (*KINDS, *(["cpu"] if knobs.runtime.interpret else [])):
        raise argparse.ArgumentTypeError(
            f"no kernel is compiled for {word}: name cuda or xpu, or set TRITON_INTERPRET=1 to interpret them on cpu"
        )
    try:
        torch.zeros(1, device=found)
        if found.index is not None and found.type != "cpu":
            getattr(torch, found.type).set_device(found)
    except Exception as error:
        # torch raises whatever a missing device makes it raise
        why = next(iter(str(error).splitlines()), type(error).__name__)[:200]
        raise argparse.ArgumentTypeError(f"torch {torch.__version__} has no device {word}: {why}") from error
    return found


def presets(words: str) -> list[str]:
    """Names of presets, each once."""
    names = list(dict.fromkeys(words.split(",")))
    if unknown := [name for name in names if name not in PRESETS]:
        raise argparse.ArgumentTypeError(f"no preset {unknown[0]!r}; there are {', '.join(PRESETS)}")
    return names


def head_sizes(words: str) -> list[int]:
    """Head sizes that the kernels are for, each once."""
    known = {str(size): size for size in HEAD_SIZES}
    names = list(dict.fromkeys(words.split(",")))
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"no head size {unknown[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in names]


def processes(word: str) -> int:
    """How many processes share the work: one at least."""
    if not (word.isascii() and word.isdigit() and 1 <= int(word) <= MOST_PROCESSES):
        raise argparse.ArgumentTypeError(f"{word!r} processes: 1 to {MOST_PROCESSES} can share the work")
    return int(word)
