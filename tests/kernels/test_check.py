"""The programs that an owner runs: what becomes of a gate that does not hold, or breaks."""

from __future__ import annotations

import pytest
import torch
from b70_kernels import check, gates
from b70_kernels.check import Found, Job, carry_out, verdict
from b70_kernels.presets import PRESETS
from kernel_scope import DEVICE


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
    assert {gate.__name__ for gate in gates.GATES} <= set(vars(gates))
    jobs = check.jobs("cpu", full=False)
    assert len(jobs) == len(set(jobs)) == len(gates.GATES) * len(PRESETS)
