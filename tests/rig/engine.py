"""A stand-in for `vllm serve`: its flags, boot log, HTTP surface and metrics, without a model or a card.

One file and the standard library only, because it also runs inside images that hold little more than
Python. It answers simple questions rightly and always the same way, and fails in stated ways on demand.
Knobs, all environment variables:

  STANDIN_VLLM_VERSION   the version whose log lines and quirks are shown (0.21.0)
  STANDIN_BOOT_SECONDS   how long a boot takes (1)
  STANDIN_STAGE_SECONDS  single stages instead, e.g. "weights=5,compile=2"
  STANDIN_TOKENS_PER_SECOND   decode rate (500); STANDIN_PREFILL_TOKENS_PER_SECOND (0: at once)
  STANDIN_KV_TOKENS      size of the KV pool (by KV dtype, and never under max-model-len)
  STANDIN_STATS_SECONDS  period of the statistics line (10)
  STANDIN_FIRST_TOKEN_SECONDS   delay under `slow-first-token` (30)
  STANDIN_REASONING=1    answers think first, as a reasoning model's do
  STANDIN_CHECK_MODEL=1  refuse to boot when MODEL is an absolute path that does not exist
  STANDIN_MARLIN=crash   a W4A16 MoE dies where the image's Marlin check lets it through, as on real cards
  STANDIN_FAULT          comma list of the faults below
  STANDIN_TRIGGER        a path; once the file exists, its content is read as further faults

Faults: exit-at-start, crash-at:STAGE, stall-at:STAGE (download, weights, compile, kv, graphs),
crash-now (by trigger), never-healthy, garbage, garbage-spec, hang-after-first-token, hang, no-tool-calls,
bad-json, wrong-model-name, ignore-sigterm, long-prompt-garbage (over 2,048 tokens), lost-kv (only the last
64 tokens of a prompt over 96 are seen), slow-first-token, http-500; of our kernels' plugin, in every process or
with `:PROCESS` in that one alone: kernels-silent, kernels-refused, kernels-broken (cannot be loaded).

GET /standin/process tells argv and environment as this process got them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import re
import signal
import sys
import threading
import time
import types
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STAGES = {"download": 0.05, "weights": 0.4, "compile": 0.2, "kv": 0.1, "graphs": 0.15, "api": 0.1}
Json = dict[str, Any]

# --- knobs, version, faults -----------------------------------------------------------------------


def knob(name: str, default: float) -> float:
    """A number from the environment."""
    return float(os.environ.get(f"STANDIN_{name}") or default)


def version() -> str:
    """The vLLM version that this process plays."""
    return os.environ.get("STANDIN_VLLM_VERSION") or "0.21.0"


def since(major: int, minor: int) -> bool:
    """True when the played version is this one or newer."""
    found = re.match(r"(\d+)\.(\d+)", version())
    return found is not None and (int(found[1]), int(found[2])) >= (major, minor)


def faults() -> frozenset[str]:
    """What goes wrong right now: the environment's list and the trigger file's."""
    text = os.environ.get("STANDIN_FAULT", "")
    trigger = os.environ.get("STANDIN_TRIGGER")
    if trigger:
        with contextlib.suppress(OSError):
            text += "," + Path(trigger).read_text()
    return frozenset(part.strip() for part in re.split(r"[,\n]", text) if part.strip())


# --- flags ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flags:
    """The part of vLLM's command line that changes what the stand-in does."""

    model: str
    names: tuple[str, ...]
    host: str
    port: int
    max_model_len: int
    max_num_seqs: int
    gpu_memory_utilization: float
    kv_cache_dtype: str
    quantization: str
    tensor_parallel_size: int
    enforce_eager: bool
    speculative: Json
    auto_tools: bool
    tool_parser: str
    reasoning_parser: str
    shutdown_timeout: int
    api_key: str
    access_log: bool


