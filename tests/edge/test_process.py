"""No process outlives the command that started it, and all that it said is heard."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from b70ctl.edge.process import KEPT, attend, cannot_run, consult, run
from b70ctl.edge.signals import Interrupts
from b70ctl.errors import EngineError, Interrupted, MachineError
from tests.eventually import eventually, is_gone

pytestmark = pytest.mark.process

PARENT = """
import sys
from b70ctl.edge.process import run
run(["sh", "-c", "echo $$ > $0.new; mv $0.new $0; exec sleep 600", sys.argv[1]], timeout=600)
"""


def python(code, **more):
    return run([sys.executable, "-c", code], timeout=30, **more)


def test_what_was_said_is_given_back_with_the_status():
    ran = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (ran.stdout, ran.stderr, ran.code) == ("out\n", "err\n", 3)


def test_bytes_that_are_no_utf8_do_not_stop_the_reader():
    assert python("import os; os.write(1, b'caf\\xe9 \\xff ok\\n')").stdout == "caf\ufffd \ufffd ok\n"


def test_more_output_than_a_pipe_holds_is_read_whole():
    ran = python("import sys; sys.stdout.write('x' * 1_000_000); sys.stderr.write('y' * 1_000_000)")
    assert (len(ran.stdout), len(ran.stderr)) == (1_000_000, 1_000_000)


def test_who_asks_for_input_is_told_that_there_is_none():
    assert "EOFError" in python("input()").stderr


def test_the_environment_is_the_one_that_was_given(tmp_path):
    assert python("import os; print(os.environ.get('A'), os.getcwd())", env={"A": "1"}, cwd=tmp_path).stdout == (
        f"1 {tmp_path}\n"
    )


def test_a_program_that_is_not_there_is_what_the_machine_lacks():
    with pytest.raises(MachineError, match="`no-such-program` is not installed"):
        run(["no-such-program"], timeout=5)


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_a_program_that_cannot_be_run_is_said_so(tmp_path, mode):
    path = tmp_path / "program"
    path.write_bytes(b"\x00\x01 not a program")
    path.chmod(mode)
    with pytest.raises(MachineError, match="cannot be run"):
        run([str(path)], timeout=5)


def test_a_folder_that_is_gone_is_not_blamed_on_the_program(tmp_path):
    with pytest.raises(MachineError, match="cannot be run: No such file"):
        run([sys.executable], timeout=5, cwd=tmp_path / "gone")


def pid_in(path):
    eventually(path.exists)
    return int(path.read_text())


def test_a_program_that_does_not_end_is_ended_with_all_that_it_started(tmp_path):
    file = tmp_path / "pid"
    with pytest.raises(EngineError, match="did not end within"):
        run(["sh", "-c", "sleep 600 & echo $! > $0; wait", str(file)], timeout=0.5)
    eventually(lambda: is_gone(pid_in(file)))


def test_a_child_dies_with_its_parent_however_that_dies(tmp_path):
    file = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(file)]) as parent:
        child = pid_in(file)
        assert not is_gone(child)
        parent.kill()
    eventually(lambda: is_gone(child))


def test_a_child_is_in_a_session_of_its_own_so_that_ctrl_c_is_ours():
    assert python("import os; print(os.getsid(0) == os.getpid())").stdout == "True\n"


def test_an_exception_in_the_wait_ends_the_child_first(tmp_path):
    file = tmp_path / "pid"

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    helper = threading.Thread(target=lambda: (pid_in(file), os.kill(os.getpid(), signal.SIGUSR1)))
    helper.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(["sh", "-c", "echo $$ > $0.new; mv $0.new $0; exec sleep 600", str(file)], timeout=600)
    finally:
        helper.join()
        signal.signal(signal.SIGUSR1, before)
    assert is_gone(pid_in(file))


@pytest.mark.parametrize("held", [True, False])
def test_a_child_inherits_the_descriptors_that_stand_for_locks_and_no_others(tmp_path, held):
    with (tmp_path / "lock").open("w") as file:
        ran = python(
            f"import os; print(os.path.exists('/proc/self/fd/{file.fileno()}'))", hold=[file.fileno()] if held else []
        )
    assert ran.stdout == f"{held}\n"


CONSULTING = """
import os, sys
from pathlib import Path
from b70ctl.edge.process import consult
consult(sys.argv[1:], timeout=600, cwd=Path.cwd(), env=os.environ)
"""


def consulted(text, folder, seconds=30.0):
    return consult(["sh", "-c", text], timeout=seconds, cwd=folder, env=os.environ)


def test_of_a_hook_the_last_lines_are_kept_and_its_status(tmp_path):
    ran = consulted("seq 100000; echo no >&2; exit 3", tmp_path)
    assert (ran.code, ran.stderr) == (3, "no\n")
    assert ran.stdout.endswith("99999\n100000\n")
    assert len(ran.stdout.splitlines()) == KEPT


def test_a_hook_that_does_not_end_is_ended_with_all_that_it_started(tmp_path):
    with pytest.raises(EngineError, match="`sh` did not end within") as late:
        consulted("setsid sleep 600 & echo $! > pid; wait; echo hush", tmp_path, 1.0)
    assert "hush" not in late.value.what
    assert is_gone(pid_in(tmp_path / "pid"))


def test_a_hook_dies_with_all_that_it_started_when_we_are_killed(tmp_path):
    text = "setsid sleep 600 & echo $! > pid.new; mv pid.new pid; wait"
    with subprocess.Popen([sys.executable, "-c", CONSULTING, "sh", "-c", text], cwd=tmp_path) as parent:
        child = pid_in(tmp_path / "pid")
        parent.kill()
    eventually(lambda: is_gone(child))


def test_a_stream_that_somebody_keeps_is_not_waited_for(tmp_path, monkeypatch):
    # a process that may not be ended, as of another user: here one that is no descendant, and has the stream
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "sock")]) as holder:
        eventually((tmp_path / "sock").exists)
        ran = consult([sys.executable, "-c", HANDING, str(tmp_path / "sock")], timeout=30, cwd=tmp_path, env=os.environ)
        assert holder.poll() is None
        holder.kill()
    assert (ran.code, ran.stdout) == (0, "said\n")


HOLDER = """
import socket, sys, time
with socket.socket(socket.AF_UNIX) as server:
    server.bind(sys.argv[1] + ".new"); server.listen()
    import os; os.rename(sys.argv[1] + ".new", sys.argv[1])
    peer, _ = server.accept()
    kept = socket.recv_fds(peer, 1, 1)
    peer.send(b"k")
    time.sleep(600)
