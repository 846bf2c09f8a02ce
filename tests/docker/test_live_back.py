"""Going back, stopping, keeping and forgetting."""

import json

import pytest
from livesite import LiveSite


@pytest.fixture(scope="module")
def three(kept_site: LiveSite) -> LiveSite:
    """A site that has served three profiles, the last of them now."""
    for name in ("qwen-tq", "qwen-ngram", "gemma"):
        kept_site.quick(name)
        kept_site.switch(name)
    return kept_site


def test_rollback_without_a_name_goes_to_the_release_before(three: LiveSite) -> None:
    three.switch("gemma")
    before = three.release("qwen-ngram")
    if three.history()[-1]["before"] != before:
        three.switch("qwen-ngram")
        three.switch("gemma")
    three.run("rollback", "--yes").exits(0)
    three.assert_serves("qwen-ngram", before)


def test_rollback_by_part_of_a_name_goes_to_the_one_thing_it_can_mean(three: LiveSite) -> None:
    three.switch("gemma")
    three.run("rollback", "tq", "--yes").exits(0)
    three.assert_serves("qwen-tq", three.release("qwen-tq"))


def test_rollback_by_a_profile_goes_to_its_newest_proven_release(three: LiveSite) -> None:
    three.switch("qwen-tq", "--set", "env.N=1")
    proven = three.serving()
    three.switch("gemma")
    three.switch("qwen-tq", "--set", "env.STANDIN_FAULT=http-500", code=5)
    three.run("rollback", "qwen-tq", "--yes").exits(0)
    three.assert_serves("qwen-tq", proven)


def test_rollback_by_a_snapshot_is_exact(three: LiveSite) -> None:
    three.switch("qwen-ngram", "--set", "env.N=1")
    kept = three.serving()
    three.run("snapshot", "good-one").exits(0)
    assert three.run("snapshot", "--json").exits(0).data()["good-one"] == kept
    three.switch("qwen-ngram", "--set", "env.N=2")
    three.run("rollback", "good-one", "--yes").exits(0)
    three.assert_serves("qwen-ngram", kept)


def test_an_ambiguous_name_is_a_usage_error_with_the_list(three: LiveSite) -> None:
    serving = three.serving()
    ran = three.run("rollback", "qwen", "--yes").exits(2)
    assert "qwen-ngram, qwen-tq" in ran.err
    assert "nothing in history" in three.run("rollback", "nope", "--yes").exits(2).err
    assert three.serving() == serving


def test_rollback_to_what_serves_changes_nothing(three: LiveSite) -> None:
    serving, started = three.serving(), three.engine().attrs["State"]["StartedAt"]
    ran = three.run("rollback", serving, "--yes").exits(0)
    assert "serves already" in ran.err
    assert three.engine().attrs["State"]["StartedAt"] == started


def test_a_rollback_starts_exactly_what_ran_whatever_the_profile_says_now(three: LiveSite) -> None:
    three.switch("qwen-tq")
    command = three.engine().attrs["Config"]["Cmd"]
    three.switch("gemma")
    three.write_profile("qwen-tq", "summary: [broken\n")
    three.run("rollback", "qwen-tq", "--yes").exits(0)
    three.assert_serves("qwen-tq")
    assert three.engine().attrs["Config"]["Cmd"] == command
    three.quick("qwen-tq")


def test_a_rollback_that_fails_comes_back_too(site: LiveSite) -> None:
    site.triggered("a")
    site.quick("b")
    site.switch("a")
    site.switch("b")
    serving = site.serving()
    site.fault("garbage")
    site.run("rollback", "--yes").exits(5)
    site.assert_serves("b", serving)
    assert site.verdict(site.release("a"))["state"] == "failed"


def test_nothing_served_before_is_told(site: LiveSite) -> None:
    site.quick("a")
    assert "nothing" in site.run("rollback", "--yes").exits(1).err
    site.switch("a")
    assert "nothing served before" in site.run("rollback", "--yes").exits(1).err
    site.assert_serves("a")


