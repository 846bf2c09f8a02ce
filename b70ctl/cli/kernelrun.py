"""A run of one of the kernels' programs: its lines are shown as they come, and a report of it is kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from b70ctl import __version__
from b70ctl.cli.doctoring import models, question
from b70ctl.cli.here import Here
from b70ctl.core.inventory import Software, cleaned, inventory
from b70ctl.core.kernels import TABLE, Heard, Program, said, trouble
from b70ctl.core.tuning import has_rows, merged
from b70ctl.edge import hostasks, kernels
from b70ctl.edge.files import now, replace
from b70ctl.edge.plugin import table_text
from b70ctl.edge.signals import Interrupts
from b70ctl.errors import DaemonError, Exit


def about(package: Path, origin: str) -> dict[str, Any]:
    """When it was, and which kernels."""
    return {"at": now(), "b70ctl": __version__, "kernels": {"origin": origin, "sha256": kernels.digest(package)}}


@dataclass(slots=True)
class Run:
    """One run of a program, from the first line to the report."""

    here: Here
    program: Program
    told: Mapping[str, Any]
    """What the report says of where it ran."""
    folder: Path
    """Where it may write."""
    interrupts: Interrupts
    image: str | None = None
    """The image's identity; None in the Python of this host."""

    @property
    def ref(self) -> str | None:
        """What the profile calls the image."""
        return self.told["image"]["ref"] if self.image else None

    def carry_out(self, act: Callable[[kernels.Hear], int]) -> None:
        """Run it, show its lines, keep its report, and end as it did."""
        stack = self._stack()
        heard, began, code = Heard(), time.monotonic(), None

        def hear(line: str, aside: bool) -> None:
            if heard.take(line, aside=aside) and not self.here.console.json:
                (self.here.console.say if aside else self.here.console.text)(line)

        try:
            code = act(hear)
        finally:
            with self.interrupts.shielded():
                kept = self._keep(heard, code, time.monotonic() - began, stack)
                # rows that were measured before a fault, or before it was interrupted, are as good as any
                if self.program.writes and (code == 0 or has_rows(table_text(self.folder / TABLE))):
                    self._write_table()
        if found := trouble(self.program, heard, code, self.ref):
            raise found
        self.interrupts.end()
        if self.here.console.json:
            self.here.console.data(kept)
        if code:
            self.here.console.say("not all is right here: please attach the report to an issue")
            raise typer.Exit(int(Exit.FAILED))

    def _stack(self) -> dict[str, Any]:
        """The box, and the software on both sides, as `inventory` tells them."""
        from b70ctl.edge.stack import ask_host, ask_image

        image = None
        if self.image and self.ref:
            try:
                image = (self.ref, ask_image(self.here.daemon, self.image), "asked")
            except DaemonError as error:
                image = (self.ref, Software(), f"not asked: {error.what}")
        facts = hostasks.read_host(question(self.here))
        return inventory(facts, models(), ask_host(), image, version=__version__)

    def _keep(self, heard: Heard, code: int | None, seconds: float, stack: dict[str, Any]) -> dict[str, Any]:
        """The report, written unless it has nothing to tell; where it is, is said."""
        found = said(self.program, heard, code, seconds) | dict(self.told) | {"inventory": stack}
        private = (*hostasks.private_words(), *self.here.secret_values())
        report: dict[str, Any] = cleaned(json.loads(json.dumps(found)), private)
        if not heard.worth_keeping:
            return report
        root = self.here.root
        folder = self.here.store.folder / kernels.FOLDER if root else Path.cwd()
        path = kernels.keep(folder, now(), f"kernels-{self.program.name}", json.dumps(report, indent=1) + "\n")
        self.here.console.say(f"report: {path}; without secrets, host names and serial numbers, to be shown to anybody")
        return report | {"file": str(path)}

    def _write_table(self) -> None:
        """The site's own table, with what an earlier run measured of other rows."""
        path = (self.here.root or Path.cwd()) / TABLE
        replace(path, merged(table_text(path), table_text(self.folder / TABLE) or ""))
        carried = "carried to the engine by the next release with `kernels: b70`" if self.here.root else "for no site"
        self.here.console.say(f"wrote {path}, {carried}")
