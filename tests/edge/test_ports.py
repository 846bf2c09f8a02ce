"""Who has a port is told by name, and a free one is free."""

import os
import socket

import pytest

from b70ctl.edge.ports import listener, published, publishers


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_the_process_that_listens_is_named(listening):
    assert str(listener("127.0.0.1", listening)).startswith(f"process {os.getpid()} (")


def test_a_port_on_loopback_is_taken_for_every_address_too(listening):
    assert listener("0.0.0.0", listening) is not None


def test_a_port_that_nobody_has_is_free(listening):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    assert listener("127.0.0.1", port) is None


def test_asking_does_not_take_the_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert listener("127.0.0.1", port) is listener("127.0.0.1", port) is None


def test_an_address_that_is_not_this_boxs_is_said_so():
    assert "no address of this host" in str(listener("192.0.2.1", 1))


def about(*ports):
    return {"NetworkSettings": {"Ports": {f"{inside}/tcp": [{"HostPort": str(port)}] for inside, port in ports}}}


def test_a_containers_ports_are_those_of_the_host():
    assert published(about((8000, 8001), (9000, 9001))) == {8001, 9001}
    assert publishers([about((8000, 8001)), about((8000, 8002))], 8002) == [about((8000, 8002))]


@pytest.mark.parametrize(
    "found",
    [{}, {"NetworkSettings": None}, {"NetworkSettings": {"Ports": None}},
     {"NetworkSettings": {"Ports": {"80/tcp": None}}},
     {"NetworkSettings": {"Ports": {"80/tcp": [{"HostPort": ""}]}}}],
)  # fmt: skip
def test_a_container_that_publishes_nothing_has_no_port(found):
    assert published(found) == set()
