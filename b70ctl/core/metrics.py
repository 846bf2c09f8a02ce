"""What an engine's /metrics page says, read as Prometheus writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(
    r'^([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]+(\S+)(?:[ \t]+-?[\d.]+)?[ \t]*(?:#.*)?$', re.ASCII
)
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"', re.ASCII)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n"}
_MOST = 2.0**62


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of the page with its labels."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """An engine's own figures; those it does not export are None.

    Counters are sums over the engine's processes since its start; the KV usage is that of the fullest pool.
    """

    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    preemptions: int | None = None
    prefix_queries: int | None = None
    prefix_hits: int | None = None
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_per_position: tuple[int, ...] = ()


_COUNTERS = {
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "prompt_tokens": "vllm:prompt_tokens",
    "generation_tokens": "vllm:generation_tokens",
    "preemptions": "vllm:num_preemptions",
    "prefix_queries": "vllm:prefix_cache_queries",
    "prefix_hits": "vllm:prefix_cache_hits",
    "drafts": "vllm:spec_decode_num_drafts",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens",
}
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"
_KV_USAGE = "vllm:kv_cache_usage_perc"


def samples(text: str) -> Iterator[Sample]:
    """The finite numbers of a metrics page; a line that is no sample is passed over."""
    for line in text.split("\n"):
        if found := _SAMPLE.match(line.strip()):
            value = _number(found[3])
            if math.isfinite(value):
                labels = {name: _unescaped(said) for name, said in _LABEL.findall(found[2] or "")}
                yield Sample(found[1], labels, value)


def read_metrics(text: str) -> Metrics:
    """The figures of a vLLM metrics page; empty when the page is of something else."""
    named: dict[str, list[Sample]] = {}
    for sample in samples(text):
        named.setdefault(sample.name.removesuffix("_total"), []).append(sample)
    sums = {field: _sum(named[name]) for field, name in _COUNTERS.items() if name in named}
    usage = max((sample.value for sample in named.get(_KV_USAGE, ())), default=None)
    return Metrics(**sums, kv_usage=usage, accepted_per_position=_per_position(named.get(_PER_POSITION, [])))


def acceptance(before: Metrics, after: Metrics) -> float | None:
    """Tokens per draft that the model accepted between two readings; None when it drafted nothing."""
    if None in (before.drafts, after.drafts, before.accepted_tokens, after.accepted_tokens):
        return None
    drafts = (after.drafts or 0) - (before.drafts or 0)
    accepted = (after.accepted_tokens or 0) - (before.accepted_tokens or 0)
    # counters that ran backwards belong to an engine that was started again
    return accepted / drafts if drafts > 0 and accepted >= 0 else None


def at_work(figures: Metrics) -> str:
    """What an engine does now, and what became of its drafts since its start; empty where its figures do not say."""
    if figures.running is None or figures.waiting is None:
        return ""
    told = f"{figures.running} requests running, {figures.waiting} waiting"
    accepted = acceptance(Metrics(drafts=0, accepted_tokens=0), figures)
    if accepted is None or figures.drafts is None or figures.draft_tokens is None:
        return told
    # a draft may be shorter than the profile allows, as ngram's are
    drafted = figures.draft_tokens / figures.drafts
    return f"{told}; of its drafts {accepted:.2f} of {round(drafted, 2):g} tokens were accepted"


def _sum(of: list[Sample]) -> int:
    # a count beyond this is nonsense, and a sum of such might not be a number
    return round(sum(max(-_MOST, min(sample.value, _MOST)) for sample in of))


def _per_position(of: list[Sample]) -> tuple[int, ...]:
    totals: dict[int, list[Sample]] = {}
    for sample in of:
        position = sample.labels.get("position", "")
        if position.isascii() and position.isdigit() and len(position) < 4:
            totals.setdefault(int(position), []).append(sample)
    return tuple(_sum(totals[position]) for position in sorted(totals))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)
