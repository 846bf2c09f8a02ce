"""What is put into an incident's folder: everything that a restart would take away, without secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from b70ctl import __version__
from b70ctl.cli.diagnosing import said
from b70ctl.cli.doctoring import known_images, models, question
from b70ctl.cli.here import Here
from b70ctl.core.diagnosis import Reader
from b70ctl.core.incident import KERNEL_LINES, LOG_LINES, hidden, secrets_of, shown, tail
from b70ctl.core.inventory import Software, inventory, software_of_facts
from b70ctl.core.watchfault import Fault
from b70ctl.edge import hostasks, logsource
from b70ctl.edge.diagnoses import read_causes
from b70ctl.edge.files import now
from b70ctl.edge.incident import Part, processes, stacks, table, with_timeout, write_incident
from b70ctl.edge.secretfiles import kept_secrets
from b70ctl.edge.watching import Monitor
from b70ctl.errors import B70Error, DaemonAway, EngineError, Interrupted

DOCKER_SECONDS = 20
"""How long each question to Docker may take; one that was not answered is not followed by another."""

Found = TypeVar("Found")


@dataclass
class Capture:
    """One fault on its way into a folder."""

    here: Here
    monitor: Monitor
    fault: Fault
    left: int
    """Restarts that are still allowed."""
    about: dict[str, Any] = field(default_factory=dict)
    """The container as Docker describes it."""
    trouble: B70Error | None = None
    secrets: list[str] = field(default_factory=list)
    """Values that may stand nowhere."""

    def write(self) -> Path:
        """Capture everything; what fails says so in its own file."""
        self.secrets = list(kept_secrets(self.here.store.release_folder(self.monitor.release.id)).values())
        try:
            self.about = self._docker(self._described)
        except Interrupted:
            raise
        except B70Error as error:
            self.trouble = error
        self.secrets += secrets_of(self.about)
        keep = self.here.catalog.site.watch.incidents
        return write_incident(self.here.store.incidents, now(), self.fault.kind, self._parts(), keep)

    def _parts(self) -> dict[str, Part]:
        return {
            "what.json": self._what,
            "metrics.txt": lambda: hidden(self.monitor.endpoint.metrics_page(), self.secrets),
            "engine.log": lambda: self.log,
            "processes.txt": lambda: hidden(table(self.processes), self.secrets),
            "stacks.txt": lambda: hidden(stacks(self.processes), self.secrets),
            "dmesg.txt": lambda: hidden(_kernel(), self.secrets),
            "container.json": self._container,
            "inventory.json": self._inventory,
            "diagnosis.txt": self._diagnosis,
        }

    def _described(self, daemon: Any) -> dict[str, Any]:
        release = self.monitor.release
        container = daemon.observe(release.deployment.site, {release.id: release}).of(release.id)
        about: dict[str, Any] | None = daemon.inspect(container.id) if container else None
        if about is None:
            raise EngineError("the engine's container is not there")
        return about

    def _docker(self, ask: Callable[[Any], Found]) -> Found:
        """What Docker says, within its time; once it did not answer nothing more is asked of it."""
        if self.trouble:
            raise self.trouble
        try:
            return with_timeout(DOCKER_SECONDS, lambda: ask(self.monitor.daemon()))
        except DaemonAway as error:
            self.trouble = error
            raise

    @cached_property
    def log(self) -> str:
        """The end of the engine's log; an error where it cannot be had."""
        return hidden(self._docker(lambda daemon: daemon.logs(self.about["Id"], LOG_LINES)), self.secrets)

    @cached_property
    def processes(self) -> dict[str, Any]:
        """The container's processes; an error where it has none."""
        if self.about and not self.about["State"].get("Running", True):
            raise EngineError("the container does not run")
        return self._docker(lambda daemon: processes(daemon, self.about["Id"]))

    def _container(self) -> str:
        if self.trouble and not self.about:
            raise self.trouble
        return _json(shown(self.about, self.secrets))

    def _what(self) -> str:
        release, watch = self.monitor.release, self.here.catalog.site.watch
        deployment = release.deployment
        return _json(shown({
            "fault": self.fault.kind.value,
            "evidence": self.fault.evidence,
            "at": now(),
            "restarts": {"left": self.left, "allowed": watch.restarts, "hours": watch.hours},
            "site": deployment.site,
            "release": release.id,
            "profile": deployment.profile,
            "overrides": list(deployment.overrides),
            "image": {"ref": deployment.image_ref, "identity": deployment.image, "vllm": deployment.vllm},
            "address": deployment.address.url,
            "b70ctl": __version__,
        }, self.secrets))  # fmt: skip

    def _inventory(self) -> str:
        from b70ctl.edge.stack import ask_host

        here, ref = self.here, self.monitor.release.deployment.image_ref
        facts = next((each for each in [*known_images(here), *here.catalog.images()] if each.ref == ref), None)
        image = (ref, software_of_facts(facts), facts.source) if facts else (ref, Software(), "not known")
        found = inventory(hostasks.read_host(question(here)), models(), ask_host(), image, version=__version__,
                          private=hostasks.private_words())  # fmt: skip
        return _json(found)

    def _diagnosis(self) -> str:
        reader = Reader(read_causes(self.here.root), self.monitor.release.deployment.vllm)
        reader.feed(self.log.encode("utf-8", errors="replace"))
        return "\n".join(said(reader.finish(over=False))) + "\n"


def _kernel() -> str:
    raw = b"".join(logsource.of_kernel())
    return tail(raw.decode("utf-8", errors="replace"), KERNEL_LINES)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
