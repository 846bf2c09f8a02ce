"""A window never has two engines up, and from anywhere in it the way leads back to what served."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.history import meant, prunable
from b70ctl.core.journal import Event, Line, ops, recovery
from b70ctl.core.plan import Plan, Verb, way_back
from b70ctl.core.release import Container, Observed, State
from b70ctl.core.window import (
    THE_BOX,
    After,
    Turn,
    after_failure,
    in_hand,
    in_the_dark,
    in_words,
    is_open,
    later,
    outcome,
    plan_window,
    told,
    without_dashes,
)
from b70ctl.errors import CommandFailed, DaemonAway, EngineError, Interrupted, Refused, UsageError
from tests.making import a_release, a_verdict, resolved

OLD, TRIED = "0001-old", ("0002-b", "0003-c", "0004-d")
ARRIVE = [Verb.START, Verb.AWAIT, Verb.PROBE, Verb.SERVE]
TURN = [Verb.START, Verb.AWAIT, Verb.PROBE, Verb.RUN, Verb.STOP, Verb.REMOVE]
GONE = (Verb.STOP, Verb.REMOVE, Verb.DISCARD)

windows = st.builds(
    plan_window,
    st.sampled_from([TRIED[:1], TRIED[:2], TRIED]),
    st.sampled_from([OLD, None]),
    does=st.just("`bench`"),
    port=st.just(8001),
    limit=st.integers(0, 600),
    router=st.sampled_from([None, "`hook`"]),
    companions=st.sampled_from(["", "all"]),
    keep_going=st.booleans(),
)
begun = st.integers(0, 40)


def verbs(steps, of=None):
    return [step.verb for step in steps if of in (None, step.subject)]


def walked(steps, up):
    """Which engines are up after these steps; one that starts finds no other."""
    for step in steps:
        if step.verb is Verb.START:
            assert up <= {step.subject}, step
            up = up | {step.subject}
        elif step.verb in GONE:
            up = up - {step.subject}
    return up


# -- the plan ---------------------------------------------------------------------------------------------------------


@given(windows)
def test_an_engine_starts_only_where_no_other_is_up(plan):
    serving = {plan.incumbent} - {None}
    assert walked(plan.steps, serving) == serving


@given(windows, begun)
def test_from_wherever_it_is_cut_off_no_two_engines_are_up_and_what_served_is(plan, begun):
    serving = {plan.incumbent} - {None}
    up = walked(plan.steps[:begun], serving)
    assert walked(way_back(plan, begun), up) == serving


@given(windows)
def test_every_release_is_written_before_production_is_touched_and_has_one_whole_turn(plan):
    order = verbs(plan.steps)
    if plan.incumbent:
        assert max(at for at, verb in enumerate(order) if verb is Verb.WRITE) < order.index(Verb.SETTLE)
    for name in plan.tried:
        assert verbs(plan.steps, name) == [Verb.WRITE, *TURN]


@given(windows)
def test_the_box_is_looked_at_once_it_should_be_quiet_and_before_anything_is_measured(plan):
    order = verbs(plan.steps)
    assert plan.steps[order.index(Verb.VERIFY)].subject == THE_BOX
    assert order.index(Verb.VERIFY) < order.index(Verb.START)
    assert {Verb.STOP, Verb.HALT}.isdisjoint(verbs(plan.steps[order.index(Verb.VERIFY) :], OLD))


@given(windows)
def test_production_is_proven_at_the_end_before_it_is_back_in_rotation(plan):
    rest = verbs(plan.steps, OLD)
    if plan.incumbent is None:
        assert rest == verbs(plan.undo, OLD) == []
        return
    assert rest[rest.index(Verb.START) :][:4] == ARRIVE
    assert Verb.DRAINED not in rest
    assert verbs(plan.undo, OLD)[:4] == ARRIVE


@given(windows, begun)
def test_an_engine_that_was_not_told_to_stop_is_left_alone(plan, begun):
    if Verb.STOP not in verbs(plan.steps[:begun], OLD):
        assert not set(ARRIVE) & set(verbs(way_back(plan, begun)))


@given(windows, begun)
def test_what_was_written_is_discarded_unless_its_turn_is_over(plan, begun):
    taken = plan.steps[:begun]
    for name in plan.tried:
        over = Verb.REMOVE in verbs(taken[:-1], name)
        made = Verb.WRITE in verbs(taken, name)
        assert (Verb.DISCARD in verbs(way_back(plan, begun), name)) is (made and not over)


@given(windows)
def test_before_its_first_step_there_is_nothing_to_undo_and_the_journal_keeps_the_plan(plan):
    assert way_back(plan, 0) == ()
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    assert all(step.because for step in (*plan.steps, *plan.undo))


def test_a_plan_from_before_there_were_windows_is_read():
    plan = Plan.model_validate_json('{"command": "switch", "wanted": "x", "steps": [], "undo": []}')
    assert (plan.tried, plan.keep_going) == ((), False)


def test_who_comes_later_and_whom_a_failure_is_about():
    plan = plan_window(TRIED, OLD, does="x", port=8001, limit=0)
    assert later(plan, TRIED[0]) == set(TRIED[1:])
    assert later(plan, TRIED[2]) == set()
    order = [(step.verb, step.subject) for step in plan.steps]
    assert in_hand(plan, order.index((Verb.AWAIT, TRIED[1])) + 1) == TRIED[1]
    assert in_hand(plan, order.index((Verb.VERIFY, THE_BOX)) + 1) is None
    assert in_hand(plan, len(order)) is None
    assert in_hand(Plan(command="switch", wanted="new"), 0) == "new"


# -- recovery ---------------------------------------------------------------------------------------------------------

WINDOW = plan_window(TRIED[:2], OLD, does="x", port=8001, limit=0, router="`hook`")
PROBED = next(at for at, step in enumerate(WINDOW.steps) if step.verb is Verb.PROBE and step.subject == OLD)


def cut(plan, begun, done, *more):
    lines = [Line(op=1, at="t", event=Event.BEGIN, plan=plan, by="b70ctl")]
    for number in range(begun):
        lines.append(Line(op=1, at="t", event=Event.BEFORE, step=number))
        lines += [Line(op=1, at="t", event=Event.AFTER, step=number)] if number < done else []
    return ops([*lines, *more])[0]


def running(*releases):
    return Observed(containers=tuple(Container(id=f"c{r}", name=r, release=r, state="running") for r in releases))


@pytest.mark.parametrize("done", range(len(WINDOW.steps)))
def test_a_window_that_was_cut_off_is_undone_unless_production_was_proven_again(done):
    op = cut(WINDOW, done + 1, done)
    assert recovery(op, running(OLD), a_verdict(op=0)).steps == way_back(WINDOW, done + 1)
    found = recovery(op, running(OLD), a_verdict(op=1))
    assert found.finish
    if done >= PROBED:
        assert verbs(found.steps) == [verb for verb in verbs(WINDOW.steps[done:]) if verb is not Verb.PROBE]


@pytest.mark.parametrize("tried", TRIED[:2])
def test_an_engine_of_the_window_that_was_proven_is_no_reason_to_finish(tried):
    found = recovery(cut(WINDOW, len(WINDOW.steps) - 8, 9), running(tried), a_verdict(op=0))
    assert not found.finish
    assert verbs(found.steps, OLD)[:4] == ARRIVE


def test_status_tells_where_an_open_window_is_and_what_it_comes_back_to():
    assert is_open(None, alive=True) is None
    assert is_open(cut(Plan(command="switch"), 0, 0), alive=True) is None
    at_run = [step.verb for step in WINDOW.steps].index(Verb.RUN) + 1
    assert f"open since t, at `run {TRIED[0]}`; {OLD} serves again" in is_open(cut(WINDOW, at_run, 0), alive=True)
    assert "about to begin" in is_open(cut(WINDOW, 0, 0), alive=True)
    undo = Line(op=1, at="t", event=Event.UNDO)
    assert "on its way back" in is_open(cut(WINDOW, 3, 2, undo), alive=True)
    assert "b70ctl recover" in is_open(cut(WINDOW, at_run, 0), alive=False)
    assert "nothing serves" in is_open(cut(plan_window(TRIED, None, does="x", port=1, limit=0), 1, 0), alive=True)


# -- the dark ---------------------------------------------------------------------------------------------------------


def test_a_deployment_in_the_dark_differs_in_where_it_is_reached_and_in_nothing_else():
    deployment = resolved()
    dark = in_the_dark(deployment, 8001)
    assert dark.address.url == "http://127.0.0.1:8001"
    assert dark.network != deployment.network
    changed = {name for name in type(dark).model_fields if getattr(dark, name) != getattr(deployment, name)}
    assert changed == {"address", "network"}
    assert dark.cache_volume == deployment.cache_volume


def a_dark_release(number=2, profile="b"):
    return a_release(number, profile, in_the_dark(resolved(name=profile), 8001), dark=True)


def test_the_command_learns_where_what_and_which_and_a_key_only_where_there_is_one():
    release = a_dark_release()
    found = told(release, None)
    assert found == {
        "B70CTL_ENDPOINT": "http://127.0.0.1:8001",
        "OPENAI_BASE_URL": "http://127.0.0.1:8001/v1",
        "B70CTL_PROFILE": "b",
        "B70CTL_MODEL": "m",
        "B70CTL_RELEASE": release.id,
    }
    assert told(release, "secret") == found | {"OPENAI_API_KEY": "secret"}


@pytest.mark.parametrize(
    ("turn", "why", "result", "line"),
    [
        (Turn(code=0, seconds=2), None, "done", "exit 0 after 2.0 s"),
        (Turn(code=3, seconds=2), None, "command failed", "exit 3 after 2.0 s"),
        (None, None, "not reached", "not reached"),
        (None, "it stalled", "failed", "failed: it stalled"),
        (Turn(code=1, seconds=2), "it ended", "failed", "failed: it ended"),
    ],
)
def test_what_became_of_a_turn_is_told_in_one_word_and_in_one_line(turn, why, result, line):
    release = a_dark_release()
    found = outcome(release, turn, why)
    assert (found["result"], in_words(found)) == (result, f"{release.id}: {line}")


def test_no_name_means_a_release_that_was_made_for_a_window():
    real, dark = a_release(1, "b"), a_dark_release(2)
    kept = {release.id: release for release in (real, dark)}
    proven = dict.fromkeys(kept, a_verdict())
    assert meant("b", State(serving="x"), kept, proven) == real.id
    with pytest.raises(Refused, match="made for a window, on port 8001") as raised:
        meant(dark.id, State(), kept, proven)
    assert raised.value.hint == "b70ctl switch b"
    with pytest.raises(UsageError):
        meant("b", State(), {dark.id: dark}, proven)


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 6))
def test_releases_of_windows_take_no_others_place_when_old_ones_are_forgotten(dark, keep):
    releases = [a_release(number, "p", dark=each) for number, each in enumerate(dark, 1)]
    gone = prunable(State(), {release.id: release for release in releases}, [], keep)
    for kind in (True, False):
        names = [release.id for release in releases if release.dark is kind]
        assert [name for name in gone if name in names] == names[: max(len(names) - keep, 0)]


@pytest.mark.parametrize(
    ("words", "profiles", "command"),
    [
        (("a", "./bench.sh"), ("a",), ("./bench.sh",)),
        (("a", "b", "bench", "a"), ("a", "b"), ("bench", "a")),
        (("a", "b"), ("a", "b"), ()),
        (("no-such",), ("no-such",), ()),
    ],
)
def test_who_forgot_the_dashes_is_shown_where_they_go(words, profiles, command):
    assert without_dashes(words, ["a", "b"]) == (profiles, command)


STOPS = [CommandFailed("x"), EngineError("x"), TypeError("x"), Interrupted("x"), DaemonAway("x"), KeyboardInterrupt()]


@pytest.mark.parametrize(("keep_going", "answers"), [
    (False, [After.LAST, After.BACK, After.BACK, After.BACK, After.BACK, After.BACK]),
    (True, [After.ON, After.NEXT, After.NEXT, After.BACK, After.BACK, After.BACK]),
])  # fmt: skip
def test_what_follows_a_failure_is_the_next_turn_only_where_that_was_asked_for(keep_going, answers):
    plan = plan_window(TRIED, OLD, does="x", port=8001, limit=0, keep_going=keep_going)
    turn = [step for step in plan.steps if step.subject == TRIED[0] and step.verb in TURN[:4]]
    for step in turn:
        assert [after_failure(plan, step, error) for error in STOPS] == answers
    others = [step for step in plan.steps if step not in turn and step.subject != TRIED[1] and step.subject != TRIED[2]]
    assert {after_failure(plan, step, STOPS[0]) for step in others} == {After.BACK}
