"""Real vLLM objects around our backend, on the CPU: Triton's interpreter computes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
sys.path.insert(0, str(Path(__file__).resolve().parent))

FOUND = "B70_BACKEND_FOUND"
"""Where to write what was found: a JSON object a test and line, with its feature, outcome and largest row errors."""


class Note:
    """Keeps what a test has seen."""

    def __init__(self, keep: Any) -> None:
        self.keep = keep

    def __call__(self, outcome: Any, of: str = "") -> Any:
        """A step's errors, in the table with what they are of; the step."""
        self.keep("errors", {kind + of: error for kind, error in outcome.errors.items()})
        return outcome

    def refused(self) -> None:
        """It is refused here, as it should be."""
        self.keep("refused", True)


@pytest.fixture
def note(record_property: Any) -> Note:
    return Note(record_property)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    result = yield
    marker = item.get_closest_marker("feature")
    if marker is None:
        raise pytest.UsageError(f"{item.nodeid} says of no feature that it proves it")
    result.get_result().feature = marker.args[0]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The largest row errors of every test, by kind."""
    found = [line(report) for name in ("passed", "failed", "error") for report in terminalreporter.stats.get(name, [])]
    for each in found:
        if each["errors"]:
            figures = ", ".join(f"{kind} {error:.1e}" for kind, error in each["errors"].items())
            terminalreporter.write_line(f"{each['test']}: {figures}")
    if FOUND in os.environ:
        Path(os.environ[FOUND]).write_text("".join(json.dumps(each) + "\n" for each in found))


def line(report: Any) -> dict[str, Any]:
    errors: dict[str, float] = {}
    properties = list(report.user_properties)
    for _, seen in (each for each in properties if each[0] == "errors"):
        for kind, error in seen.items():
            errors[kind] = max(errors.get(kind, 0.0), error)
    test = report.nodeid.split("::")[-1]
    return {"test": test, "feature": report.feature, "passed": report.outcome == "passed", "errors": errors,
            "refused": any(name == "refused" for name, _ in properties)}  # fmt: skip
