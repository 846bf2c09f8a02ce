"""Sites on the real daemon; every test here is marked `docker`, and leaves nothing of its sites behind."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import docker
import livesite
import pytest
from livesite import LiveSite, NewSite

from b70ctl.errors import B70Error
from tests.rig import dockerd, images


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.docker)
    # a test that takes the daemon away comes after all that need it
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: takes the daemon away, so it runs when everything else is done")


@pytest.fixture(scope="session")
def docker_host() -> str:
    """Where the daemon answers; it has the stand-in images."""
    try:
        host = dockerd.up().host
        images.ensure_images(host)
    except B70Error as error:
        if os.environ.get("B70CTL_REQUIRE_DOCKER") == "1":
            raise
        pytest.skip(error.what)
    return host


@pytest.fixture(scope="session")
def client(docker_host: str) -> Iterator[docker.DockerClient]:
    connection = docker.DockerClient(base_url=docker_host, version="auto", timeout=60)
    yield connection
    connection.close()


@pytest.fixture
def new_site(tmp_path: Path, docker_host: str, client: docker.DockerClient) -> Iterator[NewSite]:
    """Makes sites; whatever they leave in Docker is removed afterwards."""
    yield from _sites(tmp_path, docker_host, client)


@pytest.fixture
def site(new_site: NewSite) -> LiveSite:
    return new_site()


@pytest.fixture(scope="module")
def kept_site(
    tmp_path_factory: pytest.TempPathFactory, docker_host: str, client: docker.DockerClient
) -> Iterator[LiveSite]:
    """One site for a whole module, for tests that leave it serving something."""
    made = _sites(tmp_path_factory.mktemp("kept"), docker_host, client)
    yield next(made)()
    next(made, None)


def _sites(base: Path, host: str, client: docker.DockerClient) -> Iterator[NewSite]:
    made: list[LiveSite] = []

    def make(**keys: object) -> LiveSite:
        name = f"t{uuid4().hex[:8]}"
        root = base / name
        for folder in ("profiles", "patches", "home"):
            (root / folder).mkdir(parents=True)
        site = LiveSite(root, name, livesite.free_port(), host, client)
        made.append(site)
        site.write_site(**keys)
        site.model()
        return site

    yield make
    for site in made:
        site.remove()
