"""A container made by hand, described as a release, so that it can be the way back."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Any

from b70ctl.core.compose import LABEL
from b70ctl.core.deployment import BY_HAND, STOP_MARGIN, Address, Deployment, Mount
from b70ctl.core.profile import Boot, ProbeSettings
from b70ctl.core.release import Release, release_id
from b70ctl.core.secrecy import masked
from b70ctl.core.site import API_KEY, Site
from b70ctl.core.sizes import size_of
from b70ctl.edge.daemon import Daemon
from b70ctl.edge.endpoint import Endpoint
from b70ctl.edge.files import now
from b70ctl.edge.imagefacts import digest_of
from b70ctl.edge.ports import published
from b70ctl.errors import EngineError, Refused

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
ALONE = "; once it has stopped, switch without --adopt"


def adopted_release(daemon: Daemon, name: str, site: Site, number: int, command: str, keys: dict[str, str]) -> Release:
    """The release that stands for a running container; Refused unless it answers now, as it must later."""
    about = daemon.inspect(name) if NAME.fullmatch(name) else None
    if about is None:
        raise Refused(f"there is no container `{name}` to adopt", hint="docker ps")
    owner = (about["Config"].get("Labels") or {}).get(f"{LABEL}.site")
    if owner is not None:
        raise Refused(f"container `{name}` is the engine of site `{owner}`, not one that was made by hand",
                      hint="b70ctl --site DIR stop")  # fmt: skip
    if about["State"]["Status"] == "paused":
        raise Refused(f"container `{name}` is paused, so it cannot show that it answers", hint=f"docker unpause {name}")
    if about["State"]["Status"] != "running":
        raise Refused(f"container `{name}` is {about['State']['Status']}, so there is nothing to adopt",
                      hint=f"docker rm {name}, or: docker start {name}")  # fmt: skip
    if about["HostConfig"].get("AutoRemove"):
        raise Refused(f"container `{name}` is removed when it stops (--rm), so it cannot be the way back{ALONE}",
                      hint=f"docker stop {name}")  # fmt: skip
    address = _address(about, site)
    served, length = _speaks(name, Endpoint(address.url, keys.get(API_KEY)))
    deployment = _deployment(about, site, address, served, length, _identity(daemon, about), keys.values())
    return Release(
        id=release_id(number, f"adopted-{deployment.profile}", deployment.digest),
        number=number,
        kind="adopted",
        key=secrets.token_hex(16),
        created=now(),
        command=command,
        deployment=deployment,
        container=about["Id"],
        policy=_policy(about),
    )


def _identity(daemon: Daemon, about: dict[str, Any]) -> str:
    """The image's identity as a profile's would be, so that the same image is the same."""
    image = daemon.image(about["Image"])
    digest = digest_of(image, about["Config"].get("Image") or "") if image else None
    return digest or str(about["Image"])


def _command(config: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What runs before the command, and the command, program first as in every deployment."""
    entrypoint, words = tuple(config.get("Entrypoint") or ()), tuple(config.get("Cmd") or ())
    return (entrypoint, words) if "-c" in entrypoint else ((), (*entrypoint, *words))


def _policy(about: dict[str, Any]) -> str:
    policy = about["HostConfig"].get("RestartPolicy") or {}
    retries = policy.get("MaximumRetryCount") or 0
    return f"{policy.get('Name') or 'no'}{f':{retries}' if retries else ''}"


def _address(about: dict[str, Any], site: Site) -> Address:
    found = published(about)
    if site.port in found or about["HostConfig"].get("NetworkMode") == "host":
        return Address(bind=site.bind, port=site.port)
    if len(found) == 1:
        return Address(bind=site.bind, port=found.pop())
    name = about["Name"].lstrip("/")
    ports = sorted(found) or "no port"
    raise Refused(f"container `{name}` publishes {ports}, and the site's port is {site.port}{ALONE}",
                  hint=f"docker stop {name}")  # fmt: skip


def _speaks(name: str, endpoint: Endpoint) -> tuple[tuple[str, ...], int | None]:
    try:
        served = endpoint.models()
        length = endpoint.max_model_len(served[0]) if served else None
    except EngineError as error:
        raise Refused(f"container `{name}` does not answer, so it cannot be the way back: {error.what}{ALONE}",
                      hint=f"docker stop {name}") from error  # fmt: skip
    if not served:
        raise Refused(f"container `{name}` serves no model{ALONE}", hint=f"docker stop {name}")
    return served, length


def _deployment(
    about: dict[str, Any],
    site: Site,
    address: Address,
    served: tuple[str, ...],
    length: int | None,
    identity: str,
    hidden: Iterable[str],
) -> Deployment:
    """What a reader of history and plans would ask; environment values are left out, since they may be secret."""
    hidden = tuple(hidden)
    config, host = about["Config"], about["HostConfig"]
    entrypoint, argv = _command(config)
    name = about["Name"].lstrip("/")
    grace = config.get("StopTimeout") or 30
    return Deployment(
        profile="".join(char if char.isalnum() or char in "._-" else "-" for char in name.lower()),
        summary=f"container {name}, made by hand",
        site=site.name,
        image=identity,
        image_ref=config.get("Image") or about["Image"],
        vllm="unknown",
        template=BY_HAND,
        entrypoint=masked(entrypoint, hidden),
        argv=masked(argv, hidden),
        env={},
        secrets=(),
        working_dir=config.get("WorkingDir") or "/",
        address=address,
        network=host.get("NetworkMode") or "default",
        cards=(),
        card_count=0,
        devices=tuple((item["PathOnHost"], item["PathInContainer"]) for item in host.get("Devices") or []),
        groups=(),
        mounts=tuple(
            Mount(source=item.get("Source", ""), target=item["Destination"], read_only=not item.get("RW", True))
            for item in about.get("Mounts") or []
            if item.get("Type", "bind") == "bind" and item["Destination"] != "/dev/dri/by-path"
        ),
        files=(),
        cache_volume="none",
        shm_size=size_of(host.get("ShmSize") or 0),
        ipc=host.get("IpcMode") or "private",
        ulimits={each["Name"]: each["Soft"] for each in host.get("Ulimits") or []},
        cap_add=tuple(sorted(each.removeprefix("CAP_") for each in host.get("CapAdd") or ())),
        shutdown_timeout=max(1, int(grace) - STOP_MARGIN),
        boot=Boot(),
        probes=ProbeSettings(skip={"tool-call": "what a container made by hand was told is not known"}),
        served_names=served,
        max_model_len=length,
        tools=False,
        reasoning=False,
        speculative=None,
        requires=(),
        patches={},
    )
