"""The daemon goes away in the middle. These come last: they disturb everybody who uses the private daemon."""

import os

import pytest
from livesite import LiveSite, until

from tests.rig import dockerd, private_daemon

pytestmark = pytest.mark.last


@pytest.fixture
def private(docker_host: str) -> None:
    """Only a daemon that the rig started may be restarted."""
    if docker_host != private_daemon.HOST:
        reason = f"{docker_host} is the machine's own daemon, which is not ours to restart"
        if os.environ.get("B70CTL_REQUIRE_DOCKER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


def booting(site: LiveSite) -> bool:
    """Whether the engine of `b` is in the middle of its boot."""
    return any(b"Starting to load model" in each.logs() for each in site.containers()
               if each.labels["b70ctl.profile"] == "b")  # fmt: skip


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("kill", [False, True], ids=["upgrade", "crash"])
def test_a_daemon_that_is_restarted_in_the_middle_ends_with_one_proven_engine(site: LiveSite, kill: bool) -> None:
    site.quick("a")
    site.quick("b", env={"STANDIN_STAGE_SECONDS": "weights=6"})
    site.switch("a")
    old = site.serving()
    with site.begin("switch", "b", "--yes") as child:
        # a process that has only just begun ignores SIGTERM, and the daemon would wait its whole grace for it
        until(lambda: booting(site), "the new engine loads its weights")
        dockerd.restart(kill=kill)
        code = child.wait(150)
        assert child.stderr is not None
        said = child.stderr.read()
    assert code in (0, 5, 6), said
    assert "Traceback" not in said
    site.run("recover").exits(0)
    if code == 0:
        site.assert_serves("b")
    else:
        site.assert_serves("a", old)


@pytest.mark.usefixtures("private")
def test_after_a_restart_of_the_daemon_what_was_proven_serves_again_and_what_was_stopped_does_not(
    site: LiveSite,
) -> None:
    site.quick("a")
    site.switch("a")
    dockerd.restart()
    until(lambda: site.engine().status == "running", "Docker starts it again")
    until(lambda: site.get("/health")[0] == 200, "it serves")
    site.assert_serves("a")
    site.run("stop", "--yes").exits(0)
    dockerd.restart()
    assert site.engine().status == "exited"
    site.run("start").exits(0)
    site.assert_serves("a")
