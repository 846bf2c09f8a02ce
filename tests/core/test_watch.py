"""How often a watch may restart, and what the site may ask of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from b70ctl.core.answer import Answer
from b70ctl.core.journal import Event, Line, ops
from b70ctl.core.metrics import Metrics
from b70ctl.core.plan import Plan, plan_restart, plan_stop
from b70ctl.core.probes import ProbeTarget, probes_for
from b70ctl.core.site import Site
from b70ctl.core.watch import COMMAND, Watch, own, restarts_begun, restarts_left
from b70ctl.core.watchlook import alone, decode_rate, hung, learnt, others, own_probe, record_of

HOUR = 3600.0


def test_restarts_are_counted_over_the_hours_that_the_site_says():
    watch = Watch(restarts=2, hours=2)
    assert restarts_left(watch, [], 10 * HOUR) == 2
    assert restarts_left(watch, [1 * HOUR, 8.5 * HOUR], 10 * HOUR) == 1
    assert restarts_left(watch, [8.5 * HOUR, 9 * HOUR, 9.5 * HOUR], 10 * HOUR) == 0
    assert restarts_left(Watch(restarts=0), [], 0) == 0


def test_a_clock_that_was_set_back_a_little_gives_no_restart_away():
    assert restarts_left(Watch(restarts=1), [33 * HOUR], 10 * HOUR) == 0


def test_a_restart_that_is_stamped_in_a_far_future_does_not_keep_the_watch_from_its_work_until_then():
    assert restarts_left(Watch(restarts=1), [9000 * HOUR], 10 * HOUR) == 1


def begun(number: int, at: str, plan: Plan) -> Line:
    return Line(op=number, at=at, event=Event.BEGIN, plan=plan, by="b70ctl")


def test_restarts_of_a_watch_are_those_that_the_journal_tells():
    mine = plan_restart("r", command=COMMAND, because="wedge")
    history = ops([begun(1, "one", plan_restart("r")), begun(2, "two", mine)])
    assert [own(op) for op in history] == [False, True]
    assert restarts_begun(history) == ["two"]


def ended(number: int, result: str) -> Line:
    return Line(op=number, at="end", event=Event.END, result=result)


def test_what_a_person_proved_begins_a_new_count():
    mine = plan_restart("r", command=COMMAND, because="wedge")
    before = [begun(1, "one", mine), ended(1, "failed"), begun(2, "two", mine), ended(2, "done")]
    theirs = begun(3, "three", plan_restart("r"))
    for result in ("done", "finished"):
        assert restarts_begun(ops([*before, theirs, ended(3, result)])) == []
        assert restarts_begun(ops([*before, theirs, ended(3, result), begun(4, "four", mine)])) == ["four"]


@pytest.mark.parametrize("result", ["failed", "rolled-back", "unproven", "interrupted", "recovered", None])
def test_what_a_person_tried_and_did_not_prove_forgives_no_restart(result):
    mine, theirs = plan_restart("r", command=COMMAND, because="wedge"), plan_restart("r")
    lines = [begun(1, "one", mine), ended(1, "done"), begun(2, "two", theirs)]
    assert restarts_begun(ops([*lines, *([ended(2, result)] if result else [])])) == ["one"]


def test_a_stop_forgives_no_restart():
    mine = plan_restart("r", command=COMMAND, because="wedge")
    assert restarts_begun(ops([begun(1, "one", mine), begun(2, "two", plan_stop("r")), ended(2, "done")])) == ["one"]


@given(st.lists(st.floats(0, 1e6), max_size=9), st.floats(0, 1e6), st.integers(0, 5))
def test_there_is_never_more_left_than_allowed_and_one_more_restart_never_adds_any(begun, now, allowed):
    watch = Watch(restarts=allowed)
    left = restarts_left(watch, begun, now)
    assert 0 <= left <= allowed
    assert restarts_left(watch, [*begun, now], now) <= left


@pytest.mark.parametrize("wrong", [{"every": 0}, {"drift": 1}, {"kv": 0}, {"kv": 1.1}, {"restarts": -1}, {"tick": 0},
                                   {"confirm": 0}, {"evry": 5}])  # fmt: skip
def test_a_setting_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(ValidationError):
        Site.model_validate({"watch": wrong})


# --- what an answer tells ---------------------------------------------------------------------------------------------


def some(tokens: int, running: int = 0, waiting: int = 0, kv: float = 0.0) -> Metrics:
    return Metrics(running=running, waiting=waiting, generation_tokens=tokens, prompt_tokens=9, kv_usage=kv)


ANSWER = Answer(completion_tokens=101, seconds=3.0, first_token_seconds=1.0)


def test_a_rate_is_of_what_came_after_the_first_token():
    assert decode_rate(ANSWER) == 50.0
    assert decode_rate(Answer(completion_tokens=8, seconds=3.0, first_token_seconds=1.0)) is None
    assert decode_rate(Answer(completion_tokens=101, seconds=3.0)) is None
    assert decode_rate(Answer(completion_tokens=101, seconds=1.0, first_token_seconds=1.0)) is None
    assert decode_rate(Answer(seconds=3.0, first_token_seconds=1.0)) is None


def test_a_rate_counts_only_when_the_engine_did_nothing_else():
    assert alone(some(5), some(106), ANSWER)
    assert alone(some(5), some(105), ANSWER)  # the last token may not be counted yet
    assert not alone(some(5), some(107), ANSWER)
    assert not alone(some(5, running=1), some(106), ANSWER)
    assert not alone(some(5), some(106, running=1), ANSWER)
    assert not alone(some(5, waiting=1), some(106), ANSWER)
    assert not alone(some(106), some(5), ANSWER)  # it was started anew
    assert not alone(None, some(106), ANSWER)
    assert not alone(Metrics(), Metrics(), ANSWER)


def test_others_are_at_work_when_more_came_than_the_probe_may_have_or_a_prompt_that_ran_before_is_read():
    assert others(some(5), some(206), 200)
    assert others(some(5, running=1, kv=0.1), some(5, running=2, kv=0.4), 200)
    assert not others(some(5, kv=0.1), some(5, running=1, kv=0.2), 200)  # our own prompt
    assert not others(some(5, running=1), some(5, running=2), 200)
    assert not others(None, some(600), 200)
    assert not others(some(600), some(5), 200)  # it was started anew


def test_an_answer_hung_when_it_began_and_stopped_and_not_when_it_was_slow():
    assert hung(1, 60, 60)
    assert hung(1, 31, 60)  # the deadline of the whole answer came first
    assert not hung(150, 1, 60)
    assert not hung(0, 180, 60)


@given(st.integers(0, 200), st.integers(0, 9999), st.floats(0, 1), st.integers(0, 1))
def test_whatever_a_probe_that_hangs_leaves_in_the_figures_of_an_idle_engine_is_nobody_elses(tokens, prompt, kv, runs):
    left = Metrics(running=runs, waiting=0, generation_tokens=5 + tokens, prompt_tokens=prompt, kv_usage=kv)
    assert not others(some(5), left, 200)


def test_a_release_is_compared_with_its_own_first_rates():
    rates: tuple[float, ...] = ()
    for rate in (50.0, None, 52.0, 10.0, 51.0):
        assert record_of(rates) is None
        rates = learnt(rates, rate)
    rates = learnt(rates, 49.0)
    assert record_of(rates) == 50.0
    assert learnt(rates, 99.0) == rates


def test_the_probe_is_the_longest_that_the_profile_asks():
    assert asked(()) == "counting"
    assert asked(("counting",)) == "prose"
    assert asked(("counting", "prose", "arithmetic")) == "capital"
    assert asked(("counting", "prose", "arithmetic", "capital")) is None


def asked(skip: tuple[str, ...]) -> str | None:
    found = own_probe(probes_for(ProbeTarget(model="m", max_model_len=4096, skip=frozenset(skip))))
    return found.name if found else None
