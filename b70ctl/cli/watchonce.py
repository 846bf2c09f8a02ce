"""watch --once: one look and one probe, for cron and for monitoring; nothing is touched."""

from __future__ import annotations

from dataclasses import replace

import typer

from b70ctl.cli.here import Here
from b70ctl.cli.watching import lookout_of
from b70ctl.core.watch import Watch
from b70ctl.core.watching import Kind, Memory, judge
from b70ctl.core.watchlook import Asked, Look, Outcome, record_of, resting
from b70ctl.edge.files import now
from b70ctl.edge.lock import holder
from b70ctl.edge.watching import RATES_FILE, Lookout, Rates
from b70ctl.errors import Exit, Refused

RESTING = "resting"


def watch_once(here: Here) -> None:
    """Look once, and tell; exit 0 when the engine is healthy, or not to be looked at now, else 1."""
    verdict, evidence = _verdict(here)
    if here.console.json:
        told = {"verdict": verdict, "evidence": evidence, "at": now(), "release": here.store.state().serving}
        here.console.data(told)
    else:
        here.console.text(f"{verdict}: {evidence}")
    if verdict not in ("healthy", RESTING):
        raise typer.Exit(int(Exit.FAILED))


def _verdict(here: Here) -> tuple[str, str]:
    if here.site_root is not None and here.store.state().serving is None:
        raise Refused("nothing has served at this site yet", hint="b70ctl switch PROFILE")
    if busy := holder(here.store.lock_file):
        return RESTING, f"another command is at work: {busy}"
    if why := here.unfinished():
        return "unfinished", why
    if why := resting(here.store.state()):
        return RESTING, why
    settings = here.catalog.site.watch
    lookout = lookout_of(here, str(here.store.state().serving), settings)
    look = lookout.look(docker=True)
    return _ill(lookout, look) if look.unwell is not None else _asked(here, lookout, look, settings)


def _ill(lookout: Lookout, look: Look) -> tuple[str, str]:
    """Why an engine that does not say 200 may not: what lasts cannot be told in one look."""
    if not look.docker:
        return Kind.UNREACHABLE.value, f"{look.unwell}; {lookout.away}"
    if look.container is None:
        return Kind.GONE.value, "the engine's container is not there"
    state = look.container.state
    if state == "running":
        return Kind.UNREACHABLE.value, f"{look.unwell}; its container runs since {look.container.started}"
    return Kind.GONE.value, f"the engine's container is {state}, exit code {look.container.exit_code}"


def _asked(here: Here, lookout: Lookout, look: Look, settings: Watch) -> tuple[str, str]:
    """As many probes as a fault needs, as long as they fail."""
    record = record_of(Rates(here.store.folder / RATES_FILE).of(lookout.release.id))
    memory, boot = Memory(), lookout.release.deployment.boot.budget
    asked: Asked | None = None
    for _ in range(settings.confirm):
        asked = lookout.ask()
        found = judge(memory, replace(look, asked=asked), settings, boot=boot, record=record)
        memory = found.memory
        if found.fault:
            return found.fault.kind.value, found.fault.evidence
        if asked is None or asked.outcome is Outcome.PASSED:
            break
    return "healthy", _said(asked, look)


def _said(asked: Asked | None, look: Look) -> str:
    rate = f", {asked.rate:.1f} tokens/s" if asked and asked.rate else ""
    used = look.metrics.kv_usage if look.metrics else None
    kv = f"; {used * 100:.0f} % of the KV cache is in use" if used is not None else ""
    return f"{asked.detail if asked else 'no probe can be put'}{rate}{kv}"
