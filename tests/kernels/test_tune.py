"""The program that measures tile sizes: what it measured is on disk after every row, whatever ends it."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from b70_kernels import timing, tune, tuning, tuning_table
from b70_kernels.presets import PRESETS
from b70_kernels.tune import Candidate
from b70_kernels.tuning_table import Choice
from kernel_scope import DEVICE

OLD = Choice(16, 8, 1, 77)
NEW = Choice(128, 2, 3, 128)
QUICK = {"BATCHES": ((1, 40), (2, 20)), "PROGRAMS": (4, 8), "copies": lambda size: 2}
Fastest = Callable[[Sequence[Candidate], torch.device], tuple[Choice, list[float]] | None]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A table that has two rows already."""
    path = tmp_path / "tables" / "tuning.json"
    path.parent.mkdir()
    path.write_text(tuning_table.dump("before", {("k8v4", 32, 64): OLD, ("3bit_nc", 16, 256): OLD}))
    return path


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fastest], list[int]]:
    """Every candidate is right, and a row is measured by the function given; a list of the rows that were asked for."""

    def by(fastest: Fastest) -> list[int]:
        asked: list[int] = []

        def noted(those: Sequence[Candidate], device: torch.device) -> tuple[Choice, list[float]] | None:
            asked.append(those[0].rows)
            return fastest(those, device)

        monkeypatch.setattr(tune, "right", lambda every, device, processes: list(every))
        monkeypatch.setattr(tune, "fastest", noted)
        return asked

    return by


def run(out: Path, *more: str) -> int:
    return tune.main(["--device", DEVICE, "--out", str(out), "--presets", "k8v4", "--head-sizes", "64", *more])


def choices(out: Path) -> dict[int, Choice]:
    """Of the rows that `run` measures, by rows of a tile."""
    assert [each.name for each in out.parent.iterdir()] == [out.name], "something was left beside the table"
    found = tuning_table.load(out)
    assert found["3bit_nc", 16, 256] == OLD, "a row that was not asked for is gone"
    return {rows: choice for (preset, rows, _), choice in found.items() if preset == "k8v4"}


def test_rows_are_added_to_those_that_the_file_has(out: Path, measured: Callable[[Fastest], list[int]]) -> None:
    asked = measured(lambda those, device: (NEW, [1.0, 2.0]))
    assert run(out) == 0
    assert asked == [16, 32, 64]
    assert choices(out) == {16: NEW, 32: NEW, 64: NEW}
    assert tuning_table.read(out).device != "before"


def test_every_row_is_on_disk_before_the_next_is_measured(out: Path, measured: Callable[[Fastest], list[int]]) -> None:
    seen: list[dict[int, Choice]] = []

    def look(those: Sequence[Candidate], device: torch.device) -> tuple[Choice, list[float]]:
        seen.append(choices(out))
        return NEW, [1.0, 2.0]

    measured(look)
    run(out)
    assert seen == [{32: OLD}, {16: NEW, 32: OLD}, {16: NEW, 32: NEW}]


def test_what_another_run_writes_meanwhile_stays(out: Path, measured: Callable[[Fastest], list[int]]) -> None:
    key = ("4bit_nc", 16, 128)

    def beside(those: Sequence[Candidate], device: torch.device) -> tuple[Choice, list[float]]:
        table = tuning_table.load(out)
        tuning_table.write(out, tuning_table.dump("before", table | {key: OLD}))
        return NEW, [1.0, 2.0]

    measured(beside)
    assert run(out) == 0
    assert tuning_table.load(out)[key] == OLD
    assert choices(out) == {16: NEW, 32: NEW, 64: NEW}


@pytest.mark.parametrize("how", ["none", "raises"])
def test_a_row_that_cannot_be_measured_keeps_what_it_had_and_the_rest_goes_on(
    out: Path, measured: Callable[[Fastest], list[int]], capsys: pytest.CaptureFixture[str], how: str
) -> None:
    def fastest(those: Sequence[Candidate], device: torch.device) -> tuple[Choice, list[float]] | None:
        if those[0].rows != 32:
            return NEW, [1.0, 2.0]
        if how == "raises":
            raise RuntimeError("out of memory")
        return None

    measured(fastest)
    assert run(out) == 1
    assert choices(out) == {16: NEW, 32: OLD, 64: NEW}
    why = "no candidate is right here" if how == "none" else "RuntimeError: out of memory"
    assert f"('k8v4', 32, 64): {why}; the row stays as it was" in capsys.readouterr().err


