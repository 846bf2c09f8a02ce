"""A watch on a site whose daemon and engine are stubs: when it acts, when it waits, and what it says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import typer

from b70ctl.cli import app
from b70ctl.cli.console import console
from b70ctl.cli.here import Here
from b70ctl.cli.watching import Rounds
from b70ctl.cli.watchlines import Lines
from b70ctl.core.plan import plan_restart
from b70ctl.core.release import Drained
from b70ctl.core.watch import COMMAND, Watch
from b70ctl.core.watching import Memory
from b70ctl.edge import hostasks, lock, logsource, places, stack
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.watching import Lookout
from b70ctl.errors import DaemonAway, EngineError, GaveUp, Interrupted, MachineError
from tests.making import resolved
from tests.stub_site import StubSite, a_release, without_engines
from tests.stub_watched import Engine, idle

DEPLOYMENT = resolved(name="old").model_copy(
    update={"mounts": (), "devices": (), "requires": (), "cards": (), "card_count": 0}
)
OLD = a_release(1, "old", DEPLOYMENT)
NEW = a_release(2, "new", DEPLOYMENT)
NONSENSE = Engine().answer


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
def rounds(site, engine):
    """A watch that asks its probe in every round, and takes what lasts for nothing for a fault."""
    here = Here(typer.Context(typer.main.get_command(app), obj=site.root))
    here.daemon = site.daemon
    settings = Watch(every=0.0001, unreachable=0, confirm=2, silence=1, restarts=2)
    found = Rounds(here, lambda: here, settings, Lines(console()))
    endpoint: Any = engine
    found.lookout = Lookout(OLD, endpoint, lambda: site.daemon, patience=1)
    console().json = True
    return found


@pytest.fixture
def turn(rounds, capsys):
    """One round; gives the events that it told."""

    def go():
        rounds.asked_at = -math.inf
        rounds._round()
        return [line["event"] for line in lines(capsys)]

    return go


def lines(capsys):
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in told if not line["event"].startswith("step-")]


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
    assert turn() == ["paused-over", "healthy", "probe-failed"]
    assert site.store.ops() == []


@pytest.mark.parametrize("state", [{"drained": Drained(at="now", release=OLD.id)}, {"stopped": True}])
def test_a_site_out_of_service_is_left_alone(site, engine, turn, state):
    engine.ill = "nothing answers"
    site.world().update_state(**state)
    site.daemon.calls.clear()
    assert turn() == ["paused"]
    assert turn() == []
    assert site.daemon.calls == []


def test_a_drain_that_began_while_the_probe_was_asked_is_no_fault(site, engine, turn, rounds):
    turn()

    def drained(*_: Any, **__: Any) -> Any:
        site.world().update_state(drained=Drained(at="now", release=OLD.id))
        raise EngineError("HTTP 500")

    engine.ask = drained
    assert turn() == []
    assert turn() == ["paused"]
    assert rounds.memory == Memory()


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


def test_a_restart_that_is_refused_is_tried_again_later_and_captured_once(site, engine, turn, rounds):
    turn()
    engine.ill = "nothing answers"
    ended(site)
    site.daemon.images.clear()
    rounds.settings = rounds.response.settings = rounds.settings.model_copy(update={"every": 5})
    assert turn() == ["unwell", "fault", "incident", "restart-failed"]
    assert turn() == []
    rounds.response.not_before = 0
    assert turn() == ["restart-failed"]
    assert site.store.ops() == []


def test_with_no_restart_left_it_captures_and_gives_up(site, engine, turn, rounds, capsys):
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


def test_a_restart_that_cannot_be_proven_is_told_and_counted(site, engine, turn, rounds):
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


def test_what_is_over_with_the_lock_in_hand_is_left_alone(site, engine, turn, rounds):
    turn()
    broken(engine)
    turn()
    engine.answer = Engine().answer
    rounds.response.captured = None
    rounds.memory = replace(rounds.memory, failures=rounds.memory.failures * 2)
    # the probe of this round fails once more, the one under the lock passes
    answers = [replace(engine.answer, text="!!!!!!!!!!!!!!!!!!!!"), engine.answer]
    engine.ask = lambda *_, **__: answers.pop(0)
    assert turn()[-1] == "stood-down"
    assert site.store.ops() == []
    assert rounds.memory == Memory()


def test_another_engine_than_the_one_that_was_seen_is_left_alone(site, engine, turn):
    turn()
    broken(engine)
    turn()
    sweep = site.daemon.sweep_probes

    def started_anew(age: int) -> None:
        # the lock is in hand, and nothing was looked at under it yet
        site.daemon.containers[f"c-{OLD.id}"]["State"]["StartedAt"] = "later"
        sweep(age)

    site.daemon.sweep_probes = started_anew
    assert turn()[-1] == "stood-down"
    assert site.store.ops() == []


def test_a_release_that_came_to_serve_meanwhile_is_followed_from_then_on(site, turn, rounds):
    turn()
    site.keep(NEW)
    site.world().update_state(serving=NEW.id)
    rounds._followed()
    assert rounds.lookout.release.id == NEW.id
    assert rounds.memory == Memory()
    assert rounds.asked_at > 0  # it was proven a moment ago


def test_its_rates_are_kept_over_its_own_end(site, engine, turn):
    for tokens in range(0, 1000, 200):
        engine.pages = [idle(tokens), idle(tokens), idle(tokens + 101)]
        turn()
    assert json.loads((site.store.folder / "rates.json").read_text()) == {OLD.id: [50.0] * 5}


def test_a_signal_ends_it_between_two_rounds_too(rounds, monkeypatch):
    monkeypatch.setattr(rounds, "_round", lambda: None)
    monkeypatch.setattr(Interrupts, "heard", "SIGTERM")
    with pytest.raises(Interrupted):
        rounds.run()


def test_trouble_with_the_sites_own_files_is_told_once_and_waited_out(site, rounds, monkeypatch, capsys):
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            (site.store.folder / "state.json").write_text(before)
        if len(waited) == 5:
            raise KeyboardInterrupt

    before = (site.store.folder / "state.json").read_text()
    (site.store.folder / "state.json").write_text("{")
    monkeypatch.setattr("b70ctl.cli.watching.time.sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        rounds.run()
    told = [line["event"] for line in lines(capsys)]
    assert told[:2] == ["watching", "trouble"]
    assert told.count("trouble") == 1
    assert "trouble-over" in told
