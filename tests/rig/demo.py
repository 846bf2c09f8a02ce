"""The main job, shown: a real b70ctl on a real Docker Engine, with a stand-in where vLLM and a card would be.

    python -m tests.rig.demo      what it starts it stops, also when it is interrupted

Exit status 0 only when every command ended as promised and nothing was left behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import FrameType

import docker.errors
import httpx

from b70ctl.errors import B70Error, DaemonError, Exit, Interrupted

from . import dockerd
from .images import ensure_images
from .standin_site import COMMAND, Site, furnish, standin_site
from .talk import exit_status, give

INTRODUCTION = """\
b70ctl switches, proves and rolls back an engine in Docker. All of this is real: the commands, Compose, the
containers, the probes. Only the engine is a stand-in: a small program with vLLM's flags, boot log and HTTP surface,
no model and no card. Its answers are canned.
"""
STOPPING = (signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Run the demo, on a Docker Engine that is stopped afterwards if it was started for it."""
    began = time.monotonic()
    for number in STOPPING:
        signal.signal(number, _asked_to_stop)
    show(INTRODUCTION)
    try:
        with dockerd.running() as daemon:
            ensure_images(daemon.host)
            with standin_site(daemon.host, "demo") as site, _deaf_at_the_end():
                _play(site)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; what was started is stopped again") from None
    except docker.errors.DockerException as error:
        raise DaemonError(f"Docker said: {error}") from error
    if daemon.started_now and dockerd.host() == daemon.host:
        raise B70Error(f"the Docker Engine on {daemon.host} still runs", hint="make engine-down")
    kept = "" if daemon.started_now else f"; its two images stay on {daemon.host}, `docker rmi` removes them"
    show(f"\nThe demo took {time.monotonic() - began:.0f} s. Nothing of it is left running{kept}.")
    return 0


def _play(site: Site) -> None:
    b70ctl(site, "init", ".", "--name", site.name)
    show(f"(written into it: {furnish(site)})")
    show("\nA site is a directory that owns one engine.")
    b70ctl(site, "profiles", "list")
    show("\nThe first switch: nothing serves yet.")
    b70ctl(site, "switch", "demo-a", "--yes")
    answers_as(site, "demo-a")
    show("\nFrom A to B, another image: A is kept, stopped, until B has proven itself.")
    b70ctl(site, "switch", "demo-b", "--yes")
    answers_as(site, "demo-b")
    show("\nNow an engine that is healthy and talks nonsense. It must not stay, and B must come back.")
    b70ctl(site, "switch", "demo-broken", "--yes", ends=Exit.ROLLED_BACK)
    answers_as(site, "demo-b")
    show("\nBack to what served before B.")
    b70ctl(site, "rollback", "--yes")
    answers_as(site, "demo-a")
    b70ctl(site, "history")
    b70ctl(site, "status")
    b70ctl(site, "stop", "--yes")


def b70ctl(site: Site, *words: str, ends: Exit = Exit.DONE) -> None:
    """Show a command as a person would type it, run it, and fail unless it ends as promised."""
    show(f"\n{bold('$ b70ctl ' + ' '.join(words))}")
    child = subprocess.Popen((COMMAND, *words), cwd=site.folder, env=site.env, stdin=subprocess.DEVNULL)
    code = _ended(child)
    if code == Exit.INTERRUPTED:
        raise Interrupted("interrupted")
    if code != ends:
        raise B70Error(f"`b70ctl {' '.join(words)}` ended with exit {code}; {int(ends)} was promised")
    if ends:
        show(f"(exit {code}, as it must)")


def answers_as(site: Site, model: str) -> None:
    """Fail unless the site's port serves this model."""
    url = f"http://127.0.0.1:{site.port}/v1/models"
    served = [item["id"] for item in httpx.get(url, timeout=10).json()["data"]]
    if served != [model]:
        raise B70Error(f"{url} lists {served}, not {model}")
    show(f"checked: {url} lists {model}")


def _ended(child: subprocess.Popen[bytes]) -> int:
    """Wait for a command; a Ctrl-C reaches it as well, and is its to answer."""
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue
        except Interrupted:
            child.terminate()
            child.wait()
            raise


def _asked_to_stop(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(f"interrupted by {signal.Signals(number).name}")


@contextlib.contextmanager
def _deaf_at_the_end() -> Iterator[None]:
    """What comes after the block is only cleaning, short, and not to be interrupted."""
    try:
        yield
    finally:
        for number in (signal.SIGINT, *STOPPING):
            signal.signal(number, signal.SIG_IGN)


def show(text: str) -> None:
    """A line that is out before the next command writes its own."""
    give(text)
    sys.stdout.flush()


def bold(text: str) -> str:
    """Emphasis, where a terminal shows it."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1m{text}\x1b[0m"


if __name__ == "__main__":
    sys.exit(exit_status(main))
