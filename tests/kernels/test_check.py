"""The programs that an owner runs: what becomes of a gate that does not hold, or breaks."""

from __future__ import annotations

import inspect
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import b70_kernels
import pytest
import torch
from b70_kernels import bench, check, gates, tuning
from b70_kernels.check import Found, Job, Verdict, carry_out, verdict
from b70_kernels.presets import PRESETS
from kernel_scope import DEVICE
from triton import knobs


def test_a_gate_that_holds_gives_its_errors() -> None:
    found = carry_out(Job("unwritten_bytes_are_not_read", "k8v4", DEVICE, full=False))
    assert (found.errors, found.wrong) == ((0.0,), None)


def test_a_gate_that_does_not_hold_says_what_was_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "BAR", -1.0)
    found = carry_out(Job("dequantised_is_right", "k8v4", DEVICE, full=False))
    assert found.wrong is not None
    assert found.wrong.startswith("k8v4 planar: relative error ")


def test_a_compilers_fault_is_a_finding_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(scope: gates.Scope) -> None:
        raise RuntimeError(f"no code for {scope.presets[0].name}")

    monkeypatch.setattr(gates, "runs_agree", broken)
    found = carry_out(Job("runs_agree", "3bit_nc", DEVICE, full=False))
    assert found.wrong == "3bit_nc: RuntimeError: no code for 3bit_nc"


def test_a_number_that_is_not_finite_is_wrong_whatever_the_law_says() -> None:
    good = torch.ones(1, 2)
    for bad in (torch.tensor([[1.0, float("nan")]]), torch.tensor([[1.0, float("inf")]])):
        for found, law in ((bad, bad), (bad, good), (good, bad)):
            with pytest.raises(gates.Wrong, match=r"1 of .*2 numbers are not finite"):
                gates._worst(found, law.double())
    with pytest.raises(gates.Wrong, match="nan"):
        gates._below(3e-4, float("nan"), "an error")


@pytest.mark.parametrize("preset", PRESETS)
def test_what_was_stored_is_held_to_the_law_and_not_to_itself(monkeypatch: pytest.MonkeyPatch, preset: str) -> None:
    monkeypatch.setattr(gates, "STORED", 128)
    job = Job("stored_is_right", preset, DEVICE, full=False)
    found = carry_out(job)
    assert (len(found.errors), found.wrong) == (4, None)
    real = gates.store.store
    for harm in (lambda key, value: (2 * key, value), lambda key, value: (key, 0 * value)):
        monkeypatch.setattr(gates.store, "store", lambda key, value, *rest, harm=harm: real(*harm(key, value), *rest))
        assert carry_out(job).wrong is not None


def test_one_preset_that_fails_fails_the_gate_and_the_others_are_counted() -> None:
    good, bad, none = Found((1e-6, 2e-6), None, 1.0), Found((), "k8v4: wrong", 2.0), Found((), None, 0.5)
    told = verdict("a_gate", [good, bad])
    assert (told.passed, told.found, told.seconds) == (False, "k8v4: wrong", 3.0)
    told = verdict("a_gate", [good, none])
    assert (told.passed, told.found) == (True, "2 cases, worst 2.0e-06")
    assert verdict("a_gate", [none]).found == "not on this device"


def test_every_gate_is_tried_for_every_preset() -> None:
    made = [name for name, one in vars(gates).items() if inspect.isgeneratorfunction(one)]
    assert [gate.__name__ for gate in gates.GATES] == made
    jobs = check.jobs("cpu", full=False)
    assert len(jobs) == len(set(jobs)) == len(gates.GATES) * len(PRESETS)


def killed(job: Job) -> Found:
    """In place of `carry_out`: k8v4 runs out of memory, and its process is killed for it."""
    if job.preset == "k8v4":
        os.kill(os.getpid(), signal.SIGKILL)
    return Found((1e-6,), None, 1.0)