def parse_flags(argv: list[str]) -> Flags:
    """Read `serve MODEL [flags]`; flags that the stand-in does not know are let through."""
    parser = argparse.ArgumentParser("vllm serve", allow_abbrev=False)
    parser.add_argument("model_tag", nargs="?")
    text = ("model", "host", "kv-cache-dtype", "quantization", "tool-call-parser", "reasoning-parser", "api-key")
    for name in (*text, "speculative-config", "max-model-len"):
        parser.add_argument(f"--{name}")
    for name, default in (("port", 8000), ("max-num-seqs", 256), ("shutdown-timeout", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.92 if since(0, 33) else 0.9)
    parser.add_argument("--served-model-name", nargs="+", default=[])
    for name in ("enforce-eager", "enable-auto-tool-choice", "disable-uvicorn-access-log"):
        parser.add_argument(f"--{name}", action="store_true")
    known, _ = parser.parse_known_args([_dashed(word) for word in argv])
    model = known.model_tag or known.model or "stand-in"
    return Flags(
        model=model,
        names=tuple(known.served_model_name) or (model,),
        host=known.host or "0.0.0.0",
        port=known.port,
        max_model_len=_length(known.max_model_len),
        max_num_seqs=known.max_num_seqs,
        gpu_memory_utilization=known.gpu_memory_utilization,
        kv_cache_dtype=known.kv_cache_dtype or "auto",
        quantization=known.quantization or "",
        tensor_parallel_size=known.tensor_parallel_size,
        enforce_eager=known.enforce_eager,
        speculative=json.loads(known.speculative_config or "{}"),
        auto_tools=known.enable_auto_tool_choice,
        tool_parser=known.tool_call_parser or "",
        reasoning_parser=known.reasoning_parser or "",
        shutdown_timeout=known.shutdown_timeout or (5 if since(0, 25) else 0),
        api_key=known.api_key or os.environ.get("VLLM_API_KEY", ""),
        access_log=not known.disable_uvicorn_access_log,
    )


def _dashed(word: str) -> str:
    name, sign, value = word.partition("=")
    return name.replace("_", "-") + sign + value if name.startswith("--") else word


def _length(text: str | None) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", text or "32768")
    if not found:
        return 32768
    scale = {"": 1, "k": 1000, "K": 1024, "m": 1_000_000, "M": 1024**2}[found[2]]
    return int(float(found[1]) * scale)


# --- log ------------------------------------------------------------------------------------------

_print_lock = threading.Lock()


def emit(text: str, *, error: bool = False, end: str = "\n") -> None:
    """One write, whole, to the stream that vLLM uses for it."""
    stream = sys.stderr if error else sys.stdout
    with _print_lock:
        stream.write(text + end)
        stream.flush()


class Log:
    """Lines in vLLM's form for one of its processes."""

    def __init__(self, process: str, pid: int) -> None:
        self.name, self.pid = process, pid
        self.prefix = f"({process} pid={pid})"

    def info(self, place: str, text: str, level: str = "INFO") -> None:
        """`(Process pid=N) INFO 07-04 12:00:00 [file.py:1] text`."""
        emit(f"{self.prefix} {_record(place, text, level)}")

    def early(self, place: str, text: str, level: str = "INFO") -> None:
        """The same before the process has its name: without a prefix; a worker's from 0.31 on has Python's own name."""
        if self.name.startswith("EngineCore"):
            self.info(place, text, level)
        elif since(0, 31) and self.name != "APIServer":
            emit(f"(VllmWorker-{self.name[-1]} pid={self.pid}) {_record(place, text, level)}")
        else:
            emit(_record(place, text, level))

    def plain(self, text: str) -> None:
        """A line of the server library's, or of a traceback: prefixed, without level and place."""
        emit(f"{self.prefix} {text}", error=True)


def _record(place: str, text: str, level: str) -> str:
    return f"{level} {time.strftime('%m-%d %H:%M:%S')} [{place}] {text}"


API = Log("APIServer", os.getpid())
CORE = Log("EngineCore", os.getpid() + 96)


def _line(name: str) -> int:
    """The source line of a message in the played version, where it is known to move."""
    table = {
        "kv": ((19, 1319), (21, 1710), (23, 1744), (28, 1870), (30, 2396), (33, 1148)),
        "worker": ((19, 437), (21, 463), (33, 773)),
        "flash": ((19, 597), (21, 642), (33, 1123)),
        "xpu": ((19, 88), (21, 95), (33, 270)),
    }[name]
    return max((at for at in table if since(0, at[0])), default=table[0])[1]


# --- boot -----------------------------------------------------------------------------------------


class BootFailed(Exception):
    """The engine's process died before it could serve."""


class Boot:
    """The way from nothing to serving, told in log lines, interruptible at every stage."""

    def __init__(self, flags: Flags, stop: threading.Event) -> None:
        self.flags, self.stop = flags, stop
        self.kv_tokens = self._kv_tokens()
        eagle = "model" in flags.speculative
        self.drafter = str(flags.speculative.get("model", "")) if eagle else ""
        tp = flags.tensor_parallel_size
        self.workers = [CORE] if tp == 1 else [Log(f"Worker_TP{i}", os.getpid() + 140 + i) for i in range(tp)]

    def run(self) -> None:
        """Every stage in order; raises BootFailed where a fault or a refusal says so."""
        started = time.monotonic()
        self._announce()
        for stage, tell in (
            ("download", self._download), ("weights", self._weights), ("compile", self._compile),
            ("kv", self._kv), ("graphs", self._graphs),
        ):  # fmt: skip
            self._maybe_fail(stage)
            tell(self._seconds(stage))
        took = time.monotonic() - started
        unit = (
            f"{took:.2f} s (compilation: {self._seconds('compile'):.2f} s)" if since(0, 20) else f"{took:.2f} seconds"
        )
        CORE.info("core.py:299", f"init engine (profile, create kv cache, warmup model) took {unit}")
        self._open_api()

    def pause(self, seconds: float) -> None:
        """Sleep that a stop request ends."""
        if self.stop.wait(seconds):
            raise KeyboardInterrupt("terminated")

    def _seconds(self, stage: str) -> float:
        for part in os.environ.get("STANDIN_STAGE_SECONDS", "").split(","):
            name, _, value = part.partition("=")
            if name.strip() == stage:
                return float(value)
        if self.flags.enforce_eager and stage in ("compile", "graphs"):
            return 0.0
        return knob("BOOT_SECONDS", 1) * STAGES[stage]

    def _maybe_fail(self, stage: str) -> None:
        active = faults()
        if f"stall-at:{stage}" in active:
            while True:
                self.pause(3600)
        if f"crash-at:{stage}" in active or "crash-now" in active:
            raise BootFailed(CAUSES[stage])

    def _announce(self) -> None:
        if "exit-at-start" in faults():
            raise SystemExit(1)
        load_plugins(API)  # while it builds its argument parser
        API.info("utils.py:299", f"version {version()}, model {self.flags.model}")
        API.info("api_server.py:1106" if not since(0, 20) else "utils.py:233", f"vLLM API server version {version()}")
        API.info("utils.py:233", f"non-default args: {{'model': {self.flags.model!r}, 'port': {self.flags.port}}}")
        if (
            os.environ.get("STANDIN_CHECK_MODEL")
            and self.flags.model.startswith("/")
            and not Path(self.flags.model).exists()
        ):
            raise BootFailed(f"OSError: no config.json can be read at {self.flags.model}")
        API.info("model.py:549", "Resolved architecture: Qwen3MoeForCausalLM")
        API.info("model.py:1678", f"Using max model len {self.flags.max_model_len}")
        if self.flags.kv_cache_dtype.startswith("fp8"):
            text = f"Using {self.flags.kv_cache_dtype} data type to store kv cache. It reduces the GPU memory footprint"
            API.info("cache.py:261", text)
        self._announce_scheduling()
        load_plugins(CORE)
        eager = f"enforce_eager={self.flags.enforce_eager}, kv_cache_dtype={self.flags.kv_cache_dtype}"
        CORE.info(
            "core.py:107",
            f"Initializing a V1 LLM engine (v{version()}) with config: model={self.flags.model!r}, {eager}",
        )
        for log in self.workers:
            if log is not CORE:
                load_plugins(log)

    def _announce_scheduling(self) -> None:
        ngram = self.flags.speculative.get("method") in ("ngram", "suffix")
        if ngram:
            text = "Async scheduling not supported with ngram-based speculative decoding and will be disabled."
            API.info("vllm.py:780", text, level="WARNING")
        if not since(0, 24):
            API.info("vllm.py:790", f"Asynchronous scheduling is {'disabled' if ngram else 'enabled'}.")

    def _download(self, seconds: float) -> None:
        for log in self.workers:
            log.info("gpu_model_runner.py:4735", f"Starting to load model {self.flags.model}...")
        if not self.flags.model.startswith("/"):
            self.pause(seconds)
            text = f"Time spent downloading weights for {self.flags.model}: {seconds:.6f} seconds"
            self.workers[0].info("weight_utils.py:574", text)

    def _weights(self, seconds: float) -> None:
        self._backends()
        emit("\rLoading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]", error=True)
        for shard in range(1, 5):
            self.pause(seconds / 4)
            bar = f"{25 * shard:3d}% Completed | {shard}/4 [00:{int(seconds * shard / 4):02d}<00:00,  2.74it/s]"
            emit(f"\rLoading safetensors checkpoint shards: {bar}", error=True)
        self.workers[0].plain("")
        for log in self.workers:
            log.info("default_loader.py:384", f"Loading weights took {seconds:.2f} seconds")
            if self.drafter:
                log.info("gpu_model_runner.py:4758", "Loading drafter model...")
            log.info("gpu_model_runner.py:4820", f"Model loading took 15.91 GiB memory and {seconds * 1.1:.6f} seconds")

    def _backends(self) -> None:
        turbo = self.flags.kv_cache_dtype.startswith("turboquant")
        backend = "TurboQuant attention" if turbo else "Flash Attention"
        for log in self.workers:
            log.info(f"xpu.py:{_line('xpu')}", f"Using {backend} backend.")
            log.info(f"flash_attn.py:{_line('flash')}", "Using FlashAttention version 2")
            for place, text in self._moe():
                log.info(place, text)

    def _moe(self) -> Iterator[tuple[str, str]]:
        if not re.search(r"w4a16|compressed", self.flags.model + self.flags.quantization, re.IGNORECASE):
            return
        marlin = marlin_is_chosen()
        method = "CompressedTensorsWNA16MarlinMoEMethod" if marlin else "CompressedTensorsWNA16MoEMethod"
        yield "compressed_tensors_moe.py:113", f"Using {method}"
        if since(0, 23):
            yield "int_wna16.py:214", "Using 'XPU' WNA16 MoE backend."
        elif marlin and os.environ.get("STANDIN_MARLIN") == "crash":
            raise BootFailed("AttributeError: '_OpNamespace' '_C' object has no attribute 'gptq_marlin_repack'")

    def _compile(self, seconds: float) -> None:
        if self.flags.enforce_eager:
            return
        log = self.workers[0]
        cache = "/root/.cache/vllm/torch_compile_cache/5fa0ba51f3/rank_0_0/backbone"
        log.info("backends.py:1069", f"Using cache directory: {cache} for vLLM's torch.compile")
        self.pause(seconds / 2)
        log.info("backends.py:1128", f"Dynamo bytecode transform time: {seconds / 2:.2f} s")
        self.pause(seconds / 2)
        log.info("backends.py:390", f"Compiling a graph for compile range (1, 2048) takes {seconds / 2:.2f} s")
        log.info("monitor.py:48", f"torch.compile took {seconds:.2f} s in total")

    def _kv_tokens(self) -> int:
        dtype = self.flags.kv_cache_dtype
        size = 270_592 if dtype.startswith("fp8") else 453_184 if dtype.startswith("turboquant") else 135_296
        return int(knob("KV_TOKENS", max(size, self.flags.max_model_len)))

    def _kv(self, seconds: float) -> None:
        self.pause(seconds)
        per_token = 48 * 1024 if self.flags.kv_cache_dtype.startswith("fp8") else 96 * 1024
        gib = self.kv_tokens * per_token / 1024**3
        for log in self.workers:
            log.info(f"gpu_worker.py:{_line('worker')}", f"Available KV cache memory: {gib:.2f} GiB")
        wanted, have = self.flags.max_model_len, self.kv_tokens
        if wanted > have:
            need = wanted * per_token / 1024**3
            raise BootFailed(
                f"ValueError: To serve at least one request with the models's max seq len ({wanted}), "
                f"({need:.2f} GiB KV cache is needed, which is larger than the available KV cache memory "
                f"({gib:.2f} GiB). Based on the available memory, the estimated maximum model length is {have}."
            )
        self._kv_lines()

    def _kv_lines(self) -> None:
        size = f"{'XPU' if since(0, 30) else 'GPU'} KV cache size: {self.kv_tokens:,} tokens"
        wanted = self.flags.max_model_len
        most = f"Maximum concurrency for {wanted:,} tokens per request: {self.kv_tokens / wanted:.2f}x"
        line = _line("kv")
        if since(0, 28):
            CORE.info(f"kv_cache_utils.py:{line}", f"{size}, {most}")
        else:
            CORE.info(f"kv_cache_utils.py:{line}", size)
            CORE.info(f"kv_cache_utils.py:{line + 1}", most)

    def _graphs(self, seconds: float) -> None:
        enabled = since(0, 31) or os.environ.get("VLLM_XPU_ENABLE_XPU_GRAPH") == "1"
        if self.flags.enforce_eager or not enabled:
            return
        title = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)"
        for done in range(0, 52, 17):
            self.pause(seconds / 4)
            bar = f"{100 * done // 51:3d}%|{'#' * (done // 6):<8}| {done}/51 [00:00<00:00, 15.72it/s]"
            emit(f"\r{title}: {bar}", error=True, end="" if done < 51 else "\n")
        self.workers[0].info(
            "gpu_model_runner.py:5993", f"Graph capturing finished in {seconds:.0f} secs, took 0.66 GiB"
        )

    def _open_api(self) -> None:
        self.pause(self._seconds("api"))
        API.info("api_server.py:598", "Supported tasks: ['generate']")
        if self.flags.auto_tools:
            API.info("parser_manager.py:202", '"auto" tool choice has been enabled.')
        place = f"http://{self.flags.host}:{self.flags.port}"
        name = "vLLM server" if since(0, 20) else "vLLM API server 0"
        API.info("api_server.py:602", f"Starting {name} on {place}")
        for line in (f"Started server process [{os.getpid()}]", "Waiting for application startup."):
            API.plain(f"INFO:     {line}")


