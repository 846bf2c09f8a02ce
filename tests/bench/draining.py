"""What a drain costs those who are being answered: streams in flight through a vllm-router, and requests that go on
arriving while the engine leaves, is away, and comes back. Beside it, the same load on a bare `docker stop`.

The stand-in engines answer slowly; a second one behind the router has room for what arrives. 200 streams are at work
in the engine when it is told to go.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import httpx

from tests.rig import dockerd
from tests.rig.engine_process import PATIENCE, eventually, starter
from tests.rig.images import ensure_images
from tests.rig.load import Arrivals, figure, in_flight
from tests.rig.standin_site import COMMAND, Site, furnish, standin_site
from tests.rig.vllm_router import VERSION, add_worker, ensure_router, routing

from .sampling import heading, process, tell

STREAMS = 200
TOKENS = 240
RATE = 10
"""Tokens per second of each stream: 24 seconds of it."""
EVERY = 0.1
"""Seconds between two requests that arrive."""
BEFORE = 20
"""Requests that have come back whole before the engine is told to go, and again after it is back."""
LIMIT = 120
FINISHED = "vllm:request_success_total"
DOCKERS_OWN = 10
"""Seconds that `docker stop` waits unless it is told otherwise."""
PROFILE = f"""\
extends: demo-b
summary: a stand-in that answers slowly
model:
  served_names: [slow]
engine:
  max_num_seqs: 1024
env:
  STANDIN_TOKENS_PER_SECOND: "{RATE}"
probes:
  skip: {{arithmetic: slow, counting: slow, prose: slow, json: slow, long-prompt: slow}}
"""


@dataclass(frozen=True, slots=True)
class Stand:
    """A site that serves, the router in front of it, its engine and another one, by their addresses."""

    site: Site
    router: str
    engine: str
    other: str

    def b70ctl(self, *words: str) -> float:
        """Seconds for one command."""
        return process((COMMAND, *words), cwd=self.site.folder, env=self.site.env)


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of the requests, and how long the engine took to go and to come back."""

    faults: tuple[str, ...]
    """Of the streams that were in flight."""
    failed: tuple[str, ...]
    arrived: int
    leaving: float
    coming: float
    reached: int
    """Requests that were answered by it afterwards."""

    def __str__(self) -> str:
        cut, failed = len(self.faults), len(self.failed)
        answered = f"{self.reached} requests answered by it within {PATIENCE} s, {BEFORE} waited for"
        lines = [
            f"    streams in flight: {cut} of {STREAMS} cut, {STREAMS - cut} whole",
            f"    arriving meanwhile: {failed} of {self.arrived} failed, {self.arrived - failed} whole",
            f"    stopped after {self.leaving:.1f} s, back after {self.coming:.1f} s more; {answered}",
            *(f"    such as: {each}" for each in (*self.faults[:1], *self.failed[:1])),
        ]
        return "\n".join(lines)


def main() -> None:
    """Print a drain that waits, one that leaves the waiting to the engine's grace, and `docker stop`."""
    program = ensure_router()
    with dockerd.running() as daemon:
        ensure_images(daemon.host)
        heading(f"draining: {STREAMS} streams of {TOKENS} tokens at {RATE} a second through vllm-router {VERSION}, "
                f"and a request every {EVERY} s", "tests.bench.draining")  # fmt: skip
        for name, limit, away in (
            ("b70ctl drain", LIMIT, _drained), ("b70ctl drain", 0, _drained), ("docker stop", LIMIT, _stopped),
        ):  # fmt: skip
            with _stand(program, daemon.host, limit) as stand:
                tell(f"  {name}" + (f", drain.limit {limit}" if away is _drained else f", {DOCKERS_OWN} s"))
                tell(str(_seen(stand, away)))
    tell("  of a drain 0 cut and 0 failed are wanted")


@contextlib.contextmanager
def _stand(program: Path, host: str, limit: int) -> Iterator[Stand]:
    with standin_site(host, "bench") as site, starter(site.folder.parent) as start:
        engine = f"http://127.0.0.1:{site.port}"
        process((COMMAND, "init", ".", "--name", site.name), cwd=site.folder, env=site.env)
        furnish(site, boot=0.5)
        (site.folder / "profiles" / "slow.yaml").write_text(PROFILE)
        process((COMMAND, "switch", "slow", "--yes"), cwd=site.folder, env=site.env)
        with routing(program, engine, site.folder.parent / "router.log") as router:
            with (site.folder / "site.yaml").open("a") as file:
                file.write(f"router:\n  vllm_router: {router}\ndrain:\n  limit: {limit}\n")
            other = start("--served-model-name", "slow", "--max-num-seqs", "1024", TOKENS_PER_SECOND=RATE).ready()
            yield Stand(site, router, engine, other.url(""))


def _seen(stand: Stand, away: Callable[[Stand], tuple[float, float]]) -> Seen:
    """Take the engine away under load, and bring it back."""
    with in_flight(stand.router, stand.engine, "slow", STREAMS, TOKENS) as streams:
        add_worker(stand.router, stand.other)
        with Arrivals.keep(stand.router, "slow", every=EVERY) as arrivals:
            eventually(lambda: arrivals.whole >= BEFORE, "requests that arrive and come back")
            leaving, coming = away(stand)
            at_work = figure(stand.engine, FINISHED)
            # a router that was not asked may leave the engine out for minutes, which is what is to be seen
            with contextlib.suppress(AssertionError):
                eventually(lambda: figure(stand.engine, FINISHED) >= at_work + BEFORE, "requests for it")
            reached = int(figure(stand.engine, FINISHED) - at_work)
    faults = tuple(fault for each in streams if (fault := each.result()))
    return Seen(faults, tuple(arrivals.faults), len(arrivals.found), leaving, coming, reached)


def _drained(stand: Stand) -> tuple[float, float]:
    return stand.b70ctl("drain", "--yes"), stand.b70ctl("restore")


def _stopped(stand: Stand) -> tuple[float, float]:
    """As one does without b70ctl: nobody asks the router, which finds out for itself."""
    client = docker.DockerClient(base_url=stand.site.env["DOCKER_HOST"], version="auto", timeout=60)
    try:
        [container] = client.containers.list(filters={"label": f"b70ctl.site={stand.site.name}"})
        began = time.perf_counter()
        container.stop(timeout=DOCKERS_OWN)
        gone = time.perf_counter()
        container.start()
        eventually(lambda: _healthy(stand.engine), "a healthy engine")
        return gone - began, time.perf_counter() - gone
    finally:
        client.close()


def _healthy(engine: str) -> bool:
    try:
        return httpx.get(f"{engine}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    main()
