"""Wherever a window fails or is killed, production serves again; the daemon here lets no two engines run."""

import os
import signal
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.plan import Verb
from b70ctl.core.progress import CommandEnded, Note, StepBegun
from b70ctl.core.quiet import Sign
from b70ctl.core.window import in_the_dark, plan_window
from b70ctl.edge import steps, window
from b70ctl.edge.executor import execute
from b70ctl.edge.filling import Prepared
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.steps import take
from b70ctl.edge.world import Errand
from b70ctl.errors import (
    B70Error,
    CommandFailed,
    DaemonAway,
    EngineError,
    Interrupted,
    Refused,
    RolledBack,
    Unproven,
)
from tests.making import a_release, resolved
from tests.stub_daemon import Killed, refusal
from tests.stub_site import FAULTS as STUBBED
from tests.stub_site import FULL, NONSENSE, OLD, a_stub_site, counting_disk, quiet

DARK = {name: in_the_dark(resolved(name=name), 8001) for name in "bc"}
B, C = a_release(2, "b", DARK["b"], dark=True), a_release(3, "c", DARK["c"], dark=True)
TRIED = (B.id, C.id)
FAULTS = {**STUBBED, "a command that failed": {"error": partial(CommandFailed, "exit 3")}}


def plan(serving=OLD.id, **more):
    return plan_window(TRIED, serving, does="`bench`", port=8001, limit=0, **more)


PLANS = {"as it is": plan(), "keeps going": plan(keep_going=True)}
CALLS = 90
"""More than a window makes."""


@pytest.fixture(autouse=True)
def no_commands(no_engines, monkeypatch):
    monkeypatch.setitem(steps.STEPS, Verb.SETTLE, lambda step, world: world.daemon.call("settle", step.subject))
    monkeypatch.setitem(steps.STEPS, Verb.RUN, lambda step, world: world.daemon.call("run", step.subject))


def a_site_that_serves(folder, serving=True):
    folder.mkdir(exist_ok=True)
    site = a_stub_site(folder)
    if not serving:
        site.daemon.containers.clear()
        site.store.save_state(site.state.model_copy(update={"serving": None}))
    return site


def opened(site, what=PLANS["as it is"], interrupts=None, **errand):
    """A window, to its end."""
    prepared = {release.id: Prepared(release, "sha256:new", {}, "name: x\n", {}) for release in (B, C)}
    site.daemon.releases |= {release.id: release for release in (B, C)}
    world = site.world(prepared=prepared, errand=Errand(("bench",), **({"signs": list} | errand)))
    return execute(what, world, interrupts or quiet(), "b70ctl window")


def back(site, serving=True, what=""):
    """What served serves, recorded; nothing of the window is left beside it."""
    wanted = [OLD.id] if serving else []
    assert site.daemon.running_releases() == wanted, what
    assert list(site.daemon.containers) == [f"c-{name}" for name in wanted], what
    assert site.state.serving == (OLD.id if serving else None), what
    assert not site.state.stopped, what


# -- as it should be --------------------------------------------------------------------------------------------------


def test_each_has_its_turn_and_what_served_serves_again(site):
    assert opened(site) == []
    back(site)
    assert [call[1] for call in site.daemon.named("run")] == list(TRIED)
    assert site.result == "done"
    for name in TRIED:
        assert site.store.verdict(name).state == "proven"
        assert (site.store.release_folder(name) / "engine.log").read_text() == f"log of c-{name}\n"
    assert set(site.store.served()) == {OLD.id}


def test_where_nothing_served_nothing_is_started_at_the_end(tmp_path):
    site = a_site_that_serves(tmp_path, serving=False)
    assert opened(site, plan(None)) == []
    back(site, serving=False)
    assert site.store.served() == []


# -- a window that fails anywhere -------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("serving", [True, False])
def test_whichever_call_fails_production_is_back_or_it_is_told(tmp_path, what, fault, serving):
    what = what if serving else plan(None, keep_going=what.keep_going)
    for nth in range(1, CALLS):
        site = a_site_that_serves(tmp_path / str(nth), serving)
        site.daemon.on(None, nth=nth, **fault)
        raised = site.outcome(lambda: opened(site, what))  # noqa: B023 - called at once
        called = f"call {nth}, {site.daemon.calls[min(nth, site.daemon.count()) - 1]}, {raised!r}"
        site.daemon.heal()
        if isinstance(raised, Unproven) or site.result is None:
            assert len(site.daemon.running_releases()) <= 1, called
        else:
            back(site, serving, called)
        if site.result is None:
            assert isinstance(raised, (Unproven, DaemonAway)), called
            site.recover()
            back(site, serving, called)
        if site.daemon.count() < nth:
            break
    else:
        raise AssertionError("a window makes more calls than were tried")


