"""What the environment says: which version is played, how fast, and what goes wrong."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path


def knob(name: str, default: float) -> float:
    """A number from the environment."""
    return float(os.environ.get(f"STANDIN_{name}") or default)


def version() -> str:
    """The vLLM version that this process plays."""
    return os.environ.get("STANDIN_VLLM_VERSION") or "0.21.0"


def since(major: int, minor: int) -> bool:
    """True when the played version is this one or newer."""
    found = re.match(r"(\d+)\.(\d+)", version())
    return found is not None and (int(found[1]), int(found[2])) >= (major, minor)


def faults() -> frozenset[str]:
    """What goes wrong right now: the environment's list and the trigger file's."""
    text = os.environ.get("STANDIN_FAULT", "")
    trigger = os.environ.get("STANDIN_TRIGGER")
    if trigger:
        with contextlib.suppress(OSError):
            text += "," + Path(trigger).read_text()
    return frozenset(part.strip() for part in re.split(r"[,\n]", text) if part.strip())