def test_a_row_without_a_right_candidate_is_not_measured(
    out: Path, measured: Callable[[Fastest], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = measured(lambda those, device: (NEW, [1.0, 2.0]))
    monkeypatch.setattr(tune, "right", lambda every, *_: [each for each in every if each.rows == 16])
    assert run(out) == 1
    assert asked == [16]
    assert choices(out) == {16: NEW, 32: OLD}


def test_an_interrupt_loses_one_row_at_most(
    out: Path, measured: Callable[[Fastest], list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    def fastest(those: Sequence[Candidate], device: torch.device) -> tuple[Choice, list[float]]:
        if those[0].rows == 64:
            raise KeyboardInterrupt
        return NEW, [1.0, 2.0]

    measured(fastest)
    assert run(out) == 130
    assert choices(out) == {16: NEW, 32: NEW}
    assert capsys.readouterr().err == f"interrupted: 2 of 3 rows were written to {out}\n"


def test_a_row_that_cannot_be_written_ends_the_run_in_words(
    out: Path, measured: Callable[[Fastest], list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    def fastest(those: Sequence[Candidate], device: torch.device) -> tuple[Choice, list[float]]:
        if those[0].rows == 32:
            shutil.rmtree(out.parent)
        return NEW, [1.0, 2.0]

    asked = measured(fastest)
    assert run(out) == 1
    assert asked == [16, 32]
    assert capsys.readouterr().err == f"{out} cannot be written: No such file or directory; 1 of 3 rows were\n"


@pytest.mark.parametrize(("words", "said"), [
    (["--workers", "0"], "--workers: '0' processes"), (["--workers", "-1"], "processes"), (["--workers", "x"], "'x'"),
    (["--head-sizes", "x"], "--head-sizes: no head size 'x'"), (["--head-sizes", "96"], "no head size '96'"),
    (["--head-sizes", ""], "no head size ''"), (["--presets", ""], "--presets: no preset ''"),
    (["--presets", "k8v4,"], "no preset ''"), (["--device", "foo"], "--device: 'foo' names no device"),
    (["--device", "cuda:99"], "has no device cuda:99"), (["--device", "meta"], "no kernel is compiled for meta"),
    (["--device", ""], "--device: '' names no device"),
])  # fmt: skip
def test_odd_words_are_refused_before_anything_is_measured(
    out: Path, measured: Callable[[Fastest], list[int]], capsys: pytest.CaptureFixture[str],
    words: list[str], said: str,
) -> None:  # fmt: skip
    asked = measured(lambda those, device: (NEW, [1.0, 2.0]))
    with pytest.raises(SystemExit) as ended:
        run(out, *words)
    assert (ended.value.code, asked) == (2, [])
    assert said in capsys.readouterr().err


def test_a_file_that_is_no_table_or_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path, measured: Callable[[Fastest], list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = measured(lambda those, device: (NEW, [1.0, 2.0]))
    (tmp_path / "broken.json").write_text('{"device": "x", "rows": [{}]}')
    foreign = "NVIDIA H200" if DEVICE == "xpu" else "Intel(R) Arc(TM)"
    (tmp_path / "foreign.json").write_text(tuning_table.dump(foreign, {}))
    before = {path.name for path in tmp_path.iterdir()}
    for path, said in (
        (tmp_path / "broken.json", "row 1: it says no choice"),
        (tmp_path / "foreign.json", "devices, and"),
        (tmp_path, "Is a directory"),
        (tmp_path / "none" / "tuning.json", "No such file or directory"),
        (tmp_path / "broken.json" / "tuning.json", "Not a directory"),
        (tmp_path / ("n" * 252), "File name too long"),
        (Path("/proc/tuning.json"), "cannot be written"),
    ):
        with pytest.raises(SystemExit) as ended:
            run(path)
        err = capsys.readouterr().err
        assert (ended.value.code, asked) == (2, [])
        assert said in err
        assert str(path) in err
    assert {path.name for path in tmp_path.iterdir()} == before


def killed(job: tuple[Candidate, str]) -> str | None:
    """In place of `passes`: a compiler that crashes, one that is wrong, and one that is right."""
    if job[0].warps == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    return "wrong numbers" if job[0].warps == 8 else None


def test_a_candidate_that_ends_its_process_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tune, "passes", killed)
    every = [Candidate("k8v4", 16, 64, 64, warps, 1) for warps in (2, 4, 8)]
    assert tune.right(every, torch.device("cpu"), 2) == [every[1]]
    err = capsys.readouterr().err
    assert f"left out: {every[0]}: a process died: signal 11\n" in err
    assert f"left out: {every[2]}: wrong numbers\n" in err


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches so small that the interpreter times them."""
    for name, value in QUICK.items():
        monkeypatch.setattr(tune, name, value)
    monkeypatch.setattr(timing, "REPLAYS", 1)


def test_the_fastest_candidate_is_one_of_those_that_run(quick: None, capsys: pytest.CaptureFixture[str]) -> None:
    good, odd = Candidate("k8v4", 16, 64, 64, 4, 1), Candidate("k8v4", 16, 64, 24, 4, 1)
    found = tune.fastest([odd, good], torch.device(DEVICE))
    assert found is not None
    assert (found[0].keys, found[0].warps) == (64, 4)
    assert found[0].programs in QUICK["PROGRAMS"]  # type: ignore[operator]
    assert re.search(r"left out: .*keys=24.*: 4 programs: ", capsys.readouterr().err)
    assert tune.fastest([odd], torch.device(DEVICE)) is None


def test_the_fastest_is_so_for_several_contexts_and_for_a_long_one(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the sum would take 8 warps, each batch alone 2 or 8
    times = {(2, 1): 8.0, (2, 2): 150.0, (4, 1): 10.0, (4, 2): 100.0, (8, 1): 30.0, (8, 2): 60.0}
    monkeypatch.setattr(tune, "_timed", lambda each, programs, of: times[each.warps, of[0].seq_lens.numel()] * programs)
    found = tune.fastest([Candidate("k8v4", 16, 64, 64, warps, 1) for warps in (2, 4, 8)], torch.device(DEVICE))
    assert found is not None
    assert (found[0].warps, found[0].programs, found[1]) == (4, 4, [40.0, 400.0])


def test_a_candidate_passes_by_its_numbers_alone(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Candidate("4bit_nc", 16, 64, 64, 4, 1), DEVICE
    assert tune.passes(job) is None
    monkeypatch.setattr(tune, "BAR", 0.0)
    assert (tune.passes(job) or "").startswith("relative error ")


@pytest.mark.parametrize(("capability", "native"), [((8, 6), False), ((8, 9), True)])
def test_candidates_are_for_what_the_device_can_do(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], native: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    tuning.converts_fp8.cache_clear()
    try:
        assert Candidate("k8v4", 16, 64, 64, 4, 1).choice(torch.device("cuda"), 128).native_fp8 is native
        assert not Candidate("k8v4", 16, 64, 64, 4, 1).choice(torch.device("xpu"), 128).native_fp8
    finally:
        tuning.converts_fp8.cache_clear()


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_every_row_has_candidates_that_a_table_may_hold(kind: str) -> None:
    every = list(tune.candidates(["k8v4", "3bit_nc"], [64, 128, 256], kind))
    assert len({each.key for each in every}) == 2 * 3 * 3
    device = torch.device("cpu" if kind == "cuda" else kind)
    for each in every:
        choice = each.choice(device, 128)
        assert tuning_table.parse(tuning_table.dump("x", {each.key: choice})).choices == {each.key: choice}


@pytest.mark.parametrize(("kind", "name"), [("cuda", "nvidia.json"), ("xpu", "intel.json")])
def test_every_shipped_row_is_among_what_an_owner_would_try(kind: str, name: str) -> None:
    tried = {
        (*each.key, each.keys, each.warps, each.stages) for each in tune.candidates(list(PRESETS), [64, 128, 256], kind)
    }
    shipped = tuning_table.load(tuning.TABLES / name)
    assert {(*key, row.keys, row.warps, row.stages) for key, row in shipped.items()} <= tried