@pytest.mark.parametrize("lasting", [False, True])
def test_whichever_file_cannot_be_written_production_is_back(tmp_path, lasting):
    for nth in range(1, CALLS):
        site = a_site_that_serves(tmp_path / str(nth))
        with pytest.MonkeyPatch.context() as patch:
            counting_disk(patch, site)
            site.daemon.on("disk", FULL, nth=nth, lasting=lasting)
            raised = site.outcome(lambda: opened(site))  # noqa: B023 - called at once
            reached = site.daemon.count("disk") >= nth
        assert isinstance(raised, B70Error | None), nth
        site.daemon.heal()
        site.recover()
        back(site, what=(nth, raised))
        if not reached:
            break
    else:
        raise AssertionError("a window writes more than was tried")


@given(st.integers(1, 60), st.sampled_from(sorted(FAULTS)), st.integers(1, 60), st.sampled_from(sorted(FAULTS)))
def test_two_failures_never_leave_two_engines(tmp_path_factory, first, one, second, two):
    site = a_stub_site(tmp_path_factory.mktemp("site"))
    site.daemon.on(None, nth=first, **FAULTS[one])
    site.daemon.on(None, nth=second, **FAULTS[two])
    raised = site.outcome(lambda: opened(site, PLANS["keeps going"]))
    assert len(site.daemon.running_releases()) <= 1
    if not isinstance(raised, Unproven):
        assert site.daemon.running_releases() == [OLD.id] or site.result is None


GOING = (Verb.STOP, Verb.REMOVE, Verb.DISCARD)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("method", ["remove", "stop", "set_policy", "logs", "observe", "disk", "remove_network"])
@pytest.mark.parametrize("fails", [False, True])
def test_whatever_fails_while_an_engine_is_taken_away_production_is_back_or_the_journal_is_open(
    site, monkeypatch, fault, method, fails
):
    counting_disk(monkeypatch, site)
    begun = []

    def begin(event):
        if isinstance(event, StepBegun) and event.step.subject == B.id and event.step.verb in GOING and not begun:
            begun.append(site.daemon.on(method, **fault))
        elif begun and isinstance(event, StepBegun) and event.step.subject == OLD.id:
            site.daemon.heal()

    site.hear = begin
    if fails:
        site.daemon.on("await", NONSENSE)
    raised = site.outcome(lambda: opened(site))
    assert len(site.daemon.running_releases()) <= 1
    ended = site.result
    assert begun
    assert ended != "unproven"
    if ended is not None and not isinstance(raised, Unproven):
        assert site.daemon.running_releases() == [OLD.id], raised
    site.daemon.heal()
    site.recover()
    assert site.daemon.running_releases() == [OLD.id], raised


def test_an_engine_that_has_ended_is_in_nobodys_way_though_it_cannot_be_taken_away(site):
    def end(event):
        if isinstance(event, StepBegun) and event.step.verb is Verb.RUN:
            site.daemon.containers[f"c-{B.id}"]["State"]["Status"] = "exited"
            site.daemon.on("remove", refusal, lasting=True)
            site.daemon.on("stop", refusal, lasting=True)
        elif isinstance(event, StepBegun) and event.undo and event.step.subject == OLD.id:
            site.daemon.heal()

    site.hear = end
    site.daemon.on("run", NONSENSE)
    with pytest.raises(RolledBack, match=f"{B.id}: nonsense; {OLD.id} serves again, proven"):
        opened(site)
    assert site.daemon.running_releases() == [OLD.id]
    assert any(f"{B.id} has stopped" in event.text for event in site.told if isinstance(event, Note))


def test_the_network_in_the_dark_goes_with_the_engine(site):
    opened(site)
    dark = B.deployment.network
    assert ("ensure_network", dark) in site.daemon.calls
    assert dark not in site.daemon.networks


