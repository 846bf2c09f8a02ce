"""Being asked to stop, by a person, a logout or the system: what was begun is undone."""

import contextlib
import dataclasses
import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from livesite import LATE, LiveSite, heard, until

CTRL_C = b"\x03"


@pytest.fixture(scope="module")
def serving(kept_site: LiveSite) -> LiveSite:
    kept_site.quick("a")
    kept_site.profile("slow-boot", env={"STANDIN_STAGE_SECONDS": "weights=30"})
    kept_site.profile("slow-answers", env={"STANDIN_TOKENS_PER_SECOND": "3"})
    kept_site.switch("a")
    return kept_site


@pytest.mark.parametrize(("profile", "step"), [("slow-boot", "await"), ("slow-answers", "probe")])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_undoes_what_was_begun(serving: LiveSite, number: int, profile: str, step: str) -> None:
    old = serving.assert_serves("a")
    with serving.begin("switch", profile, "--yes") as child:
        until(lambda: serving.begun(step), f"it is at {step}")
        child.send_signal(number)
        assert child.wait(60) == 130
    serving.assert_serves("a", old)
    assert serving.history()[-1]["result"] == "interrupted"
    assert serving.verdict(serving.release(profile))["state"] == "interrupted"


def test_a_signal_before_anything_was_begun_changes_nothing(serving: LiveSite) -> None:
    old, started = serving.assert_serves("a"), serving.engine().attrs["State"]["StartedAt"]
    with serving.begin("switch", "slow-boot", "--yes") as child:
        until(lambda: (serving.store / "lock").read_text().count(str(child.pid)), "it has the lock")
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 130
    serving.assert_serves("a", old)
    if not any(line["event"] == "undo" for line in serving.journal()[-8:]):
        assert serving.engine().attrs["State"]["StartedAt"] == started


def test_a_first_switch_that_is_interrupted_leaves_nothing(site: LiveSite) -> None:
    site.profile("slow", env={"STANDIN_STAGE_SECONDS": "weights=30"})
    with site.begin("switch", "slow", "--yes") as child:
        until(lambda: site.begun("await"), "it waits")
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 130
    site.assert_nothing_serves()


def test_a_closed_terminal_and_a_second_signal_do_not_stop_the_way_back(serving: LiveSite) -> None:
    old = serving.assert_serves("a")
    with serving.begin("switch", "slow-boot", "--yes") as child:
        until(lambda: serving.begun("await"), "it waits")
        child.send_signal(signal.SIGHUP)
        until(lambda: any(line["event"] == "undo" for line in serving.journal()[-3:]), "it goes back")
        child.send_signal(signal.SIGTERM)
        child.send_signal(signal.SIGHUP)
        assert child.wait(60) == 130
    serving.assert_serves("a", old)


@dataclass
class Terminal:
    """A command on a terminal of its own, and what it wrote."""

    master: int
    child: subprocess.Popen[bytes]
    text: str = ""
    rest: list[bytes] = field(default_factory=list)

    def read(self) -> str:
        """Everything that it has written so far."""
        while select.select([self.master], [], [], 0)[0]:
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                break
            if not piece:
                break
            self.text += piece.decode(errors="replace")
        return self.text

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def wait(self) -> int:
        """Its exit status; what it writes meanwhile is read, since a full terminal would block it."""
        until(lambda: self.read() is not None and self.child.poll() is not None, "it ends", seconds=90)
        return int(self.child.returncode)


@contextlib.contextmanager
def terminal(site: LiveSite, *args: str) -> Iterator[Terminal]:
    """The command line on a pseudo terminal that is its controlling one."""
    master, slave = pty.openpty()

    def own() -> None:
        heard()
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    child = subprocess.Popen(
        site.argv(*args), cwd=site.root, env=site.environment(TERM="xterm"), stdin=slave, stdout=slave, stderr=slave,
        preexec_fn=own,
    )  # fmt: skip
    os.close(slave)
    try:
        yield Terminal(master, child)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        os.close(master)


def test_on_a_terminal_the_first_ctrl_c_asks_and_the_second_undoes(serving: LiveSite) -> None:
    old = serving.assert_serves("a")
    with terminal(serving, "switch", "slow-boot", "--yes") as shown:
        until(lambda: shown.read() is not None and serving.begun("await"), "it waits")
        shown.type(CTRL_C)
        until(lambda: "Ctrl-C again" in shown.read(), "it says what a second one would do")
        assert shown.child.poll() is None
        assert serving.begun("await")
        shown.type(CTRL_C)
        assert shown.wait() == 130
    serving.assert_serves("a", old)
    assert serving.history()[-1]["result"] == "interrupted"


def test_on_a_terminal_no_answer_but_yes_is_a_yes(serving: LiveSite) -> None:
    old, started = serving.assert_serves("a"), serving.engine().attrs["State"]["StartedAt"]
    with terminal(serving, "switch", "slow-boot") as shown:
        until(lambda: "[y/N]" in shown.read(), "it asks")
        shown.type(b"\r")
        assert shown.wait() == 1
        assert "nothing was touched" in shown.text
    assert serving.engine().attrs["State"]["StartedAt"] == started
    serving.assert_serves("a", old)


def test_one_ctrl_c_at_the_question_ends_it(serving: LiveSite) -> None:
    started = serving.engine().attrs["State"]["StartedAt"]
    with terminal(serving, "switch", "slow-boot") as shown:
        until(lambda: "[y/N]" in shown.read(), "it asks")
        shown.type(CTRL_C)
        assert shown.wait() == 130
    assert serving.engine().attrs["State"]["StartedAt"] == started
    serving.assert_serves("a")


def test_ctrl_c_on_the_way_back_leaves_the_journal_and_recover_repairs(site: LiveSite) -> None:
    site.quick("a", env={"STANDIN_STAGE_SECONDS": "weights=5"})
    site.profile("slow-boot", env={"STANDIN_STAGE_SECONDS": "weights=30"})
    site.switch("a")
    old = site.serving()
    with terminal(site, "switch", "slow-boot", "--yes") as shown:
        until(lambda: shown.read() is not None and site.begun("await"), "it waits")
        shown.type(CTRL_C)
        until(lambda: "Ctrl-C again" in shown.read(), "it says what a second one would do")
        shown.type(CTRL_C)
        until(lambda: shown.read() is not None and [each.labels["b70ctl.profile"] for each in site.containers()
              if each.status == "running"] == ["a"], "the old engine boots on the way back")  # fmt: skip
        assert any(line["event"] == "undo" for line in site.journal())
        shown.type(CTRL_C)
        assert shown.wait() == 130
        assert "b70ctl recover" in shown.text
    assert site.journal()[-1]["event"] != "end"
    assert "unfinished" in site.run("status").exits(0).out
    site.run("recover").exits(0)
    site.assert_serves("a", old)


def test_a_result_that_is_recorded_stands_whatever_comes_afterwards(site: LiveSite) -> None:
    late = dataclasses.replace(site, program=(str(LATE),))
    site.quick("a")
    site.quick("bad", env={"STANDIN_FAULT": "garbage"})
    late.switch("a")
    site.assert_serves("a")
    late.switch("bad", code=5)
    site.assert_serves("a")
    assert [op["result"] for op in site.history()] == ["done", "rolled-back"]


def test_talk_that_nobody_reads_stops_nothing(site: LiveSite) -> None:
    site.profile("a")
    with site.begin("switch", "a", "--yes", "--json") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        child.stderr.close()
        assert child.wait(60) == 0
        child.stdout = child.stderr = None
    site.assert_serves("a")
