"""The way back is known before the first step, and never takes away what serves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.plan import (
    Plan,
    Verb,
    arrive,
    plan_prune,
    plan_restart,
    plan_snapshot,
    plan_start,
    plan_stop,
    plan_switch,
    way_back,
)

NEW, OLD = "0002-new", "0001-old"
NEEDED = [Verb.START, Verb.AWAIT, Verb.PROBE, Verb.SERVE]

switches = st.builds(
    plan_switch,
    st.just(NEW),
    st.sampled_from([OLD, None]),
    because=st.just("x"),
    new=st.booleans(),
    adopt=st.booleans(),
    keep=st.booleans(),
    previous=st.sampled_from([None, "0000-previous"]),
    leftovers=st.sampled_from([(), ("0000-left",), ("0000-left", NEW)]),
    companions=st.booleans(),
)
others = st.sampled_from([plan_stop(OLD), plan_start(OLD), plan_restart(OLD)])


def verbs(steps, of=None):
    return [step.verb for step in steps if of in (None, step.subject)]


def at(plan, verb):
    return verbs(plan.steps).index(verb)


@given(switches)
def test_nothing_is_stopped_before_the_new_release_is_written(plan):
    if Verb.WRITE in verbs(plan.steps) and Verb.STOP in verbs(plan.steps):
        assert at(plan, Verb.WRITE) < at(plan, Verb.STOP)


@given(switches)
def test_nothing_is_removed_before_the_new_release_serves(plan):
    assert all(number > at(plan, Verb.SERVE) for number, step in enumerate(plan.steps) if step.verb is Verb.REMOVE)


@given(switches)
def test_nothing_serves_before_it_was_proven(plan):
    assert verbs(arrive("r")) == NEEDED
    assert [verb for verb in verbs(plan.steps, NEW) if verb in NEEDED] == NEEDED


@given(switches)
def test_what_serves_stops_before_the_new_one_starts(plan):
    if plan.incumbent:
        assert verbs(plan.steps, OLD).count(Verb.STOP) == 1
        assert at(plan, Verb.STOP) < at(plan, Verb.START)


@given(switches, st.integers(0, 20))
def test_wherever_it_is_cut_off_the_way_back_never_removes_what_served(plan, begun):
    back = way_back(plan, begun)
    assert not {Verb.REMOVE, Verb.DISCARD, Verb.FORGET, Verb.STOP} & set(verbs(back, OLD))


@given(switches | others, st.integers(0, 20))
def test_wherever_it_is_cut_off_an_engine_that_was_told_to_stop_is_proven_again(plan, begun):
    stopped = any(step.verb is Verb.STOP and step.subject == plan.incumbent for step in plan.steps[:begun])
    back = way_back(plan, begun)
    if stopped:
        assert verbs(back, plan.incumbent) == NEEDED


@given(switches, st.integers(0, 20))
def test_wherever_it_is_cut_off_an_engine_that_was_not_touched_is_left_alone(plan, begun):
    touched = {step.verb for step in plan.steps[:begun]} & {Verb.STOP, Verb.START}
    if not touched:
        assert verbs(way_back(plan, begun), OLD) == []


@given(switches, st.integers(0, 20))
def test_the_way_back_takes_away_all_that_was_made(plan, begun):
    made = any(step.verb in (Verb.WRITE, Verb.START) and step.subject == NEW for step in plan.steps[:begun])
    assert (verbs(way_back(plan, begun), NEW) == [Verb.DISCARD]) is made


@given(switches, st.integers(0, 20))
def test_the_new_one_is_gone_before_the_old_one_starts(plan, begun):
    back = verbs(way_back(plan, begun))
    if Verb.START in back:
        assert back.index(Verb.DISCARD) < back.index(Verb.START)


@given(switches | others)
def test_before_the_first_step_there_is_nothing_to_undo(plan):
    assert way_back(plan, 0) == ()


@given(switches | others)
def test_the_way_back_only_grows(plan):
    lengths = [len(way_back(plan, begun)) for begun in range(len(plan.steps) + 1)]
    assert lengths == sorted(lengths)


@given(switches | others)
def test_a_plan_is_written_to_the_journal_and_read_back_equal(plan):
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


@given(switches | others)
def test_every_step_has_a_reason(plan):
    assert all(step.because for step in (*plan.steps, *plan.undo))


def test_a_container_made_by_hand_is_never_removed():
    plan = plan_switch(NEW, OLD, because="x", new=True, adopt=True, keep=True)
    assert verbs(plan.steps)[0] is Verb.ADOPT
    assert Verb.REMOVE not in verbs(plan.steps, OLD)


def test_what_served_last_gets_a_name_to_come_back_to():
    named = [step for step in plan_switch(NEW, OLD, because="x", new=True).steps if step.verb is Verb.NAME]
    assert [(step.subject, step.name) for step in named] == [(OLD, f"before-{NEW}")]
    down = plan_switch(NEW, None, because="x", new=True, previous="0000-previous")
    assert [step.subject for step in down.steps if step.verb is Verb.NAME] == ["0000-previous"]


def test_leftovers_go_last_and_never_the_new_one():
    plan = plan_switch(NEW, OLD, because="x", new=True, leftovers=(NEW, "0000-left"))
    assert [step.subject for step in plan.steps if step.verb is Verb.REMOVE] == [OLD, "0000-left"]


def test_a_start_that_fails_leaves_the_engine_stopped_as_it_was_found():
    assert verbs(way_back(plan_start(OLD), 1)) == [Verb.STOP, Verb.IDLE]


@pytest.mark.parametrize("plan", [plan_snapshot(OLD, "n"), plan_prune({OLD: "old"})])
def test_keeping_and_forgetting_have_no_way_back(plan):
    assert way_back(plan, 5) == ()


def test_a_plan_is_readable():
    lines = plan_switch(NEW, OLD, because="asked for", new=True).lines()
    assert f"write      {NEW}  (asked for)" in lines
    back = lines.index("way back, if it fails:")
    assert lines[back + 1].startswith(f"discard    {NEW}")
