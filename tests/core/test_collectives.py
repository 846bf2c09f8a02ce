"""Sets of collectives are whole, and found by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.collectives import COLLECTIVES, OWNED, collective
from b70ctl.core.strict import NAME
from b70ctl.errors import UsageError

each = pytest.mark.parametrize("preset", COLLECTIVES, ids=lambda preset: preset.name)
NAMES = [preset.name for preset in COLLECTIVES]


@each
def test_every_set_is_found_by_its_name(preset):
    assert collective(preset.name) is preset


def test_names_are_different_and_a_profile_can_write_them():
    assert len(set(NAMES)) == len(NAMES)
    assert all(NAME.fullmatch(name) for name in NAMES)


@each
def test_a_set_says_when_to_choose_it_and_whose_it_is(preset):
    assert preset.reason
    assert preset.source


@each
def test_no_value_is_empty_since_empty_is_not_unset(preset):
    assert preset.env
    assert all(value.strip() for value in preset.env.values())


@each
def test_no_set_asks_for_an_all_reduce_that_hangs_or_crawls(preset):
    assert "CCL_ALLREDUCE" not in preset.env


@each
def test_handles_by_pidfd_come_with_what_pidfd_needs(preset):
    if preset.env.get("CCL_ZE_IPC_EXCHANGE") == "pidfd":
        assert "SYS_PTRACE" in preset.cap_add
        assert preset.ipc == "host"


@each
def test_a_set_cannot_be_changed_by_who_reads_it(preset):
    with pytest.raises(TypeError):
        preset.env["CCL_WORKER_COUNT"] = "2"


@each
def test_peer_access_is_what_the_variable_says(preset):
    assert preset.peer_access is (preset.name == "simple-p2p")


def test_every_set_has_variables_that_mixing_is_noticed_by():
    assert all(any(name.startswith(OWNED) for name in preset.env) for preset in COLLECTIVES)


def test_an_unknown_name_gets_the_close_one():
    with pytest.raises(UsageError) as raised:
        collective("host-stage")
    assert "host-staged" in raised.value.what
    assert raised.value.hint == "collectives: host-staged"


def test_a_name_like_none_gets_the_whole_list():
    with pytest.raises(UsageError) as raised:
        collective("zzz")
    assert all(name in raised.value.what for name in NAMES)


@given(st.text().filter(lambda name: name not in NAMES))
def test_no_other_text_is_a_set(name):
    with pytest.raises(UsageError):
        collective(name)
