"""Wherever a command was killed, the next one brings it to an end: one engine, proven and recorded."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.journal import Event
from b70ctl.core.plan import Verb, plan_prune, plan_restart, plan_snapshot, plan_start, plan_stop, plan_switch
from b70ctl.core.progress import StepBegun
from b70ctl.errors import B70Error, DaemonAway, DaemonError, MachineError, Unproven
from tests.making import a_release
from tests.stub_daemon import Killed, absence, refusal
from tests.stub_site import FULL, NEW, NONSENSE, OLD, SWITCH, a_stub_site, counting_disk

pytestmark = pytest.mark.usefixtures("no_engines")


@pytest.fixture
def site(site, monkeypatch):
    counting_disk(monkeypatch, site)
    return site


def kill(site, act, method=None, nth=1, *, late=False):
    """Do an act whose process is killed at a call."""
    site.daemon.on(method, Killed, nth=nth, late=late)
    raised = site.outcome(act)
    died = site.daemon.dead
    site.daemon.heal()
    assert isinstance(raised, Killed) is died
    return died


def kill_at(site, verb, act, *, undo=False):
    """Do an act whose process is killed as this step begins."""

    def die(event):
        if isinstance(event, StepBegun) and (event.step.verb, event.undo) == (verb, undo):
            site.daemon.dead = True

    site.hear = die
    assert isinstance(site.outcome(act), Killed)
    site.hear = lambda _: None
    site.daemon.heal()


def stands(site, what=""):
    """One engine runs and is recorded; every command has ended."""
    assert site.result is not None, what
    assert site.daemon.running_releases() == [site.state.serving], what
    assert site.store.verdict(site.state.serving).state == "proven", what
    containers = [name for name in site.daemon.containers if name != f"c-{site.state.serving}"]
    assert containers in ([], [f"c-{OLD.id}"]), what


def killed_everywhere(tmp_path, act, then, method=None, spoil=lambda _: None):
    """An act killed before and after each of its calls; `then` looks at each site that came of it."""
    for late in (False, True):
        for nth in range(1, 100):
            folder = tmp_path / f"{late}-{nth}"
            folder.mkdir()
            site = a_stub_site(folder)
            with pytest.MonkeyPatch.context() as patch:
                counting_disk(patch, site)
                spoil(site)
                died = kill(site, partial(act, site), method, nth, late=late)
                then(site, f"{'after' if late else 'before'} {site.daemon.calls[-1]}, number {nth}")
            if not died:
                assert nth > 3
                break


def recovered(site, what):
    site.recover()
    assert site.recover() == (None, [])
    if site.store.ops():
        stands(site, what)
    else:
        assert site.daemon.running_releases() == [OLD.id]


# -- a switch that was killed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [None, "disk"])
def test_a_switch_killed_at_any_call_ends_with_one_proven_engine(tmp_path, method):
    killed_everywhere(tmp_path, lambda site: site.switch(), recovered, method)


@pytest.mark.parametrize("method", [None, "disk"])
def test_a_way_back_killed_at_any_call_is_gone_on_with(tmp_path, method):
    spoil = lambda site: site.daemon.on("probe", NONSENSE)  # noqa: E731

    def then(site, what):
        recovered(site, what)
        if site.daemon.count("probe"):
            assert site.state.serving == OLD.id, what

    killed_everywhere(tmp_path, lambda site: site.switch(), then, method, spoil)


@pytest.mark.parametrize("command", [plan_stop, plan_start, plan_restart])
@pytest.mark.parametrize("method", [None, "disk"])
def test_a_stop_a_start_or_a_restart_killed_at_any_call_ends_as_recorded(tmp_path, command, method):
    def spoil(site):
        if command is plan_start:
            site.carry_out(plan_stop(OLD.id))

    def then(site, what):
        site.recover()
        assert bool(site.daemon.running_releases()) is not site.state.stopped, what
        assert site.recover() == (None, []), what

    killed_everywhere(tmp_path, lambda site: site.carry_out(command(OLD.id)), then, method, spoil)


@given(st.integers(1, 40), st.integers(1, 20), st.sampled_from([None, "disk"]), st.booleans())
def test_a_recovery_that_is_killed_too_is_recovered(tmp_path_factory, first, second, method, late):
    site = a_stub_site(tmp_path_factory.mktemp("site"))
    with pytest.MonkeyPatch.context() as patch:
        counting_disk(patch, site)
        kill(site, site.switch, method, first, late=late)
        kill(site, site.recover, method, second, late=late)
        recovered(site, (first, second))


@given(st.integers(1, 40), st.integers(1, 20), st.sampled_from([refusal, absence, NONSENSE, FULL]), st.booleans())
def test_a_recovery_that_fails_says_so_and_leaves_at_most_one_engine(tmp_path_factory, first, second, error, lasting):
    site = a_stub_site(tmp_path_factory.mktemp("site"))
    with pytest.MonkeyPatch.context() as patch:
        counting_disk(patch, site)
        kill(site, site.switch, None, first)
        site.daemon.on("disk" if error is FULL else None, error, nth=second, lasting=lasting)
        raised = site.outcome(site.recover)
    assert isinstance(raised, B70Error | None)
    assert len(site.daemon.running_releases()) <= 1
    if site.result is not None and not isinstance(raised, Unproven):
        assert site.daemon.running_releases() == [site.state.serving]
    if isinstance(raised, DaemonAway):
        site.daemon.heal()
        recovered(site, (first, second))


# -- what is finished, and what is not --------------------------------------------------------------------------------


def test_a_proven_engine_that_cannot_be_recorded_raises_and_the_old_container_stays(site):
    kill_at(site, Verb.SERVE, site.switch)
    site.daemon.on("set_policy", refusal)
    with pytest.raises(DaemonError, match="Docker said no"):
        site.recover()
    assert f"c-{OLD.id}" in site.daemon.containers
    assert site.result is None
    done, late = site.recover()
    assert (done, late) == (f"finished: {NEW.id}", [])
    assert list(site.daemon.containers) == [f"c-{NEW.id}"]
    stands(site)


@pytest.mark.parametrize("error", [refusal, partial(TypeError, "surprise")])
def test_tidying_up_that_fails_in_a_recovery_is_late_and_blocks_nobody(site, error):
    kill_at(site, Verb.COMPANIONS, site.switch)
    site.daemon.on("up_companions", error)
    done, late = site.recover()
    assert done == f"finished: {NEW.id}"
    assert len(late) == 1
    assert site.result == "finished"
    stands(site)


def test_an_away_daemon_leaves_the_journal_open_and_a_later_recovery_finishes(site):
    site.daemon.on("await", absence, lasting=True)
    with pytest.raises(Unproven):
        site.switch()
    assert site.result is None
    site.daemon.heal()
    assert site.recover() == (f"undone: {OLD.id} serves again, proven", [])
    assert site.result == "rolled-back"
    stands(site)


def test_a_refused_start_in_a_recovery_is_unproven_and_blocks_nobody(site):
    kill_at(site, Verb.START, site.switch)
    site.daemon.on("start", refusal)
    with pytest.raises(Unproven, match="Docker said no"):
        site.recover()
    assert site.result == "unproven"
    assert site.recover() == (None, [])


def test_an_engine_that_was_told_to_stop_is_not_taken_for_one_that_runs(site):
    kill_at(site, Verb.START, site.switch)
    # it ends its last request
    site.daemon.containers[f"c-{OLD.id}"]["State"]["Status"] = "running"
    site.daemon.calls.clear()
    site.recover()
    assert [call[0] for call in site.daemon.named("stop", "start")] == ["stop", "start"]


def test_what_could_not_be_written_on_the_way_back_is_written_by_the_next_recovery(site):
    site.daemon.on("probe", lambda: site.daemon.on("disk", FULL, lasting=True) or NONSENSE())
    site.outcome(site.switch)
    assert site.result is None
    with pytest.raises(MachineError, match="could not be recorded: No space left on device") as told:
        site.recover()
    assert told.value.hint == "b70ctl recover"
    assert site.result is None
    site.daemon.heal()
    site.recover()
    stands(site)


def test_an_engine_that_the_way_back_had_already_started_is_not_started_again(site):
    site.daemon.on("probe", lambda: site.daemon.on("disk", FULL, lasting=True) or NONSENSE())
    site.outcome(site.switch)
    assert (site.result, site.daemon.running_releases()) == (None, [OLD.id])
    site.daemon.containers[f"c-{OLD.id}"]["State"]["StartedAt"] = "2999-01-01T00:00:00.5Z"
    site.daemon.heal()
    site.daemon.calls.clear()
    assert site.recover() == (f"undone: {OLD.id} serves again, proven", [])
    assert site.daemon.named("stop", "start") == []
    stands(site)


# -- a stop that its person took back ---------------------------------------------------------------------------------


def stop_and_take_back(site):
    # the state file cannot say that it is stopped, so it is undone
    site.daemon.on("disk", FULL, nth=5)
    site.carry_out(plan_stop(OLD.id))


def killed_at_the_first_step_back(site):
    kill_at(site, Verb.START, lambda: stop_and_take_back(site), undo=True)


def killed_before_the_first_line_back(site):
    kill(site, lambda: stop_and_take_back(site), "disk", nth=7)


@pytest.mark.parametrize(
    ("cut", "last"), [(killed_before_the_first_line_back, Event.FAILED), (killed_at_the_first_step_back, Event.UNDO)]
)
def test_a_stop_that_was_taken_back_is_not_finished_by_a_recovery(site, cut, last):
    cut(site)
    assert site.store.book().lines[-1].event is last
    assert site.daemon.running_releases() == []
    assert site.recover() == (f"undone: {OLD.id} serves again, proven", [])
    stands(site)


def test_a_stop_whose_end_cannot_be_recorded_is_not_told_as_finished(site):
    kill_at(site, Verb.IDLE, lambda: site.carry_out(plan_stop(OLD.id)))
    site.daemon.on("disk", FULL)
    with pytest.raises(MachineError):
        site.recover()
    assert site.result is None
    assert site.recover() == ("finished: stop", [])
    assert site.state.stopped


# -- prune and snapshot -----------------------------------------------------------------------------------------------


def test_a_snapshot_that_was_cut_off_is_finished(site):
    kill_at(site, Verb.NAME, lambda: site.carry_out(plan_snapshot(OLD.id, "good")))
    assert site.recover() == ("finished: snapshot", [])
    assert site.state.snapshots == {"good": OLD.id}


@pytest.mark.parametrize("method", [None, "disk"])
def test_a_prune_killed_at_any_call_leaves_nothing_of_what_it_forgot(tmp_path, method):
    deployment = OLD.deployment.model_copy(update={"cache_volume": "cache-of-both"})
    gone = [a_release(number, f"gone-{number}", deployment) for number in (3, 4)]

    def spoil(site):
        for release in gone:
            site.keep(release)
            site.daemon.add(release, "exited")
            site.daemon.tags.add(f"b70ctl/{release.deployment.site}:{release.id}")
            site.daemon.caches.add(release.deployment.cache_volume)

    def then(site, what):
        site.recover()
        if not site.store.ops():
            return
        assert list(site.store.releases()) == [OLD.id], what
        assert [path.name for path in (site.store.folder / "releases").iterdir()] == [OLD.id], what
        assert (site.daemon.tags, site.daemon.caches) == (set(), set()), what
        assert list(site.daemon.containers) == [f"c-{OLD.id}"], what

    plan = plan_prune({release.id: "old" for release in gone})
    killed_everywhere(tmp_path, lambda site: site.carry_out(plan), then, method, spoil)


# -- nothing to do ----------------------------------------------------------------------------------------------------


def test_without_an_unfinished_command_nothing_is_asked_of_the_daemon(site):
    site.switch()
    site.daemon.calls.clear()
    assert site.recover() == (None, [])
    assert site.daemon.calls == []


def test_a_first_switch_that_was_killed_leaves_nothing_that_runs(site):
    site.daemon.containers.clear()
    plan = plan_switch(NEW.id, None, because="asked for", new=True)
    kill_at(site, Verb.PROBE, lambda: site.carry_out(plan))
    assert site.recover() == ("undone", [])
    assert site.daemon.containers == {}
    assert site.store.verdict(NEW.id).state == "interrupted"


def test_a_way_back_of_a_way_back_discards_only_what_was_made(site):
    kill_at(site, Verb.START, site.switch, undo=False)
    kill_at(site, Verb.PROBE, site.recover, undo=True)
    site.recover()
    stands(site)
    assert site.state.serving == SWITCH.incumbent
