"""The boot log: lines in the form of the version that is played, and boots that fail in stated ways."""

from __future__ import annotations

import re

import pytest

from tests.rig.engine_process import Start, eventually

LINE = re.compile(
    r"\((APIServer|EngineCore|Worker_TP\d) pid=\d+\) (INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[\w+\.py:\d+\] "
)


def test_every_log_line_has_vllms_prefix(start: Start) -> None:
    log = start("--kv-cache-dtype", "fp8").ready().log
    lines = [line for line in log.splitlines() if "[" in line and " INFO " in line]
    assert len(lines) > 10
    assert all(LINE.match(line) for line in lines)


@pytest.mark.parametrize(
    ("played", "expected"),
    [
        ("0.19.0", "GPU KV cache size: 270,592 tokens\n"),
        ("0.21.1.dev17+g0a4756bb5", "GPU KV cache size: 270,592 tokens\n"),
        ("0.28.0", "GPU KV cache size: 270,592 tokens, Maximum concurrency for 131,072 tokens per request: 2.06x"),
        ("0.30.0", "XPU KV cache size: 270,592 tokens, Maximum concurrency for 131,072 tokens per request: 2.06x"),
    ],
)
def test_kv_lines_take_the_form_of_the_version(start: Start, played: str, expected: str) -> None:
    log = start("--kv-cache-dtype", "fp8", "--max-model-len", "131072", VLLM_VERSION=played).ready().log
    assert expected in log
    assert "Maximum concurrency for 131,072 tokens per request: 2.06x" in log


def test_the_backend_lines_follow_the_kv_dtype(start: Start) -> None:
    assert "Using TurboQuant attention backend." in start("--kv-cache-dtype", "turboquant_k3v4_nc").ready().log
    assert "Using Flash Attention backend." in start("--kv-cache-dtype", "fp8").ready().log


def test_eager_boots_neither_compile_nor_capture(start: Start) -> None:
    eager, compiled = (start(*flags, VLLM_VERSION="0.31.0").ready().log for flags in (("--enforce-eager",), ()))
    for text in ("torch.compile took", "Graph capturing finished"):
        assert text not in eager
        assert text in compiled


def test_a_boot_ends_with_the_line_that_says_so(start: Start) -> None:
    process = start().ready()
    eventually(lambda: "Application startup complete." in process.log, "the last boot line")
    assert "init engine (profile, create kv cache, warmup model) took" in process.log


def test_each_worker_of_a_tensor_parallel_engine_speaks(start: Start) -> None:
    log = start("--tensor-parallel-size", "2").ready().log
    assert all(f"(Worker_TP{rank} pid=" in log for rank in (0, 1))


@pytest.mark.parametrize("stage", ["download", "weights", "compile", "kv", "graphs"])
def test_a_crash_names_its_cause_before_the_traceback_that_hides_it(start: Start, stage: str) -> None:
    process = start(FAULT=f"crash-at:{stage}")
    assert process.ended() == 1
    log = process.log
    assert 0 < log.index("EngineCore failed to start.") < log.index("Engine core initialization failed.")


def test_a_stalled_boot_says_nothing_more_and_does_not_listen(start: Start) -> None:
    process = start(FAULT="stall-at:compile")
    eventually(lambda: "Model loading took" in process.log, "the stage before the stall")
    assert process.health() == 0
    assert "torch.compile" not in process.log
    process.popen.terminate()
    assert process.ended() == 1


def test_exit_at_start_says_nothing(start: Start) -> None:
    process = start(FAULT="exit-at-start")
    assert (process.ended(), process.log) == (1, "")


def test_a_pool_smaller_than_one_request_is_refused(start: Start) -> None:
    process = start("--max-model-len", "4096", KV_TOKENS=1024)
    assert process.ended() == 1
    assert "estimated maximum model length is 1024" in process.log


def test_a_port_in_use_ends_the_boot(start: Start) -> None:
    first = start().ready()
    second = start("--port", str(first.port))
    assert second.ended() == 1
    assert "Address already in use" in second.log


def test_plugins_on_the_path_are_loaded_in_each_process_and_a_broken_one_is_only_logged(start: Start, tmp_path) -> None:
    for name, body in (("good", "pass"), ("bad", "raise RuntimeError('not this version')")):
        (tmp_path / f"{name}.py").write_text(f"def register():\n    {body}\n")
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[vllm.general_plugins]\n{name} = {name}:register\n")
    log = start(env={"PYTHONPATH": str(tmp_path)}).ready().log
    assert log.count("Loading plugin good") == 2
    assert log.count("Failed to load plugin bad: not this version") == 2
    assert "Failed to load plugin good" not in log