CAUSES = {
    "download": "OSError: the model's files are not in the local cache and its hub cannot be reached",
    "weights": "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 1.50 GiB.",
    "compile": "torch._inductor.exc.InductorError: RuntimeError: Triton Error [ZE]: 0x78000011",
    "kv": "ValueError: No available memory for the cache blocks. "
    "Try increasing `gpu_memory_utilization` when initializing the engine.",
    "graphs": "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
}


def tell_crash(cause: str) -> None:
    """A dead engine core, as vLLM tells it: the cause first, and a second traceback that hides it."""
    CORE.info("core.py:1108", "EngineCore failed to start.", level="ERROR")
    trace = ("Traceback (most recent call last):", '  File "vllm/v1/engine/core.py", line 1082, in run_engine_core',
             "    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)", cause)  # fmt: skip
    for line in trace:
        CORE.info("core.py:1108", line, level="ERROR")
    CORE.plain("Process EngineCore:")
    for line in trace:
        CORE.plain(line)
    API.plain("Traceback (most recent call last):")
    API.plain('  File "/opt/venv/bin/vllm", line 10, in <module>')
    API.plain("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")


def marlin_is_chosen() -> bool:
    """What the image's own file says about W4A16 experts; True, as upstream's does, when it has none."""
    try:
        module = importlib.import_module("vllm.model_executor.layers.quantization.utils.marlin_utils")
        return bool(module.check_moe_marlin_supports_layer(types.SimpleNamespace(hidden_size=2048), 128))
    except ImportError:
        return True


def load_plugins(log: Log) -> None:
    """Load general plugins from the path, as vLLM does: one that cannot be imported is logged and left out, and one
    that raises when it is called ends the process."""
    from importlib import metadata

    allowed = os.environ.get("VLLM_PLUGINS")
    registers: list[Callable[[], object]] = []
    for entry in metadata.entry_points(group="vllm.general_plugins"):
        if allowed is not None and entry.name not in allowed.split(","):
            continue
        if entry.name == KERNELS:
            registers.append(lambda: tell_kernels(log))
            continue
        log.early("__init__.py:44", f"Loading plugin {entry.name}")
        try:
            registers.append(entry.load())
        except Exception as error:  # noqa: BLE001, any failure of foreign code is only logged
            log.early("__init__.py:61", f"Failed to load plugin {entry.name}: {error}", level="ERROR")
    for register in registers:
        try:
            register()
        except Exception as error:
            raise BootFailed(f"{type(error).__name__}: {error}") from error


KERNELS = "b70_kernels"


def tell_kernels(log: Log) -> None:
    """Our kernels' plugin, which is found and not called: it needs a vLLM, and this process plays several.

    Its version comes from the package that Python finds, as it would for vLLM.
    """
    try:
        name = f"{KERNELS} {importlib.import_module(KERNELS).__version__}"
        if importlib.util.find_spec(f"{KERNELS}.plugin") is None or _kernels_are("broken", log):
            raise ImportError(f"No module named '{KERNELS}.plugin'")
    except ImportError as error:
        log.early("__init__.py:61", f"Failed to load plugin {KERNELS}", level="ERROR")
        emit(f"ImportError: {error}", error=True)
        return
    if _kernels_are("silent", log):
        return
    if os.environ.get("B70_KERNELS", "").lower() == "off":
        log.early("__init__.py:70", f"{name}: off: B70_KERNELS=off (pid {log.pid})")
    elif _kernels_are("refused", log):
        why = f"vLLM {version()} is not one that it was proven with (set B70_KERNELS_UNPROVEN={version()} to use it)"
        log.early("__init__.py:70", f"{name}: refused: {why} (pid {log.pid})", level="WARNING")
    else:
        backend = f"{KERNELS}.plugin.backend.B70TurboQuantBackend"
        log.early("__init__.py:70", f"{name}: in use with vLLM {version()}, TURBOQUANT is {backend} (pid {log.pid})")


