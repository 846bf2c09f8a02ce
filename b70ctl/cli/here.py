"""The composition root: where a command finds its neighbours, and the frame that every change runs in."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from b70ctl.cli.console import Console, console
from b70ctl.cli.terminal import can_ask
from b70ctl.core import standing
from b70ctl.core.journal import Op, unfinished
from b70ctl.core.plan import Plan
from b70ctl.core.release import Observed, Release
from b70ctl.core.secrecy import masked
from b70ctl.edge import places
from b70ctl.edge.catalog import Catalog, open_catalog
from b70ctl.edge.files import now
from b70ctl.edge.lock import holder, leased, locked
from b70ctl.edge.preparing import Workshop
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.store import Store
from b70ctl.errors import B70Error, CutOff, Interrupted, Refused, UsageError

LOOK = "b70ctl logs"
"""How a hint begins that only says where to look: a cause that was found has a better one."""
PROBE_AGE = 300
"""Seconds after which nobody waits for a short container any more."""


class Here:
    """One site, as one command sees it; nothing is read before it is asked for."""

    def __init__(self, ctx: typer.Context, *, json: bool = False) -> None:
        self.given: Path | None = ctx.find_root().obj
        self.console: Console = console()
        self.console.json = json
        self.going: set[str] = set()
        """Containers that run and that a recovery takes away first."""

    @cached_property
    def root(self) -> Path | None:
        """The site's directory, where there is one."""
        return places.site_root(self.given)

    @property
    def site_root(self) -> Path:
        """The site's directory; UsageError where there is none."""
        if self.root is None:
            raise UsageError(f"no {places.SITE_FILE} here or above, and no default site", hint="b70ctl init")
        return self.root

    @cached_property
    def catalog(self) -> Catalog:
        """Profiles, templates and patches."""
        return open_catalog(self.root)

    @cached_property
    def store(self) -> Store:
        """The site's memory; where there is no site, one that holds nothing."""
        return Store((self.root or Path("/nonexistent")) / places.STATE)

    @cached_property
    def daemon(self) -> Any:
        """Docker's daemon."""
        from b70ctl.edge.daemon import connect

        return connect()

    def workshop(self, *, docker: bool) -> Workshop:
        """Where profiles are resolved; without Docker from the catalog, and from what is kept."""
        return Workshop(self.catalog, self.store.folder, self.daemon if docker else None)

    def observe(self) -> Observed:
        """What Docker shows of the site."""
        found: Observed = self.daemon.observe(self.catalog.site.name, self.store.releases())
        return found

    def at_work(self) -> tuple[str | None, Op | None]:
        """Who holds the site now; where nobody does, the command that was cut off.

        The journal is read before the lock, and once more after it: a command that begins or ends meanwhile was not
        cut off.
        """
        op = unfinished(self.store.ops())
        busy = holder(self.store.lock_file)
        if busy or op is None:
            return busy, None
        again = unfinished(self.store.ops())
        return None, again if again and again.number == op.number else None

    def unfinished(self) -> str | None:
        """What a command that was cut off asks for; None while one is at work, or where all ended."""
        _, op = self.at_work()
        return cut_off(op) if op else None

    def mention_unfinished(self) -> None:
        """Tell it, in a command that only looks."""
        if found := self.unfinished():
            self.console.warn(found)

    def secret_values(self) -> list[str]:
        """What must stand in no journal, wherever it was typed; a secret that cannot be read is told elsewhere."""
        from b70ctl.edge.secretfiles import secret_values

        try:
            return secret_values(self.catalog.site, self.site_root)
        except B70Error:
            return []

    def _refuse_another_name(self, cut: Op | None) -> None:
        """Refused for a site that was renamed while its engine was at work, before anything is touched."""
        name, store, plan = self.catalog.site.name, self.store, cut.plan if cut else None
        if release := standing.called_otherwise(store.state(), plan, store.releases(), name):
            old, file = release.deployment.site, self.site_root / places.SITE_FILE
            raise Refused(f"the site is called `{name}` now, and {release.id} is of `{old}`: it would not be found",
                          hint=f"put `name: {old}` back in {file}; or `b70ctl stop` it before that")  # fmt: skip

    @contextlib.contextmanager
    def changing(self, recovers: Callable[[Op], bool] | None = None) -> Iterator[Change]:
        """The frame of every command that changes something: lock, recovery of what was cut off, signals.

        CutOff for a command that was cut off and that this one, as `recovers` says, is to leave alone.
        """
        from b70ctl.edge.recovering import recover

        command = words(self.secret_values())
        with contextlib.ExitStack() as stack:
            lock = stack.enter_context(locked(self.store.lock_file, f"site {self.site_root}", command, now()))
            cut = unfinished(self.store.ops())
            self._refuse_another_name(cut)
            if cut and recovers and not recovers(cut):
                raise CutOff(cut_off(cut), hint="b70ctl recover")
            interrupts = Interrupts(terminal=can_ask(), warn=self.console.shout)
            change = Change(here=self, command=command, interrupts=interrupts, stack=stack, holds=[lock])
            stack.enter_context(interrupts.watched())
            stack.enter_context(self.console.live())
            change.lease(release.deployment.cards for release in change.involved())
            self.store.ensure_salt()
            stack.callback(setattr, self, "daemon", self.daemon)
            self.daemon = self.daemon.holding(self.site_root)
            self.daemon.sweep_probes(PROBE_AGE, self.site_root)
            try:
                change.recovered, late = recover(change.world, interrupts)
            except B70Error as error:
                change.explain(error)
                raise
            if change.recovered:
                self.console.say(change.recovered)
            for failure in late:
                self.console.warn(failure)
            interrupts.working = interrupts.undoing = False
            yield change


