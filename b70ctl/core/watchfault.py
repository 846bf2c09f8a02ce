"""What a watch remembers from look to look, and what it may find: a fault, or a change to tell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from b70ctl.core.watchlook import ProbeResult


class Kind(StrEnum):
    """What can be wrong."""

    GONE = "gone"
    UNREACHABLE = "unreachable"
    WEDGE = "wedge"
    DEGENERATE = "degenerate"
    ENDED = "ended"
    DRIFT = "drift"
    KV_FULL = "kv-full"


ACTING = frozenset((Kind.GONE, Kind.UNREACHABLE, Kind.WEDGE, Kind.DEGENERATE))
"""What a restart may cure; of an engine that ended by itself the incident is captured, and the others are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What earlier looks left behind; a new one knows nothing yet."""

    well: bool | None = None
    """What /health says; None as long as it never said 200."""
    sound: bool = False
    """Whether a probe passed since the last fault: /health alone knows nothing of the answers."""
    unwell_since: float | None = None
    gone_since: float | None = None
    """Since when Docker shows no container of it that runs, or one that ends over and over."""
    restarts: int | None = None
    """Docker's count of its own restarts that one boot explains: a higher one is of an engine that ends in its boot."""
    exit_code: int | None = None
    """How it ended when it was last seen down: Docker forgets that with the next start."""
    started: str | None = None
    """When the container was started, as Docker told it while the engine was well."""
    counters: tuple[float | None, ...] | None = None
    moved: float = 0.0
    """When the counters last moved, or nothing ran, as far as it was seen."""
    ran: bool = False
    failures: tuple[ProbeResult, ...] = ()
    rates: tuple[float, ...] = ()
    full: int = 0
    told: frozenset[Kind] = frozenset()


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that lasted long enough, with what shows it."""

    kind: Kind
    evidence: str
    asked: bool = False
    """Whether a probe showed it, and not a look."""
    started: str | None = None
    """When the container was started that it was judged on; None where that says nothing: of a boot, which may be one
    of many, and where Docker was not asked."""

    @property
    def acts(self) -> bool:
        """Whether a restart may cure it."""
        return self.kind in ACTING


@dataclass(frozen=True, slots=True)
class Said:
    """A line about a change; `what` is one word for programs."""

    what: str
    text: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is remembered from now on, what is to be told, and the fault if there is one."""

    memory: Memory
    said: tuple[Said, ...] = ()
    fault: Fault | None = None

    @property
    def over(self) -> bool:
        """Whether an earlier fault is over: there is none, and no probe that failed waits to be confirmed."""
        return self.fault is None and not self.memory.failures
