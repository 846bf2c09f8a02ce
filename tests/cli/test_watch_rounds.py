"""A watch on a site whose daemon and engine are stubs: when it acts, when it waits, and what it says."""

import json
import signal
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import typer

from b70ctl.cli import app
from b70ctl.cli import here as composition
from b70ctl.cli.console import console
from b70ctl.cli.here import Here
from b70ctl.cli.responding import Lines
from b70ctl.cli.watching import Rounds
from b70ctl.core.journal import Event
from b70ctl.core.plan import plan_restart
from b70ctl.core.release import Drained
from b70ctl.core.watch import COMMAND, Watch
from b70ctl.core.watchfault import Fault, Kind, Memory
from b70ctl.edge import hostasks, lock, logsource, places, stack
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.watching import Monitor
from b70ctl.errors import DaemonAway, EngineError, GaveUp, Interrupted, MachineError, Unproven
from tests.making import resolved
from tests.stub_site import StubSite, a_release, without_engines
from tests.stub_watched import Engine, idle

DEPLOYMENT = resolved(name="old").model_copy(
    update={"mounts": (), "devices": (), "requires": (), "cards": (), "card_count": 0}
)
OLD = a_release(1, "old", DEPLOYMENT)
NEW = a_release(2, "new", DEPLOYMENT)
EVERY = 5
"""Minutes between two probes."""


