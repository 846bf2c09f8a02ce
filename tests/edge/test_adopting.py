"""A container made by hand becomes the way back as it is, or is refused before anything is stopped."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from b70ctl.core.changes import changes
from b70ctl.core.compose import LABEL
from b70ctl.edge.adopting import adopted_release
from b70ctl.edge.container import as_container
from b70ctl.errors import Refused
from tests.making import a_profile, a_site, resolved, some_facts
from tests.stub_daemon import StubDaemon, described


class Models(BaseHTTPRequestHandler):
    """An engine as far as its list of models."""

    def do_GET(self):
        body = json.dumps({"object": "list", "data": self.server.models}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def engine():
    """Something on loopback that says what it serves."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Models)
    server.models = [{"id": "m", "max_model_len": 4096}]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def port(engine):
    return engine.server_address[1]


def by_hand(port, name="by-hand", **about):
    return described(name, **({"ports": (port,)} | about))


def adopt(about, port):
    daemon = StubDaemon({about["Id"]: about})
    return adopted_release(daemon, "by-hand", a_site(port=port), 1, "b70ctl switch", {})


def test_it_is_described_as_a_release_of_its_own_kind(port):
    about = by_hand(port, Memory=1)
    found = adopt(about, port)
    assert (found.kind, found.container, found.number) == ("adopted", "by-hand", 1)
    assert found.id.startswith("0001-adopted-by-hand-")
    assert found.deployment.served_names == ("m",)
    assert found.deployment.max_model_len == 4096
    assert as_container(about, {found.id: found}).release == found.id
    assert not as_container(about, {found.id: found}).foreign


def test_nothing_of_it_is_touched(port):
    daemon = StubDaemon({"by-hand": by_hand(port)})
    adopted_release(daemon, "by-hand", a_site(port=port), 1, "b70ctl switch", {})
    assert {call[0] for call in daemon.calls} == {"inspect", "image"}


def test_what_is_the_same_as_in_a_profile_is_no_difference(port):
    digest = "example/vllm@sha256:" + "1" * 64
    wanted = resolved(
        a_profile(model={"path": "m", "served_names": ["m"]}), a_site(port=port), facts=some_facts(digest=digest)
    )
    about = by_hand(
        port,
        ShmSize=8 << 30,
        CapAdd=["CAP_SYS_NICE"],
        Ulimits=[{"Name": "memlock", "Soft": -1, "Hard": -1}],
        IpcMode="private",
        Devices=[{"PathOnHost": "/dev/dri", "PathInContainer": "/dev/dri"}],
    )
    about["Config"] |= {"Entrypoint": list(wanted.argv[:2]), "Cmd": list(wanted.argv[2:]), "Env": ["HF_TOKEN=hidden"]}
    about["Mounts"] = [
        {"Type": "bind", "Source": "/srv/models", "Destination": "/models", "RW": False},
        {"Type": "bind", "Source": "/dev/dri/by-path", "Destination": "/dev/dri/by-path", "RW": False},
        {
            "Type": "volume",
            "Name": "cache",
            "Source": "/var/lib/docker/volumes/cache/_data",
            "Destination": "/cache",
            "RW": True,
        },
    ]
    daemon = StubDaemon({"by-hand": about}, images={"sha256:1": {"Id": "sha256:1", "RepoDigests": [digest]}})
    found = adopted_release(daemon, "by-hand", a_site(port=port), 1, "b70ctl switch", {}).deployment
    told = {each.what: (each.before, each.after) for each in changes(found, wanted)}
    assert told == {"limits memlock": ("-1", None), "capabilities": ("SYS_NICE", "none")}


def test_a_command_behind_a_shell_stays_behind_it(port):
    about = by_hand(port)
    shell = ["/bin/bash", "-c", 'source x; exec "$@"', "--"]
    about["Config"] |= {"Entrypoint": shell, "Cmd": ["vllm", "serve", "/m"]}
    found = adopt(about, port).deployment
    assert (list(found.entrypoint), found.argv) == (shell, ("vllm", "serve", "/m"))


