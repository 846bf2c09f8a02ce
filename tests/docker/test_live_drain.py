"""Out of service and back: nothing in flight is lost, and however it is cut off it ends in one of two states."""

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from livesite import LiveSite, until
from test_live_contents import companion, web
from test_live_kill import ARRIVE, boundaries, killed

from tests.rig import load
from tests.rig.engine_process import starter
from tests.rig.router import routing

STREAMS = 40
FINISHED = "vllm:request_success_total"
DRAIN = ("withdraw", "settle", "stop", "drained")
RESTORE = (*ARRIVE, "admit")
HOOK = {"command": ["sh", "-c", 'echo "$ACTION" "$1" >> rotation', "hook", "{url}"]}
MISSING = {"command": ["./no-such-hook", "{url}"]}
CALM = {"load": 10000, "limit": 60}
SLOW = {"STANDIN_TOKENS_PER_SECOND": "60"}
SLOWER = {"STANDIN_TOKENS_PER_SECOND": "20"}

# --- requests ---------------------------------------------------------------------------------------------------------


def running(site: LiveSite) -> float:
    """How many requests the engine says that it has."""
    return load.running(f"http://127.0.0.1:{site.port}")


@contextlib.contextmanager
def streaming(site: LiveSite, model: str, count: int, tokens: int) -> Iterator[list[Future[str]]]:
    """Streams that are in flight; each gives back what went wrong with it."""
    url = f"http://127.0.0.1:{site.port}"
    with load.in_flight(url, url, model, count, tokens) as found:
        yield found


# --- drain and restore ------------------------------------------------------------------------------------------------


def test_a_drain_behind_a_router_loses_no_request_and_restore_brings_it_back(site: LiveSite, tmp_path: Path) -> None:
    site.quick("a", env=SLOWER)
    site.switch("a")
    serving, engine = site.serving(), f"http://127.0.0.1:{site.port}"
    with starter(tmp_path) as start, routing(engine) as router:
        site.write_site(router={"vllm_router": router.url}, drain=CALM)
        with load.in_flight(router.url, engine, "a", STREAMS, 200) as streams:
            # what arrives from now on has somewhere else to go
            other = start("--served-model-name", "a").ready().url("")
            router.rotate("/add_worker", other)
            with load.Arrivals.keep(router.url, "a") as arrivals:
                until(lambda: arrivals.whole > 3, "new requests keep arriving")
                site.run("drain", "--yes").exits(0)
                assert (router.asked, router.workers) == (["/add_worker", "/remove_worker"], [other])
                assert_drained(site, serving)
                site.run("restore").exits(0)
                before = load.figure(engine, FINISHED)
                until(lambda: load.figure(engine, FINISHED) > before + 3, "new requests reach the restored engine")
        assert [each.result() for each in streams] == [""] * STREAMS
        assert arrivals.faults == []
        assert_restored(site, "a", serving)
        assert set(router.workers) == {engine, other}


def assert_drained(site: LiveSite, release: str) -> None:
    """Stopped, remembered, and not started again by a reboot."""
    site.assert_whole()
    assert site.state()["drained"]["release"] == release
    assert site.engine().status == "exited"
    assert site.engine().attrs["HostConfig"]["RestartPolicy"]["Name"] == "no"
    status = site.run("status", "--json").exits(0).data()
    assert status["drained"].startswith("since 2")
    assert "drained" in site.run("status").exits(0).out


def assert_restored(site: LiveSite, profile: str, release: str | None = None) -> None:
    """Serving, proven, and in rotation."""
    site.assert_serves(profile, release)
    assert (site.state()["drained"], site.state()["withdrawn"]) == (None, None)
    assert not site.run("status", "--json").exits(0).data()["drained"]