@dataclass
class Clock:
    """A clock that goes on when it is slept."""

    at: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site that serves OLD, on a host of which nothing is asked."""
    without_engines(monkeypatch)
    monkeypatch.setattr(hostasks, "read_host", _nothing)
    monkeypatch.setattr(stack, "ask_host", _nothing)
    monkeypatch.setattr(logsource, "of_kernel", _nothing)
    monkeypatch.setattr(Interrupts, "heard", None)
    (tmp_path / places.SITE_FILE).write_text("models: models\n")
    found = StubSite(tmp_path)
    found.daemon.images[DEPLOYMENT.image] = {"Id": "sha256:1"}
    found.serve(OLD)
    return found


def _nothing(*_: Any) -> Any:
    raise MachineError("this host is not asked")


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def here(site):
    found = Here(typer.Context(typer.main.get_command(app), obj=site.root))
    found.daemon = site.daemon
    return found


@pytest.fixture
def rounds(site, engine, clock, here):
    """A watch that takes what lasts for nothing for a fault."""
    settings = Watch(every=EVERY, unreachable=0, confirm=2, silence=1, restarts=2)
    endpoint: Any = engine
    monitor = Monitor(OLD, endpoint, lambda: site.daemon, patience=1, silence=60, clock=clock)
    console().json = True
    return Rounds(here, lambda: here, settings, Lines(console()), monitor, clock, clock.sleep)


@pytest.fixture
def turn(rounds, clock, capsys):
    """One round, in which a probe is due if no time is named; gives the events that it told."""

    def go(seconds: float = EVERY * 60):
        clock.at += seconds
        rounds.round()
        return [line["event"] for line in lines(capsys)]

    return go


def lines(capsys):
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in told if not line["event"].startswith("step-")]


def meanwhile(site, act):
    """Let something happen while the incident is captured."""
    logs = site.daemon.logs

    def captured(*asked: Any) -> str:
        site.daemon.logs = logs
        act()
        return logs(*asked)

    site.daemon.logs = captured


def started_anew(site):
    site.daemon.containers[f"c-{OLD.id}"]["State"]["StartedAt"] = "later"


def ended(site):
    site.daemon.containers[f"c-{OLD.id}"]["State"]["Status"] = "exited"


def broken(engine):
    engine.answer = replace(engine.answer, text="!!!!!!!!!!!!!!!!!!!!")


def test_a_healthy_engine_is_told_once_and_nothing_is_asked_of_docker_that_changes_it(site, turn):
    assert turn() == ["healthy"]
    assert turn() == []
    assert {call[0] for call in site.daemon.calls} == {"observe"}


def test_a_broken_engine_is_captured_and_then_restarted(site, engine, turn):
    turn()
    broken(engine)
    assert turn() == ["probe-failed"]
    site.daemon.calls.clear()
    assert turn() == ["probe-failed", "fault", "incident", "restart", "restarted"]
    done = [call[0] for call in site.daemon.calls if call[0] in ("logs", "stop", "start", "probe")]
    assert done == ["logs", "stop", "start", "probe"]
    assert site.last.plan.command == COMMAND
    assert site.last.plan.steps[0].because.startswith("degenerate: ")
    assert site.result == "done"


def test_what_another_command_holds_is_left_alone_and_told_once(site, engine, turn):
    turn()
    broken(engine)
    with lock.locked(site.store.lock_file, "site", "b70ctl switch", "now"):
        assert turn() == ["paused"]
        assert turn() == []
    # the engine may be another one by now: what was seen before says nothing
    assert turn() == ["paused-over", "answers", "probe-failed"]
    assert site.store.ops() == []


@pytest.mark.parametrize("state", [{"drained": Drained(at="now", release=OLD.id)}, {"stopped": True}])
def test_a_site_out_of_service_is_left_alone(site, engine, turn, state):
    engine.ill = "nothing answers"
    site.world().update_state(**state)
    site.daemon.calls.clear()
    assert turn() == ["paused"]
    assert turn() == []
    assert site.daemon.calls == []


def test_a_drain_that_began_while_the_probe_was_asked_is_no_fault(site, engine, turn):
    turn()

    def drained(*_: Any, **__: Any) -> Any:
        site.world().update_state(drained=Drained(at="now", release=OLD.id))
        raise EngineError("HTTP 500")

    engine.ask = drained
    assert turn() == []
    assert turn() == ["paused"]
    site.world().update_state(drained=None)
    del engine.ask
    # what was seen before says nothing: the failure of then is not confirmed by one more
    assert turn() == ["paused-over", "healthy"]


def test_what_the_owner_left_cut_off_is_theirs_to_recover(site, engine, turn):
    engine.ill = "nothing answers"
    site.store.begin(plan_restart(OLD.id), "b70ctl restart")
    assert turn() == ["paused"]
    assert site.result is None


def test_its_own_restart_that_was_cut_off_is_brought_to_its_end(site, turn):
    site.store.begin(plan_restart(OLD.id, command=COMMAND, because="wedge"), "b70ctl watch")
    assert turn() == ["note", "recovered", "healthy"]
    assert site.result == "recovered"


def test_a_docker_that_is_away_is_told_once_and_nothing_is_done(site, engine, turn):
    turn()
    engine.ill = "nothing answers"
    site.daemon.on("observe", lambda: DaemonAway("Docker does not answer"), lasting=True)
    assert turn() == ["docker", "unwell"]
    assert turn() == []
    site.daemon.heal()
    ended(site)
    assert turn()[:3] == ["docker-over", "fault", "incident"]


def test_an_engine_that_has_ended_is_started_again(site, engine, turn):
    turn()
    engine.ill = "nothing answers"
    ended(site)
    assert turn() == ["unwell", "fault", "incident", "restart", "restarted"]
    assert site.daemon.running_releases() == [OLD.id]


def test_a_restart_that_is_refused_is_tried_again_later_and_captured_once(site, engine, turn):
    turn()
    engine.ill = "nothing answers"
    ended(site)
    site.daemon.images.clear()
    assert turn() == ["unwell", "fault", "incident", "restart-failed"]
    assert turn(15) == []
    assert turn() == ["restart-failed"]
    assert site.store.ops() == []


def test_with_no_restart_left_it_captures_and_gives_up(site, engine, turn, capsys):
    for _ in range(2):
        site.store.begin(plan_restart(OLD.id, command=COMMAND, because="wedge"), "b70ctl watch").write("end")
    turn()
    broken(engine)
    turn()
    with pytest.raises(GaveUp, match="the site allows 2 restarts in 24 h, so the watch ends") as gave_up:
        turn()
    assert "incidents" in str(gave_up.value.hint)
    assert [line["event"] for line in lines(capsys)] == ["probe-failed", "fault", "incident"]
    assert len(site.store.ops()) == 2


def test_a_restart_that_cannot_be_proven_is_told_and_counted(site, engine, turn):
    turn()
    broken(engine)
    turn()
    site.daemon.on("probe", lambda: EngineError("nonsense"), lasting=True)
    assert turn()[-1] == "restart-failed"
    assert site.result == "unproven"
    turn()
    assert turn()[-1] == "restart-failed"
    turn()
    with pytest.raises(GaveUp):
        turn()


def test_a_restart_whose_second_start_is_proven_is_a_restart(site, engine, turn):
    turn()
    broken(engine)
    turn()
    site.daemon.on("probe", lambda: EngineError("nonsense"))
    assert turn()[-1] == "restarted"
    assert site.result == "rolled-back"


def test_an_incident_that_cannot_be_written_is_no_reason_to_leave_the_engine_as_it_is(site, engine, turn, capsys):
    (site.store.folder / "incidents").write_text("in the way")
    turn()
    broken(engine)
    turn()
    assert turn() == ["probe-failed", "fault", "incident", "restart", "restarted"]


def test_what_is_over_with_the_lock_in_hand_is_left_alone(site, engine, turn):
    turn()
    broken(engine)
    turn()
    meanwhile(site, lambda: setattr(engine, "answer", Engine().answer))
    assert turn() == ["probe-failed", "fault", "incident", "stood-down"]
    assert site.store.ops() == []
    assert turn(15) == ["answers"]  # it begins to look anew
    assert turn() == ["healthy"]


@pytest.mark.parametrize("shown", [broken, lambda engine: setattr(engine, "ill", "nothing answers")])
def test_an_engine_that_was_started_anew_during_the_capture_is_left_alone(site, engine, turn, shown):
    turn()
    shown(engine)
    meanwhile(site, lambda: started_anew(site))
    told = turn()
    told = told if "fault" in told else turn()
    assert told[-2:] == ["incident", "stood-down"]
    assert site.store.ops() == []


def test_an_engine_that_was_started_anew_before_the_lock_was_taken_is_left_alone(site, engine, turn):
    turn()
    broken(engine)
    turn()
    sweep = site.daemon.sweep_probes

    def anew(*asked: Any) -> None:
        # the lock is in hand, and nothing was looked at under it yet
        started_anew(site)
        sweep(*asked)

    site.daemon.sweep_probes = anew
    assert turn()[-1] == "stood-down"
    assert site.store.ops() == []


def test_what_another_command_left_cut_off_during_the_capture_is_not_recovered(site, engine, turn):
    turn()
    broken(engine)
    turn()
    meanwhile(site, lambda: site.store.begin(plan_restart(OLD.id), "b70ctl restart"))
    assert turn()[-1] == "stood-down"
    assert turn() == ["paused"]
    assert site.result is None


def test_a_command_that_holds_the_lock_is_stood_down_for_without_a_penalty(site, engine, turn):
    turn()
    broken(engine)
    turn()
    with ExitStack() as held:
        take = lock.locked(site.store.lock_file, "site", "b70ctl switch", "now")
        meanwhile(site, lambda: held.enter_context(take))
        assert turn() == ["probe-failed", "fault", "incident", "stood-down"]
    assert turn(15) == ["restart", "restarted"]


def test_a_command_that_ends_while_it_is_asked_who_is_at_work_was_not_cut_off(site, here, monkeypatch):
    book = site.store.begin(plan_restart(OLD.id), "b70ctl restart")
    busy, cut = here.at_work()
    assert (busy, cut.begin.by) == (None, "b70ctl restart")

    def ends(_: Any) -> None:
        book.write(Event.END, result="done")

    monkeypatch.setattr(composition, "holder", ends)
    assert here.at_work() == (None, None)


def test_a_command_that_is_at_work_was_not_cut_off(site, here):
    site.store.begin(plan_restart(OLD.id), "b70ctl restart")
    with lock.locked(site.store.lock_file, "site", "b70ctl restart", "now"):
        busy, cut = here.at_work()
    assert "b70ctl restart" in str(busy)
    assert cut is None


def test_a_command_that_is_killed_after_it_was_seen_at_work_is_found_cut_off(site, turn):
    turn()
    with lock.locked(site.store.lock_file, "site", "b70ctl restart", "now"):
        site.store.begin(plan_restart(OLD.id), "b70ctl restart")
        assert turn() == ["paused"]
    assert turn() == ["paused"]
    assert site.result is None


def test_a_second_fault_of_a_kind_is_captured_though_the_engine_was_well_all_along(site, engine, turn):
    site.daemon.images.clear()
    turn()
    broken(engine)
    assert [*turn(), *turn()][-3:] == ["fault", "incident", "restart-failed"]
    engine.answer = Engine().answer
    assert turn() == ["healthy"]
    broken(engine)
    assert [*turn(), *turn()][-3:] == ["fault", "incident", "restart-failed"]


def test_what_happens_once_is_told_while_a_restart_has_to_wait(site, engine, turn, rounds, capsys):
    site.daemon.images.clear()
    turn()
    broken(engine)
    assert [*turn(), *turn()][-1] == "restart-failed"
    rounds.response.answer(rounds.monitor, Fault(Kind.ENDED, "it ended"), Memory())
    assert [line["event"] for line in lines(capsys)] == ["fault", "incident"]


def test_a_restart_that_had_to_wait_is_not_waited_for_when_another_release_serves(site, engine, turn):
    site.daemon.images.clear()
    turn()
    engine.ill = "nothing answers"
    assert turn()[-1] == "restart-failed"
    assert turn(15) == []
    site.keep(NEW)
    site.world().update_state(serving=NEW.id)  # its container is not there
    assert turn(15) == ["following", "unwell", "fault", "incident", "restart-failed"]


def test_a_restart_that_could_not_begin_is_not_counted_though_the_journal_grew(site, engine, turn, capsys):
    turn()
    broken(engine)
    turn()
    site.daemon.images.clear()
    meanwhile(site, lambda: site.store.begin(plan_restart(OLD.id), "b70ctl restart").write(Event.END, result="done"))
    turn()
    capsys.readouterr()
    assert site.last.plan.command == "restart"
    assert [*turn(), *turn()][-1] == "restart-failed"
    assert len(site.store.ops()) == 1


def test_a_docker_that_is_away_is_waited_for_before_a_fault_by_probes_is_captured(site, engine, turn):
    turn()
    broken(engine)
    site.daemon.on("observe", lambda: DaemonAway("Docker does not answer"), lasting=True)
    assert turn() == ["docker", "probe-failed"]
    assert turn() == ["probe-failed"]
    assert not site.store.incidents.exists()
    site.daemon.heal()
    assert turn(15) == ["docker-over", "fault", "incident", "restart", "restarted"]


def test_an_error_that_nobody_foresaw_is_told_and_is_no_end(engine, turn):
    turn()
    answers = engine.unwell
    engine.unwell = lambda: 1 // 0
    assert turn() == ["trouble"]
    assert turn() == []
    engine.unwell = answers
    assert turn() == ["trouble-over"]


def test_a_signal_in_a_restart_whose_way_back_fails_is_no_ordinary_end(site, engine, turn):
    turn()
    broken(engine)
    turn()

    def asked_to_end() -> EngineError:
        Interrupts.heard = signal.SIGTERM
        return EngineError("nonsense")

    site.daemon.on("probe", asked_to_end, lasting=True)
    with pytest.raises(Unproven):
        turn()


def test_a_release_that_came_to_serve_meanwhile_is_followed_from_then_on(site, turn):
    turn()
    site.keep(NEW)
    site.daemon.add(NEW)
    site.world().update_state(serving=NEW.id)
    assert turn(15) == ["following", "booting"]


def test_its_rates_are_kept_over_its_own_end(site, engine, turn):
    for tokens in range(0, 1000, 200):
        engine.pages = [idle(tokens), idle(tokens), idle(tokens + 101)]
        turn()
    assert json.loads((site.store.folder / "rates.json").read_text()) == {OLD.id: [50.0] * 5}


def test_a_signal_ends_it_between_two_rounds_too(rounds, clock):
    def sleep(_: float) -> None:
        Interrupts.heard = signal.SIGTERM

    rounds.sleep = sleep
    with pytest.raises(Interrupted):
        rounds.run()


def test_trouble_with_the_sites_own_files_is_told_once_and_waited_out(site, rounds, clock, capsys):
    file = site.store.folder / "state.json"
    before = file.read_text()
    file.write_text("{")

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if len(clock.slept) == 3:
            file.write_text(before)
        if len(clock.slept) == 5:
            Interrupts.heard = signal.SIGTERM

    rounds.sleep = sleep
    with pytest.raises(Interrupted):
        rounds.run()
    assert [line["event"] for line in lines(capsys)] == ["watching", "trouble", "healthy", "trouble-over"]
    assert set(clock.slept) == {rounds.settings.tick}
