"""What is seen of a serving engine at one moment, and what an answer of it tells."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from b70ctl.core.answer import Answer
from b70ctl.core.metrics import Metrics
from b70ctl.core.probes import Probe
from b70ctl.core.release import Container

_PREFERRED = ("counting", "prose", "capital", "arithmetic")
"""What a watch asks, in order of preference: long enough to time, and hard for a broken engine."""
_FEWEST_TOKENS = 20
_KEPT_RATES = 5


class Outcome(StrEnum):
    """How a probe of the watch's own ended."""

    PASSED = "passed"
    WRONG = "wrong"
    SILENT = "silent"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """A probe and its outcome; `rate` in tokens a second where the engine did nothing else meanwhile.

    `others` says that nothing came while the engine worked for somebody else: then silence is a queue, and no fault.
    """

    outcome: Outcome
    detail: str = ""
    rate: float | None = None
    others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen at one moment; `at` is in seconds of a clock that only goes forward.

    `unwell` is why /health does not say 200. `docker` says that Docker was asked and answered: then a container that
    is None is not there, and else it is not known.
    """

    at: float
    unwell: str | None = None
    metrics: Metrics | None = None
    docker: bool = False
    container: Container | None = None
    asked: ProbeResult | None = None


def progress(metrics: Metrics) -> tuple[float | None, ...]:
    """The figures of which one moves as long as an engine works.

    A long prefill moves no counter of tokens until its first one comes: vLLM counts a prompt when it is done. The use
    of the KV cache grows with each chunk of it.
    """
    return (metrics.generation_tokens, metrics.prompt_tokens, metrics.kv_usage, metrics.prefix_queries)


def hung(chunks: int, quiet: float, silence: float) -> bool:
    """Whether an answer began and then stopped, `silence` being how long one may; else it had not begun, or was slow.

    Half of that is enough: the deadline of a whole answer may come sooner.
    """
    return chunks > 0 and quiet >= silence / 2


def others(before: Metrics | None, after: Metrics | None, own: int, left: int = 0) -> bool:
    """Whether the engine worked for somebody else between two readings, though a probe got nothing.

    Told by what cannot be the probe's: more tokens than the `own` that it may have, or a KV cache that moved while
    requests ran before it, of which `left` may be earlier probes. One that hangs leaves its own prompt, and a token or
    two, in the counters.
    """
    if before is None or after is None:
        return False
    came = (after.generation_tokens or 0) - (before.generation_tokens or 0)
    return came > own or ((before.running or 0) > left and before.kv_usage != after.kv_usage)


def alone(before: Metrics | None, after: Metrics | None, answer: Answer) -> bool:
    """Whether an answer came from an engine that did nothing else: only then its rate can be compared."""
    if before is None or after is None or before.running or before.waiting or after.running or after.waiting:
        return False
    if before.generation_tokens is None or after.generation_tokens is None or answer.completion_tokens is None:
        return False
    return 0 <= after.generation_tokens - before.generation_tokens <= answer.completion_tokens


def decode_rate(answer: Answer) -> float | None:
    """Tokens a second after the first one; None for an answer too short to tell."""
    if answer.first_token_seconds is None or (answer.completion_tokens or 0) < _FEWEST_TOKENS:
        return None
    seconds = answer.seconds - answer.first_token_seconds
    return (int(answer.completion_tokens or 0) - 1) / seconds if seconds > 0 else None


def learnt(rates: tuple[float, ...], rate: float | None) -> tuple[float, ...]:
    """The first idle rates of a release, with one more while they are too few."""
    return (*rates, rate) if rate and len(rates) < _KEPT_RATES else rates


def record_of(rates: tuple[float, ...]) -> float | None:
    """What a release is compared with: the middle one of its first idle rates; None until there are enough."""
    return sorted(rates)[_KEPT_RATES // 2] if len(rates) >= _KEPT_RATES else None


def own_probe(probes: tuple[Probe, ...]) -> Probe | None:
    """The probe that a watch asks; None where the profile skips them all."""
    named = {probe.name: probe for probe in probes}
    return next((named[name] for name in _PREFERRED if name in named), None)
