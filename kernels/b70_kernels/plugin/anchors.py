"""Names of vLLM that the plugin holds on to: looked up in one place, so that a missing one is said in words."""

from __future__ import annotations

import importlib
from typing import Any

REGISTRY = "vllm.v1.attention.backends.registry"


class Refused(RuntimeError):
    """The plugin is not used, and why; vLLM has not been touched by then."""


def anchor(module: str, name: str = "") -> Any:
    """What a dotted name of one of vLLM's modules stands for, or the module itself."""
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise Refused(f"this vLLM has no {module}: {error}") from error
    for part in name.split(".") if name else ():
        if not hasattr(found, part):
            raise Refused(f"this vLLM has no {module}.{name}")
        found = getattr(found, part)
    return found


def put_behind(member: Any, backend: str) -> str:
    """Let vLLM find a backend under one of its own names, and say so as vLLM has it; taken back where it cannot say."""
    anchor(REGISTRY, "register_backend")(member, backend)
    try:
        return f"{member.name} is {member.get_path()}"
    except BaseException:
        member.clear_override()
        raise
