"""Installed packages of a host, as dpkg, pacman or rpm keep them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from b70ctl.core.hostfacts import DPKG, PACMAN, HostFacts

COMPUTE_RUNTIME = ("libze-intel-gpu1", "intel-opencl-icd", "intel-level-zero-gpu", "intel-compute-runtime")
IGC = ("libigc2", "libigc1", "intel-igc-core-2", "intel-igc-core", "intel-igc", "intel-graphics-compiler")
"""A layer under the names that distributions give its package."""
PACMAN_FOLDER = re.compile(r"(?P<name>.+)-(?P<version>[^-]+-[^-]+)")


def installed(facts: HostFacts) -> dict[str, str] | None:
    """Names and versions of the packages of the stack; None where no list of packages was read."""
    text = facts.text(DPKG)
    if text:
        return dpkg(text)
    folders = facts.matching(f"{PACMAN}/*")
    if folders:
        return pacman(path.rsplit("/", 1)[-1] for path in folders)
    if facts.asked.packages:
        return dict(facts.asked.packages)
    return {} if text is not None else None


def dpkg(text: str) -> dict[str, str]:
    """Installed packages of dpkg's status file; those that were removed and left their settings do not count."""
    found = {}
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != " ")
        if {"Package", "Version"} <= set(fields) and fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields["Version"]
    return found


def pacman(folders: Iterable[str]) -> dict[str, str]:
    """Installed packages by the names of pacman's folders: `intel-compute-runtime-26.35.39758.10-1`."""
    matches = [PACMAN_FOLDER.fullmatch(name) for name in folders]
    return {match["name"]: match["version"] for match in matches if match}
