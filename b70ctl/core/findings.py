"""What a log told: the causes found in it, surest and first before others, and what it says of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from b70ctl.core.bootlog import Stage
from b70ctl.core.cause import SUREST, Cause, Confidence
from b70ctl.core.firstfault import Line

_ONE_TRACEBACK = 80


class State(StrEnum):
    """What a log says of its engine, taken together."""

    EXPLAINED = "explained"
    """Something failed, and a known cause was found."""
    UNKNOWN = "unknown"
    """Something failed, and no known cause was found."""
    CUT = "cut"
    """A boot that is over, that came to no end and tells no fault."""
    BOOTING = "booting"
    """A boot that goes on."""
    OTHER = "other"
    """No line of it is an engine's, or the kernel's."""
    HEALTHY = "healthy"
    """The engine came to serve, and nothing failed; or a kernel's log that tells nothing bad."""

    @property
    def good(self) -> bool:
        """Whether nothing is left to be found out."""
        return self not in (State.UNKNOWN, State.CUT, State.OTHER)


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that was found, and where."""

    cause: Cause
    confidence: Confidence
    count: int
    lines: tuple[Line, ...]
    boot: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that a log told."""

    state: State
    findings: tuple[Finding, ...]
    """The first fault first; warnings after all faults."""
    first_error: Line | None
    tail: tuple[Line, ...]
    lines: int
    vllm: str | None
    stage: Stage
    """How far the last boot came."""

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What ended something."""
        return tuple(finding for finding in self.findings if finding.cause.kind == "fault")

    @property
    def telling(self) -> Finding | None:
        """What is said first of a failure: its fault, else a warning that is about the very line of its first error."""
        if self.state is State.EXPLAINED and self.faults:
            return self.faults[0]
        return next((each for each in self.findings if self.first_error and self.first_error in each.lines), None)

    @property
    def unexplained(self) -> Line | None:
        """The first error, where it stands so far from every fault that was found that it is another."""
        first = self.first_error
        lines = [line.number for finding in self.faults for line in finding.lines]
        if first is None or any(abs(number - first.number) <= _ONE_TRACEBACK for number in lines):
            return None
        return first


def surest(findings: Sequence[Finding]) -> list[Finding]:
    """Without those whose every line is better explained by a surer one of their kind."""

    def overshadowed(finding: Finding) -> bool:
        return any(
            other.cause.kind == finding.cause.kind
            and SUREST.index(other.confidence) < SUREST.index(finding.confidence)
            and set(finding.lines) <= set(other.lines)
            for other in findings
        )

    return [finding for finding in findings if not overshadowed(finding)]


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Faults before warnings, the last boot before earlier ones, and in a boot the first line first."""
    return sorted(
        findings,
        key=lambda finding: (
            finding.cause.kind != "fault", -finding.boot, finding.lines[0].number,
            SUREST.index(finding.confidence), finding.cause.id,
        ),
    )  # fmt: skip
