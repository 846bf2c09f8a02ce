"""A capture says of each part that could not be had why, and waits for a Docker that hangs once and no longer."""

import threading
from pathlib import Path
from typing import Any

import pytest
import typer

from b70ctl.cli import app, incidents
from b70ctl.cli.here import Here
from b70ctl.cli.incidents import Capture
from b70ctl.core.watchfault import Fault, Kind
from b70ctl.edge import hostasks, logsource, places, stack
from b70ctl.edge.watching import Monitor
from b70ctl.errors import DaemonAway, DaemonError, MachineError
from tests.stub_site import OLD, StubSite
from tests.stub_watched import Engine


def _nothing(*_: Any) -> Any:
    raise MachineError("this host is not asked")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubSite:
    """A site that serves OLD, on a host of which nothing is asked."""
    monkeypatch.setattr(hostasks, "read_host", _nothing)
    monkeypatch.setattr(stack, "ask_host", _nothing)
    monkeypatch.setattr(logsource, "of_kernel", _nothing)
    (tmp_path / places.SITE_FILE).write_text("models: models\n")
    found = StubSite(tmp_path)
    found.serve(OLD)
    return found


def captured(site: StubSite) -> dict[str, str]:
    """Every part of an incident."""
    here = Here(typer.Context(typer.main.get_command(app), obj=site.root))
    endpoint: Any = Engine()
    monitor = Monitor(OLD, endpoint, lambda: site.daemon, patience=1, silence=60)
    folder = Capture(here, monitor, Fault(Kind.WEDGE, "no token came"), 3).write()
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_what_docker_tells_is_captured(site: StubSite) -> None:
    found = captured(site)
    assert found["engine.log"] == f"log of c-{OLD.id}\n"
    assert "vllm serve" in found["processes.txt"]
    assert f"c-{OLD.id}" in found["container.json"]
    assert found["diagnosis.txt"] == "nothing failed\n" or "booting" in found["diagnosis.txt"]
    assert site.daemon.count("logs") == site.daemon.count("top") == 1


def test_a_log_that_cannot_be_had_is_not_called_one_without_an_error(site: StubSite) -> None:
    site.daemon.on("logs", lambda: DaemonError("the log driver keeps none"), lasting=True)
    found = captured(site)
    assert found["engine.log"] == found["diagnosis.txt"] == "not captured: the log driver keeps none\n"
    assert "vllm serve" in found["processes.txt"]


def test_a_docker_that_hangs_is_waited_for_once(site: StubSite, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hang() -> DaemonAway:
        over.wait()
        return DaemonAway("too late")

    monkeypatch.setattr(incidents, "DOCKER_SECONDS", 0.2)
    site.daemon.on("logs", hang)
    found = captured(site)
    over.set()
    for part in ("engine.log", "processes.txt", "diagnosis.txt"):
        assert found[part] == "not captured: Docker gave no answer within 0.2 s\n"
    assert f"c-{OLD.id}" in found["container.json"]  # it was told before
    assert site.daemon.count("top") == 0


def test_a_docker_that_lists_no_processes_in_time_does_not_hold_up_what_comes_after(
    site: StubSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(incidents, "DOCKER_SECONDS", 0.2)
    site.daemon.on("top", lambda: over.wait() and DaemonAway("too late"))
    found = captured(site)
    over.set()
    assert found["processes.txt"] == found["stacks.txt"] == "not captured: Docker gave no answer within 0.2 s\n" or (
        "py-spy" in found["stacks.txt"]
    )
    assert found["engine.log"] == f"log of c-{OLD.id}\n"


def test_a_container_that_is_not_there_is_told_in_every_part_that_needs_it(site: StubSite) -> None:
    site.daemon.containers.clear()
    found = captured(site)
    for part in ("engine.log", "processes.txt", "container.json", "diagnosis.txt"):
        assert found[part] == "not captured: the engine's container is not there\n"
