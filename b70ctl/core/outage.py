"""An engine that does not say 200: whether it boots, is away, or has ended, and how long it may."""

from __future__ import annotations

from dataclasses import replace

from b70ctl.core.release import Container
from b70ctl.core.watch import Watch
from b70ctl.core.watchfault import Fault, Judgement, Kind, Memory, Said
from b70ctl.core.watchlook import Look

_RUNS = ("running", "restarting", "paused")


def unwell(memory: Memory, look: Look, watch: Watch, boot: float) -> Judgement:
    """What a look shows in which /health does not say 200; `boot` is how long the engine may take to start."""
    since = look.at if memory.unwell_since is None else memory.unwell_since
    container = look.container
    # an engine that was never seen well may be booting, one that was started anew since is
    booting = memory.well is None or (container is not None and container.started != memory.started)
    memory = _counted(memory, look)
    gone = _gone_since(memory, look)
    state = "" if gone is None else _down(memory, container)
    said = _outage(memory, look, booting=booting, down=state)
    later = replace(memory, well=None if memory.well is None else False, sound=False, unwell_since=since,
                    gone_since=gone)  # fmt: skip
    if not look.docker:
        return Judgement(later, said)
    started = None if booting or container is None else container.started
    if gone is not None:
        lasted, limit = look.at - gone, watch.unreachable
        fault = Fault(Kind.GONE, f"{state}, for {lasted:.0f} s", started=started)
    else:
        lasted, limit = look.at - since, max(boot, watch.unreachable) if booting else watch.unreachable
        fault = Fault(Kind.UNREACHABLE, f"{look.unwell}, for {lasted:.0f} s", started=started)
    return Judgement(later, said, fault if lasted >= limit else None)


def _outage(memory: Memory, look: Look, *, booting: bool, down: str) -> tuple[Said, ...]:
    """What an outage looks like, once; and once more when what was called a boot is none."""
    if memory.unwell_since is None:
        what = "booting" if booting and not down else "unwell"
        return (Said(what, f"{look.unwell}; {down}" if down and booting else str(look.unwell)),)
    return (Said("unwell", down),) if booting and down and memory.gone_since is None else ()


def _counted(memory: Memory, look: Look) -> Memory:
    """Remember how many restarts are no news, and how the engine ended."""
    container = look.container
    if container is None:
        return memory
    # a count that fell was set back: somebody started it
    known = container.restarts if memory.restarts is None else min(memory.restarts, container.restarts + 1)
    return replace(memory, restarts=known, exit_code=memory.exit_code if _up(container) else container.exit_code)


def _up(container: Container) -> bool:
    return container.state in ("running", "paused")


def _loops(memory: Memory, container: Container) -> bool:
    """Whether it ended in its boot, and Docker starts it over and over: that is no boot."""
    return memory.restarts is not None and container.restarts > memory.restarts


def _down(memory: Memory, container: Container | None) -> str:
    if container is None:
        return "the engine's container is not there"
    if container.state not in _RUNS:
        return f"the engine's container is {container.state}, exit code {container.exit_code}"
    code = "" if memory.exit_code is None else f", exit code {memory.exit_code}"
    return f"the engine ends in its boot{code}, and Docker starts it again"


def _gone_since(memory: Memory, look: Look) -> float | None:
    if not look.docker:
        return memory.gone_since
    container = look.container
    if container is not None and container.state in _RUNS and not _loops(memory, container):
        return None
    return look.at if memory.gone_since is None else memory.gone_since


def still_gone(memory: Memory, look: Look) -> bool:
    """Whether an engine that was found gone is so in another look too."""
    container = look.container
    if container is None or container.state not in _RUNS:
        return True
    return look.unwell is not None and _loops(memory, container)