def test_without_a_hook_streams_end_within_the_engines_grace_and_the_plan_says_what_a_router_sees(
    site: LiveSite,
) -> None:
    site.quick("a", env=SLOW)
    site.write_site(drain={"limit": 0})
    site.switch("a")
    before = site.tree(), site.docker_state()
    said = site.run("drain", "-n").exits(0).out
    assert "/health say 200 and new requests get 500" in said
    assert (site.tree(), site.docker_state()) == before
    with streaming(site, "a", 2, 120) as found:
        ran = site.run("drain", "--yes").exits(0)
        assert "not empty after 0 s (2 running, 0 waiting)" in ran.err
        assert [each.result() for each in found] == ["", ""]
    assert_drained(site, site.serving())


def test_requests_that_the_grace_was_too_short_for_are_told_wherever_the_drain_is_told(site: LiveSite) -> None:
    site.quick("a", env={"STANDIN_TOKENS_PER_SECOND": "5"})
    site.write_site(drain={"limit": 300})
    site.switch("a")
    said = site.run("drain", "-n", "--limit", "1").exits(0).out
    assert "1 s at most" in said
    assert "its grace of 30 s" in said
    with streaming(site, "a", 2, 2000) as found:
        ran = site.run("drain", "--yes", "--json", "--limit", "1").exits(0)
        assert [bool(each.result()) for each in found] == [True, True]
    told = [json.loads(line) for line in ran.out.splitlines()]
    waits = [each["left"] for each in told if each["event"] == "emptying" and each["running"] == 2]
    assert waits, "it did not tell what it waits for"
    assert waits[-1] < 5
    assert {"event": "lost", "release": site.serving(), "requests": 2} in told
    assert (told[-1]["event"], told[-1]["lost"]) == ("drained", 2)
    assert site.history()[-1]["note"] == "2 requests were cut off"
    assert "2 requests were cut off" in site.run("history").exits(0).out
    assert "2 requests were cut off" in site.run("drain", "--yes").exits(0).err
    site.run("restore", "--yes").exits(0)
    assert_restored(site, "a")


def test_a_drained_site_says_what_ends_the_drain(site: LiveSite) -> None:
    site.write_site(router=HOOK)
    site.quick("a")
    site.quick("b")
    assert "nothing has served" in site.run("drain", "--yes").exits(1).err
    site.switch("a")
    assert "nobody can be asked" in site.run("drain").exits(2).err
    assert "not drained" in site.run("restore").exits(0).err
    site.run("drain", "--yes").exits(0)
    serving, since = site.serving(), site.state()["drained"]
    for words in ("start", "restart --yes"):
        assert "b70ctl restore" in site.run(*words.split()).exits(1).err
    assert "drained since" in site.run("drain", "--yes").exits(0).err
    assert "is stopped already" in site.run("stop", "--yes").exits(0).err
    assert site.state()["drained"] == since
    site.switch("b")
    assert_restored(site, "b")
    site.run("drain", "--yes").exits(0)
    site.run("rollback", "--yes").exits(0)
    assert_restored(site, "a", serving)
    url = f"http://127.0.0.1:{site.port}"
    assert rotation(site) == [f"remove {url}", f"add {url}"] * 2


def test_restore_needs_nothing_but_the_disk(site: LiveSite) -> None:
    site.quick("a")
    site.switch("a")
    serving = site.serving()
    ran = site.run("drain", "--yes", "--json").exits(0)
    assert json.loads(ran.out.splitlines()[-1])["event"] == "drained"
    site.engine().remove()
    ran = site.run("restore", "--json").exits(0)
    assert json.loads(ran.out.splitlines()[-1])["event"] == "serving"
    assert_restored(site, "a", serving)


def test_a_restore_that_cannot_be_proven_leaves_the_site_drained(site: LiveSite) -> None:
    site.triggered("a")
    site.write_site(router=HOOK)
    site.switch("a")
    site.run("drain", "--yes").exits(0)
    since = site.state()["drained"]
    site.fault("garbage")
    ran = site.run("restore").exits(1)
    assert "the site stays drained" in ran.err
    assert "b70ctl rollback, or b70ctl switch PROFILE" in ran.err
    assert_drained(site, site.serving())
    assert site.state()["drained"] == since
    assert rotation(site)[-1].startswith("remove")
    site.fault("")
    site.run("restore").exits(0)
    assert_restored(site, "a")