# -- what is gone on after --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "reached"), [("as it is", TRIED[:1]), ("keeps going", TRIED)])
def test_after_a_command_that_failed_its_engine_is_taken_down_in_order(site, name, reached):
    site.daemon.on("run", partial(CommandFailed, "the command ended with exit 3"))
    assert opened(site, PLANS[name]) == [f"run {B.id}: the command ended with exit 3"]
    back(site)
    assert tuple(call[1] for call in site.daemon.named("run")) == reached
    assert site.store.verdict(B.id).state == "proven"
    assert not any(event.undo for event in site.told if isinstance(event, StepBegun))
    assert (site.store.verdict(C.id) is None) is (C.id not in reached)


@pytest.mark.parametrize("method", ["up", "await", "probe", "run"])
def test_an_engine_that_failed_ends_the_window_or_where_asked_for_its_own_turn(tmp_path, method):
    site = a_site_that_serves(tmp_path / "ends")
    site.daemon.on(method, NONSENSE)
    with pytest.raises(RolledBack, match=f"{B.id}: nonsense; {OLD.id} serves again") as raised:
        opened(site)
    assert raised.value.hint == f"b70ctl logs {B.id}"
    assert site.daemon.named("run") == ([("run", B.id)] if method == "run" else [])
    site = a_site_that_serves(tmp_path / "goes on")
    site.daemon.on(method, NONSENSE)
    (late,) = opened(site, PLANS["keeps going"])
    assert late.endswith(f" {B.id}: nonsense")
    back(site)
    assert (site.store.verdict(B.id).state, site.store.verdict(B.id).why) == ("failed", "nonsense")
    assert site.daemon.named("run")[-1] == ("run", C.id)


def test_what_an_engine_proved_is_not_unproved_by_a_failure_of_another(site):
    site.hear = lambda event: (
        site.daemon.on("probe", NONSENSE) if event == StepBegun(PLANS["as it is"].steps[-9]) else None
    )
    with pytest.raises(RolledBack):
        opened(site)
    assert (site.store.verdict(B.id).state, site.store.verdict(C.id).state) == ("proven", "failed")


def test_a_production_that_is_not_proven_at_the_end_is_tried_once_more(site):
    last = next(step for step in PLANS["as it is"].steps if (step.verb, step.subject) == (Verb.PROBE, OLD.id))
    site.hear = lambda event: site.daemon.on("probe", NONSENSE) if event == StepBegun(last) else None
    with pytest.raises(RolledBack):
        opened(site)
    back(site)


