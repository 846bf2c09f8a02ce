"""A lookout sees what the engine and Docker show, and an answer that does not come is an outcome and no error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b70ctl.core.answer import Answer
from b70ctl.core.metrics import Metrics
from b70ctl.core.plan import plan_restart
from b70ctl.core.watch import COMMAND
from b70ctl.core.watchlook import Outcome
from b70ctl.edge.store import Store
from b70ctl.edge.watching import Lookout, Rates, moment, restarts_begun
from b70ctl.errors import DaemonAway, EngineError, EngineSilent, MachineError
from tests.making import a_profile, a_release, resolved
from tests.stub_daemon import StubDaemon
from tests.stub_watched import Engine, idle

RELEASE = a_release(1)


def lookout(engine: Engine, daemon: StubDaemon | None = None, release: Any = RELEASE) -> Lookout:
    endpoint: Any = engine
    return Lookout(release, endpoint, lambda: daemon or StubDaemon(), patience=7)


def test_a_well_engine_is_looked_at_without_docker_unless_it_is_asked_for() -> None:
    daemon = StubDaemon()
    daemon.add(RELEASE)
    look = lookout(Engine(pages=[idle(5)]), daemon).look(docker=False)
    assert (look.unwell, look.metrics, look.docker, look.container) == (None, idle(5), False, None)
    assert daemon.calls == []
    look = lookout(Engine(), daemon).look(docker=True)
    assert look.metrics is None
    assert look.docker
    assert look.container is not None


def test_of_an_engine_that_is_not_well_docker_is_always_asked() -> None:
    daemon = StubDaemon()
    daemon.add(RELEASE, "exited")
    look = lookout(Engine(ill="nothing answers"), daemon).look(docker=False)
    assert (look.unwell, look.docker) == ("nothing answers", True)
    assert look.container is not None
    assert look.container.state == "exited"


def test_a_docker_that_is_away_is_told_and_forgotten_when_it_is_back() -> None:
    daemon = StubDaemon()
    daemon.on("observe", lambda: DaemonAway("Docker does not answer"))
    seen = lookout(Engine(), daemon)
    look = seen.look(docker=True)
    assert (look.docker, look.container, seen.away) == (False, None, "Docker does not answer")
    daemon.heal()
    assert seen.look(docker=True).docker
    assert seen.away is None


def test_a_docker_that_cannot_be_reached_at_all_is_away() -> None:
    def nobody() -> Any:
        raise MachineError("no Docker Engine answers")

    endpoint: Any = Engine()
    seen = Lookout(RELEASE, endpoint, nobody, patience=7)
    assert not seen.look(docker=True).docker
    assert seen.away == "no Docker Engine answers"


def test_a_probe_that_passes_on_an_idle_engine_has_a_rate() -> None:
    engine = Engine(pages=[idle(5), idle(106)])
    asked = lookout(engine).ask()
    assert asked is not None
    assert (asked.outcome, asked.rate, asked.detail) == (Outcome.PASSED, 50.0, "counting: counted to 30")
    assert engine.asked[0]["timeout"] == 7
    assert engine.asked[0]["stream"]


def test_a_probe_beside_other_requests_has_none() -> None:
    asked = lookout(Engine(pages=[Metrics(running=1, generation_tokens=5), idle(300)])).ask()
    assert asked is not None
    assert (asked.outcome, asked.rate) == (Outcome.PASSED, None)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer(text="!!!!!!!!!!!!!!!!", finish_reason="length"), Outcome.WRONG),
        (Answer(text="one, two, two, three", finish_reason="stop"), Outcome.WRONG),
        (EngineSilent("no complete answer after 7 s"), Outcome.SILENT),
        (EngineError("HTTP 500: oh"), Outcome.REFUSED),
    ],
)
def test_a_probe_that_fails_says_how(answer: Answer | EngineError, outcome: Outcome) -> None:
    asked = lookout(Engine(answer=answer, pages=[idle(5), idle(5)])).ask()
    assert asked is not None
    assert (asked.outcome, asked.others) == (outcome, False)
    assert asked.detail.startswith("counting: ")


def test_silence_while_others_are_served_is_told_apart() -> None:
    busy = [Metrics(running=1, generation_tokens=5), Metrics(running=2, generation_tokens=90)]
    asked = lookout(Engine(answer=EngineSilent("silent"), pages=list(busy))).ask()
    assert asked is not None
    assert asked.others


def test_an_engine_that_does_not_say_how_long_its_context_is_refuses_the_probe() -> None:
    asked = lookout(Engine(length=None)).ask()
    assert asked is not None
    assert asked.outcome is Outcome.REFUSED


def test_a_profile_that_skips_every_probe_leaves_nothing_to_ask() -> None:
    skip = dict.fromkeys(("counting", "prose", "capital", "arithmetic"), "a base model")
    release = a_release(1, deployment=resolved(a_profile(probes={"skip": skip})))
    engine = Engine()
    assert lookout(engine, release=release).ask() is None
    assert engine.asked == []


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_the_first_rates_of_each_release_are_kept_and_those_of_forgotten_ones_go(tmp_path: Path) -> None:
    rates = Rates(tmp_path / "rates.json")
    assert rates.of("one") == ()
    for rate in (50.0, 51.0):
        rates.add("one", rate, lambda: ["one"])
    rates.add("one", None, lambda: ["one"])
    assert rates.of("one") == (50.0, 51.0)
    for _ in range(9):
        rates.add("two", 20.0, lambda: ["two"])
    assert rates.of("one") == ()
    assert rates.of("two") == (20.0,) * 5


@pytest.mark.parametrize("text", ["", "[]", "{", '{"one": 5}', '{"one": ["x"]}', "\x00"])
def test_a_file_of_rates_that_is_spoilt_is_begun_anew(tmp_path: Path, text: str) -> None:
    rates = Rates(tmp_path / "rates.json")
    rates.file.write_text(text)
    assert rates.of("one") == ()
    rates.add("one", 50.0, lambda: ["one"])
    assert json.loads(rates.file.read_text()) == {"one": [50.0]}


def test_restarts_of_a_watch_are_those_that_the_journal_tells(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin(plan_restart("r"), "b70ctl restart")
    assert restarts_begun(store) == []
    store.begin(plan_restart("r", command=COMMAND, because="wedge"), "b70ctl watch")
    [begun] = restarts_begun(store)
    assert begun == moment(store.ops()[-1].begin.at)


def test_a_time_of_the_journal_is_seconds_and_what_is_none_is_nothing() -> None:
    assert moment("1970-01-02T00:00:00Z") == 86400
    assert moment("yesterday") is None
