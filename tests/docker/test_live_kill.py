"""kill -9 at every line of the journal: the next command brings it to one good end."""

import os
import signal
import stat
from pathlib import Path

import pytest
from livesite import CHECKOUT, LiveSite, until

from b70ctl.edge.composer import find_composer

SWITCH = ("write", "name", "stop", "start", "await", "probe", "serve", "remove")
ARRIVE = ("start", "await", "probe", "serve")


def boundaries(*steps: str, every: bool = False) -> list[tuple[str, int]]:
    """Instants at which what the journal says and what was done differ: line 1 begins, 2 lines tell a step.

    Before a step's second line it is done and not told; after its first line it is told and not done, which is
    another thing only for steps that change something (`every` tells all, and the command's own begin and end).
    """
    lines = [("before", 1), ("after", 1)] if every else []
    for number, step in enumerate(steps):
        if every or step in ("stop", "start", "serve"):
            lines.append(("after", 2 + 2 * number))
        lines.append(("before", 3 + 2 * number))
    last = 2 + 2 * len(steps)
    return [*lines, ("before", last), ("after", last)] if every else lines


@pytest.fixture(scope="module")
def pair(kept_site: LiveSite) -> LiveSite:
    """A site that has served `b` and serves `a`."""
    for name in "ab":
        kept_site.quick(name, env={"STANDIN_BOOT_SECONDS": "0.05"})
    kept_site.switch("b")
    kept_site.switch("a")
    return kept_site


def profile_of(site: LiveSite) -> str:
    """The profile of the release that is recorded as serving."""
    return str(site.releases()[site.serving()]["deployment"]["profile"])


def ready(site: LiveSite) -> tuple[str, str]:
    """The profile that serves and the other one; a test that failed before this one is put right."""
    if site.state()["stopped"] or site.journal()[-1]["event"] != "end":
        site.run("start").exits(0)
    serving = profile_of(site)
    return serving, "b" if serving == "a" else "a"


def repaired(site: LiveSite) -> str:
    """What `recover` says; afterwards one proven engine serves, and history is closed and agrees."""
    ran = site.run("recover").exits(0)
    site.assert_serves(profile_of(site))
    last = site.journal()[-1]
    assert last["result"] in ("done", "finished", "rolled-back", "recovered"), last
    assert set(site.state()["snapshots"].values()) <= set(site.releases())
    return ran.err


def killed(site: LiveSite, when: str, line: int, *words: str) -> None:
    """Run a command that is killed at a line of its journal."""
    ran = site.cut(when, line, *words)
    assert ran.code == -signal.SIGKILL, str(ran)


@pytest.mark.parametrize(("when", "line"), boundaries(*SWITCH, every=True))
def test_a_killed_switch_ends_with_one_proven_engine(pair: LiveSite, when: str, line: int) -> None:
    old, new = ready(pair)
    release, container = pair.serving(), pair.engine().id
    killed(pair, when, line, "switch", new, "--yes", "--set", f"env.N={when}{line}")
    told = repaired(pair)
    assert ("no command was cut off" in told) == ((when, line) in (("before", 1), ("after", 2 + 2 * len(SWITCH))))
    if line >= 3 + 2 * SWITCH.index("probe"):
        assert profile_of(pair) == new
    else:
        assert (profile_of(pair), pair.serving(), pair.engine().id) == (old, release, container)


@pytest.mark.parametrize(("when", "line"), boundaries("write", *ARRIVE))
def test_a_killed_first_switch_ends_with_a_proven_engine_or_none(site: LiveSite, when: str, line: int) -> None:
    site.quick("a")
    killed(site, when, line, "switch", "a", "--yes")
    site.run("recover").exits(0)
    if line >= 3 + 2 * 3:
        site.assert_serves("a")
    else:
        site.assert_nothing_serves()


@pytest.mark.parametrize(("when", "line"), boundaries("stop", *ARRIVE, "remove"))
def test_a_killed_rollback_ends_with_one_proven_engine(pair: LiveSite, when: str, line: int) -> None:
    old, new = ready(pair)
    killed(pair, when, line, "rollback", new, "--yes")
    repaired(pair)
    assert profile_of(pair) == (new if line >= 3 + 2 * 3 else old)


@pytest.mark.parametrize(("when", "line"), boundaries("stop", *ARRIVE))
def test_a_killed_restart_ends_with_the_engine_proven(pair: LiveSite, when: str, line: int) -> None:
    ready(pair)
    serving = pair.serving()
    killed(pair, when, line, "restart", "--yes")
    repaired(pair)
    assert pair.serving() == serving


