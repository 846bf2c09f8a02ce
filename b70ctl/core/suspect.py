"""One known cause while a log is read: its symptoms so far, and which of them its conditions confirm."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from b70ctl.core.cause import Cause
from b70ctl.core.firstfault import Line

MOST_SHOWN = 3
_MOST_OPEN = 32
_TAIL = 20
"""How close to the end the last sign of life of a log that just stops stands."""

Role = Literal["after", "not_after", "unless", "also", "patterns"]
ROLES: tuple[Role, ...] = ("after", "not_after", "unless", "also", "patterns")
"""The order in which a line that plays several is judged."""


@dataclass(frozen=True, slots=True)
class Atom:
    """One pattern of a cause: its role, and its place among those of that role."""

    role: Role
    index: int
    pattern: str


def atoms(cause: Cause) -> Iterator[Atom]:
    """Every pattern of a cause."""
    for role in ROLES:
        yield from (Atom(role, index, pattern) for index, pattern in enumerate(getattr(cause, role)))


@dataclass(slots=True)
class _Symptom:
    """A line that matched, whose neighbourhood is not known yet."""

    line: Line
    boot: int
    lacking: set[int]
    beside: list[Line] = field(default_factory=list)


class Suspect:
    """Collects what speaks for a cause and what against it; memory does not grow with the log."""

    def __init__(self, cause: Cause) -> None:
        self.cause = cause
        self.count = 0
        self.boot = 0
        """The last boot that had it."""
        self.lines: list[Line] = []
        """Of that boot, first to last."""
        self._open: deque[_Symptom] = deque()
        self._beside: dict[int, Line] = {}
        self._against = -1_000_000
        self._seen: set[int] = set()
        self._barred = False
        self._patient = cause.at_end or bool(cause.also or cause.unless)

    def restart(self) -> None:
        """A new boot begins: what stood before it is not before what follows."""
        if self.cause.at_end:
            self._open.clear()
        self._settle(None)
        self._seen.clear()
        self._beside.clear()
        self._barred = False

    def take(self, line: Line, atom: Atom, boot: int) -> None:
        """A line matched one of the cause's patterns; roles of one line come in the order of ROLES."""
        if not self.cause.at_end:
            self._settle(line.number)
        match atom.role:
            case "after":
                self._seen.add(atom.index)
            case "not_after":
                self._barred = True
            case "unless":
                self._against = line.number
                self._open.clear()
            case "also":
                self._support(line, atom.index)
            case "patterns":
                self._suspect(line, boot)

    def finish(self, last: int, *, stuck: bool) -> None:
        """The log is read; `stuck` when nothing will follow it and nothing in it says why."""
        if self.cause.at_end and not (stuck and self._open and self._open[-1].line.number > last - _TAIL):
            self._open.clear()
        self._settle(None)

    def _suspect(self, line: Line, boot: int) -> None:
        cause = self.cause
        if self._barred or len(self._seen) < len(cause.after) or self._against >= line.number - cause.within:
            return
        near = {index: it for index, it in self._beside.items() if it.number >= line.number - cause.within}
        symptom = _Symptom(line, boot, set(range(len(cause.also))) - set(near), list(near.values()))
        if not self._patient:
            self._close(symptom)
            return
        if cause.at_end:
            self._open.clear()
        self._open.append(symptom)
        if len(self._open) > _MOST_OPEN:
            self._close(self._open.popleft())

    def _support(self, line: Line, index: int) -> None:
        self._beside[index] = line
        for symptom in self._open:
            if index in symptom.lacking:
                symptom.lacking.discard(index)
                symptom.beside.append(line)

    def _settle(self, now: int | None) -> None:
        """Close what the line `now` is too far from to confirm or refute; all of it when the log is over."""
        while self._open and (now is None or self._open[0].line.number + self.cause.within < now):
            self._close(self._open.popleft())

    def _close(self, symptom: _Symptom) -> None:
        if symptom.lacking:
            return
        if symptom.boot != self.boot:
            self.boot, self.lines = symptom.boot, []
        self.count += 1
        if len(self.lines) < MOST_SHOWN:
            both = {symptom.line, *symptom.beside, *self.lines}
            self.lines = sorted(both, key=lambda line: line.number)[: MOST_SHOWN + len(self.cause.also)]
