"""Docker's description of a container in our words."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from typing import Any

from b70ctl.core.compose import LABEL, SERVICE
from b70ctl.core.release import Container, Release


def as_container(about: Mapping[str, Any], releases: Mapping[str, Release]) -> Container:
    """What Docker says of a container; one that lacks its release's key is foreign."""
    labels = about["Config"].get("Labels") or {}
    release = labels.get(f"{LABEL}.release", "")
    adopted = next((item.id for item in releases.values() if item.container == about["Id"]), None)
    known = releases.get(release)
    ours = known is not None and labels.get(f"{LABEL}.key") == known.key
    ours = ours and labels.get("com.docker.compose.service") == SERVICE
    state = about["State"]
    return Container(
        id=about["Id"],
        name=about["Name"].lstrip("/"),
        release=adopted or release,
        state=state["Status"],
        exit_code=state.get("ExitCode") or 0,
        restarts=about.get("RestartCount") or 0,
        policy=(about["HostConfig"].get("RestartPolicy") or {}).get("Name") or "no",
        health=(state.get("Health") or {}).get("Status"),
        started=state.get("StartedAt", ""),
        foreign=adopted is None and not ours,
        root=labels.get(f"{LABEL}.root", ""),
    )


def file_in(archive: bytes) -> bytes | None:
    """The one file of an archive, as Docker sends it; None when it is something else than a file."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        member = opened.next()
        file = opened.extractfile(member) if member and member.isfile() else None
        return file.read() if file else None


def names_in(archive: bytes) -> frozenset[str]:
    """Names of the files in an archive of a folder, as Docker sends it."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return frozenset(member.name.rpartition("/")[2] for member in opened if member.isfile())
