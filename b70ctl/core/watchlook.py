"""What is seen of a serving engine at one moment, and what an answer of it tells."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from b70ctl.core.answer import Answer
from b70ctl.core.metrics import Metrics
from b70ctl.core.probes import Probe
from b70ctl.core.release import Container, State

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
class Asked:
    """A probe and its outcome; `rate` in tokens a second where the engine did nothing else meanwhile.

    `others` says that tokens came for somebody else meanwhile: then silence is a queue, and no fault.
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
    asked: Asked | None = None


def progress(metrics: Metrics) -> tuple[float | None, ...]:
    """The figures of which one moves as long as an engine works.

    A long prefill moves no counter of tokens until its first one comes: vLLM counts a prompt when it is done. The use
    of the KV cache grows with each chunk of it.
    """
    return (metrics.generation_tokens, metrics.prompt_tokens, metrics.kv_usage, metrics.prefix_queries)


def others(before: Metrics | None, after: Metrics | None) -> bool:
    """Whether tokens came, or a prompt of somebody else's was read, between two readings."""
    if before is None or after is None:
        return False
    came = (before.generation_tokens, before.prompt_tokens) != (after.generation_tokens, after.prompt_tokens)
    return came or (bool(before.running) and progress(before) != progress(after))


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


def resting(state: State) -> str | None:
    """Why the engine is not to be followed now, as its owner left the site; None when it is."""
    if state.drained:
        return f"the site is drained since {state.drained.at}"
    if state.stopped:
        return "the engine is stopped as its owner asked"
    return None if state.serving else "nothing serves at this site"
