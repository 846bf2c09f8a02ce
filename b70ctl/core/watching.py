"""What a series of looks at a serving engine shows: whether it is well, and whether a fault has lasted long enough."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from b70ctl.core.metrics import Metrics
from b70ctl.core.watch import Watch
from b70ctl.core.watchlook import Look, Outcome, ProbeResult, progress

_RUNS = ("running", "restarting", "paused")
# one figure above a limit is a peak; this many in a row are a state
_IN_A_ROW = 3


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

_MEANS = {Outcome.WRONG: Kind.DEGENERATE, Outcome.SILENT: Kind.WEDGE, Outcome.REFUSED: Kind.UNREACHABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What earlier looks left behind; a new one knows nothing yet."""

    well: bool | None = None
    unwell_since: float | None = None
    gone_since: float | None = None
    """Since when Docker shows no container of it that runs."""
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


def judge(memory: Memory, look: Look, watch: Watch, *, boot: float, record: float | None = None) -> Judgement:
    """What one more look shows.

    `boot` is how long the engine may take to start, `record` the decode rate that it had when the release was new.
    """
    if look.unwell is not None:
        return _unwell(memory, look, watch, boot)
    said = [] if memory.well else [Said("healthy", "the engine is healthy")]
    memory, ended = _noted(memory, look)
    memory = _moved(replace(memory, well=True, unwell_since=None, gone_since=None), look)
    for step in (_asked, _drifted, _filled):
        memory, more = step(memory, look, watch, record)
        said += more
    fault = _silence(memory, look, watch) or _probes(memory, watch) or ended
    return Judgement(memory, tuple(said), fault)


def _unwell(memory: Memory, look: Look, watch: Watch, boot: float) -> Judgement:
    since = look.at if memory.unwell_since is None else memory.unwell_since
    container = look.container
    # an engine that was never seen well may be booting, one that was started anew since is
    booting = memory.well is None or (container is not None and container.started != memory.started)
    gone = _gone_since(memory, look)
    later = replace(memory, well=None if memory.well is None else False, unwell_since=since, gone_since=gone)
    said = () if memory.unwell_since is not None else (Said("booting" if booting else "unwell", str(look.unwell)),)
    if not look.docker:
        return Judgement(later, said)
    started = None if booting or container is None else container.started
    if gone is not None:
        lasted, limit = look.at - gone, watch.unreachable
        state = f"is {container.state}, exit code {container.exit_code}" if container else "is not there"
        fault = Fault(Kind.GONE, f"the engine's container {state}, for {lasted:.0f} s", started=started)
    else:
        lasted, limit = look.at - since, max(boot, watch.unreachable) if booting else watch.unreachable
        fault = Fault(Kind.UNREACHABLE, f"{look.unwell}, for {lasted:.0f} s", started=started)
    return Judgement(later, said, fault if lasted >= limit else None)


def _gone_since(memory: Memory, look: Look) -> float | None:
    if not look.docker:
        return memory.gone_since
    if look.container is not None and look.container.state in _RUNS:
        return None
    return look.at if memory.gone_since is None else memory.gone_since


def _noted(memory: Memory, look: Look) -> tuple[Memory, Fault | None]:
    """Remember which start of the container is well; another one than before was not ours."""
    if look.container is None:
        return memory, None
    before, started = memory.started, look.container.started
    if before in (None, started):
        return replace(memory, started=started), None
    anew = replace(memory, started=started, counters=None, failures=(), rates=())
    evidence = f"the engine that was started at {before} ended, and Docker started it again at {started}"
    return anew, Fault(Kind.ENDED, evidence)


def _moved(memory: Memory, look: Look) -> Memory:
    if look.metrics is None:
        return memory
    counters, runs = progress(look.metrics), bool(look.metrics.running)
    still = runs and memory.ran and counters == memory.counters
    return memory if still else replace(memory, counters=counters, moved=look.at, ran=runs)


def _silence(memory: Memory, look: Look, watch: Watch) -> Fault | None:
    if look.metrics is None or not look.metrics.running or look.metrics.generation_tokens is None:
        return None
    still = look.at - memory.moved
    if still < watch.silence:
        return None
    evidence = f"{look.metrics.running} requests run, and no token came for {still:.0f} s"
    return Fault(Kind.WEDGE, evidence, started=memory.started)


