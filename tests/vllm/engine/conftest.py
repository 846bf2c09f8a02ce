"""A site for each release, on the Docker Engine that answers; what was proven is recorded when its checks are done."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import docker
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docker"))

import livesite
from livesite import LiveSite

from tests.rig import dockerd
from tests.vllm import record, versions
from tests.vllm.engine import image, serving
from tests.vllm.engine.serving import Served

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = "tiny/draft"
VERSIONS = versions.ENGINE


def hub_cache(folder: Path) -> Path:
    """The draft as the hub's library keeps it: a snapshot of links."""
    top = folder / "hub" / "models--tiny--draft"
    (top / "refs").mkdir(parents=True)
    (top / "refs" / "main").write_text(COMMIT)
    snapshot, blobs = top / "snapshots" / COMMIT, top / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for file in (serving.models() / serving.DRAFT).iterdir():
        shutil.copyfile(file, blobs / f"blob-{file.name}")
        (snapshot / file.name).symlink_to(f"../../blobs/blob-{file.name}")
    return folder


@pytest.fixture(scope="module", params=VERSIONS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A site whose profiles are for one release."""
    host = dockerd.up().host
    client = docker.DockerClient(base_url=host, version="auto", timeout=600)
    found = image.environment(request.param)
    image.ensure_image(client, found)
    name = f"v{uuid4().hex[:8]}"
    root = tmp_path_factory.mktemp("engine") / name
    for folder in ("profiles", "patches", "home"):
        (root / folder).mkdir(parents=True)
    site = LiveSite(root, name, livesite.free_port(), host, client)
    site.write_site(models=str(serving.models()), hf_cache=str(hub_cache(root / "hf")))
    made = Served(site, found)
    try:
        yield made
    finally:
        site.remove()
        client.close()
        # a run of everything knows which rows are no more
        whole = not (request.session.testsfailed or request.config.getoption("keyword"))
        record.record("engine", made.rows, command="make test-vllm", whole=whole)
