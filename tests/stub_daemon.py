"""Docker's daemon and Compose in memory: they do what they are asked, refuse or are away when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from b70ctl.core.compose import LABEL, SERVICE
from b70ctl.core.release import Observed, Release
from b70ctl.edge.container import as_container
from b70ctl.errors import DaemonAway, DaemonError


class Killed(BaseException):
    """The end of the process: nothing after it happens."""


def refusal() -> DaemonError:
    return DaemonError("Docker said no")


def absence() -> DaemonAway:
    return DaemonAway("Docker does not answer")


@dataclass
class StubDaemon:
    """The calls of `edge.daemon.Daemon` and of `edge.composer.Composer`, counted; one engine at a time has the port.

    `on` makes calls fail: of one method, or of all of them counted together.
    """

    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    tags: set[str] = field(default_factory=set)
    caches: set[str] = field(default_factory=set)
    networks: set[str] = field(default_factory=set)
    releases: dict[str, Release] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    keeps: Path | None = None
    """Where it keeps everything."""
    asked: Callable[[list[str]], str] = field(default_factory=lambda: lambda _: "[]")
    """What a program prints that is run beside an engine."""
    archives: dict[str, bytes] = field(default_factory=dict)
    """What of a container is read, by its name; of others nothing is there."""
    held: list[Path] = field(default_factory=list)
    """The sites whose lock was held by the commands that asked it."""
    dead: bool = False
    """The process that speaks to it was killed."""
    _rules: list[Callable[[str, int, int, bool], None]] = field(default_factory=list)

    def on(
        self, method: str | None, error: Callable[[], BaseException], *, nth: int = 1, lasting: bool = False,
        late: bool = False,
    ) -> None:  # fmt: skip
        """Fail at the n-th call from now on (of `method`, else of any), or from it on; `late`: after it took effect.

        A file that is written counts as the method `disk`, and is not one of any.
        """
        before = self.count(method)

        def rule(name: str, count: int, all_: int, after: bool) -> None:
            number = (count if method else all_) - before
            hit = number >= nth if lasting else number == nth
            meant = name == method if method else name != "disk"
            if meant and hit and after is late:
                raise error()

        self._rules.append(rule)

    def heal(self) -> None:
        """Fail no more."""
        self._rules.clear()
        self.dead = False

    def count(self, method: str | None = None) -> int:
        return sum(call[0] == method if method else call[0] != "disk" for call in self.calls)

    def named(self, *methods: str) -> list[tuple[Any, ...]]:
        """The calls of these methods in order, with what they were given."""
        return [call for call in self.calls if call[0] in methods]

    def call(self, name: str, *args: Any, effect: Callable[[], Any] = lambda: None) -> Any:
        """Count a call, and let it fail or take effect; a test's own neighbours may be counted with it."""
        if self.dead:
            raise Killed
        self.calls.append((name, *args))
        self._check(name, after=False)
        found = effect()
        self._check(name, after=True)
        return found

    def _check(self, name: str, *, after: bool) -> None:
        try:
            for rule in self._rules:
                rule(name, self.count(name), self.count(), after)
        except Killed:
            self.dead = True
            raise

    # -- what a test looks at -----------------------------------------------------------------------------------------

    def add(self, release: Release, state: str = "running", **about: Any) -> str:
        """A container of a release, as Compose makes it."""
        self.releases[release.id] = release
        ours = {"site": release.deployment.site, "release": release.id, "key": release.key,
                "cards": ",".join(release.deployment.cards)}  # fmt: skip
        labels = {f"{LABEL}.{name}": value for name, value in ours.items()} | {"com.docker.compose.service": SERVICE}
        container = release.container or f"c-{release.id}"
        self.containers[container] = described(container, {} if release.container else labels, state=state, **about)
        return container

    def running_releases(self) -> list[str]:
        """The releases whose containers run."""
        found = self._observe(self.releases)
        return sorted(item.release for item in found.containers if found.runs(item.release))

    # -- the calls ----------------------------------------------------------------------------------------------------

    def observe(self, site: str, releases: Mapping[str, Release]) -> Observed:
        found: Observed = self.call("observe", effect=lambda: self._observe(releases))
        return found

    def _observe(self, releases: Mapping[str, Release]) -> Observed:
        found = [as_container(about, releases) for about in self.containers.values()]
        return Observed(containers=tuple(found))

    def inspect(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.call("inspect", name, effect=lambda: self._find(name))
        return found

    def _find(self, name: str) -> dict[str, Any] | None:
        named = (about for about in self.containers.values() if name in (about["Id"], about["Name"].lstrip("/")))
        return next(named, None)

    def top(self, container: str, columns: str) -> dict[str, Any]:
        listed = {"Titles": ["PID", "COMMAND"], "Processes": [["1", "vllm serve"]]}
        found: dict[str, Any] = self.call("top", container, effect=lambda: listed)
        return found

    def ask(self, container: str, argv: list[str]) -> str:
        found: str = self.call("ask", container, effect=lambda: self.asked(argv))
        return found

    def archive(self, container: str, path: str) -> bytes | None:
        found: bytes | None = self.call("archive", container, path, effect=lambda: self.archives.get(container))
        return found

    def running(self) -> list[dict[str, Any]]:
        ran = [about for about in self.containers.values() if about["State"]["Status"] == "running"]
        found: list[dict[str, Any]] = self.call("running", effect=lambda: ran)
        return found

    def root(self) -> Path | None:
        found: Path | None = self.call("root", effect=lambda: self.keeps)
        return found

    def of_project(self, project: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("of_project", project, effect=list)
        return found

    def start(self, container: str) -> None:
        self.call("start", container, effect=lambda: self._start(container))

    def _start(self, container: str) -> None:
        others = [about for about in self.containers.values() if about["Id"] != container]
        if any(about["State"]["Status"] == "running" for about in others):
            raise DaemonError("the port is taken")
        self.containers[container]["State"]["Status"] = "running"

    def stop(self, container: str, grace: int) -> None:
        self.call("stop", container, effect=lambda: self._update(container, "State", Status="exited"))

    def _update(self, container: str, part: str, **changed: Any) -> None:
        # one that is gone has stopped
        if about := self._find(container):
            about[part].update(changed)

    def set_policy(self, container: str, policy: str) -> None:
        name, _, retries = policy.partition(":")
        wanted = {"Name": name, "MaximumRetryCount": int(retries or 0)}
        change = partial(self._update, container, "HostConfig", RestartPolicy=wanted)
        self.call("set_policy", container, policy, effect=change)

    def remove(self, container: str) -> None:
        self.call("remove", container, effect=lambda: self.containers.pop(container, None))

    def holding(self, site: Path) -> StubDaemon:
        self.held.append(site)
        return self

    def sweep_probes(self, older_than: int, root: Path) -> None:
        self.call("sweep_probes", older_than, root)

    def logs(self, container: str, tail: int | str = "all", since: float | None = None) -> str:
        found: str = self.call("logs", container, effect=lambda: f"log of {container}\n")
        return found

    def ensure_network(self, name: str, site: str) -> None:
        self.call("ensure_network", name, effect=lambda: self.networks.add(name))

    def remove_network(self, name: str, site: str) -> None:
        try:
            self.call("remove_network", name, effect=lambda: self.networks.discard(name))
        except DaemonAway:
            raise
        except DaemonError:
            return  # somebody is in it: it stays

    def ensure_volume(self, name: str, site: str) -> None:
        self.call("ensure_volume", name, effect=lambda: self.caches.add(name))

    def volumes(self, site: str) -> list[str]:
        found: list[str] = self.call("volumes", effect=lambda: sorted(self.caches))
        return found

    def remove_volume(self, name: str) -> None:
        self.call("remove_volume", name, effect=lambda: self.caches.discard(name))

    def image(self, ref: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.call("image", ref, effect=lambda: self.images.get(ref))
        return found

    def tag(self, image: str, repository: str, tag: str) -> None:
        self.call("tag", image, effect=lambda: self.tags.add(f"{repository}:{tag}"))

    def untag(self, ref: str) -> None:
        try:
            self.call("untag", ref, effect=lambda: self.tags.discard(ref))
        except DaemonAway:
            raise
        except DaemonError:
            return  # a container of somebody's uses it: the name stays

    # -- Compose ------------------------------------------------------------------------------------------------------

    def accepts(self, folder: Path) -> dict[str, Any]:
        found: dict[str, Any] = self.call("accepts", folder.name, effect=dict)
        return found

    def up(self, folder: Path) -> None:
        self.call("up", folder.name, effect=lambda: self._up(folder))

    def _up(self, folder: Path) -> None:
        release = Release.model_validate_json((folder / "release.json").read_text())
        self._start(self.add(release, "created"))

    def up_companions(self, file: Path, project: str) -> None:
        self.call("up_companions", project)


def described(
    container: str, labels: Mapping[str, str] | None = None, *, state: str = "running", ports: tuple[int, ...] = (),
    **host: Any,
) -> dict[str, Any]:  # fmt: skip
    """A container as Docker describes it; further words are of its HostConfig."""
    return {
        "Id": container,
        "Name": f"/{container}",
        "Image": "sha256:1",
        "Config": {"Labels": dict(labels or {}), "Image": "example/vllm:1"},
        "State": {"Status": state, "StartedAt": "2026-01-01T00:00:00Z"},
        "HostConfig": {"NetworkMode": "bridge", "RestartPolicy": {"Name": "no"}} | host,
        "NetworkSettings": {"Ports": {f"{port}/tcp": [{"HostPort": str(port)}] for port in ports}},
    }
