"""What the backend's tests found becomes a row a feature, and nothing that failed is lost in it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.vllm.backend.rows import rows, up


def found(test: str, feature: str, *, passed: bool = True, refused: bool = False, **errors: float) -> dict[str, Any]:
    return {"test": test, "feature": feature, "passed": passed, "refused": refused, "errors": errors}


def test_a_feature_holds_when_all_its_tests_do() -> None:
    [row] = rows("0.30.0", [found("a", "x", decode=2.1e-7), found("b", "x", short=4e-8, continuation=6.5e-4)])
    assert (row.version, row.feature, row.outcome, row.how) == ("0.30.0", "plugin: x", "ok", "backend")
    assert row.note == "row errors: at most 3e-7 over the quantised cache, 7e-4 in long continuations"


def test_one_failed_test_is_named_whatever_the_others_saw() -> None:
    [row] = rows("0.30.0", [found("a", "x", refused=True), found("b", "x", passed=False)])
    assert (row.outcome, row.note) == ("failed", "b")


def test_a_refusal_is_recorded_as_one() -> None:
    assert [row.outcome for row in rows("0.21.0", [found("a", "x", refused=True), found("b", "y")])] == [
        "refused",
        "ok",
    ]


@given(st.floats(1e-9, 1e3))
def test_a_figure_is_rounded_up_to_one_digit(error: float) -> None:
    said = float(up(error))
    assert error <= said * (1 + 1e-7)
    assert said <= 2 * error