def test_a_process_that_dies_is_a_finding_and_the_rest_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "carry_out", killed)
    every = [
        Job(gate, preset, "cpu", full=False) for gate in ("one", "two") for preset in ("4bit_nc", "k8v4", "3bit_nc")
    ]
    told = list(check.run(every, 2))
    assert [(each.check, each.passed, each.found, each.seconds) for each in told] == [
        ("one", False, "k8v4: a process died: signal 9", 2.0), ("two", False, "k8v4: a process died: signal 9", 2.0),
    ]  # fmt: skip


def report(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, object], str]:
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_an_interrupted_check_still_reports_and_did_not_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(every: list[Job], processes: int) -> Iterator[Verdict]:
        yield Verdict("runs_agree", True, "4 cases", 1.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "run", interrupted)
    assert check.main(["--device", DEVICE, "--json"]) == 130
    told, err = report(capsys)
    assert told["passed"] is False
    assert [each["check"] for each in told["checks"]] == ["runs_agree"]  # type: ignore[attr-defined]
    assert err == f"interrupted: 1 of {len(gates.GATES)} gates were checked\n"


def test_the_report_says_which_kernels_and_which_table_were_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def passing(every: list[Job], processes: int) -> Iterator[Verdict]:
        yield Verdict("runs_agree", True, "4 cases", 1.0)

    monkeypatch.setattr(check, "run", passing)
    monkeypatch.delenv(tuning.TABLE, raising=False)
    assert check.main(["--device", DEVICE, "--json"]) == 0
    told, _ = report(capsys)
    about = told["about"]
    assert isinstance(about, dict)
    assert told["passed"] is True
    assert about["b70_kernels"] == b70_kernels.__version__
    assert about["sources"] == f"sha256:{check.sources()}"
    assert about["table"].startswith("shipped ")
    assert about["jobs"] == str(len(gates.GATES) * len(PRESETS))
    path = tmp_path / "mine.json"
    path.write_text('{"device": "my card", "rows": []}')
    monkeypatch.setenv(tuning.TABLE, str(path))
    assert check.main(["--device", DEVICE]) == 0
    assert f"table: {path} (my card)\n" in capsys.readouterr().out
    path.write_text("{")
    assert "mine.json: no tuning table" in check.table(torch.device(DEVICE))


def test_the_sum_of_the_sources_changes_with_any_byte_and_any_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(check, "__file__", str(tmp_path / "check.py"))
    sums = []
    for name, text in (("a.py", b"1"), ("a.py", b"2"), ("b.py", b""), ("plugin/c.py", b"3")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text)
        sums.append(check.sources())
    (tmp_path / "plugin/c.py").rename(tmp_path / "c.py")
    sums.append(check.sources())
    assert len(set(sums)) == len(sums)
    (tmp_path / "tuning.json").write_bytes(b"{}")
    assert check.sources() == sums[-1]


@pytest.mark.parametrize("program", [check, bench])
@pytest.mark.parametrize(("words", "said"), [
    (["--device", "foo"], "--device: 'foo' names no device"), (["--device", "cuda:99"], "has no device cuda:99"),
    (["--device", "meta"], "no kernel is compiled for meta"),
])  # fmt: skip
def test_a_device_that_is_none_is_refused_in_words(
    program: object, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(words)  # type: ignore[attr-defined]
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_processor_is_refused_but_by_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(knobs.runtime, "interpret", False)
    with pytest.raises(SystemExit) as ended:
        check.main(["--device", "cpu"])
    assert ended.value.code == 2
    assert "no kernel is compiled for cpu" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "-2", "x", "1.5", "9999"])
def test_a_number_of_processes_that_is_none_is_refused(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        check.main(["--device", DEVICE, "--workers", number])
    assert ended.value.code == 2
    assert f"'{number}' processes: 1 to " in capsys.readouterr().err


def test_bench_refuses_a_broken_table_before_it_measures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv(tuning.TABLE, str(tmp_path / "none.json"))
    with pytest.raises(SystemExit) as ended:
        bench.main(["--device", DEVICE])
    assert ended.value.code == 2
    assert "none.json: no tuning table: No such file" in capsys.readouterr().err
