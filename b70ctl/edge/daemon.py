"""Docker's daemon, through its own API; Compose has a file of its own."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from b70ctl.core.compose import LABEL
from b70ctl.core.release import Container, Observed, Release
from b70ctl.edge.container import as_container, file_in
from b70ctl.edge.shortlived import short_lived
from b70ctl.edge.speaking import in_progress, reason, refuse_no_address, speaking, spoken
from b70ctl.errors import DaemonError, MachineError

OLDEST_API = (1, 41)
CALL_SECONDS = 60
REMOVAL_SECONDS = 20.0
"""How long a removal that somebody else has begun is waited for."""
LOOK = 0.2
PROJECT_LABEL = "com.docker.compose.project"


def connect() -> Daemon:
    """The daemon that `docker` would use; MachineError when there is none, or when it is too old."""
    refuse_no_address(os.environ.get("DOCKER_HOST", ""))
    try:
        client = docker.from_env(timeout=CALL_SECONDS, version="auto")
        found = tuple(int(part) for part in str(client.version()["ApiVersion"]).split("."))
    except (DockerException, requests.exceptions.RequestException, OSError, ValueError, KeyError, TypeError) as error:
        raise MachineError(f"no Docker Engine answers: {reason(error)}",
                           hint="sudo systemctl start docker, or: docker context use NAME") from None  # fmt: skip
    if found < OLDEST_API:
        raise MachineError(f"the Docker Engine speaks API {'.'.join(map(str, found))}; 1.41 (Engine 20.10) is needed")
    return Daemon(client)


@dataclass(frozen=True, slots=True)
class Daemon:
    """The calls that b70ctl makes, and no others."""

    client: Any
    site: Path | None = None
    """Whose lock is held: its short containers say so, and the next command that holds it takes away what is left."""

    def holding(self, site: Path) -> Daemon:
        """The same daemon, for as long as the lock of the site in that directory is held."""
        return replace(self, site=site)

    # -- what is there ------------------------------------------------------------------------------------------------

    def observe(self, site: str, releases: Mapping[str, Release]) -> Observed:
        """The containers of a site; those that carry our labels without our release's key are foreign."""
        with speaking("listing containers"):
            rows = self.client.api.containers(all=True, filters={"label": f"{LABEL}.site={site}"})
            rows += [{"Id": release.container} for release in releases.values() if release.container]
        found = [self._container(row["Id"], releases) for row in rows]
        return Observed(containers=tuple(item for item in found if item))

    def _container(self, container: str, releases: Mapping[str, Release]) -> Container | None:
        about = self.inspect(container)
        return as_container(about, releases) if about else None

    def root(self) -> Path | None:
        """Where the daemon keeps everything, where that is a folder of this host."""
        if "://localhost" not in self.client.api.base_url:
            return None  # it listens on TCP, and may be another host's
        with speaking("asking Docker where it keeps containers"):
            return Path(self.client.info()["DockerRootDir"])

    def inspect(self, name: str) -> dict[str, Any] | None:
        """Everything about one container, by name or id; None when there is none."""
        try:
            return dict(self.client.api.inspect_container(name))
        except NotFound:
            return None
        except (APIError, DockerException, requests.exceptions.RequestException, OSError) as error:
            raise spoken(error, f"inspecting {name}") from error

    def top(self, container: str, columns: str) -> dict[str, Any]:
        """The container's processes as `ps` of the daemon's host lists them: `Titles`, and `Processes` in rows."""
        with speaking("listing processes"):
            return dict(self.client.api.top(container, ps_args=f"-eo {columns}"))

    def running(self) -> list[dict[str, Any]]:
        """Every running container of the machine, inspected."""
        with speaking("listing containers"):
            rows = self.client.api.containers()
        return [about for row in rows if (about := self.inspect(row["Id"]))]

    def of_project(self, project: str) -> list[dict[str, Any]]:
        """Containers that Compose counts to a project, whoever made them."""
        with speaking("listing containers"):
            rows = self.client.api.containers(all=True, filters={"label": f"{PROJECT_LABEL}={project}"})
        return [about for row in rows if (about := self.inspect(row["Id"]))]

    def archive(self, container: str, path: str) -> bytes | None:
        """A file or a folder of a container, running or not, as a tar; None when it is not there."""
        with speaking(f"reading {path}"):
            try:
                return b"".join(self.client.api.get_archive(container, path)[0])
            except NotFound:
                return None

    # -- what is done -------------------------------------------------------------------------------------------------

    def start(self, container: str) -> None:
        """Start a container that exists."""
        with speaking("starting the engine"):
            self.client.api.start(container)

    def stop(self, container: str, grace: int) -> None:
        """Ask a container to stop, and kill it after `grace` seconds; one that is gone has stopped."""
        with speaking("stopping the engine"), contextlib.suppress(NotFound):
            self.client.api.stop(container, timeout=grace)

    def set_policy(self, container: str, policy: str) -> None:
        """Whether Docker starts it again by itself: `no`, `unless-stopped`, `on-failure:5`."""
        name, _, retries = policy.partition(":")
        wanted = {"Name": name, "MaximumRetryCount": int(retries or 0)}
        with speaking("setting the restart policy"), contextlib.suppress(NotFound):
            self.client.api.update_container(container, restart_policy=wanted)

    def remove(self, container: str) -> None:
        """Remove a container, running or not; named volumes stay. A removal that is under way is waited for."""
        end = time.monotonic() + REMOVAL_SECONDS
        while True:
            try:
                with speaking("removing a container"), contextlib.suppress(NotFound):
                    self.client.api.remove_container(container, force=True)
            except DaemonError as error:
                if not in_progress(error) or time.monotonic() > end:
                    raise
                time.sleep(LOOK)
            else:
                return

    def logs(self, container: str, tail: int | str = "all", since: float | None = None) -> str:
        """What a container wrote, both streams."""
        with speaking("reading the log"):
            raw: bytes = self.client.api.logs(container, stdout=True, stderr=True, tail=tail, since=since)
        return raw.decode("utf-8", errors="replace")

    def follow(self, container: str, since: float | None = None, tail: int | str = "all") -> Iterator[bytes]:
        """Pieces of a container's log as they are written, until it ends."""
        with speaking("following the log"):
            pieces = self.client.api.logs(container, stdout=True, stderr=True, stream=True, follow=True,
                                          since=since, tail=tail)  # fmt: skip
            yield from pieces

    def ensure_network(self, name: str, site: str) -> None:
        """The site's network."""
        with speaking("making the network"):
            # Docker matches a part of a name, and another site's may contain ours
            if not any(network["Name"] == name for network in self.client.api.networks(names=[name])):
                self.client.api.create_network(name, driver="bridge", labels={f"{LABEL}.site": site})

    def remove_network(self, name: str, site: str) -> None:
        """Remove a network that was made for the site; one that somebody is in stays."""
        with speaking("removing a network"), contextlib.suppress(APIError):
            for network in self.client.api.networks(names=[name], filters={"label": f"{LABEL}.site={site}"}):
                if network["Name"] == name:
                    self.client.api.remove_network(network["Id"])

    def ensure_volume(self, name: str, site: str) -> None:
        """A cache volume; one that exists stays as it is."""
        with speaking("making the cache volume"):
            self.client.api.create_volume(name, labels={f"{LABEL}.site": site})

    def volumes(self, site: str) -> list[str]:
        """Names of the site's cache volumes."""
        with speaking("listing volumes"):
            found = self.client.api.volumes(filters={"label": f"{LABEL}.site={site}"}).get("Volumes") or []
        return sorted(volume["Name"] for volume in found)

    def remove_volume(self, name: str) -> None:
        """Remove a cache volume."""
        with speaking("removing a cache volume"), contextlib.suppress(NotFound):
            self.client.api.remove_volume(name)

    def sweep_probes(self, older_than: int, root: Path) -> None:
        """Remove what cut-off commands left: of the site in `root`, whose lock is held, at once; of others if old."""
        with speaking("listing containers"):
            rows = self.client.api.containers(all=True, filters={"label": f"{LABEL}.probe=1"})
        for row in rows:
            ours = (row.get("Labels") or {}).get(f"{LABEL}.root") == str(root.resolve())
            if ours or (row["State"] != "running" and time.time() - row["Created"] > older_than):
                self.remove(row["Id"])

    # -- images -------------------------------------------------------------------------------------------------------

    def image(self, ref: str) -> dict[str, Any] | None:
        """Everything about an image; None when the daemon does not have it."""
        try:
            about: dict[str, Any] = self.client.api.inspect_image(ref)
        except (ImageNotFound, NotFound):
            return None
        except (APIError, DockerException, requests.exceptions.RequestException, OSError) as error:
            raise spoken(error, f"inspecting image {ref}") from error
        return about

    def tag(self, image: str, repository: str, tag: str) -> None:
        """Give an image a name of ours, so that removing dangling images does not take it."""
        with speaking("tagging the image"):
            self.client.api.tag(image, repository, tag, force=True)

    def untag(self, ref: str) -> None:
        """Take a name away; the image goes only when it has no other and no container uses it."""
        with speaking("removing a tag"), contextlib.suppress(APIError):
            self.client.api.remove_image(ref, force=False, noprune=True)

    def run_once(self, image: str, argv: list[str], seconds: int) -> str:
        """What a short container prints: no network, no card, nothing mounted, removed whatever happens."""
        bare = self.client.api.create_host_config(network_mode="none", cap_drop=["ALL"],
                                                  security_opt=["no-new-privileges:true"])  # fmt: skip
        how = {"entrypoint": argv[:1], "command": argv[1:], "network_disabled": True, "host_config": bare}
        with short_lived(self, f"running {image}", image, **how) as made:
            self.client.api.start(made)
            code = self.client.api.wait(made, timeout=seconds)["StatusCode"]
            out: bytes = self.client.api.logs(made, stdout=True, stderr=code != 0)
        text = out.decode("utf-8", errors="replace")
        if code != 0:
            raise DaemonError(f"the image's own python failed with exit {code}: {text.strip().splitlines()[-1:]}")
        return text

    def ask(self, container: str, argv: list[str]) -> str:
        """What a short program prints that is run beside the one in a running container."""
        with speaking("asking the engine's container"):
            made = self.client.api.exec_create(container, argv)
            out = self.client.api.exec_start(made["Id"]).decode("utf-8", errors="replace")
            if code := self.client.api.exec_inspect(made["Id"])["ExitCode"]:
                raise DaemonError(f"python3 beside the engine failed with exit {code}: {out.strip().splitlines()[-1:]}")
        return str(out)

    def read_file(self, image: str, path: str) -> bytes | None:
        """One file out of an image, without starting it; None when it is not there."""
        with short_lived(self, f"reading {path} from {image}", image, entrypoint=["/bin/true"]) as made:
            found = self.archive(made, path)
            return file_in(found) if found else None