def _kernels_are(fault: str, log: Log) -> bool:
    return not faults().isdisjoint({f"kernels-{fault}", f"kernels-{fault}:{log.name}"})


# --- tokens and answers ---------------------------------------------------------------------------

_PIECE = re.compile(r"\s*[^\W_]{1,8}|\s*[^\s]|\s+")


def tokens(text: str) -> list[str]:
    """Deterministic pieces that join back to the text; about as many as a real tokenizer's."""
    return _PIECE.findall(text)


_UNITS: list[str] = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen",
)
_TENS: list[str] = re.findall(r"\w+", "twenty thirty forty fifty sixty seventy eighty ninety")


def spelled(number: int) -> str:
    """The English word for 0 to 100."""
    if number < 20:
        return _UNITS[number]
    if number == 100:
        return "one hundred"
    tens, unit = _TENS[number // 10 - 2], number % 10
    return f"{tens}-{_UNITS[unit]}" if unit else tens


_NUMBERS = {spelled(n).replace("one hundred", "hundred"): n for n in range(101)}
_MONTHS = "January, February, March, April, May, June, July, August, September, October, November, December"
_FACTS = (
    (r"capital\b.*\bfrance", "Paris"), (r"capital\b.*\bgermany", "Berlin"), (r"capital\b.*\bitaly", "Rome"),
    (r"capital\b.*\bspain", "Madrid"), (r"capital\b.*\bjapan", "Tokyo"),
    (r"capital\b.*\b(uk|england|kingdom)", "London"),
    (r"colou?r\b.*\bsky", "Blue"), (r"opposite of hot", "Cold"), (r"opposite of up\b", "Down"),
    (r"(largest|biggest) planet", "Jupiter"), (r"red planet", "Mars"), (r"chemical (symbol|formula)\b.*\bwater", "H2O"),
    (r"chemical symbol\b.*\bgold", "Au"), (r"days\b.*\bin a week", "7"), (r"months\b.*\bin a year", "12"),
    (r"days of the week", "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
    (r"months of the year", _MONTHS),
    (r"alphabet", "A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z"),
    (r"first ten prime", "2, 3, 5, 7, 11, 13, 17, 19, 23, 29"),
    (r"haiku", "Quiet morning light\nrests upon the river stones\nand the day begins"),
)  # fmt: skip
_OPENINGS = ("In the morning", "After a while", "By noon", "When the rain stops", "Late in the day")
_ACTORS = ("the harbour master", "a careful reader", "the older sister", "one of the sailors", "the new clerk", "a dog")
_DEEDS = (
    "walks along the quay and looks at the boats",
    "writes down what was said and who said it",
    "opens a window because the room has been too warm",
    "finds that the lamp is still burning",
    "waits for the others before they go up the hill",
    "remembers how the town was before the bridge",
    "puts the kettle on and thinks about the letter",
)


def answer(text: str) -> str:
    """What a sound model would say to this text; the last question in it counts."""
    question = text[-2000:]
    for reply in (_json_object, _counting, _needle, _fact, _summed, _arithmetic, _echo):
        if (found := reply(question, text)) is not None:
            return found
    return prose(160 if re.search(r"story|essay|detail|long|explain|paragraph", question, re.IGNORECASE) else 24)


def prose(count: int) -> str:
    """Plausible text of at least this many tokens; two hundred sentences go by before one returns."""
    sentences: list[str] = []
    length = turn = 0
    while length < count:
        parts = (said[turn % len(said)] for said in (_OPENINGS, _ACTORS, _DEEDS))
        sentences.append("{}, {} {}.".format(*parts))
        length += len(tokens(sentences[-1]))
        turn += 1
    return " ".join(sentences)


def _number(word: str) -> int | None:
    return int(word) if word.isdigit() else _NUMBERS.get(word.lower())


def _counting(question: str, _: str) -> str | None:
    if not re.search(r"\b(count|counting|numbers?|list)\b", question, re.IGNORECASE):
        return None
    for found in re.finditer(r"\b([\w-]+) (?:up )?(?:to|through) ([\w-]+)", question, re.IGNORECASE):
        first, last = _number(found[1]), _number(found[2])
        if first is None or last is None:
            continue
        in_words = re.search(r"digits|numerals", question, re.IGNORECASE) is None and (
            not found[1].isdigit() or re.search(r"\bwords?\b", question, re.IGNORECASE) is not None
        )
        step = 1 if last >= first else -1
        # a text to be completed may have begun to count already
        begun = re.search(r"([\w-]+),\s*$", question)
        reached = _number(begun[1]) if begun else None
        numbers = range(first if reached is None else reached + step, last + step, step)
        separator = "\n" if re.search(r"(per|own|separate) line", question, re.IGNORECASE) else ", "
        return separator.join(spelled(n) if in_words and n <= 100 else str(n) for n in numbers)
    return None


_ASKED = re.compile(
    r"(?:what(?: is| was|'s)|tell me|repeat|state|give(?: me)?|return|recall|reply with(?: only)?) (?:the|my) "
    r"((?:\w+ ){0,2}?\w+)"
    r"(?= (?:in|from|above|mentioned|that|stated|given|hidden|i|and|only|exactly|you)\b|[?.,:!\n]|$)",
    re.IGNORECASE,
)
_SECRETS = (
    "code word",
    "codeword",
    "passphrase",
    "password",
    "magic number",
    "secret word",
    "secret number",
    "secret code",
)


def _needle(question: str, text: str) -> str | None:
    """A thing that the text states once and the question asks for."""
    nouns = [found[1] for found in _ASKED.finditer(question)]
    nouns += [noun for noun in _SECRETS if noun in question.lower()]
    for noun in reversed(nouns):
        stated = re.search(
            rf"\b{re.escape(noun)} (?:is|was)(?: now)?:?\s+[\"'`*]*([A-Za-z0-9][\w-]*)", text, re.IGNORECASE
        )
        if stated and stated[1].lower() not in ("a", "an", "the", "in", "stated", "hidden", "given", "somewhere"):
            return stated[1]
        if noun.lower() in _SECRETS:
            return f"I could not find a {noun} in the text."
    return None


def _fact(question: str, _: str) -> str | None:
    for pattern, reply in _FACTS:
        if re.search(pattern, question, re.IGNORECASE):
            return reply
    return None


def _arithmetic(question: str, _: str) -> str | None:
    signs: dict[str, Callable[[int, int], int]] = {
        "+": lambda a, b: a + b, "plus": lambda a, b: a + b, "-": lambda a, b: a - b, "minus": lambda a, b: a - b,
        "*": lambda a, b: a * b, "x": lambda a, b: a * b, "\u00d7": lambda a, b: a * b, "times": lambda a, b: a * b,
    }  # fmt: skip
    found = re.search(r"\b(\w+)(?:\s*(\+|\*|x|\u00d7|plus|minus|times|multiplied by)\s*|\s(-)\s)(\w+)\b", question)
    if not found:
        return None
    first, last = _number(found[1]), _number(found[4])
    if first is None or last is None:
        return None
    return str(signs.get(found[2] or found[3], signs["*"])(first, last))


def _summed(question: str, _: str) -> str | None:
    """The value of the last `sum(i*i for i in range(n))` or `sum(i for i in range(n))`."""
    found = re.findall(r"sum\(i(\*i)? for i in range\((\d+)\)\)", question)
    if not found:
        return None
    squared, count = found[-1]
    return str(sum(i * i if squared else i for i in range(int(count))))


def _echo(question: str, _: str) -> str | None:
    found = re.search(
        r"\b(?:reply|respond|answer|say|repeat|output)\b[^\"'`\n]{0,60}[\"'`]([^\"'`\n]{1,80})[\"'`]",
        question,
        re.IGNORECASE,
    )
    found = found or re.search(r"\bthe word:? ([A-Za-z]+)", question)
    return found[1].rstrip(".") if found else None


def _json_object(question: str, text: str) -> str | None:
    if not re.search(r"\bjson\b", question, re.IGNORECASE):
        return None
    return json.dumps({key: _value(key, question, text) for key in _json_keys(question)})


def _json_keys(question: str) -> list[str]:
    template = re.search(r"\{([^{}]*)\}", question)
    quoted = re.findall(r"[\"'`](\w+)[\"'`]\s*:", template[1]) if template else []
    named = re.search(r"\b(?:keys?|fields?|propert(?:y|ies))\b(.*)", question, re.IGNORECASE | re.DOTALL)
    keys = quoted or re.findall(r"[\"'`](\w+)[\"'`]", named[1] if named else question)
    if not keys and named:
        keys = [
            w
            for w in re.findall(r"\w+", named[1].split(".")[0])
            if w.lower() not in ("and", "the", "named", "called", "s")
        ]
    return list(dict.fromkeys(keys)) or ["answer"]


def _value(key: str, question: str, text: str) -> object:
    link = r"(?:set to|=|:|is|equal to|with (?:the )?value)"
    stated = re.search(rf"[\"'`]?{key}[\"'`]?\s*{link}\s*(true|false|-?\d+\b|\"[^\"]*\")", question)
    if stated:
        return json.loads(stated[1])
    if re.search(r"\bage\b|count\b|number|year|population|total|sum|result", key, re.IGNORECASE):
        value = _arithmetic(question, text)
        return int(value) if value else 7
    if key.lower() in ("ok", "success", "valid", "done"):
        return True
    return _fact(question, text) or _arithmetic(question, text) or "plain"


def from_schema(schema: Json, prompt: str) -> object:
    """A value that satisfies a JSON schema, with words of the prompt where they fit."""
    if schema.get("enum"):
        return next(
            (v for v in schema["enum"] if re.search(rf"\b{re.escape(str(v))}\b", prompt, re.IGNORECASE)),
            schema["enum"][0],
        )
    if "const" in schema:
        return schema["const"]
    if schema.get("anyOf"):
        return from_schema(schema["anyOf"][0], prompt)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {key: from_schema(part, prompt) for key, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [from_schema(schema.get("items", {}), prompt)] * int(schema.get("minItems", 1))
    if kind in ("integer", "number"):
        found = re.search(r"-?\d+", prompt)
        return int(found[0]) if found else int(schema.get("minimum", 1))
    place = re.search(r"\b(?:in|for|of|to|at) ([A-Z]\w+)", prompt)
    plain = {"boolean": True, "null": None}
    return plain[kind] if kind in plain else (place[1] if place else "plain")


# --- metrics --------------------------------------------------------------------------------------

_BUCKETS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
_HISTOGRAMS = (
    "time_to_first_token_seconds", "inter_token_latency_seconds", "request_prefill_time_seconds",
    "request_decode_time_seconds", "request_time_per_output_token_seconds", "e2e_request_latency_seconds",
)  # fmt: skip
_COUNTERS = (
    "prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits", "num_preemptions",
)  # fmt: skip
_SPEC_COUNTERS = ("spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens")


@dataclass
class Metrics:
    """Everything that /metrics and the statistics line tell."""

    counts: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _HISTOGRAMS})
    per_position: dict[int, int] = field(default_factory=dict)
    running: int = 0
    waiting: int = 0
    held_tokens: int = 0
    finished: dict[str, int] = field(default_factory=dict)
    blocks: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, amount: float) -> None:
        """Raise a counter."""
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + amount

    def observe(self, name: str, value: float) -> None:
        """Add a sample to a histogram."""
        with self.lock:
            self.samples[name].append(value)

    def hit(self, pieces: list[str]) -> int:
        """How many of the prompt's tokens lie in blocks seen before; remembers its blocks."""
        seen, chain, fresh = 0, 0, False
        for start in range(0, len(pieces) - len(pieces) % 16, 16):
            chain = hash((chain, tuple(pieces[start : start + 16])))
            fresh = fresh or chain not in self.blocks
            seen += 0 if fresh else 16
            self.blocks.add(chain)
        return seen

    def text(self, flags: Flags, kv_tokens: int) -> str:
        """The Prometheus exposition."""
        labels = f'engine="0",model_name="{flags.names[0]}"'
        with self.lock:
            return (
                "\n".join([*self._gauges(labels, kv_tokens), *self._counters(labels, flags), *self._shapes(labels)])
                + "\n"
            )

    def _gauges(self, labels: str, kv_tokens: int) -> Iterator[str]:
        usage = min(1.0, self.held_tokens / kv_tokens)
        values = {
            "num_requests_running": self.running,
            "num_requests_waiting": self.waiting,
            "kv_cache_usage_perc": usage,
        }
        for name, value in values.items():
            yield f"# HELP vllm:{name} As vLLM names it."
            yield f"# TYPE vllm:{name} gauge"
            yield f"vllm:{name}{{{labels}}} {float(value)}"
        if since(0, 20):
            yield "# TYPE vllm:num_requests_waiting_by_reason gauge"
            yield f'vllm:num_requests_waiting_by_reason{{{labels},reason="capacity"}} {float(self.waiting)}'
        yield "# TYPE vllm:cache_config_info gauge"
        yield f'vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="{kv_tokens // 16}"}} 1.0'

    def _counters(self, labels: str, flags: Flags) -> Iterator[str]:
        for name in (*_COUNTERS, *(_SPEC_COUNTERS if flags.speculative else ())):
            yield f"# TYPE vllm:{name}_total counter"
            yield f"vllm:{name}_total{{{labels}}} {float(self.counts.get(name, 0))}"
        for reason, count in sorted(self.finished.items()):
            yield f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {float(count)}'
        for position in range(int(flags.speculative.get("num_speculative_tokens", 0) or 0)):
            total = float(self.per_position.get(position, 0))
            yield f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{position}"}} {total}'

    def _shapes(self, labels: str) -> Iterator[str]:
        for name, values in self.samples.items():
            yield f"# TYPE vllm:{name} histogram"
            for bound in _BUCKETS:
                yield f'vllm:{name}_bucket{{{labels},le="{bound}"}} {float(sum(v <= bound for v in values))}'
            yield f'vllm:{name}_bucket{{{labels},le="+Inf"}} {float(len(values))}'
            yield f"vllm:{name}_count{{{labels}}} {float(len(values))}"
            yield f"vllm:{name}_sum{{{labels}}} {sum(values)}"