# -- what cannot be the way back --------------------------------------------------------------------------------------


def test_a_container_that_is_removed_when_it_stops_is_refused(port):
    with pytest.raises(Refused, match="--rm"):
        adopt(by_hand(port, AutoRemove=True), port)


@pytest.mark.parametrize("state", ["exited", "created", "paused", "restarting", "dead"])
def test_a_container_that_does_not_run_is_refused_with_what_brings_it_back(port, state):
    with pytest.raises(Refused, match=f"is {state}") as refused:
        adopt(by_hand(port, state=state), port)
    assert ("docker unpause" if state == "paused" else "docker start") in str(refused.value.hint)


def test_a_container_that_is_not_there_is_refused(port):
    with pytest.raises(Refused, match="no container"):
        adopted_release(StubDaemon(), "by-hand", a_site(port=port), 1, "b70ctl switch", {})


@pytest.mark.parametrize("site", [a_site().name, "another"])
def test_an_engine_of_any_site_is_not_one_to_adopt(port, site):
    about = by_hand(port)
    about["Config"]["Labels"] = {f"{LABEL}.site": site}
    with pytest.raises(Refused, match=f"the engine of site `{site}`"):
        adopt(about, port)


@pytest.mark.parametrize("ports", [(), (1, 2)])
def test_a_container_whose_port_cannot_be_told_is_refused(port, ports):
    with pytest.raises(Refused, match="publishes"):
        adopt(by_hand(port, ports=ports), port)


def test_a_container_that_serves_nothing_is_refused(engine, port):
    engine.models = []
    with pytest.raises(Refused, match="serves no model"):
        adopt(by_hand(port), port)


def test_a_container_that_does_not_answer_is_refused(engine, port):
    engine.shutdown()
    engine.server_close()
    with pytest.raises(Refused, match="does not answer"):
        adopt(by_hand(port), port)


# -- what is remembered of it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ({"Name": "on-failure", "MaximumRetryCount": 5}, "on-failure:5"),
        ({"Name": "on-failure", "MaximumRetryCount": 0}, "on-failure"),
        ({"Name": "always"}, "always"),
        ({"Name": ""}, "no"),
        (None, "no"),
    ],
)
def test_its_restart_policy_is_remembered_with_its_count(port, policy, kept):
    assert adopt(by_hand(port, RestartPolicy=policy), port).policy == kept


def test_a_policy_given_back_is_the_one_that_it_came_with(port):
    policy = {"Name": "on-failure", "MaximumRetryCount": 5}
    daemon = StubDaemon({"by-hand": by_hand(port, RestartPolicy=policy)})
    found = adopted_release(daemon, "by-hand", a_site(port=port), 1, "b70ctl switch", {})
    daemon.set_policy("by-hand", "no")
    daemon.set_policy("by-hand", found.policy)
    assert daemon.containers["by-hand"]["HostConfig"]["RestartPolicy"] == policy


def test_one_in_the_hosts_network_is_asked_at_the_sites_port(port):
    found = adopt(by_hand(port, ports=(), NetworkMode="host"), port)
    assert found.deployment.address.port == port


def test_one_that_publishes_another_port_is_asked_there(port):
    assert adopt(by_hand(port), 1).deployment.address.port == port


@pytest.mark.parametrize("words", [["--api-key", "s3cret"], ["--api-key=s3cret"], ["--hf-token", "s3cret"]])
def test_a_secret_of_its_command_is_not_written_down(port, words):
    about = by_hand(port)
    about["Config"] |= {"Cmd": ["serve", "m", *words, "--port", "8000"], "Env": ["VLLM_API_KEY=s3cret"],
                        "Entrypoint": ["sh", "-c", "HF_TOKEN=s3cret vllm"]}  # fmt: skip
    found = adopt(about, port)
    assert "s3cret" not in found.model_dump_json()
    assert found.deployment.argv[-2:] == ("--port", "8000")
