"""Wherever a plan fails, one engine serves, proven and named by the state file; or the command says that none does."""

import errno
import os
import shutil
import signal
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.journal import Event
from b70ctl.core.plan import Plan, Step, Verb, plan_restart, plan_start, plan_stop, plan_switch
from b70ctl.core.progress import Note, StepBegun, StepFailed
from b70ctl.edge import steps, store, wayback
from b70ctl.errors import (
    B70Error,
    DaemonAway,
    DaemonError,
    EngineError,
    Exit,
    Interrupted,
    MachineError,
    Refused,
    RolledBack,
    Unpatched,
    Unproven,
)
from tests.making import a_release
from tests.stub_daemon import absence, refusal
from tests.stub_site import FAULTS, FULL, NEW, NONSENSE, OLD, SWITCH, a_stub_site, counting_disk, quiet

pytestmark = pytest.mark.usefixtures("no_engines")


def calls_of_a_switch(folder, method=None):
    """How many calls a switch that goes well makes."""
    site = a_stub_site(folder)
    with pytest.MonkeyPatch.context() as patch:
        counting_disk(patch, site)
        assert site.switch() == []
    return site.daemon.count(method)


def ended_well(site, raised, what=""):
    """One engine serves and is the recorded one, or the command said that none is proven."""
    running = site.daemon.running_releases()
    assert len(running) <= 1, what
    if isinstance(raised, Unproven):
        return
    assert running == [site.state.serving], (what, raised)
    assert running == [OLD.id if raised else NEW.id] or site.result is None, (what, raised)


# -- as it should be --------------------------------------------------------------------------------------------------


def test_a_switch_serves_the_new_release_and_keeps_the_old_ones_folder(site):
    assert site.switch() == []
    assert site.daemon.running_releases() == [NEW.id]
    assert list(site.daemon.containers) == [f"c-{NEW.id}"]
    assert list(site.store.releases()) == [OLD.id, NEW.id]
    assert (site.state.serving, site.state.next, site.result) == (NEW.id, 3, "done")
    assert site.state.snapshots == {f"before-{NEW.id}": OLD.id}


def test_every_step_has_a_line_before_and_a_line_after_it(site):
    site.switch()
    lines = [(line.event, line.step) for line in site.store.book().lines]
    inner = [(event, number) for number in range(len(SWITCH.steps)) for event in (Event.BEFORE, Event.AFTER)]
    assert lines == [(Event.BEGIN, None), *inner, (Event.END, None)]


def test_the_old_engine_does_not_come_back_by_itself_beside_the_new_one(site):
    site.switch()
    acts = site.daemon.named("set_policy", "stop", "up")
    assert [act[0] for act in acts[:3]] == ["set_policy", "stop", "up"]
    assert acts[0][1:] == (f"c-{OLD.id}", "no")


# -- a plan that fails anywhere ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_whichever_call_fails_one_engine_serves_and_is_recorded_or_it_is_told(tmp_path, fault):
    for nth in range(1, calls_of_a_switch(tmp_path) + 1):
        folder = tmp_path / str(nth)
        folder.mkdir()
        site = a_stub_site(folder)
        site.daemon.on(None, nth=nth, **fault)
        raised = site.outcome(site.switch)
        ended_well(site, raised, f"call {nth}, {site.daemon.calls[nth - 1]}")
        if site.result is None:
            assert isinstance(raised, (Unproven, DaemonAway))
            site.daemon.heal()
            site.recover()
            ended_well(site, RolledBack("x"))


@pytest.mark.parametrize("verb", [step.verb for step in SWITCH.steps])
@pytest.mark.parametrize("error", [Refused("x"), TypeError("x"), OSError(errno.EIO, "x"), DaemonAway("x")], ids=repr)
def test_whichever_step_fails_one_engine_serves_and_is_recorded(site, monkeypatch, verb, error):
    take = steps.STEPS[verb]

    def fail_once(step, world):
        monkeypatch.setitem(steps.STEPS, verb, take)
        raise error

    monkeypatch.setitem(steps.STEPS, verb, fail_once)
    raised = site.outcome(site.switch)
    ended_well(site, raised)
    assert not isinstance(raised, Unproven)
    assert site.result in ("done", "failed", "rolled-back")


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_whichever_file_cannot_be_written_one_engine_serves_and_is_recorded(tmp_path, lasting, late):
    for nth in range(1, calls_of_a_switch(tmp_path, "disk") + 1):
        folder = tmp_path / str(nth)
        folder.mkdir()
        site = a_stub_site(folder)
        with pytest.MonkeyPatch.context() as patch:
            counting_disk(patch, site)
            site.daemon.on("disk", FULL, nth=nth, lasting=lasting, late=late)
            raised = site.outcome(site.switch)
        what = (nth, site.daemon.named("disk")[nth - 1])
        assert site.daemon.running_releases() == [site.state.serving], what
        assert isinstance(raised, B70Error | None), what
        site.daemon.heal()
        site.recover()
        assert site.daemon.running_releases() == [site.state.serving], what
        assert site.store.ops() == [] or site.result is not None, what


