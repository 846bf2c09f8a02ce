"""The stand-in images, imported into a Docker Engine: one per family of images that people serve from.

python -m tests.rig.images      makes what is missing or out of date, prints name and image id
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import docker
import docker.errors

from b70ctl.errors import DaemonError, MachineError

from . import dockerd
from .image_files import FAMILIES, Entry, Family, entries
from .places import cache_dir
from .rootfs import rootfs_key, rootfs_tar
from .talk import exit_status, give, say

LABEL = "b70ctl.standin"


def ensure_images(docker_host: str | None = None) -> dict[str, str]:
    """Image id by reference, for every family; imports only what is missing or made from older files."""
    client = docker.DockerClient(base_url=docker_host or dockerd.host(), version="auto", timeout=120)
    try:
        with (cache_dir() / "images.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return {family.ref: _ensure(client, family) for family in FAMILIES.values()}
    finally:
        client.close()


def digest(family: Family) -> str:
    """Changes whenever anything in the family's image would."""
    state = hashlib.sha256(rootfs_key().encode())
    for entry in entries(family):
        state.update(repr(entry).encode())
    state.update(repr(family.changes("")).encode())
    return state.hexdigest()[:16]


def _ensure(client: docker.DockerClient, family: Family) -> str:
    wanted = digest(family)
    for image in client.images.list(filters={"label": f"{LABEL}={wanted}"}):
        if family.ref not in image.tags:
            image.tag(family.ref)
        return str(image.id)
    return _import(client, family, wanted)


def _import(client: docker.DockerClient, family: Family, wanted: str) -> str:
    say(f"importing {family.ref}")
    repository, _, tag = family.ref.rpartition(":")
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="image-") as scratch:
        packed = Path(scratch, "image.tar")
        _pack(family, packed)
        changes = family.changes(wanted)
        client.api.import_image(src=str(packed), repository=repository, tag=tag, changes=changes)
    for image in client.images.list(filters={"label": LABEL, "dangling": True}):
        # what the new image replaces; one that a container still uses stays
        with contextlib.suppress(docker.errors.APIError):
            client.images.remove(str(image.id))
    try:
        return str(client.images.get(family.ref).id)
    except docker.errors.ImageNotFound as missing:
        raise DaemonError(f"the daemon did not keep the imported image {family.ref}") from missing


def _pack(family: Family, target: Path) -> None:
    """The root filesystem with the family's paths appended; one import, one layer."""
    shutil.copyfile(rootfs_tar(), target)
    with tarfile.open(target, "a", format=tarfile.PAX_FORMAT) as packed:
        # the daemon refuses an archive that names a path twice
        made = {name.removeprefix("./") for name in packed.getnames()}
        for entry in entries(family):
            _add_parents(packed, entry.path, made)
            _add(packed, entry)


def _add_parents(packed: tarfile.TarFile, path: str, made: set[str]) -> None:
    for parent in reversed(Path(path).parents[:-1]):
        name = str(parent)
        if name not in made:
            made.add(name)
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            packed.addfile(member)


def _add(packed: tarfile.TarFile, entry: Entry) -> None:
    member = tarfile.TarInfo(entry.path)
    if entry.link is not None:
        member.type, member.linkname = tarfile.SYMTYPE, entry.link
        packed.addfile(member)
        return
    data = entry.text.encode()
    member.size, member.mode = len(data), entry.mode
    packed.addfile(member, io.BytesIO(data))


def main() -> int:
    """Make the images on the daemon that answers, and print what they are."""
    host = dockerd.host()
    if host is None:
        raise MachineError("no Docker Engine answers", hint="python -m tests.rig.dockerd up")
    for ref, image in ensure_images(host).items():
        give(f"{ref} {image}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(main))
