"""A window that is cut off: whenever and however that happens, production serves again, proven, and alone."""

import os
import signal
from pathlib import Path

import pytest
from livesite import LiveSite, until
from test_live_kill import ARRIVE, alive, boundaries, killed
from test_live_signals import CTRL_C, terminal
from windows import AWAITS_FEEDER, CALM, Dark, fed, pids, serving_site

OUT = ("settle", "stop", "verify")
TURN = ("start", "await", "probe", "run", "stop", "remove")
WINDOW = ("write", *OUT, *TURN, *ARRIVE)
TWO = ("write", "write", *OUT, *TURN, *TURN, *ARRIVE)
FAMILY = """
echo $$ > pids/first.pid
sleep 600 & echo $! > pids/second.pid
setsid sh -c 'trap "" TERM; echo $$ > pids/third.pid; while :; do sleep 1; done' &
wait
"""
"""A command with a child, and a grandchild in a session of its own that does not want to end."""


@pytest.fixture(scope="module")
def shared(kept_site: LiveSite) -> Dark:
    """A site that serves `a`, for tests that bring it back to that."""
    return serving_site(kept_site)


def ready(dark: Dark) -> str:
    """The release that serves; a test that failed before this one is put right."""
    dark.site.write_site(drain=CALM)
    dark.site.run("recover")
    return dark.site.assert_serves("a")


def assert_back(dark: Dark, release: str) -> None:
    """What served before serves again, proven, and nothing of the window is left."""
    dark.site.assert_serves("a", release)
    assert dark.free()
    assert dark.site.run("recover").exits(0).err == "no command was cut off\n"


# --- kill -9 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("when", "line"), boundaries(*WINDOW))
def test_a_killed_window_is_recovered_with_production_proven(shared: Dark, when: str, line: int) -> None:
    release, container = ready(shared), shared.site.engine().id
    killed(shared.site, when, line, *shared.words("b"))
    shared.site.run("recover").exits(0)
    assert_back(shared, release)
    assert shared.site.engine().id == container
    if line >= 3 + 2 * WINDOW.index("probe"):
        # its engine was proven, and no interruption unproves that
        assert shared.site.verdict(shared.site.release("b"))["state"] == "proven"


SECOND = len(("write", "write", *OUT, *TURN))


@pytest.mark.parametrize(
    ("when", "line"), [case for case in boundaries(*TWO) if 2 + 2 * SECOND <= case[1] < 3 + 2 * (SECOND + len(TURN))]
)
def test_a_window_that_is_killed_in_its_second_turn_is_recovered_too(shared: Dark, when: str, line: int) -> None:
    release = ready(shared)
    killed(shared.site, when, line, *shared.words("b", "c"))
    shared.site.run("recover").exits(0)
    assert_back(shared, release)
    assert shared.site.verdict(shared.site.release("b"))["state"] == "proven"


@pytest.mark.parametrize("line", [2 + 2 * WINDOW.index("await"), 2 + 2 * WINDOW.index("run")])
def test_a_killed_window_of_a_site_where_nothing_served_leaves_nothing(site: LiveSite, line: int) -> None:
    dark = Dark(site)
    site.write_site(drain=CALM)
    site.quick("b")
    steps = [step for step in WINDOW if step not in ("settle", "stop")]
    at = {2 + 2 * WINDOW.index(verb): 2 + 2 * steps.index(verb) for verb in ("await", "run")}[line]
    killed(site, "after", at, *dark.words("b"))
    site.run("recover").exits(0)
    site.assert_nothing_serves()
    assert dark.free()


def test_the_next_changing_command_restores_first_and_reading_ones_tell_it(shared: Dark) -> None:
    site = shared.site
    release = ready(shared)
    killed(site, "after", 2 + 2 * WINDOW.index("run"), *shared.words("b"))
    before = site.tree(), site.docker_state()
    said = site.run("status").exits(0).out
    assert "cut off, open since 2" in said
    assert f"{release} serves again after `b70ctl recover`" in said
    for words in (("history",), ("verify",), ("plan", "c"), ("window", "c", "--port", "1", "-n", "--", "true")):
        assert "was cut off" in site.run(*words).err
    assert (site.tree(), site.docker_state()) == before
    ran = site.run("snapshot", "kept").exits(0)
    assert f"{release} serves again, proven" in ran.err
    assert_back(shared, release)
    assert site.state()["snapshots"]["kept"] == release


def test_a_recovery_of_a_window_that_is_killed_too_is_recovered(shared: Dark) -> None:
    release = ready(shared)
    killed(shared.site, "after", 2 + 2 * WINDOW.index("run"), *shared.words("b"))
    for line in (1, 2):
        killed(shared.site, "before", line, "recover")
    shared.site.run("recover").exits(0)
    assert_back(shared, release)


def begun_with_a_family(dark: Dark) -> Path:
    """The folder in which the command's processes tell who they are."""
    folder = dark.site.root / "pids"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    return folder


def are_up(folder: Path) -> bool:
    return len(list(folder.glob("*.pid"))) == 3 and all(path.read_text().strip() for path in folder.glob("*.pid"))


