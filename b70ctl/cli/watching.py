"""watch: follows the engine, round after round, until a signal comes or no restart is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import typer

from b70ctl.cli.here import Here, words
from b70ctl.cli.watchacting import Response
from b70ctl.cli.watchlines import Lines
from b70ctl.core.journal import unfinished
from b70ctl.core.site import API_KEY
from b70ctl.core.watch import COMMAND, LOCK_FILE, Watch
from b70ctl.core.watching import Judgement, Memory, asks_again, judge, may_ask
from b70ctl.core.watchlook import Look, record_of, resting
from b70ctl.edge import filling
from b70ctl.edge.endpoint import Endpoint
from b70ctl.edge.files import now
from b70ctl.edge.incident import FOLDER, sweep
from b70ctl.edge.lock import holder, locked
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.store import Store
from b70ctl.edge.watching import RATES_FILE, Lookout, Rates
from b70ctl.errors import B70Error, GaveUp, Interrupted

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
        with interrupts.watched(), locked(here.store.folder / LOCK_FILE, what, words(), now()):
            rounds.run()
    except Interrupted as error:
        if Interrupts.heard is None or Interrupts.heard.name == "SIGINT":
            raise
        lines.tell("ended", error.what)


def pace(here: Here, every: float | None) -> Watch:
    """The site's settings, with the pace of this call."""
    settings = here.catalog.site.watch
    return settings if every is None else settings.model_copy(update={"every": every})


def lookout_of(here: Here, release: str, settings: Watch) -> Lookout:
    """Where a release's engine is looked at from."""
    found = here.store.release(release)
    secrets = filling.kept_secrets(here.store.release_folder(release))
    if found.kind == "adopted":
        secrets = filling.read_secrets(here.catalog.site, here.site_root)
    probes = found.deployment.probes
    endpoint = Endpoint(found.deployment.address.url, secrets.get(API_KEY), timeout=SMALL_REQUESTS,
                        silence=min(probes.silence, settings.silence))  # fmt: skip
    return Lookout(found, endpoint, lambda: here.daemon, patience=min(probes.timeout, settings.silence))


@dataclass
class Rounds:
    """A watch, and what it remembers from one round to the next."""

    here: Here
    anew: Callable[[], Here]
    """The site as it is now: what is done about a fault follows what its owner wrote meanwhile."""
    settings: Watch
    lines: Lines
    memory: Memory = field(default_factory=Memory)
    lookout: Lookout | None = None
    asked_at: float = -math.inf
    """When the last probe was put."""
    journal: tuple[int, int] | None = UNREAD
    """The journal's file when it was read last."""

    def __post_init__(self) -> None:
        self.response = Response(self.here, self.anew, self.settings, self.lines)

    @property
    def store(self) -> Store:
        """The site's memory."""
        return self.here.store

    def run(self) -> None:
        """One round after another; ends by a signal, or with GaveUp."""
        sweep(self.store.folder / FOLDER)
        settings = self.settings
        self.lines.tell("watching", f"a look every {settings.tick:g} s, a probe every {settings.every:g} min")
        while True:
            began = time.monotonic()
            try:
                self._round()
                self.lines.over("trouble")
            except (Interrupted, GaveUp):
                raise
            except B70Error as error:
                self.lines.lasts("trouble", error.what)
            if Interrupts.heard:
                raise Interrupted("interrupted")  # somebody asked while a library was not to be disturbed
            time.sleep(max(0.0, settings.tick - (time.monotonic() - began)))

    def _round(self) -> None:
        if why := self._pause():
            self.memory, self.response.captured = Memory(), None
            self.lines.lasts("paused", why)
            return
        self.lines.over("paused")
        lookout = self._followed()
        look = self._seen(lookout)
        if self._pause():
            return  # what was seen while another command began tells nothing
        if lookout.away:
            self.lines.lasts("docker", f"{lookout.away}; nothing is done until it answers")
        else:
            self.lines.over("docker")
        found = self._judged(lookout, look)
        if found.fault and self.response.answer(lookout, found.fault, self.memory):
            self.memory, self.asked_at = Memory(), time.monotonic()

    def _pause(self) -> str | None:
        """Why this is not the time to look; a restart that a watch was cut off at is brought to its end here."""
        if busy := holder(self.store.lock_file):
            self.journal = UNREAD
            return f"another command is at work: {busy}"
        mark = _mark(self.store.journal_file)
        if mark != self.journal:
            op = unfinished(self.store.ops())
            if op and op.plan.command != COMMAND:
                return f"`{op.begin.by}` was cut off; b70ctl recover brings it to its end"
            if op:
                with self.anew().changing() as change:
                    self.lines.tell("recovered", str(change.recovered))
            self.memory, self.journal = Memory(), _mark(self.store.journal_file)
        return resting(self.store.state())

    def _followed(self) -> Lookout:
        serving = str(self.store.state().serving)
        if self.lookout is None or self.lookout.release.id != serving:
            if self.lookout:
                self.asked_at = time.monotonic()  # what came to serve meanwhile was proven then
            self.lookout = lookout_of(self.here, serving, self.settings)
            self.memory = Memory()
            self.lines.tell("following", f"{serving} at {self.lookout.release.deployment.address.url}")
        return self.lookout

    def _seen(self, lookout: Lookout) -> Look:
        since, pace = time.monotonic() - self.asked_at, self.settings.every * 60
        look = lookout.look(docker=since >= pace or self.memory.started is None)
        wanted = since >= pace or asks_again(self.memory, self.settings)
        if not wanted or not may_ask(self.memory, look, late=since >= LATE * pace):
            return look
        self.asked_at = time.monotonic()
        asked = lookout.ask()
        if asked is None:
            self.lines.lasts("unasked", "the profile skips every probe that could be put; only figures are followed")
        return replace(look, asked=asked)

    def _judged(self, lookout: Lookout, look: Look) -> Judgement:
        release, rates = lookout.release, Rates(self.store.folder / RATES_FILE)
        record = record_of(rates.of(release.id)) if look.asked else None
        found = judge(self.memory, look, self.settings, boot=release.deployment.boot.budget, record=record)
        self.memory = found.memory
        if look.asked:
            rates.add(release.id, look.asked.rate, self.store.releases)
        for said in found.said:
            self.lines.tell(said.what, said.text)
            if said.what == "healthy":
                self.response.captured = None
        return found


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns
