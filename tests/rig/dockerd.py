"""A Docker Engine for tests and the demo: the machine's own where one answers, else a private one.

The private daemon is one per machine (two would fight over iptables chains), listens on a unix socket
in /run, keeps its images in the checkout's cache, and leaves when asked. `up` may be called by anyone at
any time; `down` stops only a daemon that an `up` started.

    python -m tests.rig.dockerd up           prints DOCKER_HOST
    python -m tests.rig.dockerd status|host|restart|down
    python -m tests.rig.dockerd run -- CMD   up, CMD with DOCKER_HOST set, down if this call brought it up
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from b70ctl.errors import MachineError

from . import network, private_daemon
from .engine_api import answers
from .talk import exit_status, give, say

LOCK = Path("/run/lock/b70ctl-rig.lock")


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon that answers: where, whether the rig started it, and whether this very call did."""

    host: str
    private: bool
    started_now: bool


def up() -> Running:
    """A Docker Engine that answers; starts a private one when there is none."""
    if found := _found():
        return found
    if os.geteuid() != 0:
        raise MachineError(
            "no Docker Engine answers here, and starting a private one needs root", hint="sudo systemctl start docker"
        )
    with _locked():
        if found := _found():
            return found
        if not (shutil.which("dockerd") and shutil.which("iptables")):
            _install()
            if found := _found():
                return found
        private_daemon.clear()
        private_daemon.start()
    return Running(private_daemon.HOST, private=True, started_now=True)


def down() -> bool:
    """Stop the private daemon, its containers and its containerd; False when there is none."""
    if os.geteuid() != 0 or not private_daemon.STATE.exists():
        return False
    with _locked():
        state = private_daemon.recorded()
        if state is None:
            return False
        private_daemon.stop(state.pid, signal.SIGTERM)
        private_daemon.clear()
        network.restore(state.network)
        shutil.rmtree(private_daemon.RUN, ignore_errors=True)
    say("the private Docker Engine is stopped")
    return True


def restart(*, kill: bool = False) -> Running:
    """Stop and start the private daemon as a crash (`kill`) or an upgrade would; containers stay its own."""
    with _locked():
        state = private_daemon.recorded()
        if state is None:
            raise MachineError("only a daemon that the rig started may be restarted", hint="make engine-up")
        private_daemon.stop(state.pid, signal.SIGKILL if kill else signal.SIGTERM)
        private_daemon.stop_containerd()
        private_daemon.launch(state.argv, state.network)
    return Running(private_daemon.HOST, private=True, started_now=True)


@contextlib.contextmanager
def running() -> Iterator[Running]:
    """A daemon for the length of a block; stopped afterwards only when this call started it."""
    daemon = up()
    try:
        yield daemon
    finally:
        if daemon.started_now:
            down()


def host() -> str | None:
    """DOCKER_HOST of the daemon that `up` would use, or None when none answers yet."""
    found = _found()
    return found.host if found else None


def _found() -> Running | None:
    for candidate in (os.environ.get("DOCKER_HOST"), "unix:///var/run/docker.sock", private_daemon.HOST):
        if candidate and answers(candidate):
            return Running(candidate, private=candidate == private_daemon.HOST, started_now=False)
    return None


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _install() -> None:
    packages = ("docker.io", "iptables", "iproute2")
    if os.environ.get("B70CTL_NO_APT"):
        raise MachineError(
            "there is no dockerd here and B70CTL_NO_APT forbids installing one",
            hint=f"apt-get install --no-install-recommends {' '.join(packages)}",
        )
    if shutil.which("apt-get") is None:
        raise MachineError("there is no dockerd here and no apt-get to install one", hint="install Docker Engine")
    say(f"installing {' '.join(packages)} with apt-get (apt-get remove undoes it; B70CTL_NO_APT=1 refuses)")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ("apt-get", "install", "-y", "-q", "--no-install-recommends", *packages)
    for argv in (install, ("apt-get", "update", "-q"), install):
        result = subprocess.run(argv, env=env, stdout=sys.stderr, stdin=subprocess.DEVNULL, check=False)
        if argv is install and result.returncode == 0:
            return
    raise MachineError("apt-get could not install docker.io", hint="apt-get update")


def main(argv: list[str]) -> int:
    """The command line; prints a host, or what was done, and returns the exit status."""
    verb, rest = (argv[0] if argv else "status"), argv[1:]
    if verb == "up":
        give(up().host)
    elif verb == "restart":
        give(restart(kill="--kill" in rest).host)
    elif verb == "down":
        return 0 if down() or not rest else 1
    elif verb == "run":
        return _run(rest[1:] if rest[:1] == ["--"] else rest)
    elif verb in ("status", "host"):
        found = _found()
        if found:
            give(found.host if verb == "host" else f"{found.host} ({'private' if found.private else 'the machine'})")
        return 0 if found else 1
    else:
        sys.stderr.write(__doc__ or "")
        return 2
    return 0


def _run(command: list[str]) -> int:
    with running() as daemon:
        return subprocess.run(command, env={**os.environ, "DOCKER_HOST": daemon.host}, check=False).returncode


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
