"""What is asked of Docker's API, with an API that only remembers."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from docker.errors import APIError, DockerException, NotFound

from b70ctl.edge import daemon as module
from b70ctl.edge.daemon import Daemon
from b70ctl.edge.speaking import speaking
from b70ctl.errors import DaemonAway, DaemonError, MachineError

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


# --- short containers -------------------------------------------------------------------------------------------------


class ShortLived:
    """An API whose containers live for a moment; it fails where a test says so."""

    def __init__(self, failing=None):
        self.failing, self.alive, self.labels = failing, {}, []

    def _do(self, name):
        if name == self.failing:
            raise said(500, f"{name} failed")

    def create_host_config(self, **how):
        return how

    def create_container(self, image, *, name, labels, **how):
        self.alive[name] = image
        self.labels.append(labels)
        self._do("create")  # it is there, and Docker's answer is lost

    def start(self, name):
        assert name in self.alive
        self._do("start")

    def wait(self, name, timeout):
        self._do("wait")
        return {"StatusCode": 0}

    def logs(self, name, **how):
        return b"said"

    def get_archive(self, name, path):
        self._do("read")
        raise NotFound("no such file")

    def remove_container(self, name, force):
        del self.alive[name]


def acts(daemon):
    return [lambda: daemon.run_once("i", ["python3", "-V"], 5), lambda: daemon.read_file("i", "/x")]


def test_a_short_container_says_whose_lock_is_held_and_only_then():
    api = ShortLived()
    free = Daemon(SimpleNamespace(api=api))
    for daemon in (free, free.holding(ROOT)):
        assert [act() for act in acts(daemon)] == ["said", None]
    assert api.labels == [{"b70ctl.probe": "1"}] * 2 + [{"b70ctl.probe": "1", "b70ctl.root": str(ROOT)}] * 2
    assert api.alive == {}


@pytest.mark.parametrize(("failing", "act"), [("create", 0), ("start", 0), ("wait", 0), ("create", 1), ("read", 1)])
def test_a_short_container_is_removed_wherever_it_was_cut_off_and_the_first_fault_is_told(failing, act):
    api = ShortLived(failing)
    with pytest.raises(DaemonError, match=f"{failing} failed"):
        acts(Daemon(SimpleNamespace(api=api)))[act]()
    assert api.alive == {}


def test_where_the_removal_fails_too_it_is_the_first_fault_that_is_told(monkeypatch):
    api = ShortLived("start")
    monkeypatch.setattr(api, "remove_container", lambda name, force: (_ for _ in ()).throw(said(500, "no removal")))
    with pytest.raises(DaemonError, match="start failed"):
        acts(Daemon(SimpleNamespace(api=api)))[0]()


@pytest.mark.parametrize(
    "host", ["garbage", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:abc", "tcp://127.0.0.1:-1", "tcp://[::1", "tcp://",
             "https://127.0.0.1:70000", f"tcp://127.0.0.1:{'9' * 5000}", f"unix:///{'x' * 300}"],
)  # fmt: skip
def test_a_docker_host_that_is_none_is_a_machine_without_docker(monkeypatch, host):
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(MachineError, match="no Docker Engine answers") as told:
        module.connect()
    assert len(told.value.what) < 300


@pytest.mark.parametrize(
    "host", ["ssh://user:{}@127.0.0.1:1", "tcp://user:{}@127.0.0.1:1", "http://user:{}@127.0.0.1:1", "garbage://{}@h",
             "unix://user:{}@/x", "user:{}@h:1", "tcp://user:{}/more@h:1", "tcp://user:{} more@h:1", "fd://u:{}@"],
)  # fmt: skip
def test_a_password_in_docker_host_is_shown_to_nobody_and_the_hint_is_about_the_address(monkeypatch, host):
    monkeypatch.setenv("DOCKER_HOST", host.format("QQ"))
    with pytest.raises(MachineError, match=r"DOCKER_HOST is no address of one: .*…@") as told:
        module.connect()
    assert "QQ" not in f"{told.value.what} {told.value.hint}"
    assert "unset DOCKER_HOST" in str(told.value.hint)


@pytest.mark.parametrize("error", [DockerException, OSError, lambda text: APIError(text, explanation=text)])
def test_no_error_of_docker_shows_the_credentials_of_an_address(error):
    with pytest.raises(DaemonError) as told, speaking("pulling"):
        raise error("proxyconnect to http://user:QQ@proxy:3128 failed")
    assert "http://…@proxy:3128 failed" in told.value.what
