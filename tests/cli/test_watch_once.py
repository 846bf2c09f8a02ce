"""One look calls an engine healthy only when a probe passed, or when none can be put."""

from typing import Any

import pytest

from b70ctl.cli.watchonce import HEALTHY, UNCLEAR, verdict_of
from b70ctl.core.answer import Answer
from b70ctl.core.metrics import Metrics
from b70ctl.core.watch import Watch
from b70ctl.core.watchfault import Kind
from b70ctl.edge.watching import Monitor
from b70ctl.errors import EngineError, EngineSilent
from tests.making import a_profile, a_release, resolved
from tests.stub_daemon import StubDaemon
from tests.stub_watched import Engine

RELEASE = a_release(1)
GOOD = Engine().answer
WRONG = Answer(text="!!!!!!!!!!!!!!!!", finish_reason="length")
SILENT = EngineSilent("no complete answer after 180 s")


class Series(Engine):
    """An engine that answers one probe after another as it was told, others being served all the while."""

    def __init__(self, *answers: Answer | EngineError) -> None:
        super().__init__()
        self.answers = list(answers)
        self.tokens = 5

    def metrics(self) -> Metrics:
        self.tokens += 9000
        return Metrics(running=4, generation_tokens=self.tokens)

    def ask(self, body: dict[str, Any], *, path: str, timeout: float) -> Answer:
        self.answer = self.answers.pop(0)
        return super().ask(body, path=path, timeout=timeout)


def verdict(engine: Engine, release: Any = RELEASE) -> str:
    endpoint: Any = engine
    daemon = StubDaemon()
    daemon.add(release)
    return verdict_of(Monitor(release, endpoint, lambda: daemon, patience=1, silence=60), Watch(confirm=2))[0]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((GOOD,), HEALTHY),
        ((WRONG, GOOD), HEALTHY),
        ((SILENT, GOOD), HEALTHY),
        ((SILENT, SILENT), UNCLEAR),
        ((WRONG, SILENT), UNCLEAR),
        ((SILENT, WRONG), UNCLEAR),
        ((WRONG, WRONG), Kind.DEGENERATE),
        ((EngineError("HTTP 500"), EngineError("HTTP 500")), Kind.UNREACHABLE),
    ],
)
def test_only_a_probe_that_passed_last_makes_an_engine_healthy(answers: Any, expected: str) -> None:
    engine = Series(*answers)
    assert verdict(engine) == expected
    assert engine.answers == []


def test_a_probe_that_hangs_in_its_answer_is_a_wedge_whoever_else_is_served() -> None:
    hanging = EngineSilent("silent for 180 s after 3 chunks", chunks=3, quiet=60)
    assert verdict(Series(hanging, hanging)) == Kind.WEDGE


def test_an_engine_that_no_probe_can_be_put_to_is_judged_by_its_health() -> None:
    skip = dict.fromkeys(("counting", "prose", "capital", "arithmetic"), "a base model")
    release = a_release(1, deployment=resolved(a_profile(probes={"skip": skip})))
    assert verdict(Engine(), release) == HEALTHY
    assert verdict(Engine(ill="nothing answers"), release) == Kind.UNREACHABLE
