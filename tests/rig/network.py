"""What a daemon changes in the machine's network and does not put back by itself."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
BRIDGE = re.compile(r"docker0|br-[0-9a-f]{12}")
DOCKERS_RULE = re.compile(rf"DOCKER|\b(?:{BRIDGE.pattern})\b")


@dataclass(frozen=True, slots=True)
class Before:
    """The network's state before the daemon started; what was there then is left alone afterwards."""

    ip_forward: str
    forward_policy: str
    bridges: tuple[str, ...]
    had_chains: bool

    @classmethod
    def now(cls) -> Before:
        """Read from the kernel."""
        rules = _rules("filter")
        policy = next((rule.split()[2] for rule in rules if rule.startswith("-P FORWARD ")), "")
        forward = FORWARD.read_text().strip() if FORWARD.exists() else ""
        return cls(forward, policy, tuple(_bridges()), any(rule.startswith("-N DOCKER") for rule in rules))


def restore(before: Before) -> None:
    """Put back forwarding, bridges and packet filter rules, each only where the daemon changed it."""
    if before.ip_forward:
        with contextlib.suppress(OSError):
            FORWARD.write_text(before.ip_forward)
    if before.had_chains:
        return
    for table in ("filter", "nat"):
        _remove_rules(table)
    if before.forward_policy:
        _iptables("-P", "FORWARD", before.forward_policy)
    for bridge in set(_bridges()) - set(before.bridges):
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(("ip", "link", "delete", bridge), capture_output=True, check=False)


def _bridges() -> list[str]:
    return [path.name for path in Path("/sys/class/net").glob("*") if BRIDGE.fullmatch(path.name)]


def _remove_rules(table: str) -> None:
    rules = [rule for rule in _rules(table) if DOCKERS_RULE.search(rule)]
    for rule in rules:
        if rule.startswith("-A "):
            _iptables("-t", table, "-D", *shlex.split(rule)[1:])
    for rule in rules:
        if rule.startswith("-N DOCKER"):
            _iptables("-t", table, "-X", rule.split()[1])


def _rules(table: str) -> list[str]:
    return _iptables("-t", table, "-S").splitlines()


def _iptables(*args: str) -> str:
    try:
        return subprocess.run(("iptables", "-w", *args), capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
