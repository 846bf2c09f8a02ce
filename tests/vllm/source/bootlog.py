"""What b70ctl reads in a boot log, against what a release's own code says there, with a 7 where a value would stand."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from b70ctl.core.bootlog import BootLog, Stage
from b70ctl.core.image import within
from tests.vllm.record import Row
from tests.vllm.source.claims import ALL, row
from tests.vllm.source.tree import Tree
from tests.vllm_messages import words_of

HEAD = "(EngineCore pid=9) {} 01-01 00:00:00 [x.py:1] {}"
POOL = HEAD.format("INFO", "Available KV cache memory: 7 GiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Words that vLLM says, and that b70ctl learns something from the line they stand in."""

    words: str
    learnt: Callable[[BootLog], bool]
    versions: str = ALL
    level: str = "INFO"
    value: str = "7"
    """What stands where vLLM puts a value, if a number would not be understood."""
    after: str | None = None
    """What was said before, where that matters."""


def fact(name: str, words: str, versions: str = ALL, value: str = "7") -> Line:
    """A boot fact."""
    return Line(words=words, learnt=lambda log: getattr(log.facts(), name) is not None, versions=versions, value=value)


def stage(reached: Stage, words: str, value: str = "7", after: str | None = None) -> Line:
    """How far the boot has come."""
    return Line(words=words, learnt=lambda log: log.stage is reached, value=value, after=after)


def notice(words: str, versions: str = ALL) -> Line:
    """What vLLM decided against a wish."""
    return Line(words=words, learnt=lambda log: bool(log.facts().notices), versions=versions, level="WARNING")


LINES = (
    fact("vllm_version", "V1 LLM engine (v"),
    fact("weights_gib", "Model loading took"),
    fact("load_seconds", "Model loading took"),
    fact("attention_backend", "Using Flash Attention backend"),
    fact("attention_backend", "Using TurboQuant attention backend", ">=0.20"),
    fact("attention_backend", "Falling back to Triton Attention backend"),
    fact("flash_attention_version", "Using FlashAttention version"),
    fact("kv_cache_dtype", "data type to store kv cache"),
    fact("available_kv_gib", "Available KV cache memory"),
    fact("kv_tokens", "KV cache size: "),
    fact("concurrency_length", "Maximum concurrency for"),
    fact("max_concurrency", "Maximum concurrency for"),
    fact("init_seconds", "init engine ("),
    fact("compile_seconds", "torch.compile took"),
    fact("compile_seconds", "s (compilation: ", ">=0.20"),
    fact("profile_seconds", "Initial profiling/warmup run took"),
    fact("capture_seconds", "Graph capturing finished"),
    fact("capture_gib", "Graph capturing finished"),
    fact("async_scheduling", "Asynchronous scheduling is 7", "<0.27", "enabled"),
    fact("moe_method", "MoEMethod"),
    fact("moe_method", "WNA16 MoE backend.", ">=0.20"),
    fact("draft_position_limit", "Overriding draft model max_position_embeddings", ">=0.27"),
    stage(Stage.LOADING, "Starting to load model", value="/models/qwen"),
    stage(Stage.DOWNLOADING, "Starting to load model", value="Qwen/Qwen3-8B"),
    stage(Stage.LOADING, "Loading weights took"),
    stage(Stage.LOADING, "Loading drafter model"),
    stage(Stage.COMPILING, "Dynamo bytecode transform time"),
    stage(Stage.COMPILING, "Using cache directory"),
    stage(Stage.CAPTURING, "Graph capturing finished", after=POOL),
    stage(Stage.SERVING, "Starting vLLM server on"),
    notice("Failed to load plugin"),
    notice("Unknown vLLM environment variable"),
    notice("Async scheduling not supported with", "<0.33"),
    notice("Async scheduling is disabled because", ">=0.31"),
)


def rows(tree: Tree) -> Iterator[Row]:
    """One result for all the lines."""
    where = {line.words: tuple(tree.containing(line.words.split("7")[0])) for line in LINES}
    texts = {path: _texts(tree.parsed(path)) for path in {path for paths in where.values() for path in paths}}
    spoken = {words: _spoken(texts, paths, words) for words, paths in where.items()}
    yield row(tree, "b70ctl: what it reads in the boot log", _faults(spoken, tree.version))


def _faults(spoken: dict[str, tuple[str, ...]], version: str) -> Iterator[str]:
    for line in LINES:
        heard = any(line.learnt(_boot(line, text)) for text in spoken[line.words])
        if heard != within(version, line.versions):
            unheard = "is said and not understood" if spoken[line.words] else "is never said"
            yield f"`{line.words}` {'is said here as well' if heard else unheard}"


def _spoken(texts: Mapping[str, list[str]], paths: Iterable[str], words: str) -> tuple[str, ...]:
    return tuple(text for path in paths for text in texts[path] if words in f"{text} ")


def _texts(module: ast.Module) -> list[str]:
    """What a module's strings say; what documents its code is not said."""
    documents, found = set(), []
    for node in ast.walk(module):  # a statement comes before what it is made of
        if isinstance(node, ast.Expr):
            documents.add(id(node.value))
        elif isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in documents:
            found.append(" ".join(words_of(node).split()))
    return found


def _boot(line: Line, text: str) -> BootLog:
    log = BootLog()
    for said in (line.after, HEAD.format(line.level, text.replace("7", line.value))):
        if said:
            log.feed(said)
    return log