@given(st.integers(1, 40), st.sampled_from(sorted(FAULTS)), st.integers(1, 40), st.sampled_from(sorted(FAULTS)))
def test_two_failures_never_leave_two_engines_or_an_unnamed_one(tmp_path_factory, first, one, second, two):
    site = a_stub_site(tmp_path_factory.mktemp("site"))
    site.daemon.on(None, nth=first, **FAULTS[one])
    site.daemon.on(None, nth=second, **FAULTS[two])
    ended_well(site, site.outcome(site.switch))
    site.daemon.heal()
    if site.result is None:
        assert site.outcome(site.recover) is None
        assert site.daemon.running_releases() == [site.state.serving]


def test_a_first_switch_that_fails_leaves_nothing_that_runs(site):
    site.daemon.containers.clear()
    site.daemon.on("probe", NONSENSE)
    plan = plan_switch(NEW.id, None, because="asked for", new=True)
    raised = site.outcome(lambda: site.carry_out(plan))
    assert (type(raised), raised.exit_code, raised.hint) == (EngineError, Exit.FAILED, f"b70ctl logs {NEW.id}")
    assert site.daemon.containers == {}
    assert site.result == "failed"
    assert site.store.verdict(NEW.id).state == "failed"


# -- the way back -----------------------------------------------------------------------------------------------------


def test_an_engine_that_answers_nonsense_is_replaced_by_the_old_one_and_leaves_its_log(site):
    site.daemon.on("probe", NONSENSE)
    with pytest.raises(RolledBack, match="nonsense") as raised:
        site.switch()
    assert raised.value.hint == f"b70ctl logs {NEW.id}"
    assert (site.store.release_folder(NEW.id) / "failed.log").read_text() == f"log of c-{NEW.id}\n"
    assert site.store.verdict(NEW.id).why == "nonsense"
    assert site.store.verdict(OLD.id).op == site.last.number
    assert site.daemon.containers[f"c-{OLD.id}"]["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"


def test_a_patch_that_has_left_nothing_is_told_by_what_it_is_and_not_by_a_log(site):
    site.daemon.on("probe", partial(Unpatched, "no marker", hint="b70ctl patches show one"))
    with pytest.raises(RolledBack, match="no marker") as raised:
        site.switch()
    assert raised.value.hint == "b70ctl patches show one"


def test_a_refused_start_on_the_way_back_is_unproven_and_the_journal_is_closed(site):
    site.daemon.on("await", partial(EngineError, "it ended"))
    site.daemon.on("start", refusal)
    with pytest.raises(Unproven, match="Docker said no") as raised:
        site.switch()
    assert raised.value.hint == f"b70ctl logs {OLD.id}"
    assert site.result == "unproven"
    assert site.recover() == (None, [])


@pytest.mark.parametrize("method", ["remove", "stop", "observe", "set_policy"])
@pytest.mark.parametrize("error", [refusal, partial(TypeError, "surprise")])
def test_a_new_engine_that_cannot_be_taken_away_is_stopped_or_the_journal_stays_open(site, method, error):
    def begin(event):
        if isinstance(event, StepFailed) and not event.undo:
            site.daemon.on(method, error, lasting=True)
            if method != "observe":
                site.daemon.on("remove", error, lasting=True)

    site.hear = begin
    site.daemon.on("await", partial(EngineError, "it ended"))
    raised = site.outcome(site.switch)
    if isinstance(raised, Unproven):
        assert f"{NEW.id} could not be taken away, so nothing was started beside it" in raised.what
        assert raised.hint.endswith("b70ctl recover")
        assert (site.result, site.daemon.running_releases()) == (None, [NEW.id])
        site.daemon.heal()
        site.recover()
    assert site.daemon.running_releases() == [OLD.id] == [site.state.serving]
    assert site.result == "rolled-back"


@pytest.mark.parametrize("method", ["start", "await", "probe"])
def test_a_surprise_on_the_way_back_is_unproven_and_the_journal_is_closed(site, method):
    def begin_surprises(event):
        if isinstance(event, StepFailed) and not event.undo:
            site.daemon.on(method, partial(TypeError, "surprise"), lasting=True)

    site.hear = begin_surprises
    site.daemon.on("await", partial(EngineError, "it ended"))
    with pytest.raises(Unproven, match="TypeError: surprise"):
        site.switch()
    assert site.result == "unproven"


def test_a_daemon_that_only_refuses_to_list_once_does_not_end_the_way_back(site):
    site.hear = lambda event: site.daemon.on("observe", refusal) if isinstance(event, StepFailed) else None
    site.daemon.on("await", partial(EngineError, "it ended"))
    with pytest.raises(RolledBack):
        site.switch()
    ended_well(site, RolledBack("x"))


def test_a_daemon_that_stays_away_leaves_the_journal_open(site):
    site.daemon.on("await", absence)
    site.hear = lambda event: (
        site.daemon.on("observe", absence, lasting=True) if isinstance(event, StepFailed) else None
    )
    with pytest.raises(Unproven) as raised:
        site.switch()
    assert "b70ctl recover" in raised.value.hint
    assert site.result is None


def test_a_daemon_that_comes_back_is_waited_for(site, monkeypatch):
    monkeypatch.setattr(wayback, "DAEMON_PATIENCE", 60.0)

    def go_and_come_back(event):
        if isinstance(event, StepFailed):
            site.daemon.on("observe", absence, lasting=True)
        if isinstance(event, Note):
            site.daemon.heal()

    site.hear = go_and_come_back
    site.daemon.on("await", absence)
    with pytest.raises(RolledBack):
        site.switch()
    notes = [event.text for event in site.told if isinstance(event, Note)]
    assert len(notes) == 1
    assert "waiting for it" in notes[0]
    ended_well(site, RolledBack("x"))


def test_an_unreadable_log_does_not_keep_the_failed_engine_on_card_and_port(site):
    site.daemon.on("await", partial(EngineError, "it ended"))
    site.daemon.on("logs", refusal, lasting=True)
    with pytest.raises(RolledBack):
        site.switch()
    assert list(site.daemon.containers) == [f"c-{OLD.id}"]


def test_a_log_that_cannot_be_kept_does_not_keep_the_old_container(site):
    site.daemon.on("logs", refusal, lasting=True)
    assert site.switch() == [f"remove {OLD.id}: Docker said no"]
    assert list(site.daemon.containers) == [f"c-{NEW.id}"]


# -- after the new one is recorded ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [refusal, absence, partial(TypeError, "surprise"), partial(OSError, 5, "I/O error")])
@pytest.mark.parametrize("method", ["up_companions", "remove"])
def test_a_failure_after_the_new_one_serves_is_late_and_not_undone(site, method, error):
    site.daemon.on(method, error)
    late = site.switch()
    assert len(late) == 1
    assert site.daemon.running_releases() == [site.state.serving] == [NEW.id]
    assert site.result == "done"
    assert site.last.end.what == late[0]


def test_companions_that_cannot_come_back_make_what_serves_again_no_less_proven(site):
    def step(verb):
        return Step(verb=verb, subject=OLD.id, because="asked for")

    undo = (*plan_stop(OLD.id).undo, step(Verb.COMPANIONS))
    plan = Plan(command="drain", incumbent=OLD.id, steps=(step(Verb.HALT), step(Verb.STOP)), undo=undo)
    site.daemon.on("stop", refusal, late=True)
    site.daemon.on("up_companions", refusal)
    with pytest.raises(RolledBack, match="serves again, proven"):
        site.carry_out(plan)
    assert site.daemon.running_releases() == [OLD.id]
    assert StepFailed(step(Verb.COMPANIONS), "Docker said no", undo=True) in site.told
    assert site.result == "rolled-back"


def test_a_disk_that_fills_after_the_new_one_serves_takes_nothing_away(site, monkeypatch):
    counting_disk(monkeypatch, site)
    site.hear = lambda event: (
        site.daemon.on("disk", FULL, lasting=True)
        if event == StepBegun(SWITCH.steps[[step.verb for step in SWITCH.steps].index(Verb.COMPANIONS)])
        else None
    )
    site.outcome(site.switch)
    assert site.daemon.running_releases() == [site.state.serving] == [NEW.id]
    assert not any(step.undo for step in site.told if isinstance(step, StepBegun))


@pytest.mark.parametrize("verb", [Verb.AWAIT, Verb.PROBE])
def test_a_memory_that_is_taken_away_meanwhile_keeps_nobody_from_the_way_back_and_is_not_begun_anew(site, verb):
    def take_away(event):
        if isinstance(event, StepBegun) and (event.step.verb, event.undo) == (verb, False):
            shutil.rmtree(site.store.folder)

    site.hear = take_away
    with pytest.raises(RolledBack, match="is gone: it was removed") as raised:
        site.switch()
    assert f"{OLD.id} serves again, proven" in raised.value.what
    assert raised.value.hint == "docker ps --all"
    assert site.daemon.running_releases() == [OLD.id]
    assert not site.store.folder.exists()


# -- before the old one was told to stop ------------------------------------------------------------------------------


def test_a_journal_that_cannot_be_written_before_the_stop_leaves_the_old_one_alone(site, monkeypatch):
    append = store.append

    def full_at_stop(path, line):
        if f'"before","step":{VERBS.index(Verb.STOP)}' in line:
            raise MachineError("No space left on device")
        append(path, line)

    monkeypatch.setattr(store, "append", full_at_stop)
    with pytest.raises(MachineError) as raised:
        site.switch()
    assert "was not touched" in raised.value.what
    assert not isinstance(raised.value, RolledBack)
    assert site.daemon.named("stop", "start", "set_policy") == []
    ended_well(site, raised.value)


VERBS = [step.verb for step in SWITCH.steps]


def pressing(patch, event, step):
    """A SIGTERM while this line is written."""
    append = store.append

    def press(path, line):
        append(path, line)
        if f'"event":"{event}","step":{step}' in line:
            os.kill(os.getpid(), signal.SIGTERM)

    patch.setattr(store, "append", press)


def test_an_interrupt_between_the_line_and_the_step_counts_as_not_begun(site, monkeypatch):
    pressing(monkeypatch, "before", VERBS.index(Verb.STOP))
    interrupts = quiet()
    with interrupts.watched(), pytest.raises(Interrupted) as raised:
        site.carry_out(SWITCH, interrupts)
    assert "was not touched" in raised.value.what
    assert site.daemon.named("stop", "start", "set_policy") == []
    assert (site.result, site.daemon.running_releases()) == ("interrupted", [OLD.id])


@pytest.mark.parametrize("event", ["before", "after"])
@pytest.mark.parametrize("verb", VERBS)
def test_an_interrupt_at_any_line_ends_with_one_engine_that_is_recorded(site, monkeypatch, event, verb):
    pressing(monkeypatch, event, VERBS.index(verb))
    interrupts = quiet()
    with interrupts.watched():
        raised = site.outcome(lambda: site.carry_out(SWITCH, interrupts))
    assert isinstance(raised, Interrupted | None)
    ended_well(site, raised)
    assert site.result in ("interrupted", "done")
    if raised:
        assert site.store.verdict(NEW.id) is None or site.store.verdict(NEW.id).state == "interrupted"


def test_who_stops_waiting_on_the_way_back_leaves_the_journal_open(site):
    def press(event):
        if isinstance(event, StepBegun) and event.undo and event.step.verb is Verb.START:
            os.kill(os.getpid(), signal.SIGINT)

    site.hear = press
    site.daemon.on("await", partial(EngineError, "it ended"))
    interrupts = quiet()
    with interrupts.watched(), pytest.raises(Unproven) as raised:
        site.carry_out(SWITCH, interrupts)
    assert raised.value.hint == "b70ctl recover"
    assert site.result is None


# -- other commands ---------------------------------------------------------------------------------------------------


def test_a_stop_that_cannot_be_recorded_is_taken_back(site, monkeypatch):
    counting_disk(monkeypatch, site)
    site.daemon.on("disk", FULL, nth=5)
    with pytest.raises(RolledBack):
        site.carry_out(plan_stop(OLD.id))
    assert not site.state.stopped
    assert site.daemon.running_releases() == [OLD.id]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("plan", [plan_stop, plan_restart, plan_start])
def test_a_stop_a_start_or_a_restart_ends_as_recorded_whichever_call_fails(tmp_path, plan, fault):
    for nth in range(1, 14):
        folder = tmp_path / str(nth)
        folder.mkdir()
        site = a_stub_site(folder)
        if plan is plan_start:
            site.carry_out(plan_stop(OLD.id))
        site.daemon.on(None, nth=nth, **fault)
        raised = site.outcome(lambda: site.carry_out(plan(OLD.id)))  # noqa: B023 - called at once
        if not isinstance(raised, Unproven):
            assert bool(site.daemon.running_releases()) is not site.state.stopped, (nth, raised)


def test_an_adopted_container_is_neither_removed_nor_left_without_its_policy(tmp_path):
    site = a_stub_site(tmp_path)
    adopted = a_release(1, "by-hand", kind="adopted", container="hand", policy="on-failure:5")
    site.daemon.containers.clear()
    site.daemon.add(adopted)
    plan = plan_switch(NEW.id, adopted.id, because="asked for", new=True, adopt=True)
    world = site.world
    site.world = lambda **more: world(adopted=adopted, **more)
    site.daemon.on("probe", NONSENSE)
    with pytest.raises(RolledBack):
        site.carry_out(plan)
    restart = site.daemon.containers["hand"]["HostConfig"]["RestartPolicy"]
    assert restart == {"Name": "on-failure", "MaximumRetryCount": 5}
    assert site.daemon.running_releases() == [adopted.id] == [site.state.serving]


def test_an_error_of_the_daemon_is_told_in_its_own_words(site):
    site.daemon.on("tag", refusal)
    with pytest.raises(DaemonError, match="Docker said no"):
        site.switch()
    assert site.result == "failed"