@pytest.mark.parametrize(("when", "line"), boundaries("stop", "idle"))
def test_a_killed_stop_ends_with_the_engine_stopped_or_proven(pair: LiveSite, when: str, line: int) -> None:
    ready(pair)
    killed(pair, when, line, "stop", "--yes")
    pair.run("recover").exits(0)
    pair.assert_whole()
    if line == 2:
        pair.assert_serves(profile_of(pair))
        return
    assert pair.state()["stopped"]
    assert pair.engine().status == "exited"
    assert pair.engine().attrs["HostConfig"]["RestartPolicy"]["Name"] == "no"


@pytest.mark.parametrize(("when", "line"), boundaries(*ARRIVE))
def test_a_killed_start_ends_with_the_engine_stopped_or_proven(pair: LiveSite, when: str, line: int) -> None:
    ready(pair)
    pair.run("stop", "--yes").exits(0)
    killed(pair, when, line, "start")
    pair.run("recover").exits(0)
    pair.assert_whole()
    assert pair.state()["stopped"] == (line < 3 + 2 * ARRIVE.index("probe"))
    if pair.state()["stopped"]:
        assert pair.engine().status == "exited"
    else:
        pair.assert_serves(profile_of(pair))


def test_the_next_changing_command_recovers_first(pair: LiveSite) -> None:
    _, new = ready(pair)
    killed(pair, "after", 2 + 2 * SWITCH.index("await"), "switch", new, "--yes", "--set", "env.N=next")
    assert "b70ctl recover" in pair.run("status").exits(0).out
    ran = pair.switch(new)
    assert "serves again, proven" in ran.err
    pair.assert_serves(new)


def test_a_recovery_that_is_killed_too_is_recovered(pair: LiveSite) -> None:
    _, new = ready(pair)
    old = pair.serving()
    killed(pair, "after", 2 + 2 * SWITCH.index("probe"), "switch", new, "--yes", "--set", "env.N=twice")
    for line in (1, 2):
        killed(pair, "before", line, "recover")
    repaired(pair)
    assert pair.serving() == old


def test_reading_commands_do_not_wait_for_a_recovery_and_do_none(pair: LiveSite) -> None:
    old, new = ready(pair)
    killed(pair, "after", 2 + 2 * SWITCH.index("start"), "switch", new, "--yes", "--set", "env.N=read")
    before = pair.tree(), pair.docker_state()
    for words in (("status", "--json"), ("history",), ("plan", old), ("snapshot",), ("rollback", new, "-n")):
        pair.run(*words).exits(0)
    assert (pair.tree(), pair.docker_state()) == before
    repaired(pair)
    assert profile_of(pair) == old


def compose_that(folder: Path, text: str) -> str:
    """A Compose that does something first when it is told to start an engine."""
    real = find_composer().binary
    path = folder / "docker-compose"
    path.write_text(f'#!/bin/sh\ncase " $* " in *" up "*) {text};; esac\nexec {real} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_no_child_of_a_killed_command_acts_later(pair: LiveSite, tmp_path: Path) -> None:
    old, new = ready(pair)
    compose = compose_that(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 3")
    with pair.begin("switch", new, "--yes", "--set", "env.N=child", env={"B70CTL_COMPOSE": compose}) as child:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), "Compose is called")
        pid = int((tmp_path / "pid").read_text())
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        until(lambda: not alive(pid), "Compose died with its parent", seconds=2)
        # what outlives Compose holds the lock: nobody repairs while something may still act
        ran = pair.run("recover")
        assert ran.code in (0, 7), str(ran)
        until(lambda: pair.run("recover").code == 0, "the lock is free")
    repaired(pair)
    assert [each.labels["b70ctl.profile"] for each in pair.containers()] == [old]


def test_a_compose_that_was_killed_in_the_middle_leaves_nothing(pair: LiveSite, tmp_path: Path) -> None:
    old, new = ready(pair)
    with pair.begin("switch", new, "--yes", "--set", "env.N=half") as child:
        until(lambda: len(pair.containers()) == 2, "Compose has made the container")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        until(lambda: pair.run("recover").code == 0, "the lock is free")
    repaired(pair)
    assert profile_of(pair) == old


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_driver_of_these_tests_is_the_real_command_line(pair: LiveSite) -> None:
    assert pair.cut("before", 0, "--version").out == pair.run("--version").out
    assert str(CHECKOUT) in pair.environment()["PYTHONPATH"]
