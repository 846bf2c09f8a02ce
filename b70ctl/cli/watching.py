"""watch: follows the engine, round after round, until a signal comes or no restart is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import typer

from b70ctl.cli.here import Here, cut_off, words
from b70ctl.cli.responding import Lines, Response, said
from b70ctl.core.standing import resting
from b70ctl.core.watch import Watch, own
from b70ctl.core.watchfault import Judgement, Memory
from b70ctl.core.watching import asks_again, judge, may_ask
from b70ctl.core.watchlook import Look, record_of
from b70ctl.edge import secretfiles
from b70ctl.edge.endpoint import Endpoint
from b70ctl.edge.files import now
from b70ctl.edge.incident import sweep
from b70ctl.edge.lock import holder, locked
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.store import Store
from b70ctl.edge.watching import Monitor, Rates
from b70ctl.errors import CutOff, GaveUp, Interrupted, Locked, Unproven

SMALL_REQUESTS = 5.0
"""Seconds that /health and /metrics may take."""
UNREAD = (-1, -1)
LATE = 3
"""Times the pace after which a probe waits for an empty queue no longer."""


def watch(ctx: typer.Context, *, every: float | None, json: bool) -> None:
    """Follow the engine; SIGTERM is the ordinary end, Ctrl-C an interruption."""
    here = Here(ctx, json=json)
    what = f"the watch of site {here.site_root}"
    lines = Lines(here.console)
    rounds = Rounds(here, lambda: Here(ctx, json=json), pace(here, every), lines)
    interrupts = Interrupts(terminal=False, warn=here.console.shout)
    Interrupts.heard = None
    try:
        with interrupts.watched(), locked(here.store.watch_lock_file, what, words(), now()):
            rounds.run()
    except Interrupted as error:
        if Interrupts.heard is None or Interrupts.heard.name == "SIGINT":
            raise
        lines.tell("ended", error.what)


def pace(here: Here, every: float | None) -> Watch:
    """The site's settings, with the pace of this call."""
    settings = here.catalog.site.watch
    return settings if every is None else settings.model_copy(update={"every": every})


def monitor_of(here: Here, release: str, settings: Watch, clock: Callable[[], float] = time.monotonic) -> Monitor:
    """Where a release's engine is looked at from."""
    found = here.store.release(release)
    key = secretfiles.api_key(found, here.store.release_folder(release), here.catalog.site, here.site_root)
    probes = found.deployment.probes
    patience, silence = min(probes.timeout, settings.silence), min(probes.silence, settings.silence)
    endpoint = Endpoint(found.deployment.address.url, key, timeout=SMALL_REQUESTS, silence=silence)
    return Monitor(found, endpoint, lambda: here.daemon, patience=patience, silence=silence, clock=clock)


