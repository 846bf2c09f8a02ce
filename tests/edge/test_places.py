"""Whose directory a path names."""

import os

import pytest

from b70ctl.edge.places import another_site, is_site
from b70ctl.errors import UsageError
from tests.no_files import NO_FILES


def a_site(path):
    path.mkdir()
    (path / "site.yaml").write_text("")
    return path


def test_a_site_is_another_when_it_is_there_and_not_ours(tmp_path):
    ours, other = a_site(tmp_path / "ours"), a_site(tmp_path / "other")
    assert another_site(str(other), ours)
    assert not another_site(str(ours), ours)


def test_a_site_that_was_moved_or_is_reached_by_a_link_is_the_same(tmp_path):
    ours = a_site(tmp_path / "ours")
    (tmp_path / "link").symlink_to(ours)
    assert not another_site(str(tmp_path / "link"), ours)
    assert not another_site(str(tmp_path / "where-it-was"), ours)


def test_a_site_that_is_gone_or_was_never_named_is_nobodys(tmp_path):
    ours, other = a_site(tmp_path / "ours"), a_site(tmp_path / "other")
    (other / "site.yaml").unlink()
    assert not another_site(str(other), ours)
    assert not another_site("", ours)


def test_a_place_that_may_not_be_looked_into_may_be_somebodys(tmp_path):
    assert another_site(str(tmp_path / ("n" * 300)), a_site(tmp_path / "ours"))


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_makes_no_site(tmp_path, kind):
    NO_FILES[kind](tmp_path / "site.yaml")
    assert not is_site(tmp_path)
    assert not is_site(tmp_path / "site.yaml")


def test_a_place_that_cannot_be_looked_at_is_told(tmp_path):
    with pytest.raises(UsageError, match=f"cannot be looked at: {os.strerror(36)}"):
        is_site(tmp_path / ("n" * 300))
