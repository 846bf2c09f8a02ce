"""What a booting vLLM is doing, read from its log line by line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from b70ctl.core.bootfacts import BootFacts, differences
from b70ctl.core.bootfaults import Faults, Record
from b70ctl.core.pluginlog import PluginLog

__all__ = ["BootFacts", "BootLog", "Stage", "differences"]

_LONGEST_LINE = 16_384
_LONGEST_NOTICE = 240
_MOST_NOTICES = 40


class Stage(StrEnum):
    """How far a boot has come, in the order that a boot goes."""

    CREATED = "created"
    STARTING = "starting"
    DOWNLOADING = "downloading"
    LOADING = "loading"
    COMPILING = "compiling"
    PROFILING = "profiling"
    ALLOCATING = "allocating"
    CAPTURING = "capturing"
    SERVING = "serving"

    @property
    def rank(self) -> int:
        """Its place in the order."""
        return list(Stage).index(self)


def _re(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


_SERVING = _re(r"Starting vLLM (?:API )?server \d* ?on |Application startup complete|Uvicorn running on")
_STAGES = (
    # a hub id is looked up and perhaps fetched, silently; a path is read
    (Stage.DOWNLOADING, _re(r"Starting to load model (?![/.])\S+/|Fetching \d+ files|\.safetensors:\s+\d+%")),
    (Stage.LOADING, _re(r"Starting to load model [/.]|Time spent downloading weights|Loading weights took")),
    (Stage.LOADING, _re(r"(?:Loading|loading) .{0,60}shards:|Loading drafter model")),
    (Stage.COMPILING, _re(r"Starting torch\.compile|Using cache directory: .{0,400}torch\.compile")),
    (Stage.COMPILING, _re(r"Dynamo bytecode transform time|Compiling a graph|Directly load (?:AOT|the )")),
    (Stage.COMPILING, _re(r"saved AOT compiled function")),
    (Stage.PROFILING, _re(r"torch\.compile took|Initial profiling/warmup run took")),
    (Stage.ALLOCATING, _re(r"Available KV cache memory: |KV cache size: [\d,]+ tokens")),
    (Stage.CAPTURING, _re(r"Capturing .{0,60}graphs|Graph capturing finished")),
    (Stage.SERVING, _SERVING),
)
# said of an eager engine as well
_LOADED = _re(r"Model loading took |Warming up model for the compilation")
_PROGRESS = _re(r"(?:[Ll]oading|Capturing) .{0,120}?\|\s*(\d{1,6})/(\d{1,6}) \[")

_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_COUNT = r"(\d[\d,]{0,15})"
_BACKEND = r"(Flash Attention(?: MLA)?|Triton(?: MLA)?|XPU MLA Sparse|(?:the )?[\w/]{1,40} (?:attention|composite))"


def _count(text: str) -> int:
    return int(text.replace(",", ""))


def _backend(text: str) -> str:
    return text.removeprefix("the ").removesuffix(" attention").removesuffix(" composite")


def _last(_: Any, new: Any) -> Any:
    return new


def _first(old: Any, _: Any) -> Any:
    return old


def _each(old: str, new: str) -> str:
    return old if new in old.split(" + ") else f"{old} + {new}"


@dataclass(frozen=True, slots=True)
class _Rule:
    """Where a fact stands in the log, how it is read, and what two workers' values make together."""

    fact: str
    where: re.Pattern[str]
    read: Callable[[str], Any] = str
    join: Callable[[Any, Any], Any] = _last


_RULES = (
    _Rule("vllm_version", _re(r"V1 LLM engine \(v([^)\s]{1,60})\)"), str, _first),
    _Rule("vllm_version", _re(r"(?:server |[█▀▄] +)version v?(\d[\w.+]{2,60})"), str, _first),
    _Rule("enforce_eager", _re(r"enforce_eager=(True|False)"), lambda said: said == "True", _first),
    _Rule("weights_gib", _re(rf"Model loading took {_NUMBER} GiB"), float, max),
    _Rule("load_seconds", _re(rf"Model loading took .{{1,40}} and {_NUMBER} seconds"), float, max),
    _Rule("attention_backend", _re(rf"Using {_BACKEND} backend"), _backend, join=_each),
    _Rule("attention_backend", _re(r"Falling back to (Triton) Attention backend"), join=_each),
    _Rule("flash_attention_version", _re(r"Using FlashAttention version (\d{1,3})"), int),
    _Rule("moe_method", _re(r"Using (\w{1,80}MoEMethod)\b"), join=_each),
    _Rule("moe_method", _re(r"Using '?([\w ]{1,60}?)'? (?:\w{1,20} )?MoE backend"), join=_each),
    _Rule("moe_method", _re(r"Using (\w{1,60}) backend for \w{1,20} MoE"), join=_each),
    _Rule("kv_cache_dtype", _re(r"Using (\w{1,40}) data type to store kv cache")),
    _Rule("available_kv_gib", _re(rf"Available KV cache memory: {_NUMBER} GiB"), float, min),
    _Rule("kv_tokens", _re(rf"\w KV cache size: {_COUNT} tokens"), _count),
    _Rule("concurrency_length", _re(rf"Maximum concurrency for {_COUNT} tokens per request: \d"), _count),
    _Rule("max_concurrency", _re(rf"Maximum concurrency for [\d,]+ tokens per request: {_NUMBER}x"), float),
    _Rule("compile_seconds", _re(rf"torch\.compile took {_NUMBER} s|\(compilation: {_NUMBER} s"), float, max),
    _Rule("profile_seconds", _re(rf"Initial profiling/warmup run took {_NUMBER} s"), float, max),
    _Rule("capture_seconds", _re(rf"Graph capturing finished in {_NUMBER} secs"), float, max),
    _Rule("capture_gib", _re(rf"Graph capturing finished in .{{1,20}} took {_NUMBER} GiB"), float, max),
    _Rule("init_seconds", _re(rf"init engine \([^)]{{1,80}}\) took {_NUMBER} s"), float, max),
    _Rule("async_scheduling", _re(r"Asynchronous scheduling is (enabled|disabled)"), lambda said: said == "enabled"),
    _Rule("draft_position_limit", _re(r"Overriding draft model max_position_embeddings .{1,99}\((\d{1,9})\)"), int),
    _Rule("draft_position_limit", _re(r"Overriding draft model max model len from \d+ to (\d{1,9})"), int),
)

