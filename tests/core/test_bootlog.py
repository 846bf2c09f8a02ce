"""A boot log tells how far the engine came, what it decided, and what broke first."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.bootlog import BootFacts, BootLog, Stage, differences

LOGS = Path(__file__).parent / "bootlogs"
BOOTED = sorted(path.stem for path in LOGS.glob("vllm-*.log"))
ALL = (Stage.STARTING, Stage.LOADING, Stage.COMPILING, Stage.PROFILING, Stage.ALLOCATING, Stage.CAPTURING,
       Stage.SERVING)  # fmt: skip
"""The stages of a boot that fetches nothing, in order."""
REAL = [name for name in BOOTED if "-cpu" in name]


def read(name: str) -> list[str]:
    # not splitlines: a progress bar's carriage returns reach the reader as they are
    return (LOGS / f"{name}.log").read_bytes().decode().removesuffix("\n").split("\n")


def booted(*lines: str) -> BootLog:
    log = BootLog()
    for line in lines:
        log.feed(line)
    return log


def stages(name: str) -> list[Stage]:
    log = BootLog()
    return [stage for line in read(name) if (stage := log.feed(line))]


def real(version: str, *, init: float, profile: float | None = None) -> dict[str, object]:
    """What a boot on a processor tells."""
    pool = {"kv_tokens": 131_072, "max_concurrency": 64.0, "concurrency_length": 2048}
    took = {"profile_seconds": profile} if profile else {}
    return {"vllm_version": version, "enforce_eager": False, "init_seconds": init} | pool | took


@pytest.mark.parametrize("name", BOOTED)
def test_every_version_reaches_serving_without_going_back(name: str) -> None:
    seen = stages(name)
    assert seen[-1] is Stage.SERVING
    assert [stage.rank for stage in seen] == sorted({stage.rank for stage in seen})


def test_an_eager_boot_skips_compiling_and_capturing() -> None:
    assert stages("vllm-0.19.0") == [stage for stage in ALL if stage not in (Stage.COMPILING, Stage.CAPTURING)]


@pytest.mark.parametrize("name", REAL)
def test_a_real_boot_goes_through_the_stages_that_it_has(name: str) -> None:
    eager = booted(*read(name)).facts().enforce_eager
    skipped = {Stage.CAPTURING, *([Stage.COMPILING] if eager else [])}
    assert stages(name) == [stage for stage in ALL if stage not in skipped]


def test_a_hub_id_is_a_download_until_its_shards_are_read() -> None:
    assert stages("vllm-0.28.0") == [ALL[0], Stage.DOWNLOADING, *ALL[1:]]


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        (
            "vllm-0.19.0",
            {
                "vllm_version": "0.19.0",
                "enforce_eager": True,
                "weights_gib": 15.72,
                "load_seconds": 34.802713,
                "attention_backend": "Flash Attention",
                "flash_attention_version": 2,
                "available_kv_gib": 10.37,
                "kv_tokens": 113_280,
                "max_concurrency": 0.86,
                "concurrency_length": 131_072,
                "init_seconds": 29.17,
                "async_scheduling": False,
            },
        ),
        (
            "vllm-0.21.1.dev17",
            {
                "vllm_version": "0.21.1.dev17+g0a4756bb5",
                "enforce_eager": False,
                "weights_gib": 15.78,
                "load_seconds": 32.107654,
                "attention_backend": "Flash Attention",
                "flash_attention_version": 2,
                "moe_method": "CompressedTensorsWNA16MoEMethod",
                "kv_cache_dtype": "fp8",
                "available_kv_gib": 12.39,
                "kv_tokens": 270_592,
                "max_concurrency": 2.06,
                "concurrency_length": 131_072,
                "compile_seconds": 82.14,
                "profile_seconds": 24.09,
                "init_seconds": 113.6,
                "async_scheduling": True,
            },
        ),
        (
            "vllm-0.28.0",
            {
                "vllm_version": "0.28.0",
                "enforce_eager": False,
                "weights_gib": 16.44,
                "load_seconds": 305.02001,
                "attention_backend": "Flash Attention",
                "flash_attention_version": 2,
                "moe_method": "XPU",
                "kv_cache_dtype": "fp8",
                "available_kv_gib": 11.02,
                "kv_tokens": 240_640,
                "max_concurrency": 0.92,
                "concurrency_length": 262_144,
                "compile_seconds": 44.51,
                "profile_seconds": 8.8,
                "capture_seconds": 4.0,
                "capture_gib": 0.35,
                "init_seconds": 58.9,
                "draft_position_limit": 262_144,
            },
        ),
        (
            "vllm-0.30.0-colour",
            {
                "vllm_version": "0.30.0",
                "enforce_eager": False,
                "weights_gib": 19.9,
                "load_seconds": 28.4,
                "attention_backend": "Flash Attention",
                "moe_method": "XPU",
                "kv_cache_dtype": "fp8",
                "available_kv_gib": 4.23,
                "kv_tokens": 322_451,
                "max_concurrency": 1.97,
                "concurrency_length": 163_840,
                "compile_seconds": 57.6,
                "capture_seconds": 9.0,
                "capture_gib": 3.08,
                "init_seconds": 81.9,
            },
        ),
        (
            "vllm-0.33.0-tp2",
            {
                "vllm_version": "0.33.0",
                "enforce_eager": False,
                # of two workers the fuller card and the smaller pool are what limits
                "weights_gib": 12.31,
                "load_seconds": 15.3,
                "available_kv_gib": 13.72,
                "attention_backend": "Flash Attention + TurboQuant",
                "moe_method": "XPU",
                "kv_tokens": 612_352,
                "max_concurrency": 4.67,
                "concurrency_length": 131_072,
                "compile_seconds": 31.05,
                "profile_seconds": 4.1,
                "capture_seconds": 4.0,
                "capture_gib": 0.52,
                "init_seconds": 44.2,
            },
        ),
        ("vllm-0.21.0-cpu", real("0.21.0", init=62.76, profile=0.57) | {"async_scheduling": False}),
        ("vllm-0.26.0-cpu", real("0.26.0", init=66.45, profile=0.23) | {"async_scheduling": False}),
        ("vllm-0.26.0-cpu-ngram", real("0.26.0", init=29.54) | {"async_scheduling": False, "enforce_eager": True}),
        ("vllm-0.28.0-cpu", real("0.28.0", init=42.77, profile=0.27)),
        ("vllm-0.30.0-cpu", real("0.30.0", init=43.65, profile=0.24)),
        ("vllm-0.32.0-cpu", real("0.32.0", init=38.43, profile=0.15)),
    ],
)
def test_the_facts_of_every_version_are_read(name: str, facts: dict[str, object]) -> None:
    assert replace(booted(*read(name)).facts(), notices=()).to_dict() == facts


def test_what_vllm_decided_against_the_profile_is_noticed_once() -> None:
    notices = booted(*read("vllm-0.19.0"), *read("vllm-0.19.0")).facts().notices
    assert notices == (
        "Unknown vLLM environment variable detected: VLLM_TQ_DECODE",
        "Casting torch.bfloat16 to torch.float16.",
        "Currently, the 4-bit gptq_gemm kernel for GPTQ is buggy. Please switch to gptq_marlin.",
        "Async scheduling not supported with suffix-based speculative decoding and will be disabled.",
    )


def test_an_fp8_pool_and_a_capped_schedule_are_noticed() -> None:
    notices = booted(*read("vllm-0.28.0")).facts().notices
    assert [notice.split(" ", 1)[0] for notice in notices] == ["Using", "Overriding", "max_num_scheduled_tokens"]


def test_progress_counts_shards_then_graphs_and_starts_anew_in_each_stage() -> None:
    log, seen = BootLog(), []
    for line in read("vllm-0.28.0"):
        log.feed(line)
        if not seen or seen[-1] != (log.stage, log.progress):
            seen.append((log.stage, log.progress))
    assert (Stage.LOADING, (4, 4)) in seen
    assert (Stage.COMPILING, None) in seen
    assert (Stage.CAPTURING, (3, 3)) in seen


def test_the_last_rewriting_of_a_progress_bar_counts() -> None:
    bar = "Loading safetensors checkpoint shards:  {}% Completed | {}/8 [00:10<00:10, 1.2s/it]"
    assert booted("\r".join(["", bar.format(12, 1), bar.format(50, 4)])).progress == (4, 8)


def test_graphs_captured_to_measure_them_are_not_the_capturing_stage() -> None:
    log = booted(*read("vllm-0.21.1.dev17")[:17])
    assert log.feed("Capturing CUDA graphs (PIECEWISE): 100%|███| 1/1 [00:00<00:00, 5.3it/s]") is None
    assert log.stage is Stage.COMPILING


def test_a_worker_that_lags_behind_does_not_take_the_boot_back() -> None:
    log = booted(*read("vllm-0.33.0-tp2")[:14])
    assert log.stage is Stage.ALLOCATING
    assert log.feed("Loading safetensors checkpoint shards:  33% Completed | 1/3 [00:04<00:08, 4.00s/it]") is None
    assert log.stage is Stage.ALLOCATING


def test_what_a_user_sends_to_a_serving_engine_is_not_a_boot_fact() -> None:
    log = booted(*read("vllm-0.21.1.dev17"))
    before = log.facts()
    log.feed("(APIServer pid=1) INFO 07-04 12:09:00 [x.py:1] prompt: 'GPU KV cache size: 1 tokens, is buggy'")
    assert log.facts() == before


def test_the_first_fault_is_the_cause_not_its_echo() -> None:
    log = booted(*read("crash-gptq-marlin-repack"))
    assert log.stage is Stage.LOADING
    assert log.facts().first_error == (
        "AttributeError: '_OpNamespace' '_C' object has no attribute 'gptq_marlin_repack'"
    )


def test_an_echo_alone_is_better_than_nothing() -> None:
    lines = [line for line in read("crash-gptq-marlin-repack") if line.startswith("(APIServer")]
    assert (booted(*lines).facts().first_error or "").startswith("RuntimeError: Engine core initialization failed")


STOP = {
    "0.21": "(EngineCore pid=9) INFO 01-01 00:01:59 [core.py:1242] Shutdown initiated (timeout=30)",
    "0.26": "(APIServer pid=1) INFO 01-01 00:02:00 [launcher.py:100] [shutdown] API server: shutdown triggered",
}
ECHO = (
    "(APIServer pid=1) ERROR 01-01 00:02:05 [async_llm.py:906] AsyncLLM output_handler failed.",
    "(APIServer pid=1) ERROR 01-01 00:02:05 [async_llm.py:906] Traceback (most recent call last):",
    '(APIServer pid=1) ERROR 01-01 00:02:05 [async_llm.py:906]   File "async_llm.py", line 849, in output_handler',
    "(APIServer pid=1) ERROR 01-01 00:02:05 [async_llm.py:906] EngineDeadError: EngineCore encountered an issue.",
)


@pytest.mark.parametrize("stop", STOP.values(), ids=list(STOP))
def test_processes_that_lose_one_another_after_a_stop_are_no_fault(stop: str) -> None:
    assert booted(stop, *ECHO).facts().first_error is None
    assert booted(*ECHO, stop).facts().first_error == "AsyncLLM output_handler failed."


def test_what_breaks_by_itself_after_a_stop_is_a_fault_all_the_same() -> None:
    broken = ("Traceback (most recent call last):", "  File 'x'", "RuntimeError: UR_RESULT_ERROR_DEVICE_LOST")
    assert booted(STOP["0.26"], *broken).facts().first_error == broken[-1]


def test_a_stop_that_a_client_speaks_of_is_none() -> None:
    said = STOP["0.21"].replace("Shutdown initiated", "Received request chatcmpl-1: prompt: 'Shutdown initiated")
    assert booted(said, *ECHO).facts().first_error == "AsyncLLM output_handler failed."


@pytest.mark.parametrize(
    "line",
    [
        "exec: --: invalid option",
        "/bin/bash: line 1: /opt/intel/oneapi/setvars.sh: No such file or directory",
        "environment: line 3: sha256sum: command not found",
        "b70ctl: start script /opt/b70ctl/start/00-0-x.py ended with exit status 1; the engine is not started",
        "vllm serve: error: argument --kv-cache-dtype: invalid choice: 'turboquant_k3v4_nc'",
        "terminate called after throwing an instance of 'sycl::_V1::exception'",
        "Fatal Python error: Illegal instruction",
        "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "FATAL: Unknown device: deviceId: e223",
    ],
)
def test_a_fault_outside_any_traceback_is_found(line: str) -> None:
    assert booted("all is well", line, "exec: later").facts().first_error == line


def test_two_processes_that_fail_at_once_are_told_apart() -> None:
    zero, one = "(Worker_TP0 pid=9) ", "(Worker_TP1 pid=10) "
    log = booted(
        zero + "Traceback (most recent call last):",
        one + "Traceback (most recent call last):",
        zero + '  File "a.py", line 1, in f',
        one + "torch.OutOfMemoryError: XPU out of memory",
        zero + "RuntimeError: oneCCL: the other side left",
    )
    assert log.facts().first_error == "torch.OutOfMemoryError: XPU out of memory"


def test_a_traceback_that_was_only_warned_about_is_not_a_fault() -> None:
    head = "(APIServer pid=1) WARNING 07-04 12:00:00 [import.py:9] "
    lines = ("Traceback (most recent call last):", '  File "x.py", line 1', "ImportError: no triton here")
    assert booted(*(head + line for line in lines)).facts().first_error is None


def test_a_traceback_that_breaks_off_does_not_swallow_the_next_line() -> None:
    tag = "(EngineCore pid=5) "
    log = booted(
        tag + "Traceback (most recent call last):", tag + "  File 'x'", tag + "INFO 07-04 12:00:00 [x.py:1] going on"
    )
    assert log.facts().first_error is None


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        (["  Value error, Unknown attention backend [type=value_error]", "    For more"], "Value error, Unknown"),
        (
            ["max_model_len", "  Input should be greater than 0", "more"],
            "max_model_len: Input should be greater than 0",
        ),
    ],
)
def test_a_validation_error_is_told_with_what_is_wrong(detail: list[str], told: str) -> None:
    first = "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig"
    fault = booted("Traceback (most recent call last):", "  File 'x'", first, *detail).facts().first_error
    assert fault is not None
    assert fault.startswith(f"{first}: {told}")
    assert "more" not in fault


def test_docker_timestamps_and_plain_prefixes_are_no_obstacle() -> None:
    stamped = [f"2026-07-04T12:00:00.123456789Z {line}" for line in read("crash-gptq-marlin-repack")]
    assert booted(*stamped).facts() == booted(*read("crash-gptq-marlin-repack")).facts()


@given(st.lists(st.text(max_size=200), max_size=20))
def test_no_line_is_too_strange(lines: list[str]) -> None:
    log = booted(*lines)
    assert BootFacts.from_dict(log.facts().to_dict()) == log.facts()


@given(st.data())
def test_a_mangled_log_never_raises_and_never_goes_back(data: st.DataObject) -> None:
    log, lines = BootLog(), read(data.draw(st.sampled_from([*BOOTED, "crash-gptq-marlin-repack"])))
    for line in lines:
        start, cut = data.draw(st.integers(0, 20)), data.draw(st.integers(1, 400))
        before = log.stage
        reached = log.feed(line[start : start + cut] + data.draw(st.text(max_size=5)))
        assert log.stage.rank > before.rank if reached else log.stage is before


@given(st.from_regex(r"GPU KV cache size: [0-9,]{1,5000} tokens|Model loading took [0-9.]{1,400} GiB"))
def test_absurd_numbers_do_not_raise(line: str) -> None:
    booted(line).facts()


def test_facts_survive_storage_and_a_newer_version() -> None:
    facts = booted(*read("vllm-0.28.0")).facts()
    stored = json.loads(json.dumps(facts.to_dict()))
    assert BootFacts.from_dict(stored | {"added_next_year": 1}) == facts


# --- what changed since the last boot of the same profile


def test_a_first_boot_differs_from_nothing() -> None:
    assert differences(None, BootFacts(kv_tokens=1)) == []


def test_the_move_that_lost_the_pool_is_told_in_numbers() -> None:
    before = BootFacts(vllm_version="0.19.0", kv_tokens=453_184, attention_backend="Flash Attention")
    after = BootFacts(vllm_version="0.21.0", kv_tokens=270_592, attention_backend="Triton")
    assert differences(before, after) == [
        "vLLM 0.19.0 -> 0.21.0",
        "attention backend Flash Attention -> Triton",
        "KV pool 453,184 -> 270,592 tokens (-40 %)",
    ]


def test_weather_is_not_a_difference() -> None:
    before = BootFacts(kv_tokens=270_592, load_seconds=30.0, compile_seconds=80.0, init_seconds=1.0)
    assert differences(before, replace(before, kv_tokens=270_000, compile_seconds=99.0, init_seconds=4.0)) == []


def test_a_boot_slower_by_half_or_faster_is_told() -> None:
    before = BootFacts(load_seconds=30.0, compile_seconds=80.0)
    assert differences(before, BootFacts(load_seconds=50.0, compile_seconds=8.0)) == [
        "loading 30 s -> 50 s",
        "compiling 80 s -> 8 s",
    ]


def test_a_switch_that_vllm_flipped_and_a_new_notice_are_told() -> None:
    before = BootFacts(async_scheduling=True, notices=("a",))
    after = BootFacts(async_scheduling=False, notices=("a", "b"), draft_position_limit=4096)
    assert differences(before, after) == [
        "asynchronous scheduling on -> off",
        "draft position limit lifted to 4,096",
        "new notice: b",
    ]


@given(st.builds(BootFacts, kv_tokens=st.none() | st.integers(0, 10**9), load_seconds=st.none() | st.floats(0, 1e6)))
def test_a_boot_never_differs_from_itself(facts: BootFacts) -> None:
    assert differences(facts, facts) == []
