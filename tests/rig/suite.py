"""The whole test suite on a real Docker Engine; pytest's closing line is the last that is printed.

    python -m tests.rig.suite [pytest's arguments]

A test that needs Docker fails here when none answers; it never skips.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.vllm.sdist import sources
from tests.vllm.source.tier import IN_CI

from . import dockerd, images
from .talk import exit_status, give


def main(arguments: list[str]) -> int:
    """Run pytest with a Docker Engine, stop the engine if it was started for that, and give pytest's exit status."""
    with dockerd.running() as daemon:
        env = {**os.environ, "DOCKER_HOST": daemon.host, "B70CTL_REQUIRE_DOCKER": "1"}
        if arguments:
            closing, code = _pytest(arguments, env)
        else:
            images.ensure_images(daemon.host)
            for version in IN_CI:
                sources(version)  # no test may fetch anything
            # most of the time of a live test is waiting; those that take the daemon away come alone, and last
            closing, code = _pytest(["-n", "2", "--dist", "loadgroup", "-m", "not last"], env)
            give(closing)
            closing, last = _pytest(["-m", "last"], env)
            code = code or last
    give(closing)
    return code


def _pytest(arguments: list[str], env: dict[str, str]) -> tuple[str, int]:
    colour = "--color=yes" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else "--color=no"
    argv = (sys.executable, "-m", "pytest", colour, *arguments)
    child = subprocess.Popen(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, preexec_fn=_heard
    )
    return _relay(child), child.wait()


def _heard() -> None:
    """Ctrl-C means what it means on a terminal, also where this was started in the background."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def _relay(child: subprocess.Popen[str]) -> str:
    """Pass on what pytest prints, one line behind; the line that is left at the end is its closing one."""
    held = None
    for line in child.stdout or ():
        if held is not None:
            give(held)
            sys.stdout.flush()
        held = line.rstrip("\n")
    return held or "pytest printed nothing"


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