# --- serving --------------------------------------------------------------------------------------


class Refusal(Exception):
    """An HTTP error with vLLM's body."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {"error": {"message": message, "type": kind, "param": param, "code": status}}


@dataclass
class Request:
    """A checked request: what was asked, in which form the answer goes out."""

    body: Json
    chat: bool
    prompt: str
    pieces: list[str]
    limit: int

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))


@dataclass
class Reply:
    """What will be said, before it is cut and timed."""

    pieces: list[str]
    reasoning: list[str] = field(default_factory=list)
    tool: tuple[str, str] | None = None
    finish: str = "stop"


class Engine:
    """State shared by all requests, and the decisions about each."""

    def __init__(self, flags: Flags, kv_tokens: int) -> None:
        self.flags, self.kv_tokens = flags, kv_tokens
        self.metrics = Metrics()
        self.draining = threading.Event()
        self.gone = threading.Event()
        self.slots = threading.Semaphore(flags.max_num_seqs)
        self.in_flight = 0
        self.idle = threading.Condition()
        self.created = int(time.time())
        self.draft_limit = _draft_limit(flags)

    def names(self) -> tuple[str, ...]:
        """The names that requests may use."""
        return ("some-other-model",) if "wrong-model-name" in faults() else self.flags.names

    def models(self) -> Json:
        """The body of /v1/models."""
        cards = [
            {"id": name, "object": "model", "created": self.created, "owned_by": "vllm", "root": self.flags.model,
             "parent": None, "max_model_len": self.flags.max_model_len}
            for name in self.names()
        ]  # fmt: skip
        return {"object": "list", "data": cards}

    def check(self, body: object, *, chat: bool) -> Request:
        """The request, or the refusal that vLLM would answer."""
        if not isinstance(body, dict):
            raise Refusal(400, "the body is not a JSON object")
        name = body.get("model")
        if name is not None and name not in self.names():
            raise Refusal(404, f"The model `{name}` does not exist.", "NotFoundError", "model")
        prompt = _chat_prompt(body) if chat else _plain_prompt(body)
        pieces = tokens(prompt)
        count, longest = len(pieces), self.flags.max_model_len
        asked = body.get("max_completion_tokens") or body.get("max_tokens") or (None if chat else 16)
        if count + (asked or 1) > longest:
            raise Refusal(
                400,
                f"This model's maximum context length is {longest} tokens. However, you requested {asked or 1} output "
                f"tokens and your prompt contains at least {count} input tokens, for a total of at least "
                f"{count + (asked or 1)} tokens. Please reduce the length of the input prompt or the number of "
                "requested output tokens.",
                param="input_tokens",
            )
        self._check_tools(body)
        return Request(body, chat, prompt, pieces, int(asked or longest - count))

    def _check_tools(self, body: Json) -> None:
        choice = body.get("tool_choice") or ("auto" if body.get("tools") else "none")
        if body.get("tools") and choice == "auto" and not (self.flags.auto_tools and self.flags.tool_parser):
            raise Refusal(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')

    def reply(self, request: Request) -> Reply:
        """What to say, faults included."""
        active = faults()
        long_prompt = len(request.pieces) > 2048
        if "garbage" in active or ("long-prompt-garbage" in active and long_prompt):
            return _degenerate("", min(request.limit, 64))
        if "lost-kv" in active and len(request.pieces) > 96:
            request.prompt = "".join(request.pieces[-64:])
        tool = None if "no-tool-calls" in active else _tool_call(request.body, request.prompt)
        if tool:
            name, arguments = tool
            return Reply([], tool=(name, arguments[:-1] if "bad-json" in active else arguments), finish="tool_calls")
        text = self._text(request, active)
        if "garbage-spec" in active and text.count(", ") > 8 and _number(text.split(", ")[0]) is not None:
            return _degenerate(", ".join(text.split(", ")[:5]) + ",", min(request.limit, 64))
        return self._cut(request, text)

    def _text(self, request: Request, active: frozenset[str]) -> str:
        wanted = _structure(request.body)
        if wanted is None:
            text = answer(request.prompt)
        elif wanted:
            text = json.dumps(from_schema(wanted, request.prompt))
        else:
            text = _json_object(request.prompt[-2000:] + " json", request.prompt) or "{}"
        if "bad-json" in active and text.startswith("{"):
            return text[: max(1, len(text) - 3)]
        if request.body.get("ignore_eos"):
            text += " " + prose(request.limit)
        return text

    def _cut(self, request: Request, text: str) -> Reply:
        stops = request.body.get("stop") or []
        for stop in [stops] if isinstance(stops, str) else stops:
            text = text.split(stop)[0]
        thoughts: list[str] = []
        template = request.body.get("chat_template_kwargs") or {}
        if os.environ.get("STANDIN_REASONING") and request.chat and template.get("enable_thinking", True):
            thoughts = tokens("The question is simple, so the answer can be given at once.")
        pieces = tokens(text)
        finish = "length" if len(thoughts) + len(pieces) > request.limit else "stop"
        thoughts = thoughts[: request.limit]
        pieces = pieces[: request.limit - len(thoughts)]
        if thoughts and not self.flags.reasoning_parser:
            return Reply(["<think>\n", *thoughts, "\n</think>\n\n", *pieces], finish=finish)
        return Reply(pieces, thoughts, finish=finish)

    def steps(self, request: Request, count: int) -> Iterator[int]:
        """How many tokens each engine step yields, at the set rate, speculation counted."""
        rate, width = knob("TOKENS_PER_SECOND", 500), int(self.flags.speculative.get("num_speculative_tokens", 0) or 0)
        dead = self.draft_limit and len(request.pieces) > self.draft_limit
        started, done, turn = time.monotonic(), 0, 0
        while done < count:
            accepted = 0 if dead else min(width, (1, 0, 2, 0, 1)[turn % 5], count - done - 1)
            if width:
                self._count_draft(width, accepted)
            done, turn = done + 1 + accepted, turn + 1
            delay = started + done / rate - time.monotonic()
            if delay > 0 and self.gone.wait(delay):
                raise ConnectionAbortedError("the engine is gone")
            yield 1 + accepted

    def _count_draft(self, width: int, accepted: int) -> None:
        for name, amount in zip(_SPEC_COUNTERS, (1, width, accepted), strict=True):
            self.metrics.add(name, amount)
        with self.metrics.lock:
            for position in range(accepted):
                self.metrics.per_position[position] = self.metrics.per_position.get(position, 0) + 1

    def hang(self) -> None:
        """Never answer; ends only with the process."""
        self.gone.wait()
        raise ConnectionAbortedError("the engine is gone")

    @contextlib.contextmanager
    def request(self, held: int) -> Iterator[None]:
        """Counts a request as waiting, then running, and as in flight for a drain."""
        metrics = self.metrics
        with self.idle:
            self.in_flight += 1
        with metrics.lock:
            metrics.waiting += 1
        self.slots.acquire()
        with metrics.lock:
            metrics.waiting, metrics.running = metrics.waiting - 1, metrics.running + 1
            metrics.held_tokens += held
        try:
            yield
        finally:
            self.slots.release()
            with metrics.lock:
                metrics.running -= 1
                metrics.held_tokens -= held
            with self.idle:
                self.in_flight -= 1
                self.idle.notify_all()

    def drain(self) -> None:
        """Refuse new requests and give those in flight the shutdown timeout to end."""
        self.draining.set()
        with self.idle:
            self.idle.wait_for(lambda: self.in_flight == 0, timeout=self.flags.shutdown_timeout)
        self.gone.set()


def _draft_limit(flags: Flags) -> int:
    """The draft's position limit, over which vLLM before 0.27 throws every draft away; 0 for none."""
    if since(0, 27) or not flags.speculative.get("model"):
        return 0
    try:
        config = json.loads(Path(str(flags.speculative["model"]), "config.json").read_text())
        return int(config.get("max_position_embeddings", 0))
    except (OSError, ValueError):
        return 0


