"""Images: asked what they hold, and pinned, with a registry on loopback and without any."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from livesite import MARK, LiveSite, free_port, until

from tests.rig.image_files import INTEL, OPENAI, Family

CONFIG = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: 127.0.0.1:{port}}}
"""


@dataclass
class Registry:
    """A registry on loopback, and what was put there."""

    site: LiveSite
    port: int

    def publish(self, family: Family, word: str) -> str:
        """Push an image that differs by a word under the same tag; its digest."""
        repository = f"127.0.0.1:{self.port}/{self.site.name}/vllm"
        commit(self.site, family, repository, word)
        said = self.site.client.images.push(repository, "latest", stream=True, decode=True)
        return next(line["aux"]["Digest"] for line in said if "aux" in line)

    @property
    def ref(self) -> str:
        """What a profile would call it."""
        return f"127.0.0.1:{self.port}/{self.site.name}/vllm:latest"


def commit(site: LiveSite, family: Family, repository: str, word: str, tag: str = "latest") -> Any:
    """An image of the family's that differs by a label."""
    base = site.client.containers.create(family.ref, labels={MARK: site.name})
    made = base.commit(repository, tag, changes=[f"LABEL word={word}", "LABEL b70ctl.standin=no"])
    base.remove()
    return made


@pytest.fixture
def registry(site: LiveSite, tmp_path: Path) -> Iterator[Registry]:
    program = shutil.which("docker-registry")
    if program is None:
        if os.environ.get("B70CTL_REQUIRE_DOCKER") == "1":
            pytest.fail("no docker-registry here: apt-get install docker-registry")
        pytest.skip("no docker-registry here")
    port = free_port()
    config = tmp_path / "registry.yml"
    config.write_text(CONFIG.format(folder=tmp_path / "registry", port=port))
    log = (tmp_path / "registry.log").open("w")
    child = subprocess.Popen((program, "serve", str(config)), stdout=log, stderr=log)
    try:
        until(lambda: site.get("/v2/", port=port)[0] == 200, "the registry answers")
        yield Registry(site, port)
    finally:
        child.kill()
        child.wait()
        log.close()


def lock_of(site: LiveSite) -> Any:
    """The site's lock file."""
    return yaml.safe_load((site.root / "b70ctl.lock.yaml").read_text())


@pytest.mark.parametrize("family", [INTEL, OPENAI], ids=["intel", "openai"])
def test_a_probe_tells_what_an_image_holds_and_leaves_nothing_running(site: LiveSite, family: Family) -> None:
    facts = site.run("images", "probe", family.ref, "--json").exits(0).data()
    assert facts["vllm"] == family.vllm
    assert (facts["torch"], facts["triton"], facts["kernels"]) == (family.torch, family.triton, family.kernels)
    assert tuple(facts["entrypoint"]) == family.entrypoint
    assert facts["workdir"] == family.workdir
    assert facts["setvars"] == family.oneapi
    assert facts["pythonpath"] == "/opt/image/python"
    assert "render" not in facts["groups"]
    assert facts["source"] == "probe"
    assert any(len(digest) == 64 for digest in facts["files"].values())
    assert site.containers() == []
    assert family.vllm in site.run("images", "probe", family.ref).exits(0).out


def test_an_absent_image_is_told_how_to_get(site: LiveSite) -> None:
    assert "docker pull nowhere/none:1" in site.run("images", "probe", "nowhere/none:1").exits(1).err
    assert "is not an image reference" in site.run("images", "probe", "No Image").exits(2).err


def test_a_pinned_image_is_served_after_its_tag_has_moved(registry: Registry) -> None:
    site = registry.site
    digest = registry.publish(OPENAI, "first")
    first = site.client.images.get(registry.ref).id
    site.quick("a", image={"ref": registry.ref, "vllm": OPENAI.vllm})
    site.run("images", "pin", registry.ref).exits(0)
    pin = lock_of(site)["images"][registry.ref]
    assert pin["identity"] == f"{registry.ref.removesuffix(':latest')}@{digest}"
    assert pin["vllm"] == OPENAI.vllm
    moved = registry.publish(OPENAI, "second")
    assert moved != digest
    assert site.client.images.get(registry.ref).id != first
    site.switch("a")
    site.assert_serves("a")
    assert site.engine().attrs["Image"] == first
    deployment = site.releases()[site.serving()]["deployment"]
    assert deployment["image"] == pin["identity"]
    assert deployment["image_ref"] == registry.ref
    listed = {row["image"]: row for row in site.run("images", "list", "--json").exits(0).data()}
    assert listed[registry.ref]["pinned"] == pin["identity"]
    site.run("images", "pin", registry.ref).exits(0)
    site.switch("a")
    assert site.engine().attrs["Image"] != first
    site.run("rollback", "--yes").exits(0)
    assert site.engine().attrs["Image"] == first


def test_without_a_pin_a_moved_tag_is_a_change_that_a_plan_tells(registry: Registry) -> None:
    site = registry.site
    registry.publish(OPENAI, "first")
    site.quick("a", image={"ref": registry.ref, "vllm": OPENAI.vllm})
    site.switch("a")
    assert site.run("plan", "a", "--exit-code").exits(0)
    registry.publish(OPENAI, "second")
    site.switch("a")
    before, after = site.releases().values()
    assert before["deployment"]["image"] != after["deployment"]["image"]
    assert any(change["what"] == "image identity" for change in site.history()[-1]["changes"])


def test_an_imported_image_is_pinned_by_its_id(site: LiveSite) -> None:
    repository = f"b70ctl-test/{site.name}"
    first = commit(site, OPENAI, repository, "first").id
    ref = f"{repository}:latest"
    site.quick("a", image={"ref": ref, "vllm": OPENAI.vllm})
    site.run("images", "pin", ref).exits(0)
    assert lock_of(site)["images"][ref]["identity"] == first
    commit(site, OPENAI, repository, "second")
    site.switch("a")
    site.assert_serves("a")
    assert site.engine().attrs["Image"] == first
    assert site.releases()[site.serving()]["deployment"]["image"] == first


def test_a_kept_release_keeps_its_image_from_being_pruned(site: LiveSite) -> None:
    repository = f"b70ctl-test/{site.name}"
    first = commit(site, OPENAI, repository, "first").id
    ref = f"{repository}:latest"
    site.quick("a", image={"ref": ref, "vllm": OPENAI.vllm})
    site.quick("b")
    site.switch("a")
    old = site.serving()
    site.switch("b")
    commit(site, OPENAI, repository, "second")
    # as `docker image prune` does: what has no name and no container goes
    named = site.client.images.get(first).tags
    assert named == [f"b70ctl/{site.name}:{old}"]
    site.run("rollback", "--yes").exits(0)
    site.assert_serves("a", old)
    assert site.engine().attrs["Image"] == first


def test_an_image_with_another_vllm_than_the_profile_expects_stops_nothing(site: LiveSite) -> None:
    repository = f"b70ctl-test/{site.name}"
    commit(site, OPENAI, repository, "x")
    site.quick("a", image={"ref": f"{repository}:latest", "vllm": OPENAI.vllm})
    site.switch("a")
    commit(site, INTEL, repository, "y")
    ran = site.switch("a", code=1)
    assert INTEL.vllm in ran.err
    assert OPENAI.vllm in ran.err
    site.assert_serves("a")