@dataclass
class Change:
    """One command that changes something, with the site's lock in hand."""

    here: Here
    command: str
    interrupts: Interrupts
    stack: contextlib.ExitStack
    holds: list[int]
    recovered: str | None = None
    cards: set[str] = field(default_factory=set)

    def involved(self) -> list[Release]:
        """Releases whose cards may be touched: the serving one, and those of a command that was cut off."""
        store = self.here.store
        kept, ops = store.releases(), store.ops()
        cut = unfinished(ops)
        names = {store.state().serving, *(cut.plan.tried if cut else ())}
        names |= {name for op in ops[-1:] for name in (op.plan.wanted, op.plan.incumbent)}
        return [kept[name] for name in names if name in kept]

    def lease(self, cards: Any) -> None:
        """Take the leases of these cards, where they are not held yet."""
        wanted = {card for group in cards for card in group} - self.cards
        self.holds += self.stack.enter_context(leased(places.leases(), sorted(wanted), self.command, now()))
        self.cards |= wanted

    @cached_property
    def world(self) -> Any:
        """The neighbours of the executor."""
        from b70ctl.edge.composer import find_composer
        from b70ctl.edge.world import World

        here = self.here
        return World(
            site=here.catalog.site,
            root=here.site_root,
            store=here.store,
            daemon=here.daemon,
            compose=lambda: find_composer(self.holds),
            tell=here.console.tell,
        )

    def carry_out(self, plan: Plan) -> None:
        """Do a plan; what failed after the new state was reached is a warning and exit status 1."""
        from b70ctl.cli.diagnosing import tell_causes
        from b70ctl.edge.executor import execute

        try:
            late = execute(plan, self.world, self.interrupts, self.command)
        except B70Error as error:
            self.explain(error, plan)
            raise
        for failure in late:
            self.here.console.warn(failure)
        if late:
            tell_causes(self.here, plan, {})
            raise typer.Exit(1)

    def explain(self, error: B70Error, plan: Plan | None = None) -> None:
        """Tell why engines failed; where that is known, the error says what to do instead of where to look."""
        from b70ctl.cli.diagnosing import tell_causes

        fix = None if isinstance(error, Interrupted) else tell_causes(self.here, plan, self.world.said)
        if fix and (error.hint or LOOK).startswith(LOOK):
            error.hint = fix


def cut_off(op: Op) -> str:
    """A command that was cut off, and what to type."""
    return f"`{op.begin.by}` ({op.begin.at}) was cut off; `b70ctl recover` brings it to its end"


def words(known: Iterable[str] = ()) -> str:
    """The command line for the journal and for those who find the lock taken; what may be secret is hidden."""
    name = Path(sys.argv[0]).name if sys.argv and not sys.argv[0].endswith("__main__.py") else "b70ctl"
    # bytes that are no UTF-8 cannot be part of a journal
    typed = [word.encode(errors="backslashreplace").decode() for word in sys.argv[1:]]
    return shlex.join([name, *masked(typed, known)])


def is_root() -> bool:
    """Whether processes of every user can be seen."""
    return os.geteuid() == 0
