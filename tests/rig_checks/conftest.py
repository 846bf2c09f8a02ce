"""An engine process per test, and the daemon with its images for tests that are marked `docker`."""

import os
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from b70ctl.errors import B70Error
from tests.rig import dockerd, images
from tests.rig.engine_process import Start, starter


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starter(tmp_path) as begin:
        yield begin


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    """A client of the daemon with the stand-in images in it."""
    try:
        host = dockerd.up().host
    except B70Error as error:
        if os.environ.get("B70CTL_REQUIRE_DOCKER") == "1":
            raise
        pytest.skip(error.what)
    images.ensure_images(host)
    connection = docker.DockerClient(base_url=host, version="auto", timeout=60)
    yield connection
    connection.close()
