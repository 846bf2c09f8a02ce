"""Looks at a serving engine and asks it its probe; remembers how fast each release was when it was new."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from b70ctl.core.metrics import Metrics
from b70ctl.core.probes import Probe, probes_for
from b70ctl.core.release import Container, Release
from b70ctl.core.watchlook import Look, Outcome, ProbeResult, alone, decode_rate, hung, learnt, others, own_probe
from b70ctl.edge.endpoint import Endpoint
from b70ctl.edge.files import read_json, replace
from b70ctl.edge.proving import target_of
from b70ctl.errors import B70Error, DaemonError, EngineError, EngineSilent, MachineError


@dataclass(slots=True)
class Monitor:
    """One release's engine, seen from outside; a Docker that does not answer is no reason to stop looking."""

    release: Release
    endpoint: Endpoint
    daemon: Callable[[], Any]
    patience: float
    """Seconds that a probe's answer may take."""
    silence: float
    """Seconds that it may stop for once it began."""
    clock: Callable[[], float] = time.monotonic
    away: str | None = None
    """Why Docker did not answer when it was asked last."""
    _probe: Probe | None = field(default=None, init=False)
    _left: int = field(default=0, init=False)
    """Probes in a row that hung: an engine that hangs may still have them among what runs."""

    def look(self, *, docker: bool) -> Look:
        """What there is to see now; Docker is asked where `docker` says so, and where the engine is not well."""
        at = self.clock()
        unwell = self.endpoint.unwell()
        metrics = self._metrics() if unwell is None else None
        answered, container = self._container() if docker or unwell else (False, None)
        return Look(at=at, unwell=unwell, metrics=metrics, docker=answered, container=container)

    def ask(self) -> ProbeResult | None:
        """Put the probe; None where the profile skips all that could be asked."""
        try:
            probe = self._own_probe()
        except EngineError as error:
            return ProbeResult(outcome=Outcome.REFUSED, detail=error.what)
        if probe is None:
            return None
        before = self._metrics()
        try:
            answer = self.endpoint.ask(probe.body, path=probe.path, timeout=self.patience)
        except EngineError as error:
            return self._unanswered(probe, error, before)
        self._left = 0
        finding = probe.find(answer)
        detail = f"{probe.name}: {finding.detail}"
        if not finding.passed:
            return ProbeResult(outcome=Outcome.WRONG, detail=detail)
        rate = decode_rate(answer) if alone(before, self._metrics(), answer) else None
        return ProbeResult(outcome=Outcome.PASSED, detail=detail, rate=rate)

    def _unanswered(self, probe: Probe, error: EngineError, before: Metrics | None) -> ProbeResult:
        detail = f"{probe.name}: {error.what}"
        if not isinstance(error, EngineSilent):
            return ProbeResult(outcome=Outcome.REFUSED, detail=detail)
        # behind a queue an answer begins late and comes slowly; one that began and stopped waits for nobody
        stopped = hung(error.chunks, error.quiet, self.silence)
        busy = not stopped and others(before, self._metrics(), int(probe.body["max_tokens"]), self._left)
        self._left += not busy
        return ProbeResult(outcome=Outcome.SILENT, detail=detail, others=busy)

    def _own_probe(self) -> Probe | None:
        if self._probe is None:
            self._probe = own_probe(probes_for(target_of(self.release, self.endpoint, None)))
        return self._probe

    def _metrics(self) -> Metrics | None:
        try:
            return self.endpoint.metrics()
        except EngineError:
            return None

    def _container(self) -> tuple[bool, Container | None]:
        release = self.release
        try:
            observed = self.daemon().observe(release.deployment.site, {release.id: release})
        except (DaemonError, MachineError) as error:
            self.away = error.what
            return False, None
        self.away = None
        return True, observed.of(release.id)


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast each release decoded when it was new, kept over every restart."""

    file: Path

    def of(self, release: str) -> tuple[float, ...]:
        """The first idle rates of a release."""
        found = self._read().get(release)
        return tuple(float(rate) for rate in found if isinstance(rate, int | float)) if isinstance(found, list) else ()

    def add(self, release: str, rate: float | None, kept: Callable[[], Any]) -> tuple[float, ...]:
        """The rates with one more while they are too few; releases that are not `kept` any more are left out."""
        before = self.of(release)
        after = learnt(before, rate)
        if after != before:
            names = kept()
            rest = {name: rates for name, rates in self._read().items() if name in names}
            replace(self.file, json.dumps(rest | {release: [round(each, 2) for each in after]}))
        return after

    def _read(self) -> dict[str, Any]:
        try:
            return read_json(self.file) or {}
        except B70Error:
            return {}  # what a crash or a person left of it: the rates are taken anew
