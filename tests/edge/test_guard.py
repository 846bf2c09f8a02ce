"""A person's command runs as on the terminal, and nothing that it started outlives its turn."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from b70ctl.edge.process import GUARD, attend, program
from b70ctl.edge.signals import Interrupts
from b70ctl.errors import Interrupted, MachineError
from tests.eventually import eventually, is_gone

pytestmark = pytest.mark.process

ATTENDING = """
import os, sys
from b70ctl.edge.process import attend
sys.exit(attend(sys.argv[1:], env=os.environ))
"""
FAMILY = """
cd "$0"
echo $$ > 1.new; mv 1.new 1.pid
sleep 600 & echo $! > 2.new; mv 2.new 2.pid
setsid sh -c 'trap "" TERM; echo $$ > 3.new; mv 3.new 3.pid; while :; do sleep 0.2; done' &
wait
"""
"""A command with a child, and a grandchild in a session of its own that does not want to end."""


def attending(*argv, **more):
    """Another process that attends to a command."""
    return subprocess.Popen([sys.executable, "-c", ATTENDING, *map(str, argv)], text=True, **more)


def family(folder):
    """The processes of FAMILY, once they run."""
    eventually(lambda: len(list(folder.glob("*.pid"))) == 3)
    return [int(path.read_text()) for path in folder.glob("*.pid")]


def sh(text, *args, **more):
    return attend(["sh", "-c", text, *args], env=os.environ, **more)


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_status_is_the_commands(code):
    assert sh(f"exit {code}") == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_command_that_a_signal_ended_says_which_as_a_shell_does(number):
    assert sh(f"kill -{int(number)} $$") == 128 + number


def test_a_command_that_cannot_be_run_ends_as_in_a_shell(capfd):
    assert attend(["/no/such/program"], env=os.environ) == 127
    assert capfd.readouterr().err == "/no/such/program: No such file or directory\n"
    assert program("no-such-program") is None
    assert program("sh") is not None


@pytest.mark.parametrize("aside", [False, True])
def test_its_streams_are_ours_and_its_stdout_may_be_kept_aside(aside):
    text = f"import sys; from b70ctl.edge.process import attend; attend(sys.argv[1:], env={{}}, aside={aside})"
    argv = [sys.executable, "-c", text, "/bin/sh", "-c", "read line; echo $line; echo err >&2"]
    ran = subprocess.run(argv, input="typed\n", capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == (("", "typed\nerr\n") if aside else ("typed\n", "err\n"))


def test_it_runs_in_our_process_group_with_the_environment_that_it_is_given_and_no_lock(tmp_path):
    with (tmp_path / "lock").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        text = "ps -o pgid= -p $$ > group; env > env; ls /proc/self/fd | wc -l > open"
        assert attend(["sh", "-c", f"cd {tmp_path}; {text}"], env={"PATH": os.environ["PATH"], "A": "1"}) == 0
    assert int((tmp_path / "group").read_text()) == os.getpgrp()
    assert "A=1" in (tmp_path / "env").read_text().split()
    assert int((tmp_path / "open").read_text()) <= 4  # three streams, and the folder that is listed


def test_signals_mean_to_it_what_they_mean_to_any_command():
    text = "import signal as s; print([int(s.getsignal(n)) for n in (s.SIGTERM, s.SIGHUP, s.SIGQUIT)])"
    ran = attending(sys.executable, "-c", text, stdout=subprocess.PIPE)
    assert ran.communicate()[0] == "[0, 0, 0]\n"
    # a writer whose reader has gone ends of it, and is not told by an error
    assert sh("yes | head -1 > /dev/null; exit 0") == 0
    assert sh("kill -PIPE $$") == 128 + signal.SIGPIPE


def test_what_is_left_when_it_ends_is_ended(tmp_path):
    assert sh(FAMILY.replace("wait", "while [ ! -e 3.pid ]; do sleep 0.05; done; exit 5"), str(tmp_path)) == 5
    assert all(map(is_gone, family(tmp_path)))


def test_nothing_is_left_when_whoever_waited_for_it_is_killed(tmp_path):
    with attending("sh", "-c", FAMILY, tmp_path) as parent:
        found = family(tmp_path)
        assert not any(map(is_gone, found))
        parent.kill()
    eventually(lambda: all(map(is_gone, found)))


def test_a_command_whose_guard_is_killed_is_killed_with_it(tmp_path):
    with attending("sh", "-c", "echo $$ > $0.new; mv $0.new $0; exec sleep 600", tmp_path / "pid") as parent:
        eventually((tmp_path / "pid").exists)
        child = int((tmp_path / "pid").read_text())
        guard = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
        assert GUARD.name in Path(f"/proc/{guard}/cmdline").read_text()
        os.kill(guard, signal.SIGKILL)
        assert parent.wait(20) != 0
    eventually(lambda: is_gone(child))


def test_what_a_guard_that_was_killed_leaves_is_ended_and_its_death_is_told(tmp_path):
    helper = threading.Thread(target=lambda: (family(tmp_path), _kill_the_guard()))
    helper.start()
    with pytest.raises(MachineError, match="guards `sh` was ended by signal 9"):
        sh(FAMILY, str(tmp_path))
    helper.join()
    assert all(map(is_gone, family(tmp_path)))


def _kill_the_guard():
    ours = (each for each in Path("/proc").iterdir() if each.name.isdigit() and _parent(each.name) == os.getpid())
    for pid in (int(each.name) for each in ours if GUARD.name in (each / "cmdline").read_text()):
        os.kill(pid, signal.SIGKILL)


def _parent(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def test_a_guard_that_is_asked_twice_ends_all_the_same(tmp_path):
    with attending("sh", "-c", FAMILY, tmp_path) as parent:
        found = family(tmp_path)
        shell = next(pid for pid in found if _parent(_parent(pid)) == parent.pid)
        for _ in range(20):
            os.kill(_parent(shell) or 0, signal.SIGTERM)
            if _parent(shell) is None:
                break
        assert parent.wait(20) == 128 + signal.SIGTERM
    assert all(map(is_gone, found))


def test_keys_pressed_while_a_command_is_ended_do_not_come_before_its_end(tmp_path):
    interrupts = Interrupts(terminal=False, warn=lambda _: None)

    def press():
        found = family(tmp_path)
        eventually(lambda: os.kill(os.getpid(), signal.SIGINT) or all(map(is_gone, found)))

    helper = threading.Thread(target=press)
    helper.start()
    with interrupts.watched(), pytest.raises(Interrupted):
        try:
            sh(FAMILY, str(tmp_path))
        finally:
            ended = all(map(is_gone, family(tmp_path)))
            helper.join()
    assert ended


def test_an_exception_in_the_wait_ends_it_with_all_that_it_started(tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    helper = threading.Thread(target=lambda: (family(tmp_path), os.kill(os.getpid(), signal.SIGUSR1)))
    helper.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            sh(FAMILY, str(tmp_path))
    finally:
        helper.join()
        signal.signal(signal.SIGUSR1, before)
    assert all(map(is_gone, family(tmp_path)))


def test_a_key_for_the_command_does_not_end_its_guard(tmp_path):
    text = "trap 'echo caught > $0.new; mv $0.new $0; exit 7' INT; echo > $0.up; while :; do sleep 0.1; done"
    with attending("sh", "-c", text, tmp_path / "told", start_new_session=True) as parent:
        eventually((tmp_path / "told.up").exists)
        # as a terminal does: to the whole group; only the parent does not mind here
        found = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
        for pid in (pid for pid in found if _group(pid) == parent.pid != pid):
            os.kill(pid, signal.SIGINT)
        assert parent.wait(20) == 7
    assert (tmp_path / "told").read_text() == "caught\n"


def _group(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[2])
    except OSError:
        return None


def test_a_guard_whose_parent_died_before_it_looked_runs_nothing(tmp_path):
    ran = subprocess.run([sys.executable, str(GUARD), "1", "touch", str(tmp_path / "x")], check=False)
    assert (ran.returncode, (tmp_path / "x").exists()) == (128 + signal.SIGTERM, False)
