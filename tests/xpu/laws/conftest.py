"""These need the compilers that tests/xpu/setup.sh installs: `make test-xpu` runs them there, nothing else does."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("pyopencl") else ["test_*.py"]

TABLE = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLE] = []


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What the disassembler found, and the largest error of every kernel that ran."""
    for line in config.stash[TABLE]:
        terminalreporter.write_line(line)


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Any:
    """Adds a line to what is printed at the end."""
    return request.config.stash[TABLE].append
