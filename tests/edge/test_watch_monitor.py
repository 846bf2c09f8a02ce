"""A monitor sees what the engine and Docker show, and an answer that does not come is an outcome and no error."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b70ctl.core.answer import Answer
from b70ctl.core.metrics import Metrics
from b70ctl.core.watch import Watch
from b70ctl.core.watchfault import Judgement, Kind, Memory
from b70ctl.core.watching import judge
from b70ctl.core.watchlook import Outcome
from b70ctl.edge.watching import Monitor, Rates
from b70ctl.errors import DaemonAway, EngineError, EngineSilent, MachineError
from tests.making import a_profile, a_release, resolved
from tests.stub_daemon import StubDaemon
from tests.stub_watched import Engine, idle

RELEASE = a_release(1)


def monitor(engine: Engine, daemon: StubDaemon | None = None, release: Any = RELEASE) -> Monitor:
    endpoint: Any = engine
    return Monitor(release, endpoint, lambda: daemon or StubDaemon(), patience=7, silence=60)


def test_a_well_engine_is_looked_at_without_docker_unless_it_is_asked_for() -> None:
    daemon = StubDaemon()
    daemon.add(RELEASE)
    look = monitor(Engine(pages=[idle(5)]), daemon).look(docker=False)
    assert (look.unwell, look.metrics, look.docker, look.container) == (None, idle(5), False, None)
    assert daemon.calls == []
    look = monitor(Engine(), daemon).look(docker=True)
    assert look.metrics is None
    assert look.docker
    assert look.container is not None


def test_of_an_engine_that_is_not_well_docker_is_always_asked() -> None:
    daemon = StubDaemon()
    daemon.add(RELEASE, "exited")
    look = monitor(Engine(ill="nothing answers"), daemon).look(docker=False)
    assert (look.unwell, look.docker) == ("nothing answers", True)
    assert look.container is not None
    assert look.container.state == "exited"


def test_a_docker_that_is_away_is_told_and_forgotten_when_it_is_back() -> None:
    daemon = StubDaemon()
    daemon.on("observe", lambda: DaemonAway("Docker does not answer"))
    seen = monitor(Engine(), daemon)
    look = seen.look(docker=True)
    assert (look.docker, look.container, seen.away) == (False, None, "Docker does not answer")
    daemon.heal()
    assert seen.look(docker=True).docker
    assert seen.away is None


def test_a_docker_that_cannot_be_reached_at_all_is_away() -> None:
    def nobody() -> Any:
        raise MachineError("no Docker Engine answers")

    endpoint: Any = Engine()
    seen = Monitor(RELEASE, endpoint, nobody, patience=7, silence=60)
    assert not seen.look(docker=True).docker
    assert seen.away == "no Docker Engine answers"


def test_a_probe_that_passes_on_an_idle_engine_has_a_rate() -> None:
    engine = Engine(pages=[idle(5), idle(106)])
    asked = monitor(engine).ask()
    assert asked is not None
    assert (asked.outcome, asked.rate, asked.detail) == (Outcome.PASSED, 50.0, "counting: counted to 30")
    assert engine.asked[0]["timeout"] == 7
    assert engine.asked[0]["stream"]


def test_a_probe_beside_other_requests_has_none() -> None:
    asked = monitor(Engine(pages=[Metrics(running=1, generation_tokens=5), idle(300)])).ask()
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
    asked = monitor(Engine(answer=answer, pages=[idle(5), idle(5)])).ask()
    assert asked is not None
    assert (asked.outcome, asked.others) == (outcome, False)
    assert asked.detail.startswith("counting: ")


def test_silence_while_others_are_served_is_told_apart() -> None:
    busy = [Metrics(running=1, generation_tokens=5), Metrics(running=2, generation_tokens=900)]
    asked = monitor(Engine(answer=EngineSilent("silent"), pages=list(busy))).ask()
    assert asked is not None
    assert asked.others


@pytest.mark.parametrize("chunks", [1, 7])
def test_a_probe_that_hangs_after_its_first_token_is_a_wedge_with_no_other_request_there(chunks: int) -> None:
    watch, memory, found = Watch(confirm=2), Memory(), Judgement(Memory())
    for began in (5, 90):
        # its own prompt was read, and its own tokens were counted
        left = Metrics(running=1, waiting=0, generation_tokens=began + chunks, prompt_tokens=40, kv_usage=0.01)
        silent = EngineSilent("silent for 180 s", chunks=chunks, quiet=60)
        seen = monitor(Engine(answer=silent, pages=[idle(began), idle(began), left]))
        found = judge(memory, replace(seen.look(docker=False), asked=seen.ask()), watch, boot=600)
        memory = found.memory
    assert found.fault is not None
    assert found.fault.kind is Kind.WEDGE


def test_silence_after_a_first_token_is_never_a_queue() -> None:
    busy = [Metrics(running=1, generation_tokens=5), Metrics(running=2, generation_tokens=9000)]
    asked = monitor(Engine(answer=EngineSilent("silent", chunks=1, quiet=60), pages=list(busy))).ask()
    assert asked is not None
    assert not asked.others


def test_probes_that_hung_before_are_nobody_elses_requests() -> None:
    def left(number: int) -> Metrics:
        return Metrics(running=number, generation_tokens=5 + number, prompt_tokens=40 * number, kv_usage=number / 100)

    engine = Engine(answer=EngineSilent("no answer"), pages=[left(0), left(1), left(1), left(2), left(2), left(3)])
    seen = monitor(engine)
    assert [asked.others for _ in range(3) if (asked := seen.ask())] == [False] * 3
    # of four that run one is somebody's
    engine.pages = [left(4), left(5)]
    asked = seen.ask()
    assert asked is not None
    assert asked.others


def test_an_answer_that_came_slowly_behind_a_queue_until_its_deadline_is_no_fault() -> None:
    busy = [Metrics(running=30, generation_tokens=5), Metrics(running=30, generation_tokens=9000)]
    slow = EngineSilent("no complete answer after 180 s (after 9 chunks in 179.2 s)", chunks=9, quiet=0.8)
    asked = monitor(Engine(answer=slow, pages=list(busy))).ask()
    assert asked is not None
    assert asked.others


def test_a_probe_that_hangs_before_its_first_token_is_no_queue_when_only_its_own_prompt_was_read() -> None:
    pages: list[Metrics | None] = [idle(5), Metrics(running=1, generation_tokens=6, prompt_tokens=40, kv_usage=0.01)]
    asked = monitor(Engine(answer=EngineSilent("no answer"), pages=pages)).ask()
    assert asked is not None
    assert (asked.outcome, asked.others) == (Outcome.SILENT, False)


def test_an_engine_that_does_not_say_how_long_its_context_is_refuses_the_probe() -> None:
    asked = monitor(Engine(length=None)).ask()
    assert asked is not None
    assert asked.outcome is Outcome.REFUSED


def test_a_profile_that_skips_every_probe_leaves_nothing_to_ask() -> None:
    skip = dict.fromkeys(("counting", "prose", "capital", "arithmetic"), "a base model")
    release = a_release(1, deployment=resolved(a_profile(probes={"skip": skip})))
    engine = Engine()
    assert monitor(engine, release=release).ask() is None
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