def _chat_prompt(body: Json) -> str:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal(400, "Field required: 'messages'")
    lines = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        lines.append(f"{content}\n")
    return "".join(lines)


def _plain_prompt(body: Json) -> str:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and all(isinstance(part, int) for part in prompt):
        return "x " * len(prompt)
    if isinstance(prompt, list) and prompt:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise Refusal(400, "Field required: 'prompt'")
    return prompt


def _structure(body: Json) -> Json | None:
    """The JSON schema that the answer must satisfy; empty when any object will do, None for plain text."""
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return dict((wanted.get("json_schema") or {}).get("schema") or {})
    if wanted.get("type") == "json_object":
        return {}
    guided = body.get("guided_json") or (body.get("structured_outputs") or {}).get("json")
    if isinstance(guided, str):
        guided = json.loads(guided)
    return dict(guided) if guided else None


def _tool_call(body: Json, prompt: str) -> tuple[str, str] | None:
    choice = body.get("tool_choice") or "auto"
    tools = [tool.get("function") or {} for tool in body.get("tools") or []]
    answered = (body.get("messages") or [{}])[-1].get("role") == "tool"
    if not tools or choice == "none" or (answered and choice == "auto"):
        return None
    named = choice["function"]["name"] if isinstance(choice, dict) else None
    tool = next((tool for tool in tools if tool.get("name") == named), tools[0])
    return str(tool.get("name")), json.dumps(from_schema(tool.get("parameters") or {"type": "object"}, prompt))