def test_stopped_stays_stopped_until_it_is_started_and_is_proven_then(site: LiveSite) -> None:
    site.quick("a")
    assert "nothing has served" in site.run("stop", "--yes").exits(1).err
    site.switch("a")
    container = site.engine().id
    release = site.serving()
    told = site.run("stop", "--yes", "--json").exits(0).out.splitlines()
    assert json.loads(told[-1]) == {"event": "stopped", "release": release}
    assert site.engine().status == "exited"
    assert site.engine().attrs["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert "stopped" in site.run("status").exits(0).out
    assert "is stopped already" in site.run("stop", "--yes").exits(0).err
    site.run("start").exits(0)
    site.assert_serves("a")
    assert site.engine().id == container
    assert "runs already" in site.run("start").exits(0).err
    assert site.run("start", "--json").exits(0).data()["event"] == "serving"
    op = site.history()[-1]
    assert (op["command"], op["result"]) == ("start", "done")


def test_a_restart_is_a_new_process_that_is_proven(site: LiveSite) -> None:
    site.quick("a")
    site.switch("a")
    started = site.engine().attrs["State"]["StartedAt"]
    site.run("restart", "--yes").exits(0)
    site.assert_serves("a")
    assert site.engine().attrs["State"]["StartedAt"] > started
    assert site.verdict(site.serving())["op"] == site.history()[-1]["op"]


def test_an_engine_that_does_not_start_again_is_explained_and_not_called_serving(site: LiveSite) -> None:
    site.triggered("a")
    site.fault("")
    site.switch("a")
    site.run("stop", "--yes").exits(0)
    site.fault("crash-at:weights")
    assert "diagnosis: " in site.run("start").exits(1).err
    site.fault("")
    site.run("start").exits(0)
    site.fault("crash-at:weights")
    said = site.run("restart", "--yes").exits(6).err
    assert said.count("diagnosis: ") == 1
    shown = site.run("status", "--check").exits(1)
    assert f"not serving  {site.serving()}" in shown.out
    assert f"{site.serving()} has ended, with exit 1; b70ctl start" in shown.err
    site.fault("")
    site.run("start").exits(0)
    site.assert_serves("a")


def test_a_switch_away_from_a_stopped_engine_keeps_it_to_come_back_to(site: LiveSite) -> None:
    site.quick("a")
    site.quick("b")
    site.quick("bad", env={"STANDIN_FAULT": "http-500"})
    site.switch("a")
    site.run("stop", "--yes").exits(0)
    ran = site.run("switch", "bad", "--yes")
    assert ran.code == 1, str(ran)
    assert site.state()["stopped"]
    assert site.engine().status == "exited"
    site.switch("b")
    site.assert_serves("b")
    site.run("rollback", "--yes").exits(0)
    site.assert_serves("a")


def test_a_rollback_away_from_a_stopped_engine_leaves_one_container(site: LiveSite) -> None:
    for name in "ab":
        site.quick(name)
        site.switch(name)
    site.run("stop", "--yes").exits(0)
    site.run("rollback", "--yes").exits(0)
    site.assert_serves("a")


def test_logs_are_those_of_the_serving_engine_or_of_an_earlier_one(site: LiveSite) -> None:
    site.quick("a", env={"STANDIN_VLLM_VERSION": "0.30.0"})
    site.quick("b", intel=True)
    assert "nothing has served" in site.run("logs").exits(1).err
    site.switch("a")
    first = site.serving()
    site.switch("b")
    assert "0.21.1" in site.run("logs").exits(0).out
    assert "0.30.0" in site.run("logs", "--previous").exits(0).out
    assert site.run("logs", "0001").exits(0).out == site.run("logs", first).exits(0).out
    assert len(site.run("logs", "--tail", "3").exits(0).out.splitlines()) == 3
    assert "there is no release" in site.run("logs", "0042").exits(1).err


def test_history_tells_what_ran_when_and_why_it_changed(site: LiveSite) -> None:
    site.quick("a")
    site.quick("bad", env={"STANDIN_FAULT": "garbage"})
    site.switch("a")
    site.switch("a", "--set", "engine.max_model_len=2048")
    site.switch("bad", code=5)
    site.run("rollback", "--yes").exits(0)
    ops = site.history()
    assert [op["command"] for op in ops] == ["switch", "switch", "switch", "rollback"]
    assert [op["result"] for op in ops] == ["done", "done", "rolled-back", "done"]
    assert "--set engine.max_model_len=2048" in ops[1]["by"]
    assert {"what": "command --max-model-len", "before": "4096", "after": "2048"} in ops[1]["changes"]
    assert "not proven" in ops[2]["note"]
    assert ops[0]["verdict"] or ops[3]["verdict"]
    text = site.run("history").exits(0).out
    assert len(text.splitlines()) == 5
    assert len(site.run("history", "--limit", "1", "--json").exits(0).data()) == 1


def test_prune_forgets_old_releases_their_image_names_and_caches_and_no_other(site: LiveSite) -> None:
    site.write_site(keep=1)
    site.quick("a")
    names = []
    for number in range(6):
        site.switch("a", "--set", f"env.N={number}")
        names.append(site.serving())
        if number == 1:
            site.run("snapshot", "keep-me").exits(0)
    records = site.releases()
    volume = {name: records[name]["deployment"]["cache_volume"] for name in names}
    assert len(set(volume.values())) == 6
    would = site.run("prune", "--dry-run", "--json").exits(0).data()
    assert [step["subject"] for step in would["steps"]] == [names[0], names[2]]
    assert site.tags() == set(names)
    told = json.loads(site.run("prune", "--yes", "--json").exits(0).out.splitlines()[-1])
    assert (told["event"], set(told["releases"])) == ("pruned", {names[0], names[2]})
    kept = {names[1], names[3], names[4], names[5]}
    assert set(site.releases()) == kept
    assert site.tags() == kept
    left = {each.name for each in site.client.volumes.list() if site.name in each.name}
    assert left == {volume[name] for name in kept}
    assert set(site.state()["snapshots"].values()) <= kept
    assert site.client.images.get("b70ctl-standin/openai-xpu:0.30.0")
    site.assert_serves("a", names[5])
    assert "nothing to prune" in site.run("prune", "--yes").exits(0).err
    site.run("rollback", "keep-me", "--yes").exits(0)
    site.assert_serves("a", names[1])
    assert len(site.history()) == 9


def test_a_release_that_lost_what_it_needs_is_not_gone_back_to(site: LiveSite) -> None:
    site.quick("a")
    site.quick("b")
    site.switch("a")
    site.switch("b")
    serving, started = site.serving(), site.engine().attrs["State"]["StartedAt"]
    written = site.root / ".b70ctl" / "releases" / site.release("a") / "compose.yaml"
    kept = written.read_text()
    written.write_text(kept + "# another hand\n")
    ran = site.run("rollback", "--yes").exits(1)
    assert f"compose.yaml was changed since release {site.release('a')} was written" in ran.err
    assert (site.serving(), site.engine().attrs["State"]["StartedAt"]) == (serving, started)
    written.write_text(kept)
    (site.root / "models" / "tiny" / "config.json").unlink()
    (site.root / "models" / "tiny").rmdir()
    (site.root / "models").rmdir()
    ran = site.run("rollback", "--yes").exits(1)
    assert "is gone" in ran.err or "does not exist" in ran.err
    assert (site.serving(), site.engine().attrs["State"]["StartedAt"]) == (serving, started)


def test_damaged_lines_of_the_journal_are_named_and_stop_nothing(site: LiveSite) -> None:
    site.quick("a")
    site.quick("b")
    site.switch("a")
    journal = site.store / "journal.jsonl"
    lines = journal.read_text().splitlines()
    lines[2] = lines[2][:10] + "\x00" + lines[2][12:]
    journal.write_text("\n".join(lines) + "\n" + '{"op": 1, "at": "half a li')
    assert "lines 3" in site.run("status").exits(0).out
    site.switch("b")
    assert json.loads(journal.read_text().splitlines()[-1])["event"] == "end"
    assert site.engine().labels["b70ctl.profile"] == "b"
