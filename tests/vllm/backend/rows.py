"""Results of what the tests inside a vLLM environment found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.vllm.record import Row

FUSED = "over the quantised cache"
NAMES = {"decode": FUSED, "short": FUSED, "pieces": FUSED, "continuation": "in long continuations",
         "continuation in bfloat16": "in long continuations in bfloat16"}  # fmt: skip
"""What kinds of requests are called; prompts are left to the test's own attention, and compared with it."""


def rows(version: str, found: Iterable[dict[str, Any]]) -> Iterator[Row]:
    """One a feature: it holds when each of its tests does, and is refused where one of them saw that."""
    features: dict[str, list[dict[str, Any]]] = {}
    for each in found:
        features.setdefault(each["feature"], []).append(each)
    for feature, tests in sorted(features.items()):
        failed = sorted(each["test"] for each in tests if not each["passed"])
        outcome = "failed" if failed else "refused" if any(each["refused"] for each in tests) else "ok"
        yield Row(version, f"plugin: {feature}", outcome, "backend", ", ".join(failed) or figures(tests))


def figures(tests: Iterable[dict[str, Any]]) -> str:
    """The largest row errors, rounded up to one digit: those of a machine do not matter."""
    worst: dict[str, float] = {}
    for each in tests:
        for kind, error in each["errors"].items():
            name = NAMES.get(kind)
            if name is not None:
                worst[name] = max(worst.get(name, 0.0), error)
    said = [f"{up(error)} {name}" for name, error in sorted(worst.items(), key=lambda each: each[1])]
    return f"row errors: at most {', '.join(said)}" if said else ""


def up(error: float) -> str:
    """One digit, not less than the number."""
    digit, _, power = f"{error:.8e}".partition("e")
    whole = int(-(-float(digit) // 1))
    return f"{whole}e{int(power)}" if whole < 10 else f"1e{int(power) + 1}"
