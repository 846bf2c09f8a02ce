"""The way from nothing to serving."""

from __future__ import annotations

import importlib
import os
import re
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path

from .crash import CAUSES, BootFailed
from .flags import Flags
from .knobs import faults, knob, since, version
from .log import API, CORE, Log, emit, source_line
from .plugins import load_plugins

STAGES = {"download": 0.05, "weights": 0.4, "compile": 0.2, "kv": 0.1, "graphs": 0.15, "api": 0.1}


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
            log.info(f"xpu.py:{source_line('xpu')}", f"Using {backend} backend.")
            log.info(f"flash_attn.py:{source_line('flash')}", "Using FlashAttention version 2")
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
            log.info(f"gpu_worker.py:{source_line('worker')}", f"Available KV cache memory: {gib:.2f} GiB")
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
        line = source_line("kv")
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


def marlin_is_chosen() -> bool:
    """What the image's own file says about W4A16 experts; True, as upstream's does, when it has none."""
    try:
        module = importlib.import_module("vllm.model_executor.layers.quantization.utils.marlin_utils")
        return bool(module.check_moe_marlin_supports_layer(types.SimpleNamespace(hidden_size=2048), 128))
    except ImportError:
        return True
