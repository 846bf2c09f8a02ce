"""What belongs to the site is carried by the release; what belongs to the host is mounted as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.mounting import meet, shows
from b70ctl.core.sizes import plain
from b70ctl.errors import UsageError
from tests.making import a_profile, resolved

ROOT = "/srv/site"


def a_mount(source, target="/x", **more):
    return {"source": source, "target": target} | more


def with_mounts(*mounts):
    return resolved(a_profile(mounts=list(mounts)))


def carried(deployment):
    return [(order.source, order.target) for order in deployment.files if order.kind == "tree"]


def mounted(deployment):
    return [(mount.source, mount.target, mount.read_only) for mount in deployment.mounts if mount.target == "/x"]


def test_a_read_only_mount_of_the_sites_own_is_carried_and_not_mounted_from_the_host():
    found = with_mounts(a_mount("chat/template.jinja"))
    assert carried(found) == [(f"{ROOT}/chat/template.jinja", "/x")]
    assert mounted(found) == []


def test_what_is_carried_must_be_there_when_the_release_is_made():
    assert f"{ROOT}/chat" in with_mounts(a_mount("chat")).requires


@pytest.mark.parametrize(
    ("mount", "source"),
    [
        (a_mount("/opt/chat"), "/opt/chat"),
        (a_mount("/srv/site/chat"), f"{ROOT}/chat"),
        (a_mount("chat", read_only=False), f"{ROOT}/chat"),
        (a_mount("/opt/chat", read_only=False), "/opt/chat"),
    ],
    ids=["absolute", "absolute below the site", "writable", "both"],
)
def test_an_absolute_or_a_writable_mount_is_mounted_as_it_is(mount, source):
    found = with_mounts(mount)
    assert carried(found) == []
    assert mounted(found) == [(source, "/x", mount.get("read_only", True))]


def test_two_carried_things_of_one_name_have_places_of_their_own():
    found = with_mounts(a_mount("a/t.jinja", "/x"), a_mount("b/t.jinja", "/y"))
    places = [order.to for order in found.files]
    assert len(set(places)) == 2
    assert all(place.startswith("files/mounts/") for place in places)


parts = st.sampled_from(["a", "b.c", "..", ".", "d-e"])


@given(st.lists(parts, min_size=1, max_size=5).map("/".join))
def test_whatever_is_carried_lies_inside_the_release(source):
    found = with_mounts(a_mount(source))
    for order in found.files:
        assert order.to.startswith("files/mounts/00-")
        assert ".." not in order.to.split("/")


@pytest.mark.parametrize("second", [a_mount("b"), a_mount("/b"), a_mount("/b", "/x/"), a_mount("b", read_only=False)])
@pytest.mark.parametrize("first", [a_mount("a"), a_mount("/a"), a_mount("a", read_only=False)])
def test_two_things_cannot_have_one_target(first, second):
    with pytest.raises(UsageError, match="two mounts have the target /x"):
        with_mounts(first, second)


def test_of_two_mounts_on_one_target_the_later_is_named():
    with pytest.raises(UsageError) as refused:
        with_mounts(a_mount("/a"), a_mount("/b", "/y"), a_mount("c", "//x"))
    assert refused.value.hint == "another target for mounts.2, or without it"


def test_a_mount_cannot_hide_the_models():
    with pytest.raises(UsageError, match="two mounts"):
        with_mounts(a_mount("a", "/models"))


@pytest.mark.parametrize("target", ["/x/./y", "//x/y", "/x//y", "/x/z/../y"])
@pytest.mark.parametrize("source", ["mine", "/opt/mine"])
def test_two_spellings_of_one_target_are_one_target(source, target):
    with pytest.raises(UsageError, match="two mounts have the target /x/y"):
        with_mounts(a_mount("chat", "/x/y"), a_mount(source, target))


@given(st.lists(st.sampled_from(["a", "b.c", "..", ".", "", "d-e"]), max_size=6).map("/".join))
def test_a_target_has_one_plain_spelling(rest):
    found = plain(f"/{rest}")
    assert found == plain(found) == plain(f"/{rest}/") == plain(f"//{rest}") == plain(f"/./x/..//{rest}")
    assert found == "/" or not {"", ".", ".."} & set(found.removeprefix("/").split("/"))


@given(st.lists(st.sampled_from(["a", "ab"]), max_size=4), st.lists(st.sampled_from(["a", "ab"]), max_size=4))
def test_two_paths_meet_where_one_begins_with_all_folders_of_the_other(one, other):
    shorter, longer = sorted((one, other), key=len)
    assert meet("/" + "/".join(one), "/" + "/".join(other)) is (longer[: len(shorter)] == shorter)


# -- what a mount makes readable --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mounted", "hidden", "shown"),
    [
        (["/s/key"], ["/s/key"], True),
        (["/s"], ["/s/key"], True),
        (["/"], ["/s/key"], True),
        (["/site/.b70ctl/releases"], ["/site/.b70ctl"], True),
        (["/elsewhere", "/s"], ["/link", "/s/key"], True),
        (["/s/key.pub"], ["/s/key"], False),
        (["/s/other"], ["/s/key"], False),
        (["/se"], ["/s/key"], False),
    ],
)
def test_a_mount_shows_what_it_holds_and_what_it_lies_in_by_any_of_its_names(mounted, hidden, shown):
    assert shows(mounted, hidden) is shown