# what vLLM decided against the wish of whoever wrote the profile
_NOTICES = _re(
    r"max_num_scheduled_tokens is set to|Unknown vLLM environment variable|may cause accuracy drop"
    r"|Casting torch\.\w+ to torch\.\w+|gptq_gemm kernel .{0,20}is buggy"
    r"|Async scheduling (?:not supported|will be disabled)"
    r"|Falling back to|Overriding draft model|Failed to load plugin"
)
_WARNED = _re(r"disabl|[Ff]all(?:ing)? back|not supported|unsupported|overrid|ignor|not compatible")


class BootLog:
    """Follows one boot; facts are taken until the engine serves, faults for as long as it is fed."""

    def __init__(self) -> None:
        self.stage = Stage.CREATED
        self.progress: tuple[int, int] | None = None
        self._seen: dict[str, Any] = {}
        self._notices: dict[str, None] = {}
        self._faults = Faults()
        self.plugin = PluginLog()
        """What the processes say of our kernels; lines that come late, beside the server's own, count too."""

    def feed(self, line: str) -> Stage | None:
        """Take one line in; the new stage when the line takes the boot further, else None."""
        before = self.stage
        tag = ""
        # a progress bar rewrites its line; each rewriting counts
        for part in line[:_LONGEST_LINE].split("\r"):
            record = Record.of(part, tag)
            tag = record.tag
            self._take(record)
        return self.stage if self.stage is not before else None

    def begin_again(self) -> None:
        """What comes is the same log from its beginning: a line without a name must not speak for two processes."""
        self.plugin = PluginLog()

    def facts(self) -> BootFacts:
        """What was said so far."""
        return BootFacts(**self._seen, kernels=self.plugin.name, kernels_in=self.plugin.processes,
                         notices=tuple(self._notices), first_error=self._faults.first)  # fmt: skip

    def _take(self, record: Record) -> None:
        self._faults.take(record)
        self.plugin.take(record)
        self.plugin.whole = self.plugin.whole or _SERVING.search(record.text) is not None
        if self.stage is Stage.SERVING or not record.text.strip():
            return
        self._learn(record.text)
        self._notice(record)
        self._advance(record)
        if bar := _PROGRESS.search(record.text):
            self.progress = int(bar[1]), int(bar[2])

    def _learn(self, text: str) -> None:
        for rule in _RULES:
            if found := rule.where.search(text):
                value = rule.read(next(group for group in found.groups() if group is not None))
                known = rule.fact in self._seen
                self._seen[rule.fact] = rule.join(self._seen[rule.fact], value) if known else value

    def _notice(self, record: Record) -> None:
        warned = record.level == "WARNING" and _WARNED.search(record.text)
        if (warned or _NOTICES.search(record.text)) and len(self._notices) < _MOST_NOTICES:
            self._notices[record.text.strip()[:_LONGEST_NOTICE]] = None

    def _advance(self, record: Record) -> None:
        reached = [stage for stage, pattern in _STAGES if pattern.search(record.text)]
        if _LOADED.search(record.text):
            reached.append(Stage.PROFILING if self._seen.get("enforce_eager") else Stage.COMPILING)
        if record.level:
            reached.append(Stage.STARTING)
        if self.stage.rank < Stage.ALLOCATING.rank:
            # graphs that are captured before the KV pool exists only measure their size
            reached = [stage for stage in reached if stage is not Stage.CAPTURING]
        furthest = max(reached, key=lambda stage: stage.rank, default=self.stage)
        if furthest.rank > self.stage.rank:
            self.stage, self.progress = furthest, None
