"""These need the environment that tests/vllm/setup.sh makes: `make test-vllm-config` runs them, nothing else does.

What a test finds about one feature of one release is a row of the tier's results.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from tests.vllm.record import Row, record

RUNNING = "B70CTL_VLLM_CONFIG"
"""Set by `python -m tests.vllm.config`."""
WHOLE = "whole"
"""Its value where all of them are run."""
collect_ignore_glob = [] if os.environ.get(RUNNING) else ["test_*.py"]
FOUND = pytest.StashKey[dict[tuple[str, str], tuple[str, list[str]]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FOUND] = {}
    config.addinivalue_line("markers", "feature(name, outcome): a row of the results, for the test's release")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    mark, found = item.get_closest_marker("feature"), item.config.stash[FOUND]
    version = getattr(item, "callspec", None) and item.callspec.params.get("version")  # type: ignore[attr-defined]
    if mark and version and (report.when == "call" or report.failed):
        outcome, names = found.get((version, mark.args[0]), (mark.args[1], []))
        good = report.passed and outcome != "failed"
        found[version, mark.args[0]] = (outcome if good else "failed", names if report.passed else [*names, item.name])
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    found = session.config.stash[FOUND]
    rows = [
        Row(version=version, feature=feature, outcome=outcome, how="config", note=", ".join(names))
        for (version, feature), (outcome, names) in found.items()
    ]
    if rows:
        record("config", rows, command="make test-vllm-config", whole=os.environ[RUNNING] == WHOLE)
