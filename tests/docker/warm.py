"""Runs the command line in processes that have their imports behind them; importing took half of a live test's time.

Each run is a process of its own, with its own arguments, folder, environment and files, forked from one that has
imported everything and done nothing else. What begins with a fresh interpreter is begun by `LiveSite.begin`.
"""

import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

USED = ("docker", "httpx", "jinja2", "packaging.specifiers", "pydantic", "rich.console", "rich.status", "yaml")
LONGEST = 1 << 20
INHERITED = ("PYTHON", "LANG", "LC_")
"""Beginnings of variables that an interpreter reads when it starts, and never again."""


def run(
    program: Sequence[str], args: Sequence[str], folder: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of Python with `-m MODULE` or a script, captured, with nothing on stdin."""
    began = {name: value for name, value in env.items() if name.startswith(INHERITED)}
    warm = _parent(tuple(sorted(began.items())))
    request = json.dumps({"program": program, "args": args, "folder": str(folder), "env": dict(env)}).encode()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        socket.send_fds(warm, [request], [out.fileno(), err.fileno()])
        warm.settimeout(timeout)
        try:
            code = int(warm.recv(16))
        except TimeoutError:
            _parent.cache_clear()  # its end closes the socket, and with that the process
            raise subprocess.TimeoutExpired(args, timeout) from None
        said = [_text(file.fileno()) for file in (out, err)]
    return subprocess.CompletedProcess(args, code, *said)


def _text(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, encoding="utf-8", errors="strict", newline=None, closefd=False) as file:
        return file.read()


@cache
def _parent(began: tuple[tuple[str, str], ...]) -> socket.socket:
    """The end of a socket to a process that waits, warm; it ends when the socket is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST)
    with theirs:
        subprocess.Popen(
            (sys.executable, __file__, str(theirs.fileno())), env={"PATH": os.environ["PATH"], **dict(began)},
            pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    return ours


def _serve(channel: socket.socket) -> None:
    """Fork for every request and answer with the exit status; returns in the child, and at the end."""
    while True:
        request, files, _, _ = socket.recv_fds(channel, LONGEST, 2)
        if not request:
            return
        child = os.fork()
        if child == 0:
            _become(json.loads(request), files)
            channel.close()
            return
        for file in files:
            os.close(file)
        channel.send(str(_ended(channel, child)).encode())


def _ended(channel: socket.socket, child: int) -> int:
    """The exit status of a child, which dies when nobody waits for it any more."""
    handle = os.pidfd_open(child)
    ready, _, _ = select.select([handle, channel], [], [])
    os.close(handle)
    if channel in ready:  # nothing is asked while a child runs: the other end is closed
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _become(request: dict[str, object], files: Sequence[int]) -> None:
    for descriptor, file in enumerate(files, start=1):
        os.dup2(file, descriptor)
        os.close(file)
    os.chdir(str(request["folder"]))
    env, args, program = request["env"], request["args"], request["program"]
    assert isinstance(env, dict)
    assert isinstance(args, list)
    assert isinstance(program, list)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [*program[program[0] == "-m" :], *args]
    sys.path[0] = str(Path.cwd()) if program[0] == "-m" else str(Path(program[0]).parent)
    global _wanted
    _wanted = program


_wanted: list[str] = []
"""What a child runs once it is out of the loop."""


def _import_everything() -> None:
    import b70ctl

    for module in pkgutil.walk_packages(b70ctl.__path__, "b70ctl."):
        if not module.name.endswith("__main__"):  # which is what runs
            importlib.import_module(module.name)
    for name in USED:
        importlib.import_module(name)


if __name__ == "__main__":
    _import_everything()
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        _serve(asked)
    if _wanted[:1] == ["-m"]:
        runpy.run_module(_wanted[1], run_name="__main__", alter_sys=True)
    elif _wanted:
        runpy.run_path(_wanted[0], run_name="__main__")
