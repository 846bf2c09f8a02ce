"""The kernels' tests need torch, triton, numpy, pytest and hypothesis, and nothing of b70ctl's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent.parent / "kernels"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import kernel_scope  # noqa: E402
import shards  # noqa: E402

RECORDED = ("row error", "row error, sharp scores", "distortion")


def _prepare() -> None:
    try:
        kernel_scope.prepare()
    except ImportError:
        return  # every test file says what it lacks
    except (RuntimeError, AssertionError) as error:
        raise pytest.UsageError(f"B70_KERNELS_DEVICE={kernel_scope.DEVICE}: {error}") from error


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """On a device: several processes, since most of the time goes into compiling."""
    _prepare()
    return shards.run(config)


def pytest_configure(config: pytest.Config) -> None:
    _prepare()
    # of the interpreter's own
    config.addinivalue_line("filterwarnings", "ignore:Conversion of an array with ndim > 0:DeprecationWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shards.take(config, items)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The largest error of every preset and layout, over all tests that recorded one."""
    worst: dict[tuple[str, str], float] = {}
    for report in terminalreporter.stats.get("passed", []):
        for what, value in getattr(report, "user_properties", []):
            if what in RECORDED:
                of, number = value
                worst[what, of] = max(worst.get((what, of), 0.0), number)
    for (what, of), number in sorted(worst.items()):
        terminalreporter.write_line(f"{what} {of}: {number:.2e}")
