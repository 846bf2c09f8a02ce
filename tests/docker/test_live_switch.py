"""The main job on a real daemon: from one engine to the next, proven, and what is left behind."""

import json
import stat

import pytest
from livesite import LiveSite, free_port, until, with_port


def test_a_first_switch_serves_and_is_proven(site: LiveSite) -> None:
    site.profile("a")
    ran = site.switch("a")
    release = site.assert_serves("a")
    assert release.startswith("0001-a-")
    assert f"127.0.0.1:{site.port}/v1" in ran.err
    assert ran.out == ""
    kept = {path.name for path in site.folder(release).iterdir()}
    assert {"compose.yaml", "deployment.json", "release.json", "verdict.json"} <= kept
    assert "secrets.env" not in kept


def test_the_old_engine_is_kept_until_the_new_one_is_proven_and_removed_then(site: LiveSite) -> None:
    site.profile("a")
    site.profile("b", intel=True)
    site.switch("a")
    old = site.serving()
    site.switch("b")
    new = site.assert_serves("b")
    verbs = [line["what"].split()[0] for line in site.journal() if line["op"] == 2 and line["event"] == "before"]
    order = ["write", "name", "stop", "start", "await", "probe", "serve", "remove"]
    assert verbs == order
    assert site.state()["snapshots"] == {f"before-{new}": old}
    assert "Application startup complete" in (site.folder(old) / "engine.log").read_text()
    assert site.tags() == {old, new}


def test_a_container_says_which_release_it_is_made_from(site: LiveSite) -> None:
    site.profile("a")
    site.switch("a", "--set", "env.EXTRA=1")
    release, labels = site.serving(), site.engine().labels
    record = site.releases()[release]
    assert labels["b70ctl.site"] == site.name
    assert labels["b70ctl.profile"] == "a"
    assert labels["b70ctl.release"] == release
    assert labels["b70ctl.key"] == record["key"]
    assert labels["b70ctl.digest"].startswith(release.rpartition("-")[2])
    assert record["deployment"]["overrides"] == ["env.EXTRA=1"]
    assert "EXTRA=1" in site.engine().attrs["Config"]["Env"]
    assert "env.EXTRA=1" in site.history()[0]["by"]


def test_the_same_profile_again_changes_nothing(site: LiveSite) -> None:
    site.profile("a")
    site.switch("a")
    before = site.engine().attrs["State"]["StartedAt"]
    ran = site.switch("a")
    assert "serves this already" in ran.err
    assert site.engine().attrs["State"]["StartedAt"] == before
    assert len(site.releases()) == 1
    assert len(site.history()) == 1


def test_another_port_is_a_change_and_the_old_port_is_given_up(site: LiveSite) -> None:
    site.profile("a")
    site.switch("a")
    other = free_port()
    site.switch("a", "--port", str(other))
    with_port(site, other).assert_serves("a")
    assert site.get("/health")[0] == 0


def test_an_engine_that_was_removed_by_hand_is_made_anew(site: LiveSite) -> None:
    site.profile("a")
    site.switch("a")
    site.engine().remove(force=True)
    site.switch("a")
    site.assert_serves("a")


def test_events_of_a_switch_are_one_json_object_a_line_for_programs(site: LiveSite) -> None:
    site.profile("a")
    ran = site.switch("a", "--json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert events[0]["event"] == "plan"
    begun = [event["step"]["verb"] for event in events if event["event"] == "step-begun"]
    assert begun == ["write", "start", "await", "probe", "serve"]
    assert {event["stage"] for event in events if event["event"] == "booting"}
    assert all(event["passed"] in (True, None) for event in events if event["event"] == "probed")


def test_boot_facts_are_read_off_the_log_and_kept(site: LiveSite) -> None:
    site.profile("a", intel=True)
    site.switch("a")
    verdict = site.verdict(site.serving())
    assert verdict["boot"]["kv_tokens"] > 0
    assert verdict["seconds"] > 0
    assert "KV" in site.run("history").exits(0).out


def test_two_switches_at_once_are_one_switch_and_the_second_is_told_by_whom(site: LiveSite) -> None:
    site.quick("a", env={"STANDIN_STAGE_SECONDS": "weights=4"})
    site.quick("b")
    with site.begin("switch", "a", "--yes") as first:
        until(lambda: site.begun("await"), "the first waits for its engine")
        ran = site.run("switch", "b", "--yes").exits(7)
        assert f"pid {first.pid}" in ran.err
        assert "switch a --yes" in ran.err
        assert f"pid {first.pid}" in site.run("status").exits(0).out
        assert first.wait(60) == 0
    site.assert_serves("a")
    assert len(site.releases()) == 1


def test_a_clock_that_was_set_back_changes_no_order(site: LiveSite) -> None:
    for name in "abc":
        site.quick(name)
    site.switch("a")
    assert site.cut("before", 0, "switch", "b", "--yes", env={"B70CTL_TEST_CLOCK": "-86400"}).code == 0
    b = site.assert_serves("b")
    assert site.releases()[b]["created"] < site.releases()[site.release("a")]["created"]
    assert [name[:4] for name in site.releases()] == ["0001", "0002"]
    assert [op["release"] for op in site.history()] == list(site.releases())
    site.run("rollback", "--yes").exits(0)
    site.assert_serves("a")
    site.switch("c")
    assert site.run("rollback", "--yes").exits(0)
    site.assert_serves("a")


@pytest.mark.parametrize("status", ["research", "rejected"])
def test_a_profile_that_is_not_for_production_says_why(site: LiveSite, status: str) -> None:
    site.quick("a", status=status, status_reason="it answers in riddles")
    if status == "research":
        site.switch("a")
        site.assert_serves("a")
        return
    ran = site.switch("a", code=1)
    assert "it answers in riddles" in ran.err
    assert "--allow-status rejected" in ran.err
    assert site.containers() == []
    site.switch("a", "--allow-status", "rejected")
    site.assert_serves("a")


def test_what_a_site_keeps_is_not_for_everybody_to_change(site: LiveSite) -> None:
    (site.root / "key").write_text("sesame-1\n")
    site.write_site(secrets={"VLLM_API_KEY": {"file": "key"}})
    site.quick("a")
    site.switch("a")
    mode = stat.S_IMODE((site.folder(site.serving()) / "secrets.env").stat().st_mode)
    assert mode == 0o600