def _asked(memory: Memory, look: Look, watch: Watch, _: float | None) -> tuple[Memory, list[Said]]:
    asked = look.asked
    if asked is None or (asked.outcome is Outcome.SILENT and asked.others):
        return memory, []
    if asked.outcome is Outcome.PASSED:
        said = [Said("probe-passed", f"the probe passes again: {asked.detail}")] if memory.failures else []
        rates = (*memory.rates, asked.rate)[-_IN_A_ROW:] if asked.rate else memory.rates
        return replace(memory, failures=(), rates=rates), said
    failures = (*memory.failures, asked)[-watch.confirm :]
    return replace(memory, failures=failures), [Said("probe-failed", f"{asked.outcome}: {asked.detail}")]


def _probes(memory: Memory, watch: Watch) -> Fault | None:
    if len(memory.failures) < watch.confirm:
        return None
    last = memory.failures[-1]
    evidence = f"{len(memory.failures)} probes in a row failed: {last.detail}"
    return Fault(_MEANS[last.outcome], evidence, asked=True, started=memory.started)


def _drifted(memory: Memory, look: Look, watch: Watch, record: float | None) -> tuple[Memory, list[Said]]:
    if not record or look.asked is None or len(memory.rates) < _IN_A_ROW:
        return memory, []
    rate = sorted(memory.rates)[_IN_A_ROW // 2]
    said = f"{rate:.1f} tokens/s, {rate / record:.0%} of the {record:.1f} that this release began with"
    low, high = record * (1 - watch.drift), record * (1 - watch.drift / 2)
    return _episode(memory, Kind.DRIFT, begins=rate < low, ends=rate >= high, said=said.replace("%", " %"))


def _filled(memory: Memory, look: Look, watch: Watch, _: float | None) -> tuple[Memory, list[Said]]:
    usage = look.metrics.kv_usage if look.metrics else None
    if usage is None:
        return memory, []
    memory = replace(memory, full=memory.full + 1 if usage >= watch.kv else 0)
    said = f"{usage * 100:.0f} % of the KV cache is in use"
    ends = usage < watch.kv * 0.9
    return _episode(memory, Kind.KV_FULL, begins=memory.full >= _IN_A_ROW, ends=ends, said=said)


def _episode(memory: Memory, kind: Kind, *, begins: bool, ends: bool, said: str) -> tuple[Memory, list[Said]]:
    """A warning is told when it begins, and once more when it is over."""
    if kind not in memory.told and begins:
        return replace(memory, told=memory.told | {kind}), [Said(kind, said)]
    if kind in memory.told and ends:
        return replace(memory, told=memory.told - {kind}), [Said(f"{kind}-over", said)]
    return memory, []


def asks_again(memory: Memory, watch: Watch) -> bool:
    """Whether a probe failed, and one more has to show whether that was an accident."""
    return 0 < len(memory.failures) < watch.confirm


def may_ask(memory: Memory, look: Look, *, late: bool = False) -> bool:
    """Whether a probe would tell something: not while nothing moves anyway, and behind a queue only when it is late."""
    if look.unwell is not None or look.metrics is None:
        return look.unwell is None
    moves = not look.metrics.running or progress(look.metrics) != memory.counters
    return moves and (late or not look.metrics.waiting)


def started_anew(fault: Fault, look: Look) -> bool:
    """Whether a look shows another start of the container than the one that the fault was judged on."""
    return fault.started is not None and look.container is not None and look.container.started != fault.started


def stands(fault: Fault, memory: Memory, look: Look) -> bool:
    """Whether a fault is still there in another look, as must be before anything is done about it."""
    if started_anew(fault, look):
        return False
    if fault.asked:
        asked = look.asked
        failed = asked is not None and asked.outcome is not Outcome.PASSED and not asked.others
        return failed or look.unwell is not None
    if fault.kind is Kind.GONE:
        return look.container is None or look.container.state not in _RUNS
    if fault.kind is Kind.WEDGE:
        running = bool(look.metrics and look.metrics.running)
        return look.unwell is not None or (running and progress(look.metrics or Metrics()) == memory.counters)
    return look.unwell is not None
