"""Engines that fail, each in its own way: the one before must serve again, proven, and the failure must be told."""

import contextlib
import re
import socket
from pathlib import Path

import pytest
from livesite import QUICK, LiveSite, listening, until

from b70ctl.edge.composer import find_composer

FAULTS: dict[str, tuple[dict[str, object], str]] = {
    "garbage": ({}, "was not proven"),
    "garbage-spec": ({}, "counting"),
    "wrong-model-name": ({}, "some-other-model"),
    "exit-at-start": ({}, "ended with exit 1"),
    "crash-at:weights": ({}, "ended with exit 1 while"),
    "stall-at:compile": ({"boot": {"budget": 60, "stall": 2}}, "silent for 2 s"),
    "never-healthy": ({"boot": {"budget": 3, "stall": 30}}, "its log says that it does, and /health does not say 200"),
    "hang": ({"probes": {"timeout": 2}}, "no complete answer after 2 s"),
    "hang-after-first-token": (
        {"probes": {"silence": 1, "timeout": 20, "skip": dict.fromkeys(
            ("warm-up", "capital", "arithmetic", "prose", "json", "long-prompt"), "they do not stream")}},
        "silent for",
    ),
    "http-500": ({}, "500"),
    "bad-json": ({}, "json"),
    "lost-kv": ({}, "long-prompt"),
    "long-prompt-garbage": ({}, "long-prompt"),
    "no-tool-calls": ({"engine": {"max_model_len": 4096, "tool_call_parser": "hermes"}}, "tool-call"),
}  # fmt: skip


@pytest.fixture(scope="module")
def serving(kept_site: LiveSite) -> LiveSite:
    kept_site.quick("a")
    kept_site.switch("a")
    return kept_site


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_engine_brings_the_old_one_back_proven(serving: LiveSite, fault: str) -> None:
    site, (settings, told) = serving, FAULTS[fault]
    old, container = site.assert_serves("a"), site.engine().id
    op = len(site.history())
    name = fault.replace(":", "-")
    site.profile(name, env={"STANDIN_FAULT": fault}, **settings)
    ran = site.switch(name, code=5)
    assert site.assert_serves("a", old) == old
    assert site.engine().id == container, "the old engine was made anew and not started again"
    assert told in ran.err
    assert f"{old} serves again, proven" in ran.err
    failed = site.release(name)
    named = re.search(r"^  fix: (.+)$", ran.err, re.MULTILINE)
    assert f"hint: {named[1] if named else f'b70ctl logs {failed}'}" in ran.err
    ran = site.run("diagnose", failed).exits(0 if named else 1)
    assert told in ran.out.split("\n\n")[0]
    assert site.verdict(failed)["state"] == "failed"
    log = (site.folder(failed) / "failed.log").read_text()
    assert fault == "exit-at-start" or "vLLM API server version" in log
    assert site.run("logs", failed).exits(0).out.strip() == "\n".join(log.splitlines()[-200:]).strip()
    (entry,) = site.history()[op:]
    assert (entry["result"], entry["release"], entry["before"]) == ("rolled-back", failed, old)
    assert told in entry["note"]
    assert site.verdict(old)["op"] == entry["op"], "the old engine was not proven again"


def test_a_first_switch_that_fails_leaves_nothing(site: LiveSite) -> None:
    site.profile("bad", env={"STANDIN_FAULT": "garbage"})
    ran = site.switch("bad", code=1)
    assert "not proven" in ran.err
    site.assert_nothing_serves()
    assert (site.folder(site.release("bad")) / "failed.log").exists()
    site.quick("a")
    site.switch("a")
    site.assert_serves("a")


def test_a_way_back_that_fails_too_is_told_and_the_next_switch_works(site: LiveSite) -> None:
    site.triggered("a")
    site.profile("bad", env={"STANDIN_FAULT": "exit-at-start"})
    site.quick("b")
    site.switch("a")
    old = site.serving()
    site.fault("garbage")
    ran = site.switch("bad", code=6)
    assert f"{old} could not be brought back" in ran.err
    assert site.history()[-1]["result"] == "unproven"
    assert site.get("/health")[0] in (0, 200)
    site.assert_whole()
    site.switch("b")
    site.assert_serves("b")


def test_a_port_that_is_taken_after_the_stop_brings_the_old_one_back(site: LiveSite, tmp_path: Path) -> None:
    for name in "ab":
        site.quick(name)
    site.switch("a")
    old, container = site.serving(), site.engine().id
    # a Compose that says when it begins and ends, and waits to be answered
    compose = tmp_path / "docker-compose"
    compose.write_text(f"""#!/bin/sh
real() {{ {find_composer().binary} "$@"; }}
answered() {{ : > {tmp_path}/$1; while [ ! -e {tmp_path}/$2 ]; do sleep 0.02; done; }}
case " $* " in *" up "*) answered begins taken; real "$@"; code=$?; answered ended free; exit $code;; esac
real "$@"
""")
    compose.chmod(0o755)
    with site.begin("switch", "b", "--yes", env={"B70CTL_COMPOSE": str(compose)}) as child:
        until((tmp_path / "begins").exists, "Compose is called")
        with listening(site.port):
            (tmp_path / "taken").touch()
            until((tmp_path / "ended").exists, "Compose has failed")
        (tmp_path / "free").touch()
        assert child.wait(90) == 5
    site.assert_serves("a", old)
    assert site.engine().id == container
    assert "address already in use" in site.history()[-1]["note"]


def test_an_engine_that_crashes_later_is_seen_and_can_be_switched_away_from(site: LiveSite) -> None:
    site.triggered("a")
    site.quick("b")
    site.switch("a")
    site.fault("crash-now")
    until(lambda: site.get("/health")[0] == 0, "the engine is down")
    said = site.run("status").exits(0).out
    # Docker starts it again and again: between two starts there is nothing that could be asked
    assert "does not answer" in said or "restarting" in said or site.engine().status != "running"
    site.switch("b")
    site.assert_serves("b")


def test_an_engine_that_crash_loops_is_still_the_way_back_that_is_told_as_failed(site: LiveSite) -> None:
    site.triggered("a")
    site.quick("bad", env={"STANDIN_FAULT": "exit-at-start"})
    site.quick("b")
    site.switch("a")
    site.fault("crash-at:weights")
    site.engine().restart()
    until(lambda: site.engine().attrs["RestartCount"] > 0, "it crashes and is started again by Docker")
    site.switch("bad", code=6)
    site.assert_whole()
    site.switch("b")
    site.assert_serves("b")


def test_a_slow_old_engine_is_waited_for_on_the_way_back(site: LiveSite) -> None:
    site.quick("a", env={**QUICK, "STANDIN_STAGE_SECONDS": "weights=3"})
    site.quick("bad", env={"STANDIN_FAULT": "http-500"})
    site.switch("a")
    old = site.serving()
    site.switch("bad", code=5)
    site.assert_serves("a", old)


def test_a_listener_that_answers_like_an_engine_is_not_taken_for_one(site: LiveSite) -> None:
    # a process on the port, on another address of loopback, has nothing to do with the engine
    site.quick("a")
    with contextlib.closing(socket.socket()) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.2", site.port))
        other.listen()
        site.switch("a")
    site.assert_serves("a")
