"""A link that means something here may mean nothing in the container, where its folder has another place."""

from pathlib import Path

import pytest

from b70ctl.core.deployment import Mount
from b70ctl.edge.links import lost


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models"
    (folder / "real").mkdir(parents=True)
    (folder / "real" / "config.json").write_text("{}")
    return folder


def mounted(source, target="/models"):
    return Mount(source=str(source), target=target, read_only=True)


@pytest.mark.parametrize("target", ["real", "./real", "real/../real", "absent/../real"])
def test_a_link_inside_the_mount_is_seen(models, target):
    (models / "d").symlink_to(target)
    assert lost(models / "d" / "config.json", [mounted(models)]) is None


@pytest.mark.parametrize("target", ["{models}/real", "../hub/d"], ids=["absolute, though inside", "climbs out"])
def test_a_link_that_leads_elsewhere_in_the_container_is_lost(models, target):
    (models / "d").symlink_to(target.format(models=models))
    assert lost(models / "d" / "config.json", [mounted(models)]) == models / "d"


def test_a_link_behind_a_link_is_followed(models):
    (models / "a").mkdir()
    (models / "a" / "config.json").symlink_to("../../out")
    (models / "d").symlink_to("a")
    assert lost(models / "d" / "config.json", [mounted(models)]) == models / "a" / "config.json"


@pytest.mark.parametrize(("target", "other"), [("/data/blobs/x", "/data"), ("../hub/x", "/hub")])
def test_a_link_is_not_lost_where_something_is_mounted_that_it_leads_to(models, target, other):
    (models / "d").symlink_to(target)
    assert lost(models / "d", [mounted(models)]) == models / "d"
    assert lost(models / "d", [mounted(models), mounted("/elsewhere", other)]) is None


@pytest.mark.parametrize("turned", [False, True])
def test_a_mount_inside_another_is_the_one_that_a_link_must_not_climb_out_of(tmp_path, turned):
    (tmp_path / "hf").mkdir()
    (tmp_path / "real").touch()
    (tmp_path / "hf" / "d").symlink_to("../real")
    mounts = [mounted(tmp_path), mounted(tmp_path / "hf", "/hf")]
    assert lost(tmp_path / "hf" / "d", mounts[::-1] if turned else mounts) == tmp_path / "hf" / "d"


def test_a_hubs_snapshot_is_seen_through_its_links(tmp_path):
    top = tmp_path / "hub" / "models--a--b"
    (top / "blobs").mkdir(parents=True)
    (top / "snapshots" / "1").mkdir(parents=True)
    (top / "blobs" / "x").write_text("{}")
    (top / "snapshots" / "1" / "config.json").symlink_to("../../blobs/x")
    assert lost(top / "snapshots" / "1" / "config.json", [mounted(tmp_path, "/cache")]) is None


def test_a_mount_that_is_itself_a_link_is_the_daemons_to_follow(models, tmp_path):
    (tmp_path / "linked").symlink_to(models)
    assert lost(tmp_path / "linked" / "real" / "config.json", [mounted(tmp_path / "linked")]) is None


def test_links_without_an_end_are_given_up(models):
    (models / "d").symlink_to("e")
    (models / "e").symlink_to("d")
    assert lost(models / "d" / "config.json", [mounted(models)]) is None


def test_what_is_not_mounted_is_nobodys_link(models):
    (models / "d").symlink_to("/nowhere")
    assert lost(models / "d", []) is None
    assert lost(Path("/other/d"), [mounted(models)]) is None


def test_what_may_not_be_looked_at_is_not_called_lost(models):
    assert lost(models / ("d" * 300) / "config.json", [mounted(models)]) is None
