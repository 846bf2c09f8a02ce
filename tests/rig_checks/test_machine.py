"""What the rig does to the machine, and what it leaves alone."""

import os
import signal
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.rig import dockerd, private_daemon, rootfs
from tests.rig.dri import make_dri
from tests.rig.engine_api import answers
from tests.rig.image_files import FAMILIES, entries
from tests.rig.images import digest

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes need root")


def test_the_root_filesystem_is_small_and_has_what_the_images_need() -> None:
    path = rootfs.rootfs_tar()
    with tarfile.open(path) as packed:
        members = {member.name.removeprefix("./"): member for member in packed}
    assert path.stat().st_size < 100_000_000
    assert {"usr/bin/bash", "usr/bin/sh", "usr/bin/python3", "usr/bin/env", "etc/passwd"} <= set(members)
    assert members["bin"].linkname == "usr/bin"
    assert members["tmp"].mode & 0o7777 == 0o1777
    assert {(member.uid, member.gid) for member in members.values()} == {(0, 0)}


def test_the_group_file_knows_video_and_not_render() -> None:
    with tarfile.open(rootfs.rootfs_tar()) as packed:
        group = packed.extractfile("./etc/group")
        assert group is not None
        text = group.read().decode()
    assert "video:x:44:" in text
    assert "render" not in text


def test_no_image_names_a_path_twice() -> None:
    for family in FAMILIES.values():
        paths = [entry.path for entry in entries(family)]
        assert len(paths) == len(set(paths))


def test_a_digest_tells_the_families_apart_and_stays() -> None:
    first, second = ([digest(family) for family in FAMILIES.values()] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(FAMILIES)


def test_nothing_answers_at_a_socket_that_is_not_there(tmp_path: Path) -> None:
    assert not answers(f"unix://{tmp_path}/docker.sock")
    assert not answers("tcp://127.0.0.1:1")


@pytest.mark.docker
@pytest.mark.usefixtures("client")
def test_a_daemon_that_answers_is_used_and_not_started_again() -> None:
    first, second = dockerd.up(), dockerd.up()
    assert first.host == second.host == dockerd.host()
    assert not second.started_now


def test_a_process_that_is_not_the_rigs_is_never_stopped() -> None:
    other = subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE)
    try:
        private_daemon.stop(other.pid, signal.SIGKILL)
        assert other.poll() is None
    finally:
        other.communicate(b"\n")


def test_without_a_daemon_to_install_the_refusal_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("B70CTL_NO_APT", "1")
    with pytest.raises(dockerd.MachineError) as refused:
        dockerd._install()
    assert "docker.io" in (refused.value.hint or "")
    assert refused.value.exit_code == 3


@as_root
def test_fake_cards_are_devices_with_the_given_owner_and_a_pci_address(tmp_path: Path) -> None:
    for _ in range(2):
        cards = make_dri(tmp_path / "dri", cards=2, gid=4242)
    found = [card.render.stat() for card in cards]
    assert [(stat.S_ISCHR(s.st_mode), s.st_gid, os.major(s.st_rdev), os.minor(s.st_rdev)) for s in found] == [
        (True, 4242, 1, 7)
    ] * 2
    links = {link.name: link.resolve().name for link in (tmp_path / "dri/by-path").iterdir()}
    assert links["pci-0000:03:00.0-render"] == "renderD128"
    assert links["pci-0000:07:00.0-card"] == "card1"


@as_root
def test_who_holds_a_fake_card_can_be_seen(tmp_path: Path) -> None:
    card = make_dri(tmp_path / "dri")[0]
    with card.render.open("rb") as held:
        link = Path(f"/proc/self/fd/{held.fileno()}")
        assert link.readlink() == card.render
        assert link.stat().st_rdev == os.makedev(1, 7)
