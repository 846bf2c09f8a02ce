"""Containers that b70ctl did not make: adopted when asked, and never touched otherwise."""

import pytest
from livesite import LiveSite, free_port, until


def look(container: object) -> tuple[object, ...]:
    """What of a container must not change."""
    container.reload()  # type: ignore[attr-defined]
    about = container.attrs  # type: ignore[attr-defined]
    return about["Id"], about["State"]["Status"], about["State"]["StartedAt"], about["HostConfig"]["RestartPolicy"]


def test_a_container_on_the_port_is_refused_with_the_way_to_adopt_it(site: LiveSite) -> None:
    site.quick("a")
    old = site.by_hand("old", port=site.port)
    before = look(old)
    ran = site.switch("a", code=1)
    assert f"container {site.name}-old" in ran.err
    assert f"--adopt {site.name}-old" in ran.err
    assert look(old) == before
    site.assert_nothing_serves()


def test_a_first_plan_tells_what_there_will_be_and_one_that_adopts_only_what_is_different(site: LiveSite) -> None:
    site.quick("a")
    first = site.run("plan", "a").exits(0).out
    assert "image: none -> b70ctl-standin/openai-xpu:0.30.0" in first
    assert "models: none -> a" in first
    assert f"address: none -> http://127.0.0.1:{site.port}/v1" in first
    models = {str(site.root / "models"): {"bind": "/models", "mode": "ro"}}
    site.by_hand("old", port=site.port, shm_size="8g", volumes=models)
    told = site.run("plan", "a", "--adopt", f"{site.name}-old", "--json").exits(0).data()["changes"]
    assert all(each["what"].startswith("command ") for each in told), told
    assert {"what": "command --served-model-name", "before": "hand-made", "after": "a"} in told


def test_an_adopted_container_is_stopped_kept_and_gone_back_to(site: LiveSite) -> None:
    site.quick("a")
    old = site.by_hand("old", port=site.port)
    site.switch("a", "--adopt", f"{site.name}-old")
    serving = site.assert_serves("a")
    old.reload()
    assert old.status == "exited"
    assert old.attrs["HostConfig"]["RestartPolicy"]["Name"] == "no"
    adopted = next(name for name in site.releases() if "adopted" in name)
    assert site.state()["snapshots"] == {f"before-{serving}": adopted}
    site.run("rollback", "--yes").exits(0)
    old.reload()
    assert old.status == "running"
    assert old.attrs["HostConfig"]["RestartPolicy"]["Name"] == "always"
    assert site.serving() == adopted
    assert "Paris" in site.ask("hand-made", "What is the capital of France?")[1]
    assert site.containers() == []
    site.switch("a")
    site.assert_serves("a")
    old.reload()
    assert old.status == "exited"


@pytest.mark.parametrize("policy", ["always", "no", "on-failure"])
def test_a_failing_switch_brings_an_adopted_container_back_as_it_was(site: LiveSite, policy: str) -> None:
    site.profile("bad", env={"STANDIN_FAULT": "garbage"})
    old = site.by_hand("old", port=site.port, policy=policy)
    before = look(old)
    ran = site.switch("bad", "--adopt", f"{site.name}-old", code=5)
    assert "serves again, proven" in ran.err
    after = look(old)
    assert (after[0], after[1], after[3]) == (before[0], before[1], before[3])
    assert "Paris" in site.ask("hand-made", "What is the capital of France?")[1]
    assert site.containers() == []
    site.quick("a")
    site.switch("a")
    site.assert_serves("a")


def test_an_adoption_that_is_cut_off_is_undone(site: LiveSite) -> None:
    site.quick("a")
    old = site.by_hand("old", port=site.port)
    for line in range(1, 15, 3):
        assert site.cut("before", line, "switch", "a", "--yes", "--adopt", f"{site.name}-old").code == -9
        site.run("recover").exits(0)
        old.reload()
        if site.containers():
            site.assert_serves("a")
            break
        assert old.status == "running"
        assert old.attrs["HostConfig"]["RestartPolicy"]["Name"] == "always"
        until(lambda: site.get("/health")[0] == 200, "the adopted container serves")
    site.assert_whole()


@pytest.mark.parametrize(
    ("fault", "told"), [("stopped", "exited"), ("absent", "no container"), ("mute", "does not answer")]
)
def test_what_cannot_be_a_way_back_is_not_adopted(site: LiveSite, fault: str, told: str) -> None:
    site.quick("a")
    name = f"{site.name}-old"
    if fault == "stopped":
        site.by_hand("old", port=site.port, policy="no").stop(timeout=5)
    elif fault == "mute":
        site.client.containers.run("b70ctl-standin/openai-xpu:0.30.0", ["-c", "import time; time.sleep(600)"],
                                   entrypoint=["python3"], name=name, detach=True, labels={"b70ctl.test": site.name},
                                   ports={"8000/tcp": ("127.0.0.1", site.port)}, init=True)  # fmt: skip
    assert told in site.switch("a", "--adopt", name, code=1).err
    site.assert_nothing_serves()


def foreign(site: LiveSite, name: str, labels: dict[str, str]) -> object:
    """Somebody else's container that carries labels like ours."""
    return site.by_hand(name, port=free_port(), labels=labels)


def test_foreign_containers_with_our_labels_are_named_and_never_touched(site: LiveSite) -> None:
    site.quick("a")
    site.quick("b")
    site.quick("bad", env={"STANDIN_FAULT": "http-500"})
    site.switch("a")
    release = site.serving()
    labels = {"b70ctl.site": site.name, "b70ctl.release": release, "b70ctl.profile": "a"}
    others = [
        foreign(site, "copy", {**labels, "com.docker.compose.service": "engine"}),
        foreign(site, "bare", {"b70ctl.site": site.name}),
        foreign(site, "project", {"com.docker.compose.project": f"{site.name}-{release}",
                                  "com.docker.compose.service": "engine"}),
        foreign(site, "old-release", {"b70ctl.site": site.name, "b70ctl.release": "0001-gone-abcdef"}),
    ]  # fmt: skip
    before = [look(each) for each in others]
    status = site.run("status").exits(0).out
    for name in ("copy", "bare", "old-release"):
        assert f"{site.name}-{name} has this site's name" in status
    site.switch("b")
    site.switch("bad", code=5)
    site.run("restart", "--yes").exits(0)
    site.run("stop", "--yes").exits(0)
    site.run("start").exits(0)
    site.run("prune", "--yes").exits(0)
    assert site.cut("after", 8, "switch", "a", "--yes").code == -9
    site.run("recover").exits(0)
    assert [look(each) for each in others] == before
    assert site.get("/health")[0] == 200


def test_a_foreign_container_in_the_project_of_a_release_is_refused_before_compose_sees_it(site: LiveSite) -> None:
    site.quick("a")
    site.quick("b")
    site.switch("a")
    first = site.serving()
    site.switch("b")
    serving = site.serving()
    other = foreign(site, "squatter", {"com.docker.compose.project": f"{site.name}-{first}",
                                       "com.docker.compose.service": "engine"})  # fmt: skip
    before = look(other)
    ran = site.run("rollback", "--yes")
    assert ran.code in (1, 5), str(ran)
    assert f"{site.name}-squatter" in ran.err
    assert look(other) == before
    site.assert_serves("b", serving)
