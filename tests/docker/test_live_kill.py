"""kill -9 at every line of the journal: the next command brings it to one good end."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest
from livesite import CHECKOUT, LiveSite, until

from b70ctl.edge.composer import find_composer

SWITCH = ("write", "name", "stop", "start", "await", "probe", "serve", "remove")
ARRIVE = ("start", "await", "probe", "serve")


def boundaries(steps: int) -> list[tuple[str, int]]:
    """Every instant at which what the journal says and what was done differ: 1 line to begin, 2 a step, 1 to end.

    Before a `before` line nothing new was done; after it, the step is told and not done; before its `after` line the
    step is done and not told.
    """
    lines = [("before", 1), ("after", 1)]
    for step in range(steps):
        lines += [("after", 2 + 2 * step), ("before", 3 + 2 * step)]
    return [*lines, ("before", 2 + 2 * steps), ("after", 2 + 2 * steps)]


@pytest.fixture(scope="module")
def pair(kept_site: LiveSite) -> LiveSite:
    for name in "ab":
        kept_site.quick(name)
    return kept_site


def ready(site: LiveSite, profile: str, *, stopped: bool = False) -> str:
    """This profile serves, or serves and was stopped."""
    site.run("recover").exits(0)
    if site.state().get("stopped"):
        site.run("start").exits(0)
    site.switch(profile)
    serving = site.assert_serves(profile)
    if stopped:
        site.run("stop", "--yes").exits(0)
    return serving


def assert_one_end(site: LiveSite, profiles: tuple[str, ...]) -> None:
    """Exactly one of these serves, history is closed and agrees, and a second `recover` has nothing to do."""
    assert site.releases()[site.serving()]["deployment"]["profile"] in profiles
    site.assert_serves(site.releases()[site.serving()]["deployment"]["profile"])
    last = site.history()[-1]
    assert last["result"] in ("done", "finished", "rolled-back", "recovered"), last
    assert "no command was cut off" in site.run("recover").exits(0).err
    for name in site.state()["snapshots"].values():
        assert name in site.releases()


@pytest.mark.parametrize(("when", "line"), boundaries(len(SWITCH)))
def test_a_killed_switch_ends_with_one_proven_engine(pair: LiveSite, when: str, line: int) -> None:
    old = ready(pair, "a")
    container = pair.engine().id
    assert pair.cut(when, line, "switch", "b", "--yes").code == -signal.SIGKILL
    pair.run("status").exits(0)
    ran = pair.run("recover").exits(0)
    told = 2 * len(SWITCH) + 2
    if (when, line) in (("before", 1), ("after", told)):
        assert "no command was cut off" in ran.err
    assert_one_end(pair, ("a", "b"))
    proven = line > 3 + 2 * SWITCH.index("probe") or (when, line) == ("before", 3 + 2 * SWITCH.index("probe"))
    if proven:
        pair.assert_serves("b")
    else:
        pair.assert_serves("a", old)
        assert pair.engine().id == container


@pytest.mark.parametrize(("when", "line"), boundaries(len(ARRIVE) + 1))
def test_a_killed_first_switch_ends_with_a_proven_engine_or_none(site: LiveSite, when: str, line: int) -> None:
    site.quick("a")
    assert site.cut(when, line, "switch", "a", "--yes").code == -signal.SIGKILL
    site.run("recover").exits(0)
    if site.state().get("serving"):
        assert_one_end(site, ("a",))
    else:
        site.assert_nothing_serves()


@pytest.mark.parametrize(("when", "line"), boundaries(len(ARRIVE) + 2))
def test_a_killed_rollback_ends_with_one_proven_engine(pair: LiveSite, when: str, line: int) -> None:
    ready(pair, "a")
    ready(pair, "b")
    assert pair.cut(when, line, "rollback", "--yes").code == -signal.SIGKILL
    pair.run("recover").exits(0)
    assert_one_end(pair, ("a", "b"))


@pytest.mark.parametrize(("when", "line"), boundaries(len(ARRIVE) + 1))
def test_a_killed_restart_ends_with_the_engine_proven(pair: LiveSite, when: str, line: int) -> None:
    serving = ready(pair, "a")
    assert pair.cut(when, line, "restart", "--yes").code == -signal.SIGKILL
    pair.run("recover").exits(0)
    assert_one_end(pair, ("a",))
    assert pair.serving() == serving


@pytest.mark.parametrize(("when", "line"), boundaries(2))
def test_a_killed_stop_ends_with_the_engine_stopped_or_proven(pair: LiveSite, when: str, line: int) -> None:
    ready(pair, "a")
    assert pair.cut(when, line, "stop", "--yes").code == -signal.SIGKILL
    pair.run("recover").exits(0)
    pair.assert_whole()
    engine = pair.engine()
    if pair.state()["stopped"]:
        assert engine.status == "exited"
        assert engine.attrs["HostConfig"]["RestartPolicy"]["Name"] == "no"
    else:
        pair.assert_serves("a")


@pytest.mark.parametrize(("when", "line"), boundaries(len(ARRIVE)))
def test_a_killed_start_ends_with_the_engine_stopped_or_proven(pair: LiveSite, when: str, line: int) -> None:
    ready(pair, "a", stopped=True)
    assert pair.cut(when, line, "start").code == -signal.SIGKILL
    pair.run("recover").exits(0)
    pair.assert_whole()
    if pair.state()["stopped"]:
        assert pair.engine().status == "exited"
    else:
        pair.assert_serves("a")


def test_the_next_changing_command_recovers_first(pair: LiveSite) -> None:
    ready(pair, "a")
    assert pair.cut("after", 2 + 2 * SWITCH.index("await"), "switch", "b", "--yes").code == -signal.SIGKILL
    assert "unfinished" in pair.run("status").exits(0).out
    assert "b70ctl recover" in pair.run("status").exits(0).out
    ran = pair.switch("b")
    assert "serves again, proven" in ran.err
    assert_one_end(pair, ("b",))


def test_a_recovery_that_is_killed_too_is_recovered(pair: LiveSite) -> None:
    old = ready(pair, "a")
    assert pair.cut("after", 2 + 2 * SWITCH.index("probe"), "switch", "b", "--yes").code == -signal.SIGKILL
    for line in (1, 2):
        assert pair.cut("before", line, "recover").code == -signal.SIGKILL
    pair.run("recover").exits(0)
    assert_one_end(pair, ("a",))
    assert pair.serving() == old


def test_reading_commands_do_not_wait_for_a_recovery_and_do_none(pair: LiveSite) -> None:
    ready(pair, "a")
    assert pair.cut("after", 2 + 2 * SWITCH.index("start"), "switch", "b", "--yes").code == -signal.SIGKILL
    before = pair.tree(), pair.docker_state()
    for words in (("status",), ("status", "--json"), ("history",), ("plan", "b"), ("snapshot",), ("rollback", "a", "-n")):
        pair.run(*words).exits(0)
    assert (pair.tree(), pair.docker_state()) == before
    pair.run("recover").exits(0)
    assert_one_end(pair, ("a",))


def compose_that(folder: Path, text: str) -> str:
    """A Compose that does something first when it is told to start an engine."""
    real = find_composer().binary
    path = folder / "docker-compose"
    path.write_text(f'#!/bin/sh\ncase " $* " in *" up "*) {text};; esac\nexec {real} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_no_child_of_a_killed_command_acts_later(pair: LiveSite, tmp_path: Path) -> None:
    old = ready(pair, "a")
    compose = compose_that(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 3")
    with pair.begin("switch", "b", "--yes", env={"B70CTL_COMPOSE": compose}) as child:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), "Compose is called")
        pid = int((tmp_path / "pid").read_text())
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        until(lambda: not alive(pid), "Compose died with its parent", seconds=2)
        # what outlives Compose holds the lock: nobody repairs while something may still act
        ran = pair.run("recover")
        assert ran.code in (0, 7), str(ran)
        until(lambda: pair.run("recover").code == 0, "the lock is free")
    assert_one_end(pair, ("a",))
    assert pair.serving() == old
    assert [each.labels["b70ctl.profile"] for each in pair.containers()] == ["a"]


def test_a_compose_that_was_killed_in_the_middle_leaves_nothing(pair: LiveSite, tmp_path: Path) -> None:
    old = ready(pair, "a")
    with pair.begin("switch", "b", "--yes") as child:
        until(lambda: len(pair.containers()) == 2, "Compose has made the container")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        until(lambda: pair.run("recover").code == 0, "the lock is free")
    assert_one_end(pair, ("a",))
    assert pair.serving() == old


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_driver_of_these_tests_is_the_real_command_line(pair: LiveSite) -> None:
    assert pair.cut("before", 0, "--version").out == pair.run("--version").out
    assert str(CHECKOUT) in pair.environment()["PYTHONPATH"]
