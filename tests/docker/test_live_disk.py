"""A disk that is full: what serves goes on serving, and nothing is left half written."""

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from livesite import ROOMY, LiveSite, until

PAGE = 4096


class Disk:
    """A small disk under a site's memory."""

    def __init__(self, site: LiveSite) -> None:
        self.site, self.filler = site, site.store / "filler"

    def fill(self, pages: int) -> None:
        """Leave this many pages."""
        with self.filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(b"x" * PAGE)
        size = self.filler.stat().st_size
        os.truncate(self.filler, max(0, size - size % PAGE - pages * PAGE))

    def empty(self) -> None:
        """Take everything away that is not the site's."""
        self.filler.unlink(missing_ok=True)


@pytest.fixture
def disk(site: LiveSite) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("a disk can only be mounted by root")
    site.store.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(site.store)), check=True)
    site = dataclasses.replace(site, program=(str(ROOMY),))
    try:
        site.quick("a")
        site.switch("a")
        yield Disk(site)
    finally:
        site.remove()
        subprocess.run(("umount", "-l", str(site.store)), check=True)


def litter(store: Path) -> list[str]:
    """What is half of something."""
    return [str(path) for path in store.rglob("*") if path.name.startswith((".partial-", ".check-"))]


def test_however_full_the_disk_is_the_old_engine_serves_or_the_new_one_does(disk: Disk) -> None:
    site, old = disk.site, disk.site.serving()
    container, ends = site.engine().id, set()
    for pages in range(0, 26, 2):
        site.quick("b", env={"N": str(pages)})
        disk.fill(pages)
        ran = site.run("switch", "b", "--yes")
        ends.add(ran.code)
        assert "Traceback" not in ran.err, str(ran)
        assert litter(site.store) == [], (pages, str(ran))
        if ran.code == 0:
            break
        assert "No space left on device" in ran.err, str(ran)
        assert str(site.store) in ran.err
        disk.empty()
        site.run("recover").exits(0)
        if site.serving() != old:
            # all was proven, and only the last lines found no room
            break
        site.assert_serves("a", old)
        assert site.engine().id == container
    assert 3 in ends
    assert site.serving() != old, "there was never room enough"
    disk.empty()
    site.run("recover").exits(0)
    site.assert_serves("b")


def test_a_disk_that_fills_up_while_an_engine_boots_does_not_stop_the_way_back(disk: Disk) -> None:
    site, old = disk.site, disk.site.serving()
    container = site.engine().id
    site.quick("bad", env={"STANDIN_STAGE_SECONDS": "weights=2", "STANDIN_FAULT": "http-500"})
    with site.begin("switch", "bad", "--yes") as child:
        until(lambda: site.begun("await"), "it boots")
        disk.fill(0)
        code = child.wait(90)
    assert code in (5, 6)
    engine = site.engine()
    assert (engine.id, engine.status) == (container, "running")
    assert "Paris" in site.ask("a", "What is the capital of France?")[1]
    started = engine.attrs["State"]["StartedAt"]
    disk.empty()
    site.run("recover").exits(0)
    site.assert_serves("a", old)
    assert site.engine().attrs["State"]["StartedAt"] == started, "the way back had started it already"


@pytest.mark.parametrize("gone", ["the site", "its memory"])
def test_a_directory_that_is_removed_in_the_middle_of_a_switch_leaves_the_old_engine_serving(
    site: LiveSite, gone: str, tmp_path: Path
) -> None:
    site.write_site(models=str(tmp_path / "models"))
    shutil.move(site.root / "models", tmp_path)
    site.quick("a")
    site.quick("slow", env={"STANDIN_STAGE_SECONDS": "weights=2"})
    site.switch("a")
    old = site.engine().id
    with site.begin("switch", "slow", "--yes") as child:
        until(lambda: site.begun("await"), "it waits")
        shutil.rmtree(site.root if gone == "the site" else site.store)
        code = child.wait(90)
        assert child.stderr is not None
        said = child.stderr.read()
    assert code == 5, said
    assert "Traceback" not in said
    assert f"{site.store} is gone: it was removed while this command was at work" in said
    assert "serves again, proven" in said
    engine = site.engine()
    assert (engine.id, engine.status) == (old, "running")
    assert "Paris" in site.ask("a", "What is the capital of France?")[1]
    assert not site.store.exists()


@pytest.mark.parametrize(("words", "need"), [("switch b --yes", 64), ("restart --yes", 4), ("rollback --yes", 4)])
def test_a_disk_with_little_room_is_told_with_its_numbers_before_an_engine_is_stopped(
    disk: Disk, words: str, need: int
) -> None:
    site = dataclasses.replace(disk.site, program=("-m", "b70ctl"))
    site.quick("b")
    if words.startswith("rollback"):
        disk.site.switch("b")
    started, journal = site.engine().attrs["State"]["StartedAt"], site.journal()
    ran = site.run(*words.split()).exits(3)
    assert f"MB are free in {site.store}" in ran.err
    assert f"{need} MB are needed" in ran.err
    assert f"df -h {site.store}" in ran.err
    assert site.engine().attrs["State"]["StartedAt"] == started
    assert site.journal() == journal
    site.run("stop", "--yes").exits(0)
    site.run("start").exits(0)
