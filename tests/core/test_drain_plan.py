"""A drain and its end: what is taken away first, what is put back, and how a cut one is brought to its end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.journal import Event, Line, ops, recovery, unfinished
from b70ctl.core.plan import Plan, Verb, plan_drain, plan_restore, plan_switch, way_back
from b70ctl.core.release import Container, Observed, State
from tests.making import a_verdict

OLD = "0001-old"
ARRIVE = [Verb.START, Verb.AWAIT, Verb.PROBE, Verb.SERVE]

drains = st.builds(
    plan_drain,
    st.just(OLD),
    limit=st.integers(0, 600),
    router=st.sampled_from([None, "`hook`"]),
    companions=st.sampled_from(["", "all", "web, db"]),
)
restores = st.builds(
    plan_restore,
    st.just(OLD),
    router=st.sampled_from([None, "`hook`"]),
    companions=st.booleans(),
    halted=st.booleans(),
)
begun = st.integers(0, 10)
RUNS = Observed(containers=(Container(id="c", name="n", release=OLD, state="running"),))


def verbs(steps):
    return [step.verb for step in steps]


@given(drains)
def test_the_engine_is_out_of_rotation_and_empty_before_it_is_told_to_stop(plan):
    order = [Verb.WITHDRAW, Verb.SETTLE, Verb.STOP, Verb.HALT, Verb.DRAINED]
    assert verbs(plan.steps) == [verb for verb in order if verb in verbs(plan.steps)]
    assert {Verb.SETTLE, Verb.STOP, Verb.DRAINED} <= set(verbs(plan.steps))


@given(restores)
def test_the_engine_is_proven_before_it_is_back_in_rotation(plan):
    assert verbs(plan.steps)[:4] == ARRIVE
    assert Verb.ADMIT not in verbs(plan.steps) or verbs(plan.steps)[4] is Verb.ADMIT


@given(drains, begun)
def test_wherever_a_drain_is_cut_off_an_engine_that_was_told_to_stop_is_proven_again(plan, begun):
    back = verbs(way_back(plan, begun))
    told = Verb.STOP in verbs(plan.steps[:begun])
    assert [verb for verb in back if verb in ARRIVE] == (ARRIVE if told else [])


@given(drains, begun)
def test_wherever_a_drain_is_cut_off_an_engine_that_left_rotation_comes_back_into_it_last(plan, begun):
    back = verbs(way_back(plan, begun))
    assert (back[-1:] == [Verb.ADMIT]) is (Verb.WITHDRAW in verbs(plan.steps[:begun]))


@given(drains, begun)
def test_companions_that_a_drain_stopped_run_again(plan, begun):
    halted = Verb.HALT in verbs(plan.steps[:begun])
    assert (Verb.COMPANIONS in verbs(way_back(plan, begun))) is halted


@given(restores, begun)
def test_wherever_a_restore_is_cut_off_the_site_stays_drained(plan, begun):
    back = verbs(way_back(plan, begun))
    if begun == 0:
        assert back == []
        return
    assert back[-1] is Verb.DRAINED
    assert Verb.STOP in back
    assert (Verb.WITHDRAW in back) is (Verb.ADMIT in verbs(plan.steps[:begun]))


@given(drains | restores)
def test_the_way_back_only_grows_and_starts_at_nothing(plan):
    lengths = [len(way_back(plan, begun)) for begun in range(len(plan.steps) + 1)]
    assert lengths == sorted(lengths)
    assert lengths[0] == 0


@given(drains | restores)
def test_every_step_has_a_reason_and_the_journal_keeps_the_plan(plan):
    assert all(step.because for step in (*plan.steps, *plan.undo))
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_without_a_hook_the_plan_says_what_a_router_will_see():
    told = " ".join(plan_drain(OLD, limit=9).lines())
    assert "/health say 200" in told
    assert "500" in told
    assert "9 s at most" in told
    assert "/health" not in " ".join(plan_drain(OLD, limit=9, router="`hook`").lines())


@pytest.mark.parametrize("out", [False, True])
def test_a_switch_away_from_a_drain_takes_the_new_engine_into_rotation_once_it_is_proven(out):
    steps = verbs(plan_switch("0002-new", None, because="x", new=True, companions=True, admit=out).steps)
    assert (Verb.ADMIT in steps) is out
    if out:
        assert steps.index(Verb.SERVE) < steps.index(Verb.ADMIT) < steps.index(Verb.COMPANIONS)


# -- recovery ----------------------------------------------------------------------------------------------------------


def cut(plan, begun, done):
    """A command that the journal shows to have got so far."""
    lines = [Line(op=1, at="t", event=Event.BEGIN, plan=plan, by="b70ctl")]
    for number in range(begun):
        lines.append(Line(op=1, at="t", event=Event.BEFORE, step=number))
        lines += [Line(op=1, at="t", event=Event.AFTER, step=number)] if number < done else []
    found = unfinished(ops(lines))
    assert found is not None
    return found


WHOLE_DRAIN = plan_drain(OLD, limit=9, router="`hook`", companions="all")
WHOLE_RESTORE = plan_restore(OLD, router="`hook`", companions=True, halted=True)
reached = st.tuples(st.integers(0, 4), st.integers(0, 1))


@given(reached)
def test_a_drain_whose_engine_still_runs_is_undone(reached):
    done, more = reached
    found = recovery(cut(WHOLE_DRAIN, done + more, done), RUNS, a_verdict(op=7))
    assert not found.finish
    assert found.steps == way_back(WHOLE_DRAIN, done + more)


@given(reached)
def test_a_drain_whose_engine_has_stopped_is_finished(reached):
    done, more = reached
    found = recovery(cut(WHOLE_DRAIN, done + more, done), Observed(), None)
    assert found.finish is (done + more > 0)
    if found.finish:
        assert found.steps == WHOLE_DRAIN.steps[done:]


@pytest.mark.parametrize("done", range(7))
def test_a_restore_that_proved_its_engine_is_finished_and_another_is_undone(done):
    op = cut(WHOLE_RESTORE, min(done + 1, 6), done)
    proven = recovery(op, RUNS, a_verdict(op=1))
    assert proven.finish
    assert verbs(proven.steps) == [verb for verb in verbs(WHOLE_RESTORE.steps)[done:] if verb not in ARRIVE[:3]]
    assert not recovery(op, RUNS, a_verdict(op=0)).finish
    assert verbs(recovery(op, Observed(), a_verdict(op=1)).steps)[-1] is Verb.DRAINED


def test_a_state_from_before_there_were_drains_is_read():
    state = State.model_validate_json('{"serving": "x", "stopped": true, "snapshots": {}, "next": 3}')
    assert (state.drained, state.withdrawn) == (None, None)