def test_a_box_that_is_not_quiet_puts_production_back_and_says_how_to_go_on(site):
    loud = Sign(question="q", quiet=False, evidence="e")
    with pytest.raises(RolledBack, match="the box is not quiet after 120 s: q: no, e") as raised:
        opened(site, signs=lambda: [loud])
    assert "--anyway" in raised.value.hint
    assert site.daemon.named("up", "run") == []
    back(site)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Time passes at once."""
    clock = iter(range(0, 1_000_000, 10))
    monkeypatch.setattr(window, "time", type("Clock", (), {"monotonic": lambda: next(clock), "sleep": lambda _: None}))


def test_a_box_that_becomes_quiet_is_waited_for_and_what_cannot_be_known_is_told(site):
    found = iter([False, False, None])
    signs = lambda: [Sign(question="q", quiet=next(found), evidence="e")]  # noqa: E731
    world = site.world(errand=Errand(("bench",), signs=signs))
    take(next(step for step in PLANS["as it is"].steps if step.verb is Verb.VERIFY), world)
    assert [event.text for event in site.told if isinstance(event, Note)][-1] == "  unknown: q: e"
    assert list(found) == []


def test_a_box_that_is_not_quiet_is_accepted_at_once_where_asked_for(site):
    opened(site, signs=lambda: [Sign(question="q", quiet=False, evidence="e")], anyway=True)
    assert any("accepted: q: no, e" in event.text for event in site.told if isinstance(event, Note))
    assert len(site.daemon.named("run")) == 2


# -- a window that was killed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [None, "disk"])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("serving", [True, False])
@pytest.mark.parametrize("fails", [False, True])
def test_a_window_killed_at_any_call_is_recovered(tmp_path, method, late, serving, fails):
    what = plan(OLD.id if serving else None, keep_going=fails)
    for nth in range(1, 2 * CALLS):
        site = a_site_that_serves(tmp_path / str(nth), serving)
        with pytest.MonkeyPatch.context() as patch:
            counting_disk(patch, site)
            if fails:
                site.daemon.on("await", NONSENSE)
            site.daemon.on(method, Killed, nth=nth, late=late)
            raised = site.outcome(lambda: opened(site, what))  # noqa: B023 - called at once
            at = f"{site.daemon.calls[-1]}, number {nth}"
            site.daemon.heal()
            site.recover()
            back(site, serving, at)
            assert site.recover() == (None, []), at
        if fails and (verdict := site.store.verdict(B.id) if B.id in site.store.releases() else None):
            assert verdict.state in ("failed", "interrupted"), at
        if not isinstance(raised, Killed):
            break
    else:
        raise AssertionError("a window makes more calls than were tried")


@given(st.integers(1, 70), st.integers(1, 20), st.sampled_from([None, "disk"]), st.booleans())
def test_a_recovery_of_a_window_that_is_killed_too_is_recovered(tmp_path_factory, first, second, method, late):
    site = a_stub_site(tmp_path_factory.mktemp("site"))
    with pytest.MonkeyPatch.context() as patch:
        counting_disk(patch, site)
        for act, nth in ((lambda: opened(site), first), (site.recover, second)):
            site.daemon.on(method, Killed, nth=nth, late=late)
            site.outcome(act)
            site.daemon.heal()
        site.recover()
    back(site)


def test_killed_while_the_command_runs_the_proof_of_its_engine_stands(site):
    site.daemon.on("run", Killed)
    assert isinstance(site.outcome(lambda: opened(site)), Killed)
    site.daemon.heal()
    assert site.recover() == (f"undone: {OLD.id} serves again, proven", [])
    assert site.store.verdict(B.id).state == "proven"
    assert site.store.verdict(C.id).why == f"interrupted: it was cut off at `run {B.id}`"


# -- the command ------------------------------------------------------------------------------------------------------


def run(site, *argv, **errand):
    """The step itself, with an engine that is up."""
    site.keep(B)
    site.daemon.containers.clear()
    site.daemon.add(B)
    world = site.world(errand=Errand(argv, signs=list, **errand))
    try:
        window.run(plan().steps[0], world)
    finally:
        assert [event.status for event in site.told if isinstance(event, CommandEnded)] == [
            turn.code for turn in world.errand.turns.values()
        ]


@pytest.mark.process
def test_a_command_that_ends_with_0_has_had_its_turn(site, tmp_path):
    run(site, "sh", "-c", f"env > {tmp_path}/env")
    found = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert (found["B70CTL_RELEASE"], found["B70CTL_ENDPOINT"]) == (B.id, "http://127.0.0.1:8001")
    assert found["PATH"] == os.environ["PATH"]


@pytest.mark.process
def test_a_command_that_fails_says_with_what(site):
    with pytest.raises(CommandFailed, match="exit 3"):
        run(site, "sh", "-c", "exit 3")


@pytest.mark.process
@pytest.mark.parametrize("code", [0, 3])
def test_an_engine_that_did_not_outlive_the_command_is_what_failed(site, code):
    site.hear = lambda event: site.daemon.containers.clear() if isinstance(event, CommandEnded) else None
    with pytest.raises(EngineError, match="is gone, while the command ran"):
        run(site, "sh", "-c", f"exit {code}")


@pytest.mark.process
def test_ctrl_c_ends_the_window_however_the_command_took_it(site):
    presses = iter([0, 1])
    with pytest.raises(Interrupted):
        run(site, "true", presses=lambda: next(presses))


@pytest.mark.process
def test_a_press_before_the_command_began_says_nothing_about_it(site):
    run(site, "true", presses=lambda: 1)


def test_a_step_without_a_command_is_refused(site):
    for act in (window.run, window.verify):
        with pytest.raises(Refused, match="no command"):
            act(plan().steps[0], site.world())


@pytest.mark.parametrize("patient", [False, True])
def test_a_second_ctrl_c_without_a_terminal_is_only_told_to_who_waits_for_production(site, patient):
    told = []
    interrupts = Interrupts(terminal=False, warn=told.append, patient=patient)

    def press(event):
        if isinstance(event, StepBegun) and (event.step.verb, event.step.subject) in (
            (Verb.RUN, B.id), (Verb.START, OLD.id),
        ):  # fmt: skip
            os.kill(os.getpid(), signal.SIGINT)

    site.hear = press
    with interrupts.watched(), pytest.raises(Interrupted if patient else Unproven):
        opened(site, interrupts=interrupts)
    assert len(told) is int(patient)
    if patient:
        back(site)
