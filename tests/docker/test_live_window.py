"""A window: each profile has its turn alone, in the dark, and what served before serves again, proven."""

import contextlib
import json
import signal
import sys
from collections.abc import Iterator

import pytest
from livesite import LiveSite, listening, until
from test_live_contents import companion, web
from test_live_drain import HOOK, assert_drained, rotation
from windows import AWAITS_FEEDER, CALM, ELSEWHERE, Dark, fed, seen, serving_site

UNTIL_GONE = """
import os, pathlib, sys, urllib.error, urllib.request
pathlib.Path(sys.argv[1]).write_text("crash-now")
while True:
    try:
        urllib.request.urlopen(os.environ["B70CTL_ENDPOINT"] + "/health", timeout=5).read()
    except urllib.error.HTTPError:
        pass
    except OSError:
        break
"""


@pytest.fixture(scope="module")
def shared(kept_site: LiveSite) -> Dark:
    """A site that serves `a`, for tests that bring it back to that."""
    return serving_site(kept_site)


@contextlib.contextmanager
def untouched(site: LiveSite) -> Iterator[None]:
    """Inside nothing is begun and nothing of Docker's changes."""
    before = site.journal(), site.docker_state(), site.releases()
    yield
    assert (site.journal(), site.docker_state(), site.releases()) == before


# --- as it should be --------------------------------------------------------------------------------------------------