def test_companions_that_the_site_names_stop_and_come_back(site: LiveSite) -> None:
    companion(site)
    site.quick("a")
    site.write_site(companions=["web/compose.yaml"], drain={"companions": ["web", "wbe"], "load": 10000})
    site.switch("a")
    assert "`wbe`" in site.run("drain", "--yes").exits(2).err
    site.assert_serves("a")
    site.write_site(companions=["web/compose.yaml"], drain={"companions": ["web"], "load": 10000})
    [(name, _)] = web(site)
    site.run("drain", "--yes").exits(0)
    assert site.client.containers.get(name).status == "exited"
    site.run("restore").exits(0)
    assert site.client.containers.get(name).status == "running"


# --- verify -----------------------------------------------------------------------------------------------------------


def answers(site: LiveSite, *words: str, code: int) -> dict[str, tuple[str, str]]:
    """Question → answer and evidence."""
    told = site.run("verify", "--json", *words).exits(code).data()["answers"]
    return {each["question"]: (each["answer"], each["evidence"]) for each in told}


def test_verify_sees_a_client_where_it_arrives_and_is_satisfied_after_the_drain(site: LiveSite) -> None:
    site.quick("a", env=SLOW)
    site.write_site(drain=CALM, feeders=["192.0.2.7"])
    site.switch("a")
    before = site.tree(), site.docker_state()
    with streaming(site, "a", 1, 200):
        found = answers(site, code=1)
        assert found["no client is connected"][0] == "no"
        assert "inside the engine's container" in found["no client is connected"][1]
        assert found["nothing of this site runs"][0] == "no"
        assert found["no feeder is connected"] == ("yes", "none of 192.0.2.7")
    until(lambda: running(site) == 0, "the stream has ended")
    assert (site.tree(), site.docker_state()) == before
    site.run("drain", "--yes").exits(0)
    found = answers(site, code=0)
    assert found.pop("nobody holds the card")[0] == "not asked"
    assert found.pop("the card's memory is free")[0] == "not asked"
    assert {answer for answer, _ in found.values()} == {"yes"}
    answers(site, "--strict", code=0)
    assert "no engine runs" in site.run("verify").exits(0).out


# --- faults -----------------------------------------------------------------------------------------------------------


def rotation(site: LiveSite) -> list[str]:
    """What the router hook was asked for."""
    path = site.root / "rotation"
    return path.read_text().splitlines() if path.exists() else []


def in_rotation(site: LiveSite) -> bool:
    """Whether the router was last told to add the engine, or never to remove it."""
    return site.state()["withdrawn"] is None and not (rotation(site) or ["add"])[-1].startswith("remove")


@pytest.fixture(scope="module")
def hooked(kept_site: LiveSite) -> LiveSite:
    """A site behind a router hook."""
    kept_site.write_site(router=HOOK, drain=CALM)
    kept_site.quick("a", env=SLOW)
    kept_site.switch("a")
    return kept_site


def ready(site: LiveSite) -> LiveSite:
    """In service again, whatever a test before this one left."""
    site.run("recover")
    if site.state()["drained"] or site.state()["withdrawn"]:
        site.run("restore").exits(0)
    assert_restored(site, "a")
    assert in_rotation(site)
    return site


@pytest.mark.parametrize(("when", "line"), boundaries(*DRAIN, every=True))
def test_a_killed_drain_ends_drained_or_serving_proven(hooked: LiveSite, when: str, line: int) -> None:
    site = ready(hooked)
    killed(site, when, line, "drain", "--yes")
    site.run("recover").exits(0)
    if line >= 3 + 2 * DRAIN.index("stop"):
        assert_drained(site, site.serving())
        assert not in_rotation(site)
    else:
        assert_restored(site, "a")
        assert in_rotation(site)


