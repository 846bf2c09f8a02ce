"""The cards are the ones that the dri path shows, whatever else lies there."""

import os

import pytest

from b70ctl.core.host import INTEL
from b70ctl.edge.hardware import container_of, holders, read_host
from tests.making import ADDRESS, SECOND

IGPU = "0000:00:02.0"


@pytest.fixture
def box(tmp_path):
    (tmp_path / "dri" / "by-path").mkdir(parents=True)
    return tmp_path


def put(box, address, number, vendor=INTEL):
    node = box / "dri" / f"renderD{number}"
    node.write_text("")
    (box / "dri" / "by-path" / f"pci-{address}-render").symlink_to(f"../renderD{number}")
    (box / "dri" / "by-path" / f"pci-{address}-card").symlink_to(f"../card{number}")
    if vendor:
        folder = box / "sys" / "bus" / "pci" / "devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
    return node


def host(box):
    return read_host(box / "dri", box / "sys")


def test_a_box_without_a_dri_path_has_no_cards(tmp_path):
    assert read_host(tmp_path / "dri").cards == ()


def test_cards_are_in_pci_order_whatever_their_nodes_are_numbered(box):
    put(box, SECOND, 128)
    put(box, ADDRESS, 129)
    assert [(card.address, card.node) for card in host(box).cards] == [
        (ADDRESS, str(box / "dri" / "renderD129")), (SECOND, str(box / "dri" / "renderD128")),
    ]  # fmt: skip


def test_a_card_has_the_group_of_its_node(box):
    node = put(box, ADDRESS, 128)
    assert host(box).gids == (node.stat().st_gid,)


def test_integrated_graphics_and_other_makers_are_seen_and_not_used(box):
    put(box, IGPU, 128)
    put(box, "0000:01:00.0", 129, vendor="0x10de")
    put(box, ADDRESS, 130)
    assert [card.address for card in host(box).level_zero] == [IGPU, ADDRESS]
    assert [card.address for card in host(box).usable] == [ADDRESS]


def test_a_card_that_sysfs_does_not_know_counts_as_one(box):
    put(box, ADDRESS, 128, vendor=None)
    assert [card.vendor for card in host(box).usable] == [None]


@pytest.mark.parametrize("name", ["pci-0000:03:00.0-render.1", "platform-x-render", "pci-0000:03:00.0-card", "render"])
def test_what_else_lies_there_is_passed_over(box, name):
    (box / "dri" / "renderD128").write_text("")
    (box / "dri" / "by-path" / name).symlink_to("../renderD128")
    assert host(box).cards == ()


def test_a_link_to_nothing_is_no_card(box):
    (box / "dri" / "by-path" / f"pci-{ADDRESS}-render").symlink_to("../renderD128")
    assert host(box).cards == ()


def test_who_has_a_device_open_is_found(tmp_path):
    # /dev/full is a device that nothing on a test machine keeps open
    from pathlib import Path

    device = Path("/dev/full")
    assert os.getpid() not in [pid for pid, _ in holders(device)]
    with device.open("rb"):
        found = dict(holders(device))
    assert os.getpid() in found
    assert found[os.getpid()] != "?"


def test_a_device_that_is_not_there_is_held_by_nobody(tmp_path):
    assert holders(tmp_path / "renderD128") == []


def test_a_process_that_is_gone_is_in_no_container():
    assert container_of(2**22 + 1) is None
