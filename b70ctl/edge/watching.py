"""Looks at a serving engine and asks it its probe; remembers how fast each release was when it was new."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from b70ctl.core.metrics import Metrics
from b70ctl.core.probes import Probe, probes_for
from b70ctl.core.release import Container, Release
from b70ctl.core.watch import COMMAND
from b70ctl.core.watchlook import Asked, Look, Outcome, alone, decode_rate, learnt, others, own_probe
from b70ctl.edge.endpoint import Endpoint
from b70ctl.edge.files import read_json, replace
from b70ctl.edge.proving import target_of
from b70ctl.edge.store import Store
from b70ctl.errors import B70Error, DaemonError, EngineError, EngineSilent, MachineError

RATES_FILE = "rates.json"


@dataclass(slots=True)
class Lookout:
    """One release's engine, seen from outside; a Docker that does not answer is no reason to stop looking."""

    release: Release
    endpoint: Endpoint
    daemon: Callable[[], Any]
    patience: float
    """Seconds that a probe's answer may take."""
    away: str | None = None
    """Why Docker did not answer when it was asked last."""
    _probe: Probe | None = field(default=None, init=False)

    def look(self, *, docker: bool) -> Look:
        """What there is to see now; Docker is asked where `docker` says so, and where the engine is not well."""
        at = time.monotonic()
        unwell = self.endpoint.unwell()
        metrics = self._metrics() if unwell is None else None
        answered, container = self._container() if docker or unwell else (False, None)
        return Look(at=at, unwell=unwell, metrics=metrics, docker=answered, container=container)

    def ask(self) -> Asked | None:
        """Put the probe; None where the profile skips all that could be asked."""
        try:
            probe = self._own_probe()
        except EngineError as error:
            return Asked(outcome=Outcome.REFUSED, detail=error.what)
        if probe is None:
            return None
        before = self._metrics()
        try:
            answer = self.endpoint.ask(probe.body, path=probe.path, timeout=self.patience)
        except EngineError as error:
            outcome = Outcome.SILENT if isinstance(error, EngineSilent) else Outcome.REFUSED
            return Asked(outcome=outcome, detail=f"{probe.name}: {error.what}", others=others(before, self._metrics()))
        finding = probe.find(answer)
        detail = f"{probe.name}: {finding.detail}"
        if not finding.passed:
            return Asked(outcome=Outcome.WRONG, detail=detail)
        rate = decode_rate(answer) if alone(before, self._metrics(), answer) else None
        return Asked(outcome=Outcome.PASSED, detail=detail, rate=rate)

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


def restarts_begun(store: Store) -> list[float]:
    """When each restart of a watch was begun, as the journal tells it; in seconds of the wall's clock."""
    begun = (moment(op.begin.at) for op in store.ops() if op.plan.command == COMMAND)
    return [at for at in begun if at is not None]


def moment(stamp: str) -> float | None:
    """A time of the journal in seconds; None for what is none."""
    try:
        return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