@pytest.mark.parametrize(("when", "line"), boundaries(*RESTORE, every=True))
def test_a_killed_restore_ends_drained_or_serving_proven(hooked: LiveSite, when: str, line: int) -> None:
    site = ready(hooked)
    site.run("drain", "--yes").exits(0)
    since = site.state()["drained"]
    killed(site, when, line, "restore")
    site.run("recover").exits(0)
    if line >= 3 + 2 * RESTORE.index("probe"):
        assert_restored(site, "a")
        assert in_rotation(site)
    else:
        assert_drained(site, site.serving())
        assert site.state()["drained"] == since
        assert not in_rotation(site)


@pytest.mark.parametrize(("step", "limit"), [("settle", 60), ("stop", 0)])
def test_an_interrupted_drain_goes_back_into_rotation(hooked: LiveSite, step: str, limit: int) -> None:
    site = ready(hooked)
    site.write_site(router=HOOK, drain={"limit": limit})
    started = site.engine().attrs["State"]["StartedAt"]
    with streaming(site, "a", 1, 300) as found:
        with site.begin("drain", "--yes") as child:
            until(lambda: site.begun(step), f"it is at {step}")
            child.send_signal(signal.SIGTERM)
            assert child.wait(90) == 130
        assert found[0].result() == ""
    site.write_site(router=HOOK, drain=CALM)
    assert_restored(site, "a")
    assert in_rotation(site)
    assert site.history()[-1]["result"] == "interrupted"
    assert (site.engine().attrs["State"]["StartedAt"] == started) == (step == "settle")


@pytest.mark.parametrize(
    ("refused", "code", "holds"),
    [
        ("remove", 1, lambda said: "is back in rotation" in said and "exit 3" in said),
        ("add", 0, lambda said: "drained since" in said),
    ],
)
def test_a_hook_that_refuses(hooked: LiveSite, refused: str, code: int, holds: Callable[[str], bool]) -> None:
    site = ready(hooked)
    hook = {"command": ["sh", "-c", f'[ "$ACTION" != {refused} ] || exit 3; echo "$ACTION" >> rotation']}
    site.write_site(router=MISSING, drain=CALM)
    assert "the router hook `./no-such-hook`" in site.run("drain", "--yes").exits(3).err
    site.assert_serves("a")
    site.write_site(router=hook, drain=CALM)
    assert holds(site.run("drain", "--yes").exits(code).err)
    if refused == "add":
        site.write_site(router=MISSING, drain=CALM)
        assert "will serve, and stay out of rotation" in site.run("restore").exits(1).err
        site.write_site(router=hook, drain=CALM)
        ran = site.run("restore").exits(1)
        assert "serves a at" in ran.err
        assert "`b70ctl restore` asks the router once more" in ran.err
        assert site.history()[-1]["result"] == "incomplete"
        site.assert_serves("a")
        assert "out since" in site.run("status").exits(0).out
        assert site.run("status", "--check").code == 1
        site.write_site(router=HOOK, drain=CALM)
        site.run("restore").exits(0)
    site.write_site(router=HOOK, drain=CALM)
    assert_restored(site, "a")
    assert in_rotation(site)


def test_a_router_that_answers_at_neither_end_leaves_the_engine_serving_and_restore_to_ask_once_more(
    site: LiveSite,
) -> None:
    site.quick("a")
    site.switch("a")
    serving, started = site.serving(), site.engine().attrs["State"]["StartedAt"]
    site.write_site(router={"vllm_router": "http://127.0.0.1:1"})
    ran = site.run("drain", "--yes").exits(6)
    assert f"{serving} serves, and may be out of rotation: the router did not answer" in ran.err
    assert ran.err.index("/remove_worker") < ran.err.index("/add_worker")
    assert "hint: b70ctl restore" in ran.err
    assert site.engine().attrs["State"]["StartedAt"] == started
    assert site.state()["withdrawn"] is not None
    assert site.state()["drained"] is None
    assert "may be out" in site.run("status", "--check").exits(1).out
    assert "`b70ctl restore` asks the router once more" in site.run("restore").exits(1).err
    assert site.history()[-1]["result"] == "incomplete"
    site.write_site(router=HOOK)
    site.run("restore").exits(0)
    assert_restored(site, "a", serving)
    assert site.engine().attrs["State"]["StartedAt"] == started
