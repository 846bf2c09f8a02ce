"""What stands in the way is seen before anything is touched, and what is about to leave does not count."""

import socket
from pathlib import Path

import pytest

from b70ctl.core.deployment import Address, Mount
from b70ctl.core.host import Host
from b70ctl.edge.preflight import look
from tests.making import ADDRESS, SECOND, a_card, a_release
from tests.stub_daemon import StubDaemon, described

RELEASE = a_release(1)


@pytest.fixture
def listening():
    """A port of this machine on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def daemon():
    return StubDaemon()


def at(port, **changes):
    address = Address(bind="127.0.0.1", port=port)
    return RELEASE.deployment.model_copy(
        update={"address": address, "mounts": (), "requires": (), "devices": ()} | changes
    )


def put(daemon, name, **about):
    daemon.containers[name] = described(name, **about)


def seen(daemon, deployment, leaving=(), host=None, *, root=True):
    return look(deployment, host or Host(), daemon, leaving, root=root)


def test_nothing_is_touched(daemon, listening):
    put(daemon, "one", ports=(listening,))
    seen(daemon, at(listening), {"one"})
    assert {call[0] for call in daemon.calls} <= {"running", "inspect", "image"}


def test_a_model_that_the_container_would_not_find_is_seen(daemon, tmp_path):
    # as in a snapshot whose blobs lie on another disk
    (tmp_path / "models").mkdir()
    (tmp_path / "blob").write_text("{}")
    link = tmp_path / "models" / "config.json"
    link.symlink_to(tmp_path / "blob")
    mounts = (Mount(source=str(tmp_path / "models"), target="/models", read_only=True),)
    found = seen(daemon, at(1, mounts=mounts, requires=(str(link),)))
    assert found.lost == ((str(link), str(tmp_path / "blob")),)
    assert found.missing == ()
    absent = seen(daemon, at(1, mounts=mounts, requires=(str(tmp_path / "models" / "none"),)))
    assert (absent.lost, len(absent.missing)) == ((), 1)


@pytest.mark.parametrize("name", ["n" * 300, "n/" * 2100, "a\0b"])
def test_a_path_that_no_file_system_has_is_missing_and_no_fault(daemon, tmp_path, name):
    path = f"{tmp_path}/{name}"
    mounts = (Mount(source=str(tmp_path), target="/models", read_only=True),)
    assert seen(daemon, at(1, mounts=mounts, requires=(path,))).missing == (path,)


# -- the port ---------------------------------------------------------------------------------------------------------


def test_a_process_that_listens_has_the_port(daemon, listening):
    found = seen(daemon, at(listening))
    assert found.port_holder
    assert found.port_container is None


def test_a_container_that_publishes_the_port_is_named(daemon, listening):
    put(daemon, "other", ports=(listening,))
    found = seen(daemon, at(listening))
    assert (found.port_holder, found.port_container) == ("container other", "other")


@pytest.mark.parametrize("about", [{"NetworkMode": "host"}, {"ports": True}], ids=["host network", "published"])
def test_the_port_of_a_container_that_leaves_is_free(daemon, listening, about):
    if "ports" in about:
        about = {"ports": (listening,)}
    put(daemon, "leaves", **about)
    assert seen(daemon, at(listening)).port_holder
    assert seen(daemon, at(listening), {"leaves"}).port_holder is None


def test_a_container_that_leaves_another_port_frees_nothing(daemon, listening):
    put(daemon, "leaves", ports=(1,))
    assert seen(daemon, at(listening), {"leaves"}).port_holder


def test_another_container_has_the_port_though_one_in_the_hosts_network_leaves(daemon, listening):
    put(daemon, "leaves", NetworkMode="host")
    put(daemon, "stays", ports=(listening,))
    assert seen(daemon, at(listening), {"leaves"}).port_container == "stays"


def test_a_leaving_container_that_is_gone_by_now_is_no_reason_to_stop(daemon, listening):
    assert seen(daemon, at(listening), {"gone"}).port_holder


# -- paths ------------------------------------------------------------------------------------------------------------


def test_what_does_not_exist_is_told_once(daemon, tmp_path):
    there, missing = str(tmp_path), str(tmp_path / "no")
    found = seen(daemon, at(1, requires=(there, missing, missing), devices=((missing, "/dev/dri"),)))
    assert found.missing == (missing,)


def test_a_path_that_may_not_be_looked_at_is_the_daemons_to_find(daemon, monkeypatch):
    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    assert seen(daemon, at(1, requires=("/root/model/config.json",))).missing == ()


# -- room -------------------------------------------------------------------------------------------------------------


def test_the_disks_of_the_site_and_of_docker_are_looked_at_where_an_engine_is_to_be_stopped(daemon, tmp_path):
    store = tmp_path / "not" / "there" / "yet"
    assert look(at(1), Host(), daemon, (), root=True).rooms == ()
    [site] = look(at(1), Host(), daemon, (), root=True, store=store).rooms
    assert site.folder == str(store)
    assert site.free > 0
    daemon.keeps = tmp_path
    _, docker = look(at(1), Host(), daemon, (), root=False, store=store).rooms
    assert docker.folder == str(tmp_path)
    assert "docker system df" in docker.look


def test_what_is_held_back_for_root_is_no_room_for_others(daemon, tmp_path):
    room = {root: look(at(1), Host(), daemon, (), root=root, store=tmp_path).rooms[0].free for root in (0, 1)}
    assert room[0] <= room[1]


# -- the image and the cards ------------------------------------------------------------------------------------------


def test_an_image_is_there_or_not(daemon):
    assert not seen(daemon, at(1)).image_present
    daemon.images[RELEASE.deployment.image] = {"Id": "sha256:1"}
    assert seen(daemon, at(1)).image_present


HOST = Host((a_card(ADDRESS), a_card(SECOND)))
NODE = HOST.cards[0].node


def test_a_card_is_held_by_the_container_that_carries_its_label_until_it_leaves(daemon):
    container = daemon.add(a_release(2, deployment=at(1, cards=(ADDRESS,))))
    for root in (False, True):
        found = seen(daemon, at(1, cards=(ADDRESS,)), host=HOST, root=root)
        assert [holder.card for holder in found.holders] == [ADDRESS]
        assert container in found.holders[0].who
        assert found.holders[0].container is None  # another site's engine is not one to adopt
        assert "of site" in found.holders[0].who
    assert seen(daemon, at(1, cards=(ADDRESS,)), {container}, HOST).holders == ()
    assert seen(daemon, at(1, cards=(SECOND,)), host=HOST).holders == ()


@pytest.mark.parametrize(
    "about",
    [{"Privileged": True}, {"Devices": [{"PathOnHost": "/dev/dri/"}]}, {"Devices": [{"PathOnHost": NODE}]}],
    ids=["privileged", "folder", "node"],
)
def test_a_container_that_has_the_card_mapped_counts_only_where_nobody_can_see_who_opened_it(daemon, about):
    put(daemon, "maybe", **about)
    wanted = at(1, cards=(ADDRESS,))
    assert [holder.container for holder in seen(daemon, wanted, host=HOST, root=False).holders] == ["maybe"]
    assert seen(daemon, wanted, host=HOST, root=True).holders == ()


def test_a_container_without_a_card_holds_none(daemon):
    put(daemon, "web", Devices=None)
    assert seen(daemon, at(1, cards=(ADDRESS,)), host=HOST, root=False).holders == ()