def test_killed_while_the_command_runs_nothing_of_it_is_left_and_the_next_command_restores(shared: Dark) -> None:
    release = ready(shared)
    folder = begun_with_a_family(shared)
    with shared.site.begin(*shared.words("b", command=("sh", "-c", FAMILY))) as child:
        until(lambda: are_up(folder), "the command and its children run")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        until(lambda: not any(map(alive, pids(folder))), "nothing of the command is left", seconds=15)
    shared.site.run("recover").exits(0)
    assert_back(shared, release)


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_command_with_all_that_it_started_and_production_comes_back(
    shared: Dark, number: signal.Signals
) -> None:
    release = ready(shared)
    folder = begun_with_a_family(shared)
    with shared.site.begin(*shared.words("b", command=("sh", "-c", FAMILY))) as child:
        until(lambda: are_up(folder), "the command and its children run")
        child.send_signal(number)
        until(lambda: any(line["event"] == "undo" for line in shared.site.journal()[-3:]), "it goes back")
        # whoever is impatient is told, and production comes back all the same
        child.send_signal(number)
        assert child.wait(90) == 130
    assert not any(map(alive, pids(folder)))
    assert_back(shared, release)
    assert shared.site.history()[-1]["result"] == "interrupted"
    assert shared.site.verdict(shared.site.release("b"))["state"] == "proven"


def test_a_signal_while_an_engine_boots_puts_production_back_too(shared: Dark) -> None:
    release = ready(shared)
    shared.site.profile("slow-boot", env={"STANDIN_STAGE_SECONDS": "weights=30"})
    with shared.site.begin(*shared.words("slow-boot")) as child:
        until(lambda: shared.site.begun("await"), "it boots")
        child.send_signal(signal.SIGTERM)
        assert child.wait(90) == 130
    assert_back(shared, release)


def test_a_signal_while_a_quiet_box_is_waited_for_puts_production_back_too(shared: Dark) -> None:
    release = ready(shared)
    shared.site.write_site(drain={"load": 10000, "limit": 120}, **AWAITS_FEEDER)
    with shared.site.begin(*shared.words("b")) as child:
        until(lambda: shared.site.begun("withdraw"), "the router is asked")
        with fed():
            (shared.site.root / "fed").touch()
            until(lambda: shared.site.begun("verify"), "it waits for a quiet box")
            child.send_signal(signal.SIGTERM)
            assert child.wait(90) == 130
    assert_back(shared, release)


CATCHES = """
trap 'echo caught > caught; exit 0' INT
echo ready > ready
while :; do sleep 0.1; done
"""


def test_on_a_terminal_ctrl_c_is_the_commands_and_then_production_comes_back(site: LiveSite) -> None:
    dark = serving_site(site)
    site.quick("a", env={"STANDIN_STAGE_SECONDS": "weights=3"})
    site.switch("a")
    release = site.serving()
    with terminal(site, *dark.words("b", "c", command=("sh", "-c", CATCHES))) as shown:
        until(lambda: shown.read() is not None and (site.root / "ready").exists(), "the command runs")
        shown.type(CTRL_C)
        until(lambda: shown.read() is not None and (site.root / "caught").exists(), "the command has it")
        until(lambda: shown.read() is not None and site.journal()[-1]["event"] == "undo", "it goes back")
        shown.type(CTRL_C)
        until(lambda: "going back" in shown.read(), "a second one is only told")
        assert shown.wait() == 130
    assert_back(dark, release)
    assert [each["deployment"]["profile"] for each in site.releases().values()].count("c") == 1
    assert not (site.folder(site.release("c")) / "engine.log").exists()


def test_a_command_that_does_not_mind_ctrl_c_goes_on_until_the_second(site: LiveSite) -> None:
    dark = serving_site(site)
    with terminal(site, *dark.words("b", command=("sh", "-c", "trap '' INT; echo ready > ready; sleep 600"))) as shown:
        until(lambda: shown.read() is not None and (site.root / "ready").exists(), "the command runs")
        shown.type(CTRL_C)
        until(lambda: "Ctrl-C again" in shown.read(), "it says what a second one would do")
        assert site.begun("run")
        shown.type(CTRL_C)
        assert shown.wait() == 130
    assert_back(dark, site.serving())
    assert site.history()[-1]["result"] == "interrupted"


def test_a_shell_is_a_command_too_and_its_ctrl_c_is_its_own(shared: Dark) -> None:
    release = ready(shared)
    site = shared.site
    with terminal(site, *shared.words("b", command=("bash", "--norc", "--noprofile", "-i"))) as shown:
        until(lambda: "bash-" in shown.read().rpartition("to its end")[2], "the shell prompts")
        prompts = shown.text.count("bash-")
        shown.type(CTRL_C)
        until(lambda: shown.read().count("bash-") > prompts, "it prompts again")
        shown.type(b"echo model: $B70CTL_MODEL\n")
        until(lambda: "model: b" in shown.read(), "it answers")
        assert "Ctrl-C again" not in shown.text
        assert site.begun("run")
        shown.type(b"exit\n")
        assert shown.wait() == 0
    assert_back(shared, release)
