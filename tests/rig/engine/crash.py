"""A process that dies before it can serve, and what it says of it."""

from __future__ import annotations

from .log import API, CORE


class BootFailed(Exception):
    """The engine's process died before it could serve."""


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
