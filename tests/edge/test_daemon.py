"""What is asked of Docker's API, with an API that only remembers."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from docker.errors import APIError

from b70ctl.edge import daemon as module
from b70ctl.edge.daemon import Daemon
from b70ctl.errors import DaemonAway, DaemonError

MINUTES = 60
ROOT = Path("/srv/site")
WITH_LABEL = {"all": True, "filters": {"label": "b70ctl.probe=1"}}


def daemon_with(*rows):
    removed = []
    api = SimpleNamespace(
        containers=lambda **asked: list(rows) if asked == WITH_LABEL else [],
        remove_container=lambda container, force: removed.append(container),
    )
    return Daemon(SimpleNamespace(api=api)), removed


def short_container(state, minutes, root=None):
    about = {"Id": f"{state}-{minutes}", "State": state, "Created": time.time() - minutes * MINUTES}
    return about | ({"Labels": {"b70ctl.root": root}} if root else {})


@pytest.mark.parametrize("state", ["created", "exited", "dead"])
def test_a_short_container_that_a_cut_off_command_left_goes_once_nobody_can_wait_for_it(state):
    daemon, removed = daemon_with(short_container(state, 4), short_container(state, 6))
    daemon.sweep_probes(5 * MINUTES, ROOT)
    assert removed == [f"{state}-6"]


def test_a_short_container_that_runs_is_somebodys():
    daemon, removed = daemon_with(short_container("running", 60))
    daemon.sweep_probes(5 * MINUTES, ROOT)
    assert removed == []


def test_processes_that_docker_does_not_list_in_time_are_no_error_of_a_library():
    def hangs(container, ps_args):
        raise requests.exceptions.ReadTimeout(f"{container} {ps_args}: timed out")

    with pytest.raises(DaemonAway, match="listing processes"):
        Daemon(SimpleNamespace(api=SimpleNamespace(top=hangs))).top("c", "pid,args")


def asking(code, said=b"", **more):
    api = SimpleNamespace(
        exec_create=lambda container, argv: {"Id": f"{container} {argv[0]}"},
        exec_start=lambda made: said,
        exec_inspect=lambda made: {"ExitCode": code},
        **more,
    )
    return Daemon(SimpleNamespace(api=api))


def test_what_a_program_beside_the_engine_says_is_given_back():
    assert asking(0, b"\xff[1]\n").ask("c", ["python3"]) == "\ufffd[1]\n"


@pytest.mark.parametrize(("said", "told"), [(b"Trace\nImportError: x\n", "exit 3.*ImportError: x"), (b"", "exit 3")])
def test_a_program_beside_the_engine_that_fails_is_told_with_its_last_line(said, told):
    with pytest.raises(DaemonError, match=told):
        asking(3, said).ask("c", ["python3"])


def test_what_was_made_for_the_site_whose_lock_is_held_goes_at_once_though_it_runs():
    ours, other = short_container("running", 0, str(ROOT)), short_container("running", 60, "/srv/other")
    daemon, removed = daemon_with(ours, other)
    daemon.sweep_probes(5 * MINUTES, ROOT)
    assert removed == ["running-0"]


def said(status, words):
    return APIError("x", SimpleNamespace(status_code=status), words)


def removing(*answers):
    """A daemon that answers a removal with these, and yes afterwards; and how often it was asked."""
    left, asked = list(answers), []

    def remove(container, force):
        asked.append(container)
        if left:
            raise left.pop(0)

    return Daemon(SimpleNamespace(api=SimpleNamespace(remove_container=remove))), asked


BUSY = said(409, "removal of container c is already in progress")


def test_a_removal_that_is_under_way_is_waited_for(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.0)
    daemon, asked = removing(BUSY, BUSY)
    daemon.remove("c")
    assert len(asked) == 3


@pytest.mark.parametrize(("answer", "patience"), [(BUSY, -1.0), (said(409, "it is paused"), 9), (said(500, "no"), 9)])
def test_a_removal_that_is_refused_is_told(monkeypatch, answer, patience):
    monkeypatch.setattr(module, "REMOVAL_SECONDS", patience)
    daemon, asked = removing(answer)
    with pytest.raises(DaemonError, match="removing a container: Docker said: "):
        daemon.remove("c")
    assert len(asked) == 1


def test_of_networks_the_sites_own_goes_and_one_that_is_in_use_stays():
    gone = []

    def remove(network):
        if network == "used":
            raise said(403, "it has active endpoints")
        gone.append(network)

    def networks(names, filters):
        assert filters == {"label": "b70ctl.site=site"}
        return [{"Name": names[0], "Id": names[0]}, {"Name": f"{names[0]}-more", "Id": "another"}]

    daemon = Daemon(SimpleNamespace(api=SimpleNamespace(networks=networks, remove_network=remove)))
    for name in ("free", "used"):
        daemon.remove_network(name, "site")
    assert gone == ["free"]