"""
HANDING = """
import socket, sys
print("said", flush=True)
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect(sys.argv[1])
    socket.send_fds(peer, [b"x"], [1])
    peer.recv(1)
"""


def test_a_signal_while_a_child_is_being_started_ends_it_too(tmp_path, monkeypatch):
    """As from the keyboard, in the moment in which nobody waits for the child yet."""
    started = []
    popen = subprocess.Popen

    def interrupted(*args, **more):
        child = popen(*args, **more)
        started.append(child)
        signal.raise_signal(signal.SIGTERM)
        return child

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    interrupts = Interrupts(terminal=False, warn=lambda _: None)
    for act in (run_forever, attend_forever, consult_forever):
        with interrupts.watched(), pytest.raises(Interrupted):
            act(tmp_path)
        interrupts.answered()
    assert len(started) == 3
    assert all(is_gone(child.pid) for child in started)


def run_forever(_):
    run(["sleep", "600"], timeout=600)


def attend_forever(_):
    attend(["sleep", "600"], env=os.environ)


def consult_forever(folder):
    consulted("sleep 600", folder, 600)


def test_the_program_has_the_signals_that_we_have(tmp_path):
    text = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    assert python(text).stdout == "set()\n"
    assert consult([sys.executable, "-c", text], timeout=30, cwd=tmp_path, env=os.environ).stdout == "set()\n"


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("#!/bin/sh\n", 0o755, None),
        ("\x7fELF\0", 0o755, None),
        ("#!/bin/sh\n", 0o644, "is not a program"),
        ("echo\n", 0o755, "no `#!` line"),
        ("", 0o755, "no `#!` line"),
        ("#!/no/such\n", 0o755, "run by `/no/such`, which is not there"),
        ("#! \n", 0o755, "which is not there"),
        ("#!/no/such\r\n", 0o755, "which is not there"),
    ],
)
def test_what_would_not_start_is_known_before_it_is_tried(tmp_path, monkeypatch, text, mode, why):
    (tmp_path / "it").write_text(text)
    (tmp_path / "it").chmod(mode)
    found = cannot_run("./it", tmp_path)
    assert found is None if why is None else why in found
    assert cannot_run("it", tmp_path) is not None  # not looked for in the folder
    monkeypatch.chdir(tmp_path)
    assert cannot_run("./it") == found
    assert cannot_run("sh") is None
    assert "is not a program" in cannot_run("b70ctl-no-such")
