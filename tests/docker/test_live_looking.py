"""Commands that only look touch nothing: not the site's files, not one object in Docker."""

import json
import time

import pytest
from livesite import MARK, LiveSite

from tests.rig.image_files import OPENAI

LOOKS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("switch", "b", "--dry-run"), 0),
    (("switch", "b", "-n", "--json"), 0),
    (("switch", "b", "-n", "--adopt", "somebody"), 1),
    (("plan", "b"), 0),
    (("plan", "b", "--json", "--exit-code"), 4),
    (("plan", "a", "--exit-code"), 0),
    (("status",), 0),
    (("status", "--json"), 0),
    (("status", "--check"), 0),
    (("history",), 0),
    (("history", "--json"), 0),
    (("logs",), 0),
    (("rollback", "-n"), 0),
    (("stop", "-n"), 0),
    (("start", "-n"), 0),
    (("restart", "-n"), 0),
    (("prune", "-n"), 0),
    (("snapshot",), 0),
    (("render", "a"), 0),
    (("render", "b", "--port", "9999"), 0),
    (("profiles", "list"), 0),
    (("profiles", "show", "b"), 0),
    (("profiles", "lint", "b"), 0),
    (("images", "list"), 0),
    (("patches", "list"), 0),
)


@pytest.fixture(scope="module")
def watched(kept_site: LiveSite) -> LiveSite:
    """A site whose image is its own, so that whatever is made from it can be told from what others make."""
    base = kept_site.client.containers.create(OPENAI.ref, labels={MARK: kept_site.name})
    repository = f"b70ctl-test/{kept_site.name}"
    base.commit(repository, "1", changes=[f"LABEL {MARK}={kept_site.name}", "LABEL b70ctl.standin=no"])
    base.remove()
    for name in "ab":
        kept_site.quick(name, image={"ref": f"{repository}:1", "vllm": OPENAI.vllm})
    return kept_site


def events(site: LiveSite, since: float) -> list[dict[str, object]]:
    """What happened in Docker that has to do with the site; health checks are the engine's own."""
    seen = site.client.api.events(since=since, until=time.time(), decode=True)
    mine = [event for event in seen if site.name in json.dumps(event)]
    return [event for event in mine if not str(event.get("Action", "")).startswith(("exec_", "health_status"))]


@pytest.mark.parametrize("state", ["fresh", "serving"])
def test_looking_touches_nothing(watched: LiveSite, state: str) -> None:
    if state == "serving":
        watched.switch("b")
        watched.switch("a")
    for words, code in LOOKS:
        if state == "fresh" and words[0] in ("logs", "rollback", "stop", "start", "restart"):
            code = 1
        if state == "fresh" and "--exit-code" in words:
            code = 4
        tree, docker, since = watched.tree(), watched.docker_state(), time.time()
        watched.run(*words).exits(code)
        assert watched.tree() == tree, words
        assert watched.docker_state() == docker, words
        assert events(watched, since) == [], words


def test_refused_and_unanswered_changes_touch_nothing_in_docker(watched: LiveSite) -> None:
    watched.switch("a")
    watched.quick("absent", image={"ref": "example.invalid/none:1", "vllm": OPENAI.vllm})
    docker, since = watched.docker_state(), time.time()
    watched.switch("absent", code=1)
    watched.run("switch", "b").exits(2)
    watched.run("stop").exits(2)
    assert watched.docker_state() == docker
    assert events(watched, since) == []


def test_a_dead_engine_is_a_status_of_1_where_that_is_asked_and_a_stopped_one_is_not(site: LiveSite) -> None:
    site.quick("a")
    site.run("status", "--check").exits(0)
    site.switch("a")
    site.run("status", "--check").exits(0)
    site.client.api.update_container(site.engine().id, restart_policy={"Name": "no"})
    site.engine().pause()
    shown = site.run("status", "--check").exits(1).out
    assert f"docker unpause {site.engine().name}" in shown
    site.engine().kill()
    site.run("status").exits(0)
    assert "exited" in site.run("status", "--check", "--json").exits(1).data()["container"]
    site.run("status", "--check", env={"DOCKER_HOST": f"unix://{site.root}/no.sock"}).exits(1)
    site.run("stop", "--yes").exits(0)
    site.run("status", "--check").exits(0)


def test_a_plan_is_what_a_switch_does(watched: LiveSite) -> None:
    watched.switch("a")
    doubtful = ("--set", "env.VLLM_NONSENSE=1")
    planned = watched.run("plan", "b", "--json", *doubtful).exits(0).data()
    ran = watched.switch("b", "--json", *doubtful)
    event = next(event for line in ran.out.splitlines() if (event := json.loads(line))["event"] == "plan")
    done = event["plan"]
    assert [each["message"][:19] for each in event["warnings"]] == ["env.VLLM_NONSENSE: "]
    assert planned["warnings"] == event["warnings"]
    assert [step["verb"] for step in planned["steps"]] == [step["verb"] for step in done["steps"]]
    assert [step["verb"] for step in planned["undo"]] == [step["verb"] for step in done["undo"]]
    assert planned["wanted"] == done["wanted"]
    assert planned["changes"] == done["changes"]
    assert all(step["because"] for step in planned["steps"] + planned["undo"])
