"""What is said of a run of the kernels' programs before anything is started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from b70ctl.core.kernels import MASK, Program
from b70ctl.core.tuning import HEAD_SIZES, PRESETS
from b70ctl.errors import UsageError, to_type

KNOWN = {"--presets": ("preset", PRESETS), "--head-sizes": ("head size", tuple(map(str, HEAD_SIZES)))}
"""Flags that take a list, with what each of its words is called and may be."""


def refuse_unknown(program: Program) -> None:
    """UsageError for a word that the program would refuse once it runs."""
    for flag, given in zip(program.words, program.words[1:], strict=False):
        called, known = KNOWN.get(flag, ("", ()))
        if unknown := [word for word in given.split(",") if known and word not in known]:
            raise UsageError(f"there is no {called} `{unknown[0]}`; there are {', '.join(known)}",
                             hint=f"b70ctl kernels {program.name} {flag} {','.join(known[:2])}")  # fmt: skip


def in_one_line(container: Mapping[str, Any]) -> str:
    """A container's command, quoted as a shell would want it."""
    words = [*container["Entrypoint"], *container["Cmd"]]
    # what a shell is told in lines it does as well in one
    return to_type(*(word.replace("\n", "; ") for word in words))


def surroundings(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a container has of the host and what it has not, in a few lines."""
    host, env = container["HostConfig"], dict(each.split("=", 1) for each in container["Env"])
    yield "groups", " ".join(host["GroupAdd"]) or "none"
    yield "env", " ".join(f"{name}={env[name]}" for name in (MASK, "PYTHONPATH") if name in env)
    yield "network", host["NetworkMode"]
    yield "allowed", ", ".join([*host["SecurityOpt"], f"privileged:{str(bool(host.get('Privileged'))).lower()}"])
    for device in host["Devices"]:
        yield "device", f"{device['PathOnHost']} at {device['PathInContainer']}"
    for mount in host["Mounts"]:
        yield "mount", f"{mount['Source']} at {mount['Target']}, {'read-only' if mount['ReadOnly'] else 'written to'}"
