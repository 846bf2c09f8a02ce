"""Everything that stands in the way is told at once, with what to type."""

import pytest

from b70ctl.core.preflight import ROOM_FOR_RECORDS, ROOM_FOR_RELEASE, CardHolder, Room, Seen, faults, refusal
from b70ctl.errors import Exit, MachineError, Refused
from tests.making import ADDRESS, a_host, a_profile, a_site, resolved

PROFILE = a_profile(
    needs=[{"what": "example/vllm:1", "where": "build it"}, {"what": "some-model", "where": "download it"}]
)
DEPLOYMENT = resolved(PROFILE, a_site(), a_host(ADDRESS))


def seen(**changes):
    return Seen(**{"image_present": True} | changes)


def found(deployment=DEPLOYMENT, profile=PROFILE, **changes):
    return faults(deployment, profile, seen(**changes))


def test_where_all_is_well_nothing_is_said():
    assert found() == []


@pytest.mark.parametrize(
    ("changes", "what", "hint"),
    [
        ({"image_present": False}, "does not have the image", "build it"),
        ({"missing": ("/srv/models/some-model/config.json",)}, "does not exist", "download it"),
        ({"missing": ("/srv/models/nowhere/config.json",)}, "nowhere/config.json does not exist", "ls /srv/models"),
        ({"missing": ("/srv/models/nowhere",)}, "nowhere does not exist", "ls /srv/models"),
        ({"lost": (("/srv/models/d", "/data/d"),)}, "is a link to /data/d, which the container", "cp -rL"),
        ({"port_holder": "process 7 (nginx)"}, "port 8000 on 127.0.0.1 is taken by process 7", "--port N"),
        ({"port_holder": "container old", "port_container": "old"}, "container old", "--adopt old"),
        ({"holders": (CardHolder(ADDRESS, "container old", "old"),)}, f"card {ADDRESS} is held", "--adopt old"),
        ({"rooms": (Room("/s", "releases lie", 63_960_000, "df -h /s"),)}, "64.0 MB are free in /s", "df -h /s"),
    ],
)
def test_each_obstacle_is_told_with_what_to_do_about_it(changes, what, hint):
    [fault] = found(**changes)
    assert what in fault.what
    assert hint in str(fault.hint)
    assert "nowhere" not in str(fault.hint)


def test_an_image_that_nobody_said_where_to_get_is_pulled():
    [fault] = found(profile=a_profile(), image_present=False)
    assert fault.hint == "docker pull example/vllm:1"


def test_a_process_that_holds_the_card_cannot_be_adopted():
    [fault] = found(holders=(CardHolder(ADDRESS, "process 7 (python)"),))
    assert fault.hint is None


def test_a_profile_that_needs_a_card_is_told_where_there_is_none():
    blind = DEPLOYMENT.model_copy(update={"cards": ()})
    [fault] = found(blind)
    assert fault.exit_code is Exit.MACHINE
    assert found(resolved(a_profile(cards="none")), a_profile()) == []


@pytest.mark.parametrize(("profile", "need"), [(PROFILE, ROOM_FOR_RELEASE), (None, ROOM_FOR_RECORDS)])
def test_a_disk_with_less_room_than_a_switch_may_write_stops_no_engine(profile, need):
    def told(free):
        return found(profile=profile, rooms=(Room("/site", "releases lie", free, "df -h /site"),))

    assert told(need) == []
    [fault] = told(need - 100_000)
    assert fault.exit_code is Exit.MACHINE
    assert f"{need / 1e6 - 0.1:.1f} MB are free in /site" in fault.what
    assert f"{need // 1_000_000} MB are needed" in fault.what


def test_one_obstacle_is_itself_and_several_are_told_together():
    one, two = Refused("first", hint="do this"), MachineError("second")
    assert refusal([one]) is one
    both = refusal([one, two])
    assert "2 things" in both.what
    assert all(each in both.what for each in ("first", "do this", "second"))
    assert both.exit_code is Exit.FAILED
    assert refusal([two, one]).exit_code is Exit.MACHINE
