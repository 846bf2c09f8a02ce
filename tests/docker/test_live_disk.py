"""A disk that is full: what serves goes on serving, and nothing is left half written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from livesite import LiveSite, until

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
    site.quick("a")
    site.switch("a")
    try:
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
    disk.empty()
    site.run("recover").exits(0)
    site.assert_serves("a", old)