@dataclass
class Rounds:
    """A watch, and what it remembers from one round to the next."""

    here: Here
    anew: Callable[[], Here]
    """The site as it is now: what is done about a fault follows what its owner wrote meanwhile."""
    settings: Watch
    lines: Lines
    monitor: Monitor | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    memory: Memory = field(default_factory=Memory)
    asked_at: float = -math.inf
    """When the last probe was put."""
    journal: tuple[int, int] | None = UNREAD
    """The journal's file when it was read last, and nothing in it was unfinished."""

    def __post_init__(self) -> None:
        self.response = Response(self.here, self.anew, self.settings, self.lines, self.clock)

    @property
    def store(self) -> Store:
        """The site's memory."""
        return self.here.store

    def run(self) -> None:
        """One round after another; ends by a signal, or with GaveUp."""
        sweep(self.store.incidents)
        settings = self.settings
        self.lines.tell("watching", f"a look every {settings.tick:g} s, a probe every {settings.every:g} min")
        while True:
            began = self.clock()
            self.round()
            if Interrupts.heard:
                raise Interrupted("interrupted")  # somebody asked while a library was not to be disturbed
            self.sleep(max(0.0, settings.tick - (self.clock() - began)))

    def round(self) -> None:
        """Look once, and do what is to be done; trouble of any kind is told, and is no reason to end."""
        try:
            self._round()
        except (Interrupted, GaveUp):
            raise
        except Exception as error:
            if Interrupts.heard and isinstance(error, Unproven):
                raise
            self.lines.lasts("trouble", said(error))
        else:
            self.lines.over("trouble")

    def _round(self) -> None:
        if why := self._pause():
            self._forget()
            self.lines.lasts("paused", why)
            return
        self.lines.over("paused")
        monitor = self._followed()
        look = self._seen(monitor)
        if self._pause():
            return  # what was seen while another command began tells nothing
        away = self._away(monitor)
        found = self._judged(monitor, look)
        if found.fault is None:
            return
        if not look.docker and not away:
            monitor.look(docker=True)
            away = self._away(monitor)
        if not away and self.response.answer(monitor, found.fault, self.memory):
            self.memory, self.asked_at = Memory(), self.clock()

    def _forget(self) -> None:
        self.memory = Memory()
        self.response.forget()

    def _away(self, monitor: Monitor) -> bool:
        """Whether Docker does not answer, as far as it was asked: then nothing is captured, and nothing done."""
        if monitor.away is None:
            self.lines.over("docker")
            return False
        self.lines.lasts("docker", f"{monitor.away}; nothing is done until it answers")
        return True

    def _pause(self) -> str | None:
        """Why this is not the time to look; a restart that a watch was cut off at is brought to its end here."""
        # before the journal is read: what is written meanwhile is read the next time
        mark = _mark(self.store.journal_file)
        busy, cut = self.here.at_work() if mark != self.journal else (holder(self.store.lock_file), None)
        if busy:
            self.journal = UNREAD
            return f"another command is at work: {busy}"
        if cut and not own(cut):
            return cut_off(cut)
        if cut:
            try:
                mark = self._recovered()
            except (Locked, CutOff) as error:
                return error.what
        if mark != self.journal:
            self._forget()
            self.journal = mark
        return resting(self.store.state())

    def _recovered(self) -> tuple[int, int] | None:
        """Bring a restart of a watch to its end; gives the journal's file as it is then."""
        with self.anew().changing(recovers=own) as change:
            self.lines.tell("recovered", str(change.recovered))
            return _mark(self.store.journal_file)

    def _followed(self) -> Monitor:
        serving = str(self.store.state().serving)
        if self.monitor is None or self.monitor.release.id != serving:
            if self.monitor:
                self.asked_at = self.clock()  # what came to serve meanwhile was proven then
            self.monitor = monitor_of(self.here, serving, self.settings, self.clock)
            self._forget()
            self.lines.tell("following", f"{serving} at {self.monitor.release.deployment.address.url}")
        return self.monitor

    def _seen(self, monitor: Monitor) -> Look:
        since, pace = self.clock() - self.asked_at, self.settings.every * 60
        wanted = since >= pace or asks_again(self.memory, self.settings)
        look = monitor.look(docker=wanted or self.memory.started is None or monitor.away is not None)
        if not wanted or not may_ask(self.memory, look, late=since >= LATE * pace):
            return look
        self.asked_at = self.clock()
        asked = monitor.ask()
        if asked is None:
            self.lines.lasts("unasked", "the profile skips every probe that could be put; only figures are followed")
        return replace(look, asked=asked)

    def _judged(self, monitor: Monitor, look: Look) -> Judgement:
        release, rates = monitor.release, Rates(self.store.rates_file)
        record = record_of(rates.of(release.id)) if look.asked else None
        found = judge(self.memory, look, self.settings, boot=release.deployment.boot.budget, record=record)
        self.memory = found.memory
        if look.asked:
            rates.add(release.id, look.asked.rate, self.store.releases)
        for each in found.said:
            self.lines.tell(each.what, each.text)
        if found.over and (look.docker or look.unwell is None):
            self.response.forget()
        return found


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns
