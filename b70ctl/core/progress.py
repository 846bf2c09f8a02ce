"""What a running command tells while it runs; the console decides how to say it."""

from __future__ import annotations

from dataclasses import dataclass

from b70ctl.core.plan import Step


@dataclass(frozen=True, slots=True)
class StepBegun:
    """A step of the plan, or of the way back, was begun."""

    step: Step
    undo: bool = False


@dataclass(frozen=True, slots=True)
class StepDone:
    """It ended as it should."""

    step: Step
    seconds: float
    undo: bool = False


@dataclass(frozen=True, slots=True)
class StepFailed:
    """It did not."""

    step: Step
    why: str
    undo: bool = False


@dataclass(frozen=True, slots=True)
class Booting:
    """Where a boot has come to."""

    release: str
    stage: str
    seconds: float
    part: tuple[int, int] | None = None
    """Done and all, where the stage counts its parts."""


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe was answered, or not asked, or its answer proves nothing; `passed` is None then."""

    release: str
    probe: str
    passed: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth a line."""

    text: str


@dataclass(frozen=True, slots=True)
class Emptying:
    """An engine that is to stop still has requests, as it said last; those have `left` more seconds to end."""

    release: str
    running: int | None
    waiting: int | None
    left: float


@dataclass(frozen=True, slots=True)
class Lost:
    """An engine that stopped cut off as many requests; None where that is not known."""

    release: str
    requests: int | None


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """The command of a window ended with this exit status."""

    release: str
    status: int
    seconds: float


Event = StepBegun | StepDone | StepFailed | Booting | Probed | Note | Emptying | Lost | CommandEnded