def _degenerate(start: str, count: int) -> Reply:
    pieces = tokens(start)[:count]
    return Reply([*pieces, *["!"] * (count - len(pieces))], finish="length")


# --- HTTP -----------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Bound early, as vLLM binds, and listening only once the engine is up."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    engine: Engine


class Handler(BaseHTTPRequestHandler):
    """vLLM's routes."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002, the base class names it so
        """Access log in the server library's form."""
        if self.server.engine.flags.access_log and len(args) > 1:
            status = {"200": "200 OK", "500": "500 Internal Server Error"}.get(str(args[1]), str(args[1]))
            API.plain(f'INFO:     {self.client_address[0]}:{self.client_address[1]} - "{self.requestline}" {status}')

    def do_GET(self) -> None:
        """Health, version, models, metrics."""
        engine, path = self.server.engine, self.path.split("?")[0]
        if path in ("/health", "/ping"):
            self._send(503 if "never-healthy" in faults() else 200, b"", "text/plain")
        elif path == "/version":
            self._json(200, {"version": version()})
        elif path == "/metrics":
            self._send(200, engine.metrics.text(engine.flags, engine.kv_tokens).encode(), "text/plain; version=0.0.4")
        elif path == "/standin/process":
            self._json(200, {"argv": sys.argv, "env": dict(os.environ)})
        elif path == "/v1/models" and self._allowed():
            self._json(200, engine.models())
        elif path != "/v1/models":
            self._json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """Completions."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        if path.startswith("/v1/") and not self._allowed():
            return
        if path not in ("/v1/chat/completions", "/v1/completions", "/tokenize"):
            self._json(404, {"detail": "Not Found"})
            return
        try:
            self._complete(path, raw)
        except Refusal as refusal:
            self._json(refusal.status, refusal.body)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _complete(self, path: str, raw: bytes) -> None:
        engine = self.server.engine
        if engine.draining.is_set() or "http-500" in faults():
            raise Refusal(
                500,
                "EngineCore encountered an issue. See stack trace (above) for the root cause.",
                "InternalServerError",
            )
        try:
            body = json.loads(raw)
        except ValueError as error:
            raise Refusal(400, f"JSON decode error: {error}") from error
        request = engine.check(body, chat=path != "/v1/completions" and "messages" in body)
        if path == "/tokenize":
            count = len(request.pieces)
            self._json(200, {"count": count, "max_model_len": engine.flags.max_model_len, "tokens": list(range(count))})
            return
        with engine.request(len(request.pieces)):
            self._generate(engine, request)

    def _generate(self, engine: Engine, request: Request) -> None:
        started = time.monotonic()
        if "hang" in faults():
            engine.hang()
        reply = engine.reply(request)
        metrics = engine.metrics
        metrics.add("prompt_tokens", len(request.pieces))
        metrics.add("prefix_cache_queries", len(request.pieces))
        metrics.add("prefix_cache_hits", metrics.hit(request.pieces))
        rate = knob("PREFILL_TOKENS_PER_SECOND", 0)
        wait = len(request.pieces) / rate if rate else 0.0
        if "slow-first-token" in faults():
            wait += knob("FIRST_TOKEN_SECONDS", 30)
        if wait and engine.gone.wait(wait):
            raise ConnectionAbortedError("the engine is gone")
        writer = Stream(self, request, reply) if request.stream else Whole(self, request, reply)
        self._decode(engine, request, reply, writer, started)

    def _decode(self, engine: Engine, request: Request, reply: Reply, writer: Stream | Whole, started: float) -> None:
        outgoing = deque([("reasoning", piece) for piece in reply.reasoning])
        outgoing += [("content", piece) for piece in reply.pieces]
        outgoing += [("tool", piece) for piece in tokens(reply.tool[1])] if reply.tool else []
        metrics, total, last = engine.metrics, len(outgoing), 0.0
        for step in engine.steps(request, total):
            writer.write([outgoing.popleft() for _ in range(step)])
            metrics.add("generation_tokens", step)
            now = time.monotonic()
            name = "inter_token_latency_seconds" if last else "time_to_first_token_seconds"
            metrics.observe(name, now - (last or started))
            last = now
            if "hang-after-first-token" in faults():
                engine.hang()
        writer.close(total)
        spent = time.monotonic() - started
        for name in ("e2e_request_latency_seconds", "request_decode_time_seconds"):
            metrics.observe(name, spent)
        metrics.observe("request_prefill_time_seconds", max(0.0, spent - total / knob("TOKENS_PER_SECOND", 500)))
        metrics.observe("request_time_per_output_token_seconds", spent / max(1, total))
        with metrics.lock:
            metrics.finished[reply.finish] = metrics.finished.get(reply.finish, 0) + 1

    def _allowed(self) -> bool:
        key = self.server.engine.flags.api_key
        if not key or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.close_connection = True
        self._json(401, {"error": "Unauthorized"})
        return False

    def _json(self, status: int, body: Json) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Whole:
    """An answer in one body, once everything is there."""

    def __init__(self, handler: Handler, request: Request, reply: Reply) -> None:
        self.handler, self.request, self.reply = handler, request, reply

    def write(self, pieces: list[tuple[str, str]]) -> None:
        """Nothing goes out before the end."""

    def close(self, total: int) -> None:
        """Send the body."""
        choice: Json = {"index": 0, "logprobs": None, "finish_reason": self.reply.finish, "stop_reason": None}
        text = "".join(self.reply.pieces)
        if self.request.chat:
            choice["message"] = self._message(text)
        else:
            choice["text"] = text
        body = {**envelope(self.request, self.handler.server.engine), "choices": [choice]}
        self.handler._json(200, {**body, "usage": usage(self.request, total)})

    def _message(self, text: str) -> Json:
        thought = "".join(self.reply.reasoning) or None
        message: Json = {"role": "assistant", "content": text or None, "reasoning": thought, "tool_calls": []}
        if not since(0, 24):
            message["reasoning_content"] = thought
        if self.reply.tool:
            name, arguments = self.reply.tool
            message["tool_calls"] = [call(name, arguments)]
        return message


class Stream:
    """An answer as server-sent events."""

    def __init__(self, handler: Handler, request: Request, reply: Reply) -> None:
        self.handler, self.request, self.reply = handler, request, reply
        self.head = envelope(request, handler.server.engine, chunk=True)
        options = request.body.get("stream_options") or {}
        self.tell_usage, self.opened = bool(options.get("include_usage")), False

    def write(self, pieces: list[tuple[str, str]]) -> None:
        """Send what one engine step gave, as one event for each kind of text."""
        if not self.opened:
            self._open()
        for kind in ("reasoning", "content", "tool"):
            text = "".join(piece for of, piece in pieces if of == kind)
            if text:
                self._choice(self._delta(kind, text), None)

    def close(self, total: int) -> None:
        """Finish reason, usage where asked for, and the end mark."""
        if not self.opened:
            self._open()
        self._choice({"content": ""} if self.request.chat else {}, self.reply.finish)
        if self.tell_usage:
            self._event(json.dumps({**self.head, "choices": [], "usage": usage(self.request, total)}))
        self._event("[DONE]")
        self.handler.wfile.write(b"0\r\n\r\n")

    def _open(self) -> None:
        self.opened = True
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()
        if self.request.chat:
            self._choice({"role": "assistant", "content": ""}, None)
        if self.reply.tool:
            self._choice({"tool_calls": [{"index": 0, **call(self.reply.tool[0], "")}]}, None)

    def _delta(self, kind: str, text: str) -> Json:
        if kind == "tool":
            return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
        if kind == "reasoning":
            return {"reasoning": text, **({} if since(0, 24) else {"reasoning_content": text})}
        return {"content": text}

    def _choice(self, delta: Json, finish: str | None) -> None:
        said: Json = {"delta": delta} if self.request.chat else {"text": delta.get("content", "")}
        self._event(
            json.dumps({**self.head, "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": finish}]})
        )

    def _event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.handler.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        self.handler.wfile.flush()


def envelope(request: Request, engine: Engine, *, chunk: bool = False) -> Json:
    """What every body of an answer begins with."""
    name = request.body.get("model") or engine.names()[0]
    kind = ("chat.completion" if request.chat else "text_completion") + (".chunk" if chunk and request.chat else "")
    prefix = "chatcmpl" if request.chat else "cmpl"
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": name}


def usage(request: Request, total: int) -> Json:
    """Token counts of both sides."""
    count = len(request.pieces)
    return {
        "prompt_tokens": count,
        "total_tokens": count + total,
        "completion_tokens": total,
        "prompt_tokens_details": None,
    }


def call(name: str, arguments: str) -> Json:
    """One tool call."""
    return {
        "id": f"chatcmpl-tool-{uuid.uuid4().hex[:16]}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


# --- process --------------------------------------------------------------------------------------


def watch(engine: Engine) -> None:
    """Background: the statistics line, and death by trigger."""
    before, spoken = dict(engine.metrics.counts), time.monotonic()
    while not engine.gone.wait(0.1):
        active = faults()
        if "crash-now" in active:
            CORE.info("core.py:1099", "EngineCore encountered a fatal error.", level="ERROR")
            tell_crash(CAUSES["graphs"])
            os._exit(1)
        period = 1.0 if "never-healthy" in active else knob("STATS_SECONDS", 10)
        if time.monotonic() - spoken < period:
            continue
        now = dict(engine.metrics.counts)
        if now != before or "never-healthy" in active:
            tell_stats(engine, before, now, period)
        before, spoken = now, time.monotonic()


def tell_stats(engine: Engine, before: dict[str, float], now: dict[str, float], period: float) -> None:
    """The periodic line, and the one about drafts where there are any."""
    metrics = engine.metrics
    grown = {name: now.get(name, 0) - before.get(name, 0) for name in now}
    device = "XPU" if since(0, 30) else "GPU"
    hits = 100 * now.get("prefix_cache_hits", 0) / max(1, now.get("prefix_cache_queries", 0))
    API.info(
        "loggers.py:259",
        f"Engine 000: Avg prompt throughput: {grown.get('prompt_tokens', 0) / period:.1f} tokens/s, "
        f"Avg generation throughput: {grown.get('generation_tokens', 0) / period:.1f} tokens/s, "
        f"Running: {metrics.running} reqs, Waiting: {metrics.waiting} reqs, "
        f"{device} KV cache usage: {100 * metrics.held_tokens / engine.kv_tokens:.1f}%, "
        f"Prefix cache hit rate: {hits:.1f}%",
    )
    drafts, drafted, accepted = (grown.get(name, 0) for name in _SPEC_COUNTERS)
    if drafts:
        rates = ", ".join(
            f"{metrics.per_position[p] / max(1, now[_SPEC_COUNTERS[0]]):.3f}" for p in sorted(metrics.per_position)
        )
        API.info(
            "metrics.py:100",
            f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, "
            f"Accepted throughput: {accepted / period:.2f} tokens/s, "
            f"Drafted throughput: {drafted / period:.2f} tokens/s, "
            f"Accepted: {accepted:.0f} tokens, Drafted: {drafted:.0f} tokens, "
            f"Per-position acceptance rate: {rates}, Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%",
        )


def serve(flags: Flags) -> int:
    """Boot, serve until a stop is asked for, drain, leave; the exit status."""
    stop = threading.Event()

    def asked(number: int, _: object) -> None:
        if not (number == signal.SIGTERM and "ignore-sigterm" in faults()):
            stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
    server = Server((flags.host, flags.port), Handler, bind_and_activate=False)
    try:
        server.server_bind()
        boot = Boot(flags, stop)
        boot.run()
    except BootFailed as failed:
        tell_crash(str(failed))
        return 1
    except KeyboardInterrupt:
        API.plain("KeyboardInterrupt: terminated")
        return 1
    except OSError as error:
        API.plain(f"OSError: {error}")
        return 1
    server.engine = Engine(flags, boot.kv_tokens)
    _serve_until(server, stop)
    return 0


def _serve_until(server: Server, stop: threading.Event) -> None:
    engine = server.engine
    server.server_activate()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    threading.Thread(target=watch, args=(engine,), daemon=True).start()
    if "never-healthy" not in faults():
        API.plain("INFO:     Application startup complete.")
    stop.wait()
    API.info("launcher.py:141", "Shutting down FastAPI HTTP server.")
    engine.drain()
    for line in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete."):
        API.plain(f"INFO:     {line}")


def main(argv: list[str]) -> int:
    """`vllm serve MODEL [flags]` or `vllm --version`."""
    if argv[:1] in (["--version"], ["-v"]):
        emit(version())
        return 0
    if argv[:1] != ["serve"]:
        emit("usage: vllm [-h] [-v] {serve} ...", error=True)
        return 0 if "--help" in argv or "-h" in argv else 2
    return serve(parse_flags(argv[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
