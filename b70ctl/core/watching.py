"""What a series of looks at a serving engine shows: whether it is well, and whether a fault has lasted long enough."""

from __future__ import annotations

from dataclasses import replace

from b70ctl.core.metrics import Metrics
from b70ctl.core.outage import still_gone, unwell
from b70ctl.core.watch import Watch
from b70ctl.core.watchfault import Fault, Judgement, Kind, Memory, Said
from b70ctl.core.watchlook import Look, Outcome, progress

# one figure above a limit is a peak; this many in a row are a state
_IN_A_ROW = 3
_MEANS = {Outcome.WRONG: Kind.DEGENERATE, Outcome.SILENT: Kind.WEDGE, Outcome.REFUSED: Kind.UNREACHABLE}


def judge(memory: Memory, look: Look, watch: Watch, *, boot: float, record: float | None = None) -> Judgement:
    """What one more look shows.

    `boot` is how long the engine may take to start, `record` the decode rate that it had when the release was new.
    """
    if look.unwell is not None:
        return unwell(memory, look, watch, boot)
    said = [] if memory.well or _passed(look) else [Said("answers", _answers(watch))]
    memory, ended = _noted(memory, look)
    memory = _moved(replace(memory, well=True, unwell_since=None, gone_since=None), look)
    for step in (_asked, _drifted, _filled):
        memory, more = step(memory, look, watch, record)
        said += more
    fault = _silence(memory, look, watch) or _probes(memory, watch) or ended
    return Judgement(replace(memory, sound=memory.sound and fault in (None, ended)), tuple(said), fault)


def _passed(look: Look) -> bool:
    return look.asked is not None and look.asked.outcome is Outcome.PASSED


def _answers(watch: Watch) -> str:
    return f"/health says 200; whether the engine is healthy its next probe tells, one every {watch.every:g} min"


def _noted(memory: Memory, look: Look) -> tuple[Memory, Fault | None]:
    """Remember which start of the container is well; another one than before was not ours."""
    if look.container is None:
        return memory, None
    before, started = memory.started, look.container.started
    code = "" if memory.exit_code is None else f", exit code {memory.exit_code}"
    memory = replace(memory, restarts=look.container.restarts + 1, exit_code=None, started=started)
    if before in (None, started):
        return memory, None
    anew = replace(memory, sound=False, counters=None, failures=(), rates=())
    evidence = f"the engine that was started at {before} ended{code}, and Docker started it again at {started}"
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
        said = said if memory.sound else [Said("healthy", "the engine is healthy")]
        rates = (*memory.rates, asked.rate)[-_IN_A_ROW:] if asked.rate else memory.rates
        return replace(memory, sound=True, failures=(), rates=rates), said
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
        return still_gone(memory, look)
    if fault.kind is Kind.WEDGE:
        running = bool(look.metrics and look.metrics.running)
        return look.unwell is not None or (running and progress(look.metrics or Metrics()) == memory.counters)
    return look.unwell is not None
