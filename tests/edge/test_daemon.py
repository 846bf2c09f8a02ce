"""What is asked of Docker's API, with an API that only remembers."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from b70ctl.edge.daemon import Daemon

MINUTES = 60
WITH_LABEL = {"all": True, "filters": {"label": "b70ctl.probe=1"}}


def daemon_with(*rows):
    removed = []
    api = SimpleNamespace(
        containers=lambda **asked: list(rows) if asked == WITH_LABEL else [],
        remove_container=lambda container, force: removed.append(container),
    )
    return Daemon(SimpleNamespace(api=api)), removed


def short_container(state, minutes):
    return {"Id": f"{state}-{minutes}", "State": state, "Created": time.time() - minutes * MINUTES}


@pytest.mark.parametrize("state", ["created", "exited", "dead"])
def test_a_short_container_that_a_cut_off_command_left_goes_once_nobody_can_wait_for_it(state):
    daemon, removed = daemon_with(short_container(state, 4), short_container(state, 6))
    daemon.sweep_probes(5 * MINUTES)
    assert removed == [f"{state}-6"]


def test_a_short_container_that_runs_is_somebodys():
    daemon, removed = daemon_with(short_container("running", 60))
    daemon.sweep_probes(5 * MINUTES)
    assert removed == []
