"""watch --once: one look, and a probe that is repeated only while it fails; for monitoring, and nothing is touched."""

from __future__ import annotations

from dataclasses import replace

import typer

from b70ctl.cli.here import Here, cut_off
from b70ctl.cli.watching import monitor_of
from b70ctl.core.standing import resting
from b70ctl.core.watch import Watch
from b70ctl.core.watchfault import Kind, Memory
from b70ctl.core.watching import judge
from b70ctl.core.watchlook import Look, Outcome, ProbeResult
from b70ctl.edge.files import now
from b70ctl.edge.watching import Monitor
from b70ctl.errors import Exit, Refused

HEALTHY = "healthy"
RESTING = "resting"
UNCLEAR = "unclear"
"""The engine works, and no probe passed: it was kept waiting behind others."""


def watch_once(here: Here) -> None:
    """Look once, and tell; exit 0 when the engine is healthy, or not to be looked at now, else 1."""
    verdict, evidence = _verdict(here)
    if here.console.json:
        told = {"verdict": verdict, "evidence": evidence, "at": now(), "release": here.store.state().serving}
        here.console.data(told)
    else:
        here.console.text(f"{verdict}: {evidence}")
    if verdict not in (HEALTHY, RESTING):
        raise typer.Exit(int(Exit.FAILED))


def _verdict(here: Here) -> tuple[str, str]:
    if here.site_root is not None and here.store.state().serving is None:
        raise Refused("nothing has served at this site yet", hint="b70ctl switch PROFILE")
    busy, cut = here.at_work()
    if busy:
        return RESTING, f"another command is at work: {busy}"
    if cut:
        return "unfinished", cut_off(cut)
    if why := resting(here.store.state()):
        return RESTING, why
    settings = here.catalog.site.watch
    monitor = monitor_of(here, str(here.store.state().serving), settings)
    return verdict_of(monitor, settings)


def verdict_of(monitor: Monitor, settings: Watch) -> tuple[str, str]:
    """How an engine is, in one word, and what shows it."""
    look = monitor.look(docker=True)
    return _ill(monitor, look) if look.unwell is not None else _asked(monitor, look, settings)


def _ill(monitor: Monitor, look: Look) -> tuple[str, str]:
    """Why an engine that does not say 200 may not: what lasts cannot be told in one look."""
    if not look.docker:
        return Kind.UNREACHABLE.value, f"{look.unwell}; {monitor.away}"
    if look.container is None:
        return Kind.GONE.value, "the engine's container is not there"
    state = look.container.state
    if state == "running":
        return Kind.UNREACHABLE.value, f"{look.unwell}; its container runs since {look.container.started}"
    return Kind.GONE.value, f"the engine's container is {state}, exit code {look.container.exit_code}"


def _asked(monitor: Monitor, look: Look, settings: Watch) -> tuple[str, str]:
    """As many probes as a fault needs, as long as they fail."""
    memory, boot = Memory(), monitor.release.deployment.boot.budget
    asked: ProbeResult | None = None
    for _ in range(settings.confirm):
        asked = monitor.ask()
        if asked is None or asked.outcome is Outcome.PASSED:
            return HEALTHY, _said(asked, look)
        found = judge(memory, replace(look, asked=asked), settings, boot=boot)
        memory = found.memory
        if found.fault:
            return found.fault.kind.value, found.fault.evidence
    return UNCLEAR, f"no probe passed, while the engine worked for others: {asked.detail if asked else ''}"


def _said(asked: ProbeResult | None, look: Look) -> str:
    rate = f", {asked.rate:.1f} tokens/s" if asked and asked.rate else ""
    used = look.metrics.kv_usage if look.metrics else None
    kv = f"; {used * 100:.0f} % of the KV cache is in use" if used is not None else ""
    return f"{asked.detail if asked else 'no probe can be put'}{rate}{kv}"
