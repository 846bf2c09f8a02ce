"""Sockets as the kernel showed them to a host and inside a container while one client was connected."""

import os
from contextlib import closing
from pathlib import Path
from socket import create_connection, create_server

import pytest

from b70ctl.core.checkup.sensors import read_memory
from b70ctl.core.host import Card
from b70ctl.core.quiet import Box, Inside, signs
from b70ctl.core.site import Site
from b70ctl.core.sockets import ESTABLISHED
from b70ctl.edge.quiet import _memory_text, look
from b70ctl.edge.sockets import sockets_of

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
# the docker proxy listens on 127.0.0.1:8000; what the client at 192.168.1.62 sent was forwarded and is not here
HOST = HEAD + (
    "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41256 1 0000\n"
    "   1: 0101A8C0:0016 3E01A8C0:C5A2 06 00000000:00000000 03:000011E6 00000000     0        0 0 3 0000000000000000\n"
)
# the engine at 172.18.0.2:8000; its health check, and the client that came through the published port
CONTAINER = HEAD + (
    "   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 51877 1 0000\n"
    "   1: 0100007F:1F40 0100007F:B1A6 01 00000000:00000000 00:00000000 00000000     0        0 51880 1 0000\n"
    "   2: 020012AC:1F40 3E01A8C0:D2F0 01 00000000:00000000 02:000ABE11 00000000     0        0 51999 2 0000\n"
)
VRAM_MM = """\
  use_type: 1
  use_tt: 0
  size: 32530972672
  usage: 54525952
default_page_size: 4KiB
"""


@pytest.fixture
def proc(tmp_path):
    for process, table in (("self", HOST), ("4242", CONTAINER)):
        (tmp_path / process / "net").mkdir(parents=True)
        (tmp_path / process / "net" / "tcp").write_text(table)
        (tmp_path / process / "net" / "tcp6").write_text(HEAD)
    return tmp_path


def clients(host, inside):
    box = Box(port=8000, host=host, inside=Inside(container="e", ports=(8000,), sockets=inside), running=("e",),
              feeders=("192.168.1.62",), load=0, load_limit=1, cards=(), root=True)  # fmt: skip
    return signs(box)[:2]


def test_a_client_of_a_published_port_is_found_where_the_hosts_table_is_silent(proc):
    assert not any(socket.live for socket in sockets_of("self", proc))
    no_client, no_feeder = clients(sockets_of("self", proc), sockets_of(4242, proc))
    assert no_client.evidence == "192.168.1.62:54000 inside the engine's container"
    assert (no_client.answer, no_feeder.answer) == ("no", "no")


def test_a_table_that_cannot_be_read_is_not_an_empty_one(proc):
    assert sockets_of(4243, proc) is None
    assert [sign.answer for sign in clients(sockets_of("self", proc), sockets_of(4243, proc))] == ["unknown", "unknown"]


def test_a_kernel_without_ipv6_has_one_table(proc):
    (proc / "4242" / "net" / "tcp6").unlink()
    assert len(sockets_of(4242, proc)) == 3


def test_the_kernels_own_table_is_read_and_a_process_that_is_gone_has_none():
    with closing(create_server(("127.0.0.1", 0))) as server, closing(create_connection(server.getsockname())) as client:
        ends = {client.getsockname()[1], server.getsockname()[1]}
        live = [each for each in sockets_of(os.getpid()) or () if each.state == ESTABLISHED and each.local_port in ends]
        assert {each.local_port for each in live} == ends
    assert sockets_of(2**22 + 1) is None


@pytest.mark.parametrize(("folder", "name"), [("0000:03:00.0", ""), ("1", "xe dev=0000:03:00.0 unique=0000:03:00.0")])
def test_a_cards_memory_is_found_under_its_address_or_its_number(tmp_path, folder, name):
    (tmp_path / folder / "tile0").mkdir(parents=True)
    (tmp_path / folder / "tile0" / "vram_mm").write_text(VRAM_MM)
    (tmp_path / folder / "name").write_text(name)
    assert read_memory(_memory_text("0000:03:00.0", tmp_path)) == (32530972672, 54525952)
    assert read_memory(_memory_text("0000:07:00.0", tmp_path)) is None
    assert read_memory(_memory_text("0000:03:00.0", tmp_path / "closed")) is None


def test_a_look_without_a_daemon_tells_who_holds_a_card_and_knows_nothing_of_containers():
    node = Path("/dev/full")
    with node.open("rb"):
        box = look(Site(), 8000, [Card("0000:03:00.0", str(node), 0)], None, None, root=True)
    assert any(who.startswith(f"process {os.getpid()} (") for who in box.cards[0].holders)
    assert (box.running, box.inside) == (None, None)
    assert box.load_limit > 0
