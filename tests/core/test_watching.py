"""A watch calls a fault what lasts, and nothing that a working engine does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.metrics import Metrics
from b70ctl.core.release import Container
from b70ctl.core.watch import Watch
from b70ctl.core.watchfault import ACTING, Fault, Judgement, Kind, Memory
from b70ctl.core.watching import asks_again, judge, may_ask, stands
from b70ctl.core.watchlook import Look, Outcome, ProbeResult

WATCH = Watch(unreachable=60, silence=100, confirm=2)
BOOT = 600
PASSED = ProbeResult(outcome=Outcome.PASSED, detail="counted to 30")
WRONG = ProbeResult(outcome=Outcome.WRONG, detail="!!!!")
SILENT = ProbeResult(outcome=Outcome.SILENT, detail="no answer")
REFUSED = ProbeResult(outcome=Outcome.REFUSED, detail="HTTP 500")
DOWN = "nothing answers there"


def container(state: str = "running", started: str = "1", restarts: int = 0, code: int = 0) -> Container:
    return Container(id="c", name="c", release="r", state=state, started=started, restarts=restarts, exit_code=code)


def figures(running: int = 0, tokens: int = 0, kv: float = 0.1, waiting: int = 0, prompt: int = 0) -> Metrics:
    return Metrics(running=running, waiting=waiting, generation_tokens=tokens, prompt_tokens=prompt, kv_usage=kv)


def well(at: float, metrics: Metrics | None = None, **more: Any) -> Look:
    return Look(at=at, metrics=metrics or figures(), docker=True, container=more.pop("container", container()), **more)


def ill(at: float, found: Container | None = None, *, docker: bool = True) -> Look:
    return Look(at=at, unwell=DOWN, docker=docker, container=found or (container() if docker else None))


def gone(at: float) -> Look:
    return Look(at=at, unwell=DOWN, docker=True)


def after(*looks: Look, memory: Memory | None = None, **more: Any) -> Judgement:
    """What the last of several looks showed."""
    memory = memory or Memory()
    found = Judgement(memory)
    for look in looks:
        found = judge(memory, look, WATCH, boot=BOOT, **more)
        memory = found.memory
    return found


def faults(*looks: Look, **more: Any) -> list[Fault]:
    """Every fault on the way."""
    memory, found = Memory(), []
    for look in looks:
        judged = judge(memory, look, WATCH, boot=BOOT, **more)
        memory = judged.memory
        found += [judged.fault] if judged.fault else []
    return found


def kind(judged: Judgement) -> Kind | None:
    return judged.fault.kind if judged.fault else None


def said(judged: Judgement) -> list[str]:
    return [each.what for each in judged.said]


# --- health -----------------------------------------------------------------------------------------------------------


def test_an_engine_that_was_well_may_be_away_for_as_long_as_the_site_says():
    assert kind(after(well(0), ill(10), ill(69))) is None
    assert kind(after(well(0), ill(10), ill(70))) is Kind.UNREACHABLE
    assert kind(after(well(0), ill(10), ill(60), well(69), ill(70), ill(129))) is None


def test_an_engine_that_was_started_anew_may_take_as_long_as_its_boot_may():
    again = container(started="2")
    assert kind(after(well(0), ill(10, again), ill(609, again))) is None
    assert kind(after(well(0), ill(10, again), ill(610, again))) is Kind.UNREACHABLE


def test_an_engine_that_was_never_seen_well_may_be_booting():
    assert kind(after(ill(0), ill(599))) is None
    assert said(after(ill(0))) == ["booting"]
    assert kind(after(ill(0), ill(600))) is Kind.UNREACHABLE


def test_an_engine_that_is_started_over_and_over_is_not_booting_for_ever():
    looks = [ill(at, container("restarting", str(at))) for at in range(0, 601, 20)]
    assert kind(after(well(-1), *looks)) is Kind.UNREACHABLE


def test_an_engine_that_ends_in_its_boot_over_and_over_is_no_boot():
    """Seen first in its boot: one more restart by Docker is one boot that failed."""
    boots = [ill(at, container("running", str(at), 3)) for at in (0, 20)]
    assert said(after(*boots)) == []
    down = ill(40, container("restarting", "20", 4, code=3))
    found = after(*boots, down)
    assert said(found) == ["unwell"]
    assert "ends in its boot, exit code 3" in found.said[0].text
    again = [ill(at, container("running", "50", 5)) for at in (60, 99)]
    assert kind(after(*boots, down, *again)) is None
    found = after(*boots, down, *again, ill(100, container("running", "50", 5)))
    assert kind(found) is Kind.GONE
    assert found.fault is not None
    assert found.fault.evidence == "the engine ends in its boot, exit code 3, and Docker starts it again, for 60 s"
    assert stands(found.fault, found.memory, ill(101, container("running", "100", 6)))
    assert not stands(found.fault, found.memory, well(101, container=container("running", "100", 6)))


def test_the_boot_after_an_end_is_one_and_a_second_end_is_none():
    first, second = container("running", "2", 1), container("running", "3", 2)
    assert said(after(well(0), ill(10, first))) == ["booting"]
    assert kind(after(well(0), ill(10, first), ill(600, first))) is None
    assert kind(after(well(0), ill(10, first), ill(300, second), ill(360, second))) is Kind.GONE


def test_an_engine_that_a_person_started_again_has_its_boot():
    looping = [ill(at, container("running", str(at), at)) for at in (0, 1, 2)]
    assert after(*looping).memory.gone_since is not None
    theirs = container("running", "3", 0)
    assert after(*looping, ill(3, theirs)).memory.gone_since is None
    assert kind(after(*looping, ill(3, theirs), ill(100, theirs))) is None


def test_a_boot_that_has_ended_is_told_with_its_exit_code():
    ended = container("exited", code=137)
    found = after(ill(0))
    assert said(found) == ["booting"]
    found = after(ill(1, ended), memory=found.memory)
    assert [(each.what, each.text) for each in found.said] == [
        ("unwell", "the engine's container is exited, exit code 137")
    ]
    assert said(after(ill(2, ended), memory=found.memory)) == []
    first = after(ill(0, ended))
    assert (said(first), "exit code 137" in first.said[0].text) == (["unwell"], True)


def test_how_an_engine_ended_is_told_when_it_serves_again():
    down = container("restarting", "1", 1, code=139)
    found = after(well(0), ill(1, down), well(2, container=container("running", "2", 1)))
    assert kind(found) is Kind.ENDED
    assert found.fault is not None
    assert "ended, exit code 139, and Docker" in found.fault.evidence


def test_a_container_that_is_not_there_or_has_ended_is_gone():
    assert kind(after(well(0), gone(1), gone(61))) is Kind.GONE
    found = after(well(0), ill(1, container("exited")), ill(61, container("exited")))
    assert kind(found) is Kind.GONE
    assert found.fault is not None
    assert "exited" in found.fault.evidence


def test_an_engine_that_is_gone_after_a_long_boot_is_gone_since_then_and_not_since_the_boot_began():
    ended = container("exited", "2")
    looks = [well(0), ill(1, container(started="2")), ill(300, container(started="2")), ill(310, ended)]
    assert kind(after(*looks)) is None
    found = after(*looks, ill(370, ended))
    assert kind(found) is Kind.GONE
    assert found.fault is not None
    assert "for 60 s" in found.fault.evidence


def test_an_engine_that_is_gone_is_so_through_a_time_without_docker_and_not_through_one_that_ran():
    assert kind(after(well(0), gone(10), ill(40, docker=False), gone(70))) is Kind.GONE
    assert kind(after(well(0), gone(10), ill(40), gone(69))) is None


def test_without_docker_nothing_is_a_fault_that_a_restart_could_cure():
    assert faults(well(0), *(ill(at, docker=False) for at in range(1, 5000, 50))) == []


def test_what_an_outage_looks_like_is_told_once():
    assert [said(after(*looks)) for looks in ([well(0)], [well(0), well(1)], [well(0), ill(1)])] == [
        ["answers"], [], ["unwell"],
    ]  # fmt: skip
    assert said(after(well(0), ill(1), ill(2))) == []
    assert said(after(well(0), ill(1), well(2))) == ["answers"]


def test_an_engine_is_called_healthy_by_a_probe_and_never_by_its_health_alone():
    assert said(after(well(0, asked=PASSED))) == ["healthy"]
    assert said(after(well(0), well(1, asked=PASSED))) == ["healthy"]
    assert said(after(well(0, asked=PASSED), well(1, asked=PASSED))) == []
    assert said(after(well(0, asked=PASSED), ill(1), well(2))) == ["answers"]
    assert said(after(well(0, asked=PASSED), ill(1), well(2), well(3, asked=PASSED))) == ["healthy"]
    assert "one every 5 min" in after(well(0)).said[0].text


def test_after_a_fault_an_engine_is_healthy_once_a_probe_passed_again():
    faulty = [well(0, asked=PASSED), well(1, asked=WRONG), well(2, asked=WRONG)]
    assert kind(after(*faulty)) is Kind.DEGENERATE
    assert said(after(*faulty, well(3))) == []
    assert said(after(*faulty, well(3), well(4, asked=PASSED))) == ["healthy"]
    assert said(after(well(0, asked=PASSED), well(1, asked=WRONG), well(2, asked=PASSED))) == ["probe-passed"]
    anew = container(started="2")
    ended = [well(0, asked=PASSED), well(1, container=anew)]
    assert kind(after(*ended)) is Kind.ENDED
    assert said(after(*ended, well(2, container=anew, asked=PASSED))) == ["healthy"]


def test_an_engine_that_ended_and_runs_again_is_told_once_and_needs_no_restart():
    found = after(well(0), well(10, container=container(started="2")))
    assert kind(found) is Kind.ENDED
    assert Kind.ENDED not in ACTING
    assert kind(after(well(20, container=container(started="2")), memory=found.memory)) is None


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_requests_without_a_token_for_long_enough_are_a_wedge():
    stuck = figures(running=2, tokens=7)
    assert kind(after(well(0, stuck), well(99, stuck))) is None
    found = after(well(0, stuck), well(50, stuck), well(100, stuck))
    assert kind(found) is Kind.WEDGE
    assert found.fault is not None
    assert "2 requests run, and no token came for 100 s" in found.fault.evidence


def test_an_idle_engine_is_no_wedge():
    assert faults(*(well(at) for at in range(0, 5000, 100))) == []


def test_a_long_prefill_is_no_wedge():
    """vLLM counts a prompt once it is done; until then only the KV cache shows that it is read."""
    looks = [well(at, figures(running=1, kv=at / 5000)) for at in range(0, 3000, 90)]
    assert faults(*looks) == []


def test_requests_that_begin_after_an_idle_time_have_the_whole_time():
    assert kind(after(well(0), well(1000), well(1010, figures(running=1)), well(1109, figures(running=1)))) is None


def test_counters_that_run_backwards_are_another_engine_and_no_wedge():
    looks = [well(0, figures(running=1, tokens=500)), well(90, figures(running=1, tokens=3)),
             well(180, figures(running=1, tokens=4))]  # fmt: skip
    assert faults(*looks) == []


def test_an_engine_without_these_figures_is_judged_by_its_answers_alone():
    looks = [well(at, Metrics(running=1)) for at in range(0, 3000, 90)]
    assert faults(*looks) == []
    assert kind(after(well(0, Metrics(), asked=WRONG), well(1, Metrics(), asked=WRONG))) is Kind.DEGENERATE


moving = st.lists(st.tuples(st.integers(0, 8), st.floats(1, 99), st.integers(1, 1000)), min_size=1, max_size=30)


@given(moving)
def test_an_engine_whose_tokens_move_is_never_a_wedge(steps):
    at, tokens, looks = 0.0, 0, []
    for running, seconds, more in steps:
        at, tokens = at + seconds, tokens + more
        looks.append(well(at, figures(running=running, tokens=tokens)))
    assert faults(*looks) == []


# --- probes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "fault"), [(WRONG, Kind.DEGENERATE), (SILENT, Kind.WEDGE), (REFUSED, Kind.UNREACHABLE)]
)
def test_a_probe_that_fails_twice_in_a_row_is_a_fault(asked, fault):
    once = after(well(0, asked=asked))
    assert kind(once) is None
    assert asks_again(once.memory, WATCH)
    twice = after(well(10, asked=asked), memory=once.memory)
    assert kind(twice) is fault
    assert twice.fault is not None
    assert (twice.fault.acts, twice.fault.asked, asked.detail in twice.fault.evidence) == (True, True, True)
    assert not asks_again(twice.memory, WATCH)


def test_a_look_between_two_probes_changes_nothing_about_them():
    assert kind(after(well(0, asked=WRONG), well(5), well(10, asked=WRONG))) is Kind.DEGENERATE


probes = st.sampled_from([PASSED, WRONG, SILENT, REFUSED])


@given(st.lists(probes, max_size=12))
def test_one_failure_between_passes_is_never_a_fault(sequence):
    looks = []
    for number, asked in enumerate(sequence):
        looks += [well(number * 20, asked=asked), well(number * 20 + 10, asked=PASSED)]
    assert faults(*looks) == []


@given(st.lists(probes, max_size=12))
def test_a_fault_by_probes_needs_that_many_failures_since_the_last_pass(sequence):
    found = after(*(well(at, asked=asked) for at, asked in enumerate(sequence)))
    failures = 0
    for asked in sequence:
        failures = 0 if asked.outcome is Outcome.PASSED else failures + 1
    assert (found.fault is not None) == (failures >= WATCH.confirm)


def test_silence_while_others_get_tokens_is_a_queue_and_no_fault():
    behind = ProbeResult(outcome=Outcome.SILENT, others=True)
    assert faults(*(well(at, asked=behind) for at in range(9))) == []


def test_a_probe_is_not_put_behind_a_queue_unless_it_is_late_and_never_to_an_engine_that_stands_still():
    memory = after(well(0, figures(running=1, tokens=5))).memory
    moves, still = figures(running=1, tokens=9), figures(running=1, tokens=5)
    queued = figures(running=1, tokens=9, waiting=3)
    assert may_ask(memory, well(1, moves))
    assert not may_ask(memory, well(1, still))
    assert not may_ask(memory, well(1, still), late=True)
    assert not may_ask(memory, well(1, queued))
    assert may_ask(memory, well(1, queued), late=True)
    assert may_ask(memory, well(1, figures()))
    assert not may_ask(memory, ill(1))


# --- warnings ---------------------------------------------------------------------------------------------------------


def test_a_lower_rate_is_told_once_and_once_more_when_it_is_over():
    slow, fast = (ProbeResult(outcome=Outcome.PASSED, rate=rate) for rate in (60.0, 99.0))
    found = after(well(0, asked=slow), well(1, asked=slow), record=100.0)
    assert said(found) == []
    found = after(well(2, asked=slow), memory=found.memory, record=100.0)
    assert [each.text for each in found.said] == ["60.0 tokens/s, 60 % of the 100.0 that this release began with"]
    assert said(after(well(3, asked=slow), memory=found.memory, record=100.0)) == []
    found = after(*(well(at, asked=fast) for at in (4, 5)), memory=found.memory, record=100.0)
    assert said(found) == ["drift-over"]
    assert faults(*(well(at, asked=slow) for at in range(20)), record=100.0) == []


def test_one_slow_probe_is_no_drift_and_without_a_record_nothing_is():
    slow, fast = (ProbeResult(outcome=Outcome.PASSED, rate=rate) for rate in (10.0, 99.0))
    looks = [well(at, asked=slow if at == 2 else fast) for at in range(6)]
    assert all(said(after(*looks[: n + 1], record=100.0)) in ([], ["healthy"]) for n in range(6))
    assert said(after(*(well(at, asked=slow) for at in range(6)))) == []


def test_a_full_kv_cache_is_told_once_and_is_no_fault():
    full, half = figures(running=1, kv=0.97), figures(running=1, kv=0.5)
    looks = [well(at, figures(running=1, kv=0.97, tokens=at)) for at in range(9)]
    told = [said(after(*looks[: n + 1])) for n in range(9)]
    assert told == [["answers"], [], ["kv-full"], [], [], [], [], [], []]
    assert faults(*looks) == []
    assert said(after(well(0, full), well(1, half), well(2, full), well(3, half))) == []
    assert said(after(well(9, half), memory=after(*looks).memory)) == ["kv-full-over"]


# --- what is seen with the lock in hand -------------------------------------------------------------------------------


def test_a_fault_stands_only_as_long_as_it_is_seen():
    stuck = figures(running=1, tokens=5)
    memory = after(well(0, stuck), well(100, stuck)).memory
    wedge = Fault(Kind.WEDGE, "")
    assert stands(wedge, memory, well(101, stuck))
    assert stands(wedge, memory, ill(101))
    assert not stands(wedge, memory, well(101, figures(running=1, tokens=6)))
    assert not stands(wedge, memory, well(101, figures()))
    asked = Fault(Kind.DEGENERATE, "", asked=True)
    assert stands(asked, memory, well(101, asked=WRONG))
    assert stands(asked, memory, ill(101))
    assert not stands(asked, memory, well(101, asked=PASSED))
    assert not stands(asked, memory, well(101))
    assert stands(Fault(Kind.UNREACHABLE, ""), memory, ill(101))
    assert not stands(Fault(Kind.UNREACHABLE, ""), memory, well(101))
    assert stands(Fault(Kind.GONE, ""), memory, gone(101))
    assert not stands(Fault(Kind.GONE, ""), memory, ill(101))


def test_a_fault_of_an_engine_that_was_started_anew_since_is_over():
    """Judged on the first start, of which the capture took a while; the second is another engine."""
    first, second = container(started="1"), container(started="2")
    wedge = after(well(0, asked=SILENT), well(1, asked=SILENT))
    unreachable = after(well(0), ill(10, first), ill(70, first))
    for found in (wedge, unreachable):
        assert found.fault is not None
        assert found.fault.started == "1"
        assert stands(found.fault, found.memory, ill(71, first))
        assert not stands(found.fault, found.memory, ill(71, second))
    assert wedge.fault is not None
    assert not stands(wedge.fault, wedge.memory, well(71, container=second, asked=SILENT))


def test_a_boot_that_never_ends_stands_though_it_was_started_over_and_over():
    looks = [ill(at, container("restarting", str(at))) for at in range(0, 601, 20)]
    found = after(well(-1), *looks)
    assert found.fault is not None
    assert stands(found.fault, found.memory, ill(620, container("restarting", "620")))


def test_an_earlier_fault_is_over_when_there_is_none_and_no_probe_waits_to_be_confirmed():
    assert after(well(0)).over
    assert after(well(0), ill(1)).over
    assert not after(well(0, asked=WRONG)).over
    assert not after(well(0), ill(1), ill(61)).over


states = st.sampled_from(["running", "restarting", "exited", "dead", "created"])
anything = st.builds(
    lambda seconds, unwell, docker, state, started, running, tokens, asked: (seconds, Look(
        at=0, unwell=DOWN if unwell else None, docker=docker,
        container=container(state, started) if docker and state else None,
        metrics=None if unwell else figures(running=running, tokens=tokens), asked=None if unwell else asked,
    )),
    st.floats(0.1, 90), st.booleans(), st.booleans(), st.none() | states, st.sampled_from("12"), st.integers(0, 2),
    st.integers(0, 3), st.none() | probes,
)  # fmt: skip


@given(st.lists(anything, max_size=25))
def test_whatever_is_seen_a_fault_has_its_evidence_and_an_engine_is_called_gone_only_by_docker(steps):
    memory, at = Memory(), 0.0
    for seconds, seen in steps:
        at += seconds
        look = Look(at=at, unwell=seen.unwell, metrics=seen.metrics, docker=seen.docker, container=seen.container,
                    asked=seen.asked)  # fmt: skip
        found = judge(memory, look, WATCH, boot=BOOT, record=50.0)
        if found.fault:
            assert found.fault.evidence
            assert found.fault.kind is not Kind.GONE or (look.docker and look.unwell)
            assert found.fault.kind not in (Kind.DRIFT, Kind.KV_FULL)
        assert len(found.memory.failures) <= WATCH.confirm
        assert not (found.fault and look.unwell and not look.docker)
        memory = found.memory
