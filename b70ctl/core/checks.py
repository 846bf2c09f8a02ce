"""doctor: every check is a question with a judge; facts of a box go in, findings come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from b70ctl.core.checkup import gpus, nodes, room, sensors, software, system
from b70ctl.core.checkup.case import Answer, Case, Models, Severity, State, understood
from b70ctl.core.hostfacts import HostFacts

Judge = Callable[[Case], Iterable[Answer]]

JUDGES: dict[str, Judge] = {
    "cards": gpus.cards,
    "driver": gpus.driver,
    "by-path": nodes.by_path,
    "render-node": nodes.render_node,
    "node-access": nodes.node_access,
    "holders": nodes.holders,
    "docker": software.docker,
    "compose": software.compose,
    "port": room.port,
    "kernel": system.kernel,
    "kernel-log": system.kernel_log,
    "guc": gpus.guc,
    "rebar": gpus.rebar,
    "runtime-image": software.runtime_image,
    "runtime-host": software.runtime_host,
    "display": gpus.display,
    "vram-free": sensors.vram_free,
    "ecc": sensors.ecc,
    "link": gpus.link,
    "throttle": sensors.throttle,
    "temperature": sensors.temperature,
    "power-limit": sensors.power_limit,
    "power-draw": sensors.power_draw,
    "job-timeout": gpus.job_timeout,
    "aspm": system.aspm,
    "iommu": system.iommu,
    "governor": system.governor,
    "memory": system.memory,
    "disk-docker": room.disk_docker,
    "disk-site": room.disk_site,
    "caches": room.caches,
    "clock": system.clock,
}
"""The judge of each check, by its id."""


class Check(BaseModel):
    """One question, what a bad answer means, and what to do about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z][a-z-]*$")
    severity: Severity
    question: str
    do: str
    source: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One check, answered for one subject."""

    check: str
    subject: str | None
    state: State
    severity: Severity
    question: str
    evidence: str
    do: str | None
    source: str

    @property
    def blocks(self) -> bool:
        """Whether nothing can be served before this is put right."""
        return self.state == "problem" and self.severity == "block"

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def examine(facts: HostFacts, models: Models, checks: Sequence[Check]) -> list[Finding]:
    """Every check answered, in the order of the table; what cannot be known is said to be unknown."""
    case = understood(facts, models)
    return [_finding(check, answer) for check in checks for answer in JUDGES[check.id](case)]


def _finding(check: Check, answer: Answer) -> Finding:
    remedy = answer.do or (check.do if answer.state == "problem" else None)
    return Finding(
        check=check.id,
        subject=answer.subject,
        state=answer.state,
        severity=answer.severity or check.severity,
        question=check.question,
        evidence=answer.evidence,
        do=remedy,
        source=check.source,
    )


def urgent_first(findings: Iterable[Finding]) -> list[Finding]:
    """Problems by severity, then what is not known, then what is well; otherwise in order."""
    ranks = {"block": 0, "warn": 1, "note": 2}
    return sorted(
        findings,
        key=lambda each: ranks[each.severity] if each.state == "problem" else 3 if each.state == "unknown" else 4,
    )


def together(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that say the same of several subjects as one, for readers; order is kept."""
    found: dict[Finding, list[str]] = {}
    for each in findings:
        found.setdefault(replace(each, subject=None), []).extend([each.subject] if each.subject else [])
    return [replace(each, subject=", ".join(subjects) or None) for each, subjects in found.items()]
