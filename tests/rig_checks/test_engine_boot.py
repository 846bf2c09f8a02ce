"""The boot log: lines in the form of the version that is played, and boots that fail in stated ways."""

import re
from pathlib import Path

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


def a_plugin(folder: Path, name: str, body: str) -> None:
    """A package beside what says that it is installed, as a folder on Python's path has them."""
    package = folder / name
    (package / "plugin").mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "1.0"\n')
    (package / "plugin" / "__init__.py").write_text(body)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[vllm.general_plugins]\n{name} = {name}.plugin:register\n")


def test_plugins_are_loaded_in_each_process_and_one_that_cannot_be_imported_is_only_logged(
    start: Start, tmp_path: Path
) -> None:
    a_plugin(tmp_path, "good", "def register():\n    pass\n")
    a_plugin(tmp_path, "bad", "import no_such_module\n")
    log = start("--tensor-parallel-size", "2", env={"PYTHONPATH": str(tmp_path)}).ready().log
    assert log.count("Loading plugin good") == 4
    assert log.count("Failed to load plugin bad: No module named 'no_such_module'") == 4
    assert "Failed to load plugin good" not in log


def test_a_plugin_that_raises_when_it_is_called_ends_the_start(start: Start, tmp_path: Path) -> None:
    a_plugin(tmp_path, "bad", "def register():\n    raise RuntimeError('not this version')\n")
    process = start(env={"PYTHONPATH": str(tmp_path)})
    assert process.ended() == 1
    assert "RuntimeError: not this version" in process.log


SAID = re.compile(r"(?:\((\S+) pid=\d+\) )?\w+ \d\d-\d\d [\d:]+ \[\S+\] (?:b70_kernels 1\.0: (in use|refused|off)"
                  r"|(Failed to load plugin) b70_kernels$)", re.MULTILINE)  # fmt: skip


def said(start: Start, folder: Path, *flags: str, **knobs: object) -> list[tuple[str, str]]:
    """Who said what of our kernels, in order."""
    if not (folder / "b70_kernels").exists():
        a_plugin(folder, "b70_kernels", "raise RuntimeError('there is no torch here')\n")
    log = start("--tensor-parallel-size", "2", *flags, env={"PYTHONPATH": str(folder)}, **knobs).ready().log
    return [(found[1] or "", found[2] or found[3]) for found in SAID.finditer(log)]


def test_our_kernels_speak_in_each_process_before_or_after_it_has_its_name(start: Start, tmp_path: Path) -> None:
    before, after = (said(start, tmp_path, VLLM_VERSION=version) for version in ("0.30.0", "0.31.0"))
    assert before == [("", "in use"), ("EngineCore", "in use"), ("", "in use"), ("", "in use")]
    names = ["", "EngineCore", "VllmWorker-0", "VllmWorker-1"]
    assert after == [(name, "in use") for name in names]


def test_one_process_can_be_the_one_without_our_kernels(start: Start, tmp_path: Path) -> None:
    tried = {fault: said(start, tmp_path, VLLM_VERSION="0.31.0", FAULT=f"kernels-{fault}:Worker_TP1")
             for fault in ("silent", "refused", "broken")}  # fmt: skip
    assert [word for _, word in tried["silent"]] == ["in use"] * 3
    assert tried["refused"][-1] == ("VllmWorker-1", "refused")
    assert tried["broken"][-1] == ("VllmWorker-1", "Failed to load plugin")