def test_each_profile_has_its_turn_alone_in_the_dark_and_production_comes_back(shared: Dark) -> None:
    site = shared.site
    serving, container = site.serving(), site.engine().id
    ran = site.run(*shared.words("b", "c", command=shared.look())).exits(0)
    turns = seen(ran.out)
    assert [turn["running"] for turn in turns] == [["b"], ["c"]] == [turn["models"] for turn in turns]
    for turn, profile in zip(turns, "bc", strict=True):
        assert "refused" in turn["production"]
        assert turn["networks"] == [f"b70ctl-{site.name}-dark"]
        assert turn["policies"] == ["no"]
        assert turn["published"] == [{"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(shared.port)}]}]
        assert (
            turn["env"].items()
            >= {
                "B70CTL_ENDPOINT": f"http://127.0.0.1:{shared.port}",
                "OPENAI_BASE_URL": f"http://127.0.0.1:{shared.port}/v1",
                "B70CTL_PROFILE": profile,
                "B70CTL_MODEL": profile,
                "B70CTL_RELEASE": site.release(profile),
            }.items()
        )
        assert "OPENAI_API_KEY" not in turn["env"]
    site.assert_serves("a", serving)
    assert site.engine().id == container
    assert shared.free()
    for name in "bc":
        assert site.verdict(site.release(name))["state"] == "proven"
        assert "Starting to load model" in (site.folder(site.release(name)) / "engine.log").read_text()
        assert f"{site.release(name)}: exit 0" in ran.err
    assert site.history()[-1]["tried"] == [site.release("b"), site.release("c")]
    assert f"tried {site.release('c')}: proven" in site.run("history", "--verbose").exits(0).out


def test_nothing_goes_back_to_an_engine_that_was_made_for_a_window(site: LiveSite) -> None:
    dark = serving_site(site)
    site.switch("b")
    served = site.serving()
    site.switch("a")
    site.run(*dark.words("b")).exits(0)
    tried = site.release("b")
    assert tried != served
    with untouched(site):
        assert "made for a window" in site.run("rollback", tried, "--yes").exits(1).err
    site.run("rollback", "b", "--yes").exits(0)
    site.assert_serves("b", served)
    site.run("rollback", "--yes").exits(0)
    site.assert_serves("a")


def test_with_json_stdout_is_all_data_and_the_command_has_stderr(shared: Dark) -> None:
    site = shared.site
    ran = site.run(
        *shared.words("b", "c", "--json", "-k", command=("sh", "-c", "echo spoken; test $B70CTL_PROFILE = c"))
    )
    told = [json.loads(line) for line in ran.exits(1).out.splitlines()]
    assert ran.err.count("spoken") == 2
    (last,) = [each for each in told if each["event"] == "window"]
    assert [(each["profile"], each["result"], each["status"]) for each in last["turns"]] == [
        ("b", "command failed", 1), ("c", "done", 0),
    ]  # fmt: skip
    assert [each["status"] for each in told if each["event"] == "command-ended"] == [1, 0]
    assert [each["event"] for each in told[-2:]] == ["serving", "error"]
    site.assert_serves("a")


def test_a_dry_run_shows_the_whole_plan_and_touches_nothing(shared: Dark) -> None:
    site = shared.site
    before = site.tree(), site.docker_state()
    said = site.run("window", "b", "c", "--port", str(shared.port), "-n", "--", "true").exits(0).out
    assert (site.tree(), site.docker_state()) == before
    verbs = [line.split()[0] for line in said.partition("way back")[0].splitlines() if line]
    turn = ["start", "await", "probe", "run", "stop", "remove"]
    arrive = ["start", "await", "probe", "serve"]
    assert verbs == ["write", "write", "settle", "stop", "verify", *turn, *turn, *arrive]


def test_the_router_and_the_companions_are_asked_as_for_a_drain(site: LiveSite) -> None:
    companion(site)
    dark = serving_site(site, router=HOOK, companions=["web/compose.yaml"])
    site.write_site(drain={**CALM, "companions": ["web"]}, router=HOOK, companions=["web/compose.yaml"])
    [(name, _)] = web(site)
    ran = site.run(*dark.words("b", command=dark.look())).exits(0)
    assert seen(ran.out)[0]["running"] == ["b"]
    url = f"http://127.0.0.1:{site.port}"
    assert rotation(site) == [f"remove {url}", f"add {url}"]
    assert site.client.containers.get(name).status == "running"
    site.assert_serves("a")
    assert site.state()["withdrawn"] is None


def test_the_command_gets_the_key_and_nobody_else_learns_it(site: LiveSite) -> None:
    key = "key-that-nobody-may-see"
    (site.root / "key").write_text(key)
    dark = Dark(site)
    site.write_site(drain=CALM, secrets={"VLLM_API_KEY": {"file": "key"}})
    site.quick("b")
    ask = 'test "$OPENAI_API_KEY" = "$(cat key)" && test "$0" = ' + key
    ran = site.run(*dark.words("b", command=("sh", "-c", ask, key))).exits(0)
    history = site.run("history", "--verbose").exits(0)
    kept = [(site.store / "journal.jsonl").read_text(), (site.store / "lock").read_text(), ran.err, history.out]
    assert [key in text for text in kept] == [False] * 4


# --- nothing to come back to ------------------------------------------------------------------------------------------


def test_where_nothing_ever_served_nothing_serves_afterwards(site: LiveSite) -> None:
    dark = Dark(site)
    site.write_site(drain=CALM)
    site.quick("b")
    ran = site.run(*dark.words("b", command=dark.look())).exits(0)
    assert "nothing serves, so nothing is drained" in ran.err
    assert seen(ran.out)[0]["running"] == ["b"]
    site.assert_nothing_serves()
    site.run(*dark.words("b", command=("false",))).exits(1)
    site.assert_nothing_serves()
    site.quick("dies", env={"STANDIN_FAULT": "crash-at:weights"})
    site.run(*dark.words("dies")).exits(1)
    site.assert_nothing_serves()


@pytest.mark.parametrize("command", ["stop", "drain"])
def test_what_was_out_of_service_stays_so(site: LiveSite, command: str) -> None:
    dark = serving_site(site)
    site.run(command, "--yes").exits(0)
    before = {key: value for key, value in site.state().items() if key != "next"}
    site.run(*dark.words("b", command=("false",))).exits(1)
    assert {key: value for key, value in site.state().items() if key != "next"} == before
    assert site.engine().status == "exited"
    site.assert_whole()
    if command == "drain":
        assert_drained(site, site.serving())
    site.run("restore" if command == "drain" else "start").exits(0)
    site.assert_serves("a")


# --- what fails -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "reached"), [((), ["b"]), (("--keep-going",), ["b", "c"])])
def test_a_command_that_fails_ends_the_window_in_order_and_its_engine_was_proven_all_the_same(
    shared: Dark, more: tuple[str, ...], reached: list[str]
) -> None:
    site = shared.site
    serving = site.serving()
    ran = site.run(*shared.words("b", "c", *more, command=("sh", "-c", "echo $B70CTL_PROFILE; exit 3"))).exits(1)
    assert ran.out.split() == reached
    assert f"run {site.release('b')}: the command ended with exit 3" in ran.err
    assert f"{serving} serves a at" in ran.err
    site.assert_serves("a", serving)
    assert site.history()[-1]["result"] == "done"
    assert site.verdict(site.release("b"))["state"] == "proven"
    assert (f"{site.release('c')}: not reached" in ran.err) is (not more)


@pytest.mark.parametrize(
    ("env", "why", "hint"),
    [
        # a cause that the log names brings its own fix
        ({"STANDIN_FAULT": "crash-at:weights"}, "while loading", "gpu_memory_utilization"),
        ({"STANDIN_FAULT": "garbage"}, "was not proven", "b70ctl logs"),
    ],
)
def test_a_profile_that_is_not_proven_ends_the_window_with_production_proven(
    shared: Dark, env: dict[str, str], why: str, hint: str
) -> None:
    site = shared.site
    serving = site.serving()
    site.quick("bad", env=env)
    words = shared.words("b", "bad", "c", command=("sh", "-c", "echo $B70CTL_PROFILE"))
    ran = site.run(*words).exits(5)
    bad = site.release("bad")
    assert ran.out.split() == ["b"]
    assert f"error: {bad}: " in ran.err
    assert why in ran.err
    assert hint in ran.err.partition("hint: ")[2]
    site.assert_serves("a", serving)
    assert site.verdict(site.release("b"))["state"] == "proven"
    assert site.verdict(bad)["state"] == "failed"
    assert (site.folder(bad) / "failed.log").read_text()
    assert shared.free()
    ran = site.run(*words[:4], "-k", *words[4:]).exits(1)
    assert ran.out.split() == ["b", "c"]
    assert site.verdict(site.release("bad"))["state"] == "failed"
    site.assert_serves("a", serving)


def test_an_engine_that_dies_under_the_command_is_named(site: LiveSite) -> None:
    dark = serving_site(site)
    site.triggered("b")
    (site.root / "until_gone.py").write_text(UNTIL_GONE)
    command = (sys.executable, "until_gone.py", "trigger/faults")
    ran = site.run(*dark.words("b", command=command)).exits(5)
    assert "while the command ran" in ran.err
    assert site.verdict(site.release("b"))["state"] == "failed"
    site.assert_serves("a")


def test_a_box_that_a_drain_would_not_make_quiet_is_refused_untouched(site: LiveSite) -> None:
    dark = serving_site(site)
    site.write_site(drain={"load": 10000, "limit": 0}, feeders=[ELSEWHERE])
    with fed(), untouched(site):
        ran = site.run(*dark.words("b", command=("echo", "ran"))).exits(1)
        assert "no feeder is connected: no" in ran.err
        assert "--anyway" in ran.err
        assert ran.out == ""
    site.write_site(drain={"load": 1e-9, "limit": 0})
    with untouched(site):
        assert "`drain.load` in site.yaml" in site.run(*dark.words("b")).exits(1).err
    with fed():
        assert site.run(*dark.words("b", "--anyway", command=("echo", "ran"))).exits(0).out == "ran\n"
    site.assert_serves("a")


def test_a_feeder_that_comes_while_the_engine_leaves_is_waited_for_then_production_is_put_back(site: LiveSite) -> None:
    dark = serving_site(site)
    for limit, code in ((0, 5), (60, 0)):
        site.write_site(drain={"load": 10000, "limit": limit}, **AWAITS_FEEDER)
        (site.root / "fed").unlink(missing_ok=True)
        with site.begin(*dark.words("b")) as child:
            until(lambda: site.begun("withdraw"), "the router is asked")
            with fed() as feeder:
                (site.root / "fed").touch()
                if code == 0:
                    until(lambda: site.begun("verify"), "it waits for a quiet box")
                    feeder.close()
                assert child.wait(60) == code
        site.assert_serves("a")


def test_everything_that_would_fail_is_told_before_anything_is_touched(shared: Dark) -> None:
    site = shared.site
    site.quick("no-model", model={"path": "absent", "served_names": ["x"]})
    site.quick("no-image", image={"ref": "example/absent:1", "vllm": "0.30.0"})
    told = [
        (("window", "b", "--yes"), 2, "there is no command"),
        (shared.words("b", command=("./no-such-program",)), 3, "is not a program"),
        (shared.words("nothing-of-the-kind"), 2, "nothing-of-the-kind"),
        (shared.words("b", "no-model", "no-image"), 1, "models/absent"),
        (shared.words("b", "no-model", "no-image"), 1, "does not have the image example/absent:1"),
        (("window", "b", "--port", str(site.port), "--yes", "--", "true"), 2, "is where clients come"),
        (("window", "b", "--", "true"), 2, "nobody can be asked"),
    ]
    with untouched(site):
        for words, code, said in told:
            assert said in site.run(*words).exits(code).err
        with listening(shared.port):
            assert f"port {shared.port}" in site.run(*shared.words("b")).exits(1).err
    site.assert_serves("a")


# --- others meanwhile -------------------------------------------------------------------------------------------------


def test_while_a_window_is_open_nothing_else_changes_the_site_and_status_tells_it(shared: Dark) -> None:
    site = shared.site
    serving = site.serving()
    with site.begin(*shared.words("b", command=("sleep", "600"))) as child:
        until(lambda: site.begun("run"), "the command runs")
        assert "window" in site.run("switch", "c", "--yes").exits(7).err
        said = site.run("status").exits(0).out
        assert f"at `run {site.release('b')}`; {serving} serves again when it ends" in said
        assert "cut off" not in said
        assert site.run("status", "--json").exits(0).data()["unfinished"] is None
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 130
    site.assert_serves("a", serving)
    assert "window" not in site.run("status").exits(0).out


def test_production_that_was_started_by_hand_steps_aside_and_comes_back_as_it_was(site: LiveSite) -> None:
    dark = Dark(site)
    site.write_site(drain=CALM)
    site.quick("b")
    old = site.by_hand("old", port=site.port)
    words = dark.words("b", command=dark.look())
    ran = site.run(*words[:2], "--adopt", f"{site.name}-old", *words[2:]).exits(0)
    assert seen(ran.out)[0]["running"] == ["b"]
    assert "refused" in seen(ran.out)[0]["production"]
    old.reload()
    assert (old.status, old.attrs["HostConfig"]["RestartPolicy"]["Name"]) == ("running", "always")
    assert "Paris" in site.ask("hand-made", "What is the capital of France?")[1]
    assert site.containers() == []
    assert site.releases()[site.serving()]["kind"] == "adopted"
    site.run(*words).exits(0)
    old.reload()
    assert old.status == "running"
