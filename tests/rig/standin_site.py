"""A site whose profiles run the stand-in engine, and its end: whatever it made in Docker is removed with it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker

from b70ctl.errors import B70Error, MachineError

from .dri import make_dri
from .engine_process import free_port
from .image_files import INTEL, OPENAI, Family

COMMAND = Path(sys.executable).parent / "b70ctl"
PROFILE = """\
summary: {what}
status: research
status_reason: a stand-in engine, not a model
image:
  ref: {ref}
  vllm: {vllm}
model:
  path: {name}
  served_names: [{name}]
engine:
  max_model_len: 8192
  tool_call_parser: hermes
{cards}boot:
  budget: 120
  stall: 30
env:
  STANDIN_BOOT_SECONDS: "{boot}"
"""
BROKEN = """\
extends: demo-b
summary: as demo-b, and damaged; /health says 200, every answer is `!!!!`
model:
  served_names: [demo-broken]
env:
  STANDIN_FAULT: garbage
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A site in a directory of its own, and the environment in which its commands run."""

    name: str
    folder: Path
    port: int
    env: dict[str, str]


@contextlib.contextmanager
def standin_site(host: str, prefix: str) -> Iterator[Site]:
    """An empty directory for a site; at the end it is gone, and everything in Docker that carries its name."""
    name = f"{prefix}-{secrets.token_hex(2)}"
    root = Path(tempfile.mkdtemp(prefix=f"b70ctl-{prefix}-"))
    root.chmod(0o755)
    try:
        folder = root / "site"
        folder.mkdir()
        yield Site(name, folder, free_port(), _environment(host, root))
    finally:
        remove_all(host, name)
        shutil.rmtree(root, ignore_errors=True)


def _environment(host: str, root: Path) -> dict[str, str]:
    ours = {
        "DOCKER_HOST": host,
        "PATH": f"{COMMAND.parent}:{os.environ['PATH']}",
        # the stand-in's card has an address that a real one may have too
        "B70CTL_LEASES": str(root / "leases"),
    }
    theirs = ("B70CTL_SITE", "B70CTL_DEBUG", "B70CTL_COMPOSE")
    return {name: value for name, value in os.environ.items() if name not in theirs} | ours


def furnish(site: Site, boot: float = 3) -> str:
    """Give a site that `init` made its port, a card where device nodes can be made, models and profiles; says what."""
    file = site.folder / "site.yaml"
    dri = site.folder.parent / "dri"
    card = _has_card(dri)
    text = file.read_text().replace("port: 8000", f"port: {site.port}")
    file.write_text(text + (f"\ndri: {dri}\n" if card else ""))
    for name, family in (("demo-a", INTEL), ("demo-b", OPENAI)):
        model = site.folder / "models" / name
        model.mkdir(parents=True)
        (model / "config.json").write_text('{"model_type": "stand-in"}\n')
        (site.folder / "profiles" / f"{name}.yaml").write_text(_profile(name, family, boot, card=card))
    (site.folder / "profiles" / "demo-broken.yaml").write_text(BROKEN)
    where = "a stand-in for a card's device node" if card else "no card, as device nodes cannot be made here"
    return f"port {site.port}, {where}, two models of no weight, three profiles"


def _has_card(folder: Path) -> bool:
    try:
        # an address that no real card has, and another demo on this machine has not either
        make_dri(folder, domain=f"{0xF000 + os.getpid() % 0xFFF:04x}")
    except (MachineError, OSError):
        return False
    return True


def _profile(name: str, family: Family, boot: float, *, card: bool) -> str:
    what = f"a stand-in for vLLM {family.vllm.partition('+')[0]}"
    cards = "" if card else "cards: none\n"
    return PROFILE.format(name=name, what=what, ref=family.ref, vllm=family.vllm, boot=boot, cards=cards)


def remove_all(host: str, name: str) -> None:
    """Remove everything that a site made in Docker; B70Error when something will not go."""
    client = docker.DockerClient(base_url=host, version="auto", timeout=60)
    of_site: dict[str, str | list[str] | bool] = {"label": f"b70ctl.site={name}"}
    tags = f"b70ctl/{name}"
    try:
        for container in client.containers.list(all=True, filters=of_site):
            container.remove(force=True)
        for volume in client.volumes.list(filters=of_site):
            volume.remove()
        for network in client.networks.list(filters=of_site):
            network.remove()
        for image in client.images.list(name=tags):
            for tag in (tag for tag in image.tags if tag.startswith(f"{tags}:")):
                client.images.remove(tag, noprune=True)
        left = [
            *client.containers.list(all=True, filters=of_site),
            *client.volumes.list(filters=of_site),
            *client.networks.list(filters=of_site),
            *client.images.list(name=tags),
        ]
    finally:
        client.close()
    if left:
        raise B70Error(f"left behind in Docker by site {name}: {', '.join(map(str, left))}")
