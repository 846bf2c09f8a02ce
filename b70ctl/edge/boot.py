"""Follows an engine from its start until it serves, or shows why it never will."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from b70ctl.core.bootfacts import BootFacts
from b70ctl.core.bootlog import BootLog, Stage
from b70ctl.core.plugin import spoken
from b70ctl.core.progress import Booting
from b70ctl.core.release import Release
from b70ctl.edge.daemon import Daemon
from b70ctl.edge.endpoint import Endpoint
from b70ctl.errors import DaemonAway, DaemonError, EngineError

TICK = 0.1
PULSE = 1.0
"""Seconds between two reports of a boot that says nothing new."""
LOOK = 0.5
"""Seconds between two looks at the container."""
QUIET = 1.0
"""Seconds without a line after which an engine that serves has said what it says; a busy daemon brings them late."""
LATE_LINES = 10.0
"""Seconds that lines of an engine that serves may still be on their way through the daemon."""
DAEMON_PATIENCE = 90.0
"""Seconds that the daemon may be away, as when it is restarted."""
GONE = ("exited", "dead", "removing")


@dataclass(slots=True)
class LogReader:
    """Reads a container's log in the background, line by line, from its present start on."""

    daemon: Daemon
    container: str
    since: float | None
    lines: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)
    """None where it begins, again too."""
    thread: threading.Thread | None = None

    def ensure(self) -> None:
        """Start reading, or start again where the daemon went away in between."""
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.Thread(target=self._read, daemon=True)
            self.thread.start()

    def _read(self) -> None:
        rest = b""
        self.lines.put(None)
        try:
            for piece in self.daemon.follow(self.container, since=self.since):
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    self.lines.put(line.decode("utf-8", errors="replace"))
        except DaemonError:
            return
        if rest:
            self.lines.put(rest.decode("utf-8", errors="replace"))


def follow(
    daemon: Daemon, release: Release, container: str, endpoint: Endpoint, tell: Callable[[Booting], None]
) -> BootFacts:  # fmt: skip
    """Wait until the engine serves the model that it should, and give back what its log said.

    Raises EngineError when the container ends, when the log falls silent for longer than the release allows, when the
    budget is spent, or when what answers is another model.
    """
    return _Watch(daemon, release, container, endpoint, tell).until_serving()


@dataclass(slots=True)
class _Watch:
    daemon: Daemon
    release: Release
    container: str
    endpoint: Endpoint
    tell: Callable[[Booting], None]
    log: BootLog = field(default_factory=BootLog)
    begun: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    looked: float = 0.0
    daemon_seen: float = field(default_factory=time.monotonic)
    told: float = 0.0

    def until_serving(self) -> BootFacts:
        reader = LogReader(self.daemon, self.container, self._started())
        while True:
            reader.ensure()
            self._hear(reader)
            if time.monotonic() - self.told > PULSE:
                self._report()
            if self.endpoint.healthy():
                self._check_names()
                self._hear(reader, patience=QUIET)
                self._check_kernels(reader)
                return self.log.facts()
            self._look(reader)
            self._check_time()
            time.sleep(TICK)

    def _started(self) -> float | None:
        about = self.daemon.inspect(self.container)
        return timestamp(about["State"].get("StartedAt", "")) if about else None

    def _hear(self, reader: LogReader, patience: float = 0.0) -> None:
        end = time.monotonic() + LATE_LINES
        while not patience or time.monotonic() < end:
            try:
                line = reader.lines.get(timeout=patience) if patience else reader.lines.get_nowait()
            except queue.Empty:
                return
            if line is None:
                self.log.begin_again()
                continue
            self.heard = time.monotonic()
            before = self.log.progress
            if self.log.feed(line) or self.log.progress != before:
                self._report()
            if patience and self.log.stage is Stage.SERVING:
                return

    def _report(self) -> None:
        self.told = time.monotonic()
        seconds = self.told - self.begun
        self.tell(Booting(self.release.id, str(self.log.stage), seconds, self.log.progress))

    def _check_names(self) -> None:
        served = self.endpoint.models()
        wanted = self.release.deployment.served_names
        lacking = [name for name in wanted if name not in served]
        if lacking:
            raise EngineError(f"the engine serves {', '.join(served) or 'nothing'}, not `{lacking[0]}`")

    def _check_kernels(self, reader: LogReader) -> None:
        """Every process must have said that it uses the kernels that the release carries; vLLM goes on without."""
        told = self.release.deployment.kernels
        if told is None:
            return
        wanted, deadline = spoken(told), time.monotonic() + LATE_LINES
        # it serves, so everything was written; what the daemon still has of it comes within seconds, or never
        while (fault := self.log.plugin.fault(wanted)) or not self.log.plugin.whole:
            if time.monotonic() > deadline:
                break
            time.sleep(TICK)
            reader.ensure()
            self._hear(reader)
        if not fault and not self.log.plugin.whole:
            # who has not spoken yet has not been heard of either
            fault = "its log did not come to where the server starts"
        if fault:
            raise EngineError(f"the kernels are not in use everywhere: {fault}{self._cause()}")

    def _look(self, reader: LogReader) -> None:
        now = time.monotonic()
        if now - self.looked < LOOK:
            return
        self.looked = now
        try:
            about = self.daemon.inspect(self.container)
        except DaemonAway as error:
            if now - self.daemon_seen > DAEMON_PATIENCE:
                raise DaemonAway(f"Docker's daemon was away for {DAEMON_PATIENCE:.0f} s: {error.what}") from error
            return
        self.daemon_seen = now
        if about is None:
            raise EngineError("the engine's container was removed while it started")
        if about["State"]["Status"] in GONE:
            self._hear(reader, patience=0.5)
            code = about["State"].get("ExitCode")
            raise EngineError(f"the engine ended with exit {code} while {self.log.stage}{self._cause()}")

    def _check_time(self) -> None:
        boot = self.release.deployment.boot
        now = time.monotonic()
        if now - self.begun > boot.budget:
            raise EngineError(f"the engine did not serve within {boot.budget} s; {self._reached()}{self._cause()}")
        if now - self.heard > boot.stall and self.log.stage is not Stage.SERVING:
            raise EngineError(
                f"the engine's log has been silent for {boot.stall} s while {self.log.stage}{self._cause()}"
            )

    def _reached(self) -> str:
        if self.log.stage is Stage.SERVING:
            return "its log says that it does, and /health does not say 200"
        return f"it was {self.log.stage}"

    def _cause(self) -> str:
        error = self.log.facts().first_error
        return f": {error}" if error else ""


def timestamp(text: str) -> float | None:
    """Docker's time as seconds since 1970; it writes nanoseconds, which Python does not read."""
    try:
        return datetime.fromisoformat(text[:26].rstrip("Z")).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
