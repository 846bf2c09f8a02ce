"""A journal that was cut off anywhere still says what to do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.journal import Event, Line, ops, parse, recovery, unfinished
from b70ctl.core.plan import Verb, plan_prune, plan_restart, plan_snapshot, plan_start, plan_stop, plan_switch
from b70ctl.core.release import Container, Observed
from tests.making import a_verdict

NEW, OLD = "0002-new", "0001-old"
SWITCH = plan_switch(NEW, OLD, because="x", new=True, companions=True)
STEPS = [step.verb for step in SWITCH.steps]


def line(event, op=1, **more):
    return Line(op=op, at="2026-01-01T00:00:00Z", event=event, **more)


def told(plan, begun, done, op=1, *more):
    """The lines of a command that got so far."""
    lines = [line(Event.BEGIN, op, plan=plan, by="b70ctl")]
    for number in range(begun):
        lines.append(line(Event.BEFORE, op, step=number))
        lines += [line(Event.AFTER, op, step=number)] if number < done else []
    return [*lines, *more]


def written(lines):
    return "".join(f"{each.model_dump_json(exclude_none=True)}\n" for each in lines)


def running(*releases):
    return Observed(containers=tuple(Container(id=f"c{r}", name=r, release=r, state="running") for r in releases))


def cut(plan, begun, done, *more):
    found = unfinished(ops(told(plan, begun, done, 1, *more)))
    assert found is not None
    return found


# -- reading ----------------------------------------------------------------------------------------------------------

WHOLE = [
    *told(SWITCH, 3, 2),
    line(Event.FAILED, what="x"),
    line(Event.UNDO, what="y"),
    line(Event.END, result="failed"),
]


def test_a_journal_is_read_back_as_it_was_written():
    assert parse(written(WHOLE)).lines == tuple(WHOLE)
    assert parse(written(WHOLE)).damaged == ()


@given(st.integers(0, len(written(WHOLE))))
def test_a_journal_cut_at_any_byte_loses_at_most_its_last_line(end):
    text = written(WHOLE)[:end]
    book = parse(text)
    assert book.damaged == ()
    assert list(book.lines) == WHOLE[: len(book.lines)]
    assert len(book.lines) >= text.count("\n")


@given(st.integers(0, len(WHOLE) - 2), st.sampled_from(["", "{", "nonsense", "[]", "{}", "null", "\0\0\0", "\ufffd"]))
def test_a_damaged_line_is_named_and_the_others_are_read(number, damage):
    lines = written(WHOLE).split("\n")
    lines[number] = damage
    book = parse("\n".join(lines))
    assert book.damaged == ((number + 1,) if damage else ())
    assert len(book.lines) == len(WHOLE) - 1


@given(st.text())
def test_no_text_at_all_stops_the_reader(text):
    assert parse(text).lines == ()


def test_a_command_gets_a_number_that_no_command_has_had():
    assert parse("").next_op == 1
    assert parse(written(told(SWITCH, 1, 1, 7))).next_op == 8


def test_commands_are_told_apart_and_counted():
    lines = told(SWITCH, 3, 2, 1) + told(plan_stop(NEW), 2, 2, 2, line(Event.END, 2, result="done"))
    first, second = ops(lines)
    assert (first.begun, first.done, first.end) == (3, 2, None)
    assert (second.begun, second.done) == (2, 2)
    assert second.end is not None
    assert second.end.result == "done"


def test_steps_of_the_way_back_are_not_counted_as_steps():
    found = cut(SWITCH, 4, 3, line(Event.FAILED, what="it broke"), line(Event.UNDO), line(Event.BEFORE, step=0))
    assert (found.begun, found.done, found.undoing, found.failures) == (4, 3, True, ("it broke",))


def test_lines_of_a_command_whose_beginning_is_lost_are_passed_over():
    assert ops([line(Event.BEFORE, 5, step=0), line(Event.END, 5, result="done")]) == []


def test_only_the_last_command_can_be_unfinished():
    done = told(SWITCH, 1, 1, 1, line(Event.END, result="done"))
    assert unfinished([]) is None
    assert unfinished(ops(done)) is None
    assert unfinished(ops(done + told(plan_stop(NEW), 1, 0, 2))).number == 2


# -- recovery: for each point at which a switch can be cut off --------------------------------------------------------


@pytest.mark.parametrize("begun", range(len(STEPS) + 1))
@pytest.mark.parametrize("finished", [False, True])
def test_a_switch_that_was_not_proven_is_undone(begun, finished):
    found = recovery(cut(SWITCH, begun, begun if finished else max(begun - 1, 0)), running(), None)
    assert not found.finish
    verbs = [step.verb for step in found.steps]
    reached = STEPS[:begun]
    assert (Verb.DISCARD in verbs) is (Verb.WRITE in reached)
    assert (Verb.START in verbs) is (Verb.STOP in reached)


@pytest.mark.parametrize("begun", range(STEPS.index(Verb.PROBE) + 1, len(STEPS) + 1))
@pytest.mark.parametrize("finished", [False, True])
def test_a_switch_that_was_proven_is_finished_without_starting_anything_anew(begun, finished):
    done = begun if finished else begun - 1
    found = recovery(cut(SWITCH, begun, done), running(NEW), a_verdict(op=1))
    assert found.finish
    left = [step.verb for step in found.steps]
    assert left == [verb for verb in STEPS[done:] if verb not in (Verb.START, Verb.AWAIT, Verb.PROBE)]


PROBED = STEPS.index(Verb.PROBE) + 1


@pytest.mark.parametrize(
    ("observed", "verdict", "more"),
    [
        (running(), a_verdict(op=1), ()),
        (running(OLD), a_verdict(op=1), ()),
        (running(NEW), None, ()),
        (running(NEW), a_verdict(op=0), ()),
        (running(NEW), a_verdict("failed", op=1), ()),
        (running(NEW), a_verdict("interrupted", op=1), ()),
        (running(NEW), a_verdict(op=1), (line(Event.UNDO),)),
    ],
    ids=["gone", "only the old one runs", "no verdict", "an old verdict", "failed", "interrupted", "already undoing"],
)
def test_a_switch_is_finished_only_when_it_runs_was_proven_by_this_command_and_was_not_given_up(
    observed, verdict, more
):
    found = recovery(cut(SWITCH, PROBED, PROBED, *more), observed, verdict)
    assert not found.finish
    assert [step.verb for step in found.steps][-1] is Verb.SERVE


def test_a_container_of_somebody_elses_is_no_proof():
    foreign = Observed(containers=(Container(id="c", name="x", release=NEW, state="running", foreign=True),))
    assert not recovery(cut(SWITCH, PROBED, PROBED), foreign, a_verdict(op=1)).finish


def test_a_stop_that_stopped_is_finished_and_one_that_did_not_is_undone():
    stop = plan_stop(OLD)
    assert [step.verb for step in recovery(cut(stop, 1, 0), running(), None).steps] == [Verb.STOP, Verb.IDLE]
    assert [step.verb for step in recovery(cut(stop, 1, 1), running(), None).steps] == [Verb.IDLE]
    assert not recovery(cut(stop, 1, 0), running(OLD), None).finish
    assert recovery(cut(stop, 0, 0), running(OLD), None).steps == ()


def test_a_start_that_was_cut_off_is_stopped_again_unless_it_was_proven():
    start = plan_start(OLD)
    assert [step.verb for step in recovery(cut(start, 2, 1), running(OLD), None).steps] == [Verb.STOP, Verb.IDLE]
    assert [step.verb for step in recovery(cut(start, 3, 2), running(OLD), a_verdict(op=1)).steps] == [Verb.SERVE]


def test_a_restart_that_was_cut_off_starts_the_same_release():
    found = recovery(cut(plan_restart(OLD), 1, 1), running(), a_verdict(op=0))
    assert next((step.verb, step.subject) for step in found.steps) == (Verb.START, OLD)


@pytest.mark.parametrize("plan", [plan_snapshot(OLD, "n"), plan_prune({OLD: "old", NEW: "old"})])
def test_keeping_and_forgetting_go_on_where_they_were_cut(plan):
    found = recovery(cut(plan, 1, 0), running(), None)
    assert (found.finish, found.steps) == (True, plan.steps)


def test_a_person_is_told_where_it_was_cut():
    assert "first step" in recovery(cut(SWITCH, 0, 0), running(OLD), None).because
    assert f"stop {OLD}" in recovery(cut(SWITCH, 3, 2), running(OLD), None).because


def test_a_line_of_nothing_but_brackets_is_named_like_any_other():
    assert parse("[" * 100_000 + "\n").damaged == (1,)
