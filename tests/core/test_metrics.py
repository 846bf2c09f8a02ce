"""A metrics page is read as Prometheus writes it, whatever else stands on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.metrics import Metrics, Sample, acceptance, at_work, read_metrics, samples

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="qwen"} 1.0
vllm:num_requests_running{engine="1",model_name="qwen"} 2.0
vllm:num_requests_waiting{engine="0",model_name="qwen"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="qwen"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="qwen"} 0.75
vllm:prompt_tokens_total{engine="0",model_name="qwen"} 1.28692e+05
vllm:prompt_tokens_created{engine="0",model_name="qwen"} 1.7601e+09
vllm:generation_tokens_total{engine="0",model_name="qwen"} 512.0
vllm:prefix_cache_queries_total{engine="0"} 1000.0
vllm:prefix_cache_hits_total{engine="0"} 473.0
vllm:num_preemptions_total{engine="0"} 0.0
vllm:spec_decode_num_drafts_total{engine="0"} 167.0
vllm:spec_decode_num_draft_tokens_total{engine="0"} 668.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 345.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 100.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 130.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="10"} 2.0
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 2.0
"""


def test_every_figure_is_found_and_summed_over_processes() -> None:
    assert read_metrics(PAGE) == Metrics(
        running=3,
        waiting=0,
        kv_usage=0.75,
        prompt_tokens=128_692,
        generation_tokens=512,
        preemptions=0,
        prefix_queries=1000,
        prefix_hits=473,
        drafts=167,
        draft_tokens=668,
        accepted_tokens=345,
        accepted_per_position=(130, 100, 2),
    )


@pytest.mark.parametrize("page", ["", "<html>", "# EOF", "up 1", "vllm:num_requests_running"])
def test_a_page_of_something_else_has_no_figures(page: str) -> None:
    assert read_metrics(page) == Metrics()


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        ("up 1", Sample("up", {}, 1.0)),
        ("up{} 1 1395066363000", Sample("up", {}, 1.0)),
        ('up{a="}",b="x y"}\t-2.5e-3', Sample("up", {"a": "}", "b": "x y"}, -0.0025)),
        (r'up{a="q\"\\\n"} 3', Sample("up", {"a": 'q"\\\n'}, 3.0)),
        ('up{a="1",} 4 # {trace="x"} 1', Sample("up", {"a": "1"}, 4.0)),
    ],
)
def test_labels_escapes_exponents_and_stamps_are_read(line: str, sample: Sample) -> None:
    assert list(samples(line)) == [sample]


@pytest.mark.parametrize("line", ["up NaN", "up +Inf", "up one", 'up{a="1 2', "# up 1", "up 1 2 3 4"])
def test_what_is_no_finite_sample_is_passed_over(line: str) -> None:
    assert list(samples(line)) == []


def test_a_restart_between_two_readings_is_no_acceptance() -> None:
    before, after = Metrics(drafts=100, accepted_tokens=200), Metrics(drafts=150, accepted_tokens=290)
    assert acceptance(before, after) == 1.8
    assert acceptance(after, before) is None
    assert acceptance(before, before) is None
    assert acceptance(Metrics(), after) is None


def test_zero_acceptance_is_a_number() -> None:
    assert acceptance(Metrics(drafts=0, accepted_tokens=0), Metrics(drafts=126, accepted_tokens=0)) == 0.0


def test_what_became_of_drafts_since_the_start_is_told_beside_the_requests() -> None:
    told = "3 requests running, 0 waiting; of its drafts 2.07 of 4 tokens were accepted"
    assert at_work(read_metrics(PAGE)) == told
    assert at_work(Metrics(running=1, waiting=0, drafts=2, draft_tokens=5, accepted_tokens=0)).endswith(
        "0.00 of 2.5 tokens were accepted"
    )


@pytest.mark.parametrize("figures", [{}, {"drafts": 0, "draft_tokens": 0, "accepted_tokens": 0}])
def test_an_engine_that_drafted_nothing_is_not_said_to_accept(figures: dict[str, int]) -> None:
    assert at_work(Metrics(running=0, waiting=2, **figures)) == "0 requests running, 2 waiting"


def test_a_page_without_requests_tells_no_work() -> None:
    assert at_work(Metrics(drafts=2, draft_tokens=5, accepted_tokens=0)) == ""


@given(st.text())
def test_no_page_is_too_strange(page: str) -> None:
    read_metrics(page)


@given(st.lists(st.tuples(st.sampled_from(PAGE.split("\n")[2:20]), st.floats().map(repr)), max_size=9))
def test_no_number_is_too_strange(lines: list[tuple[str, str]]) -> None:
    read_metrics("\n".join(f"{line.rpartition(' ')[0]} {value}" for line, value in lines))


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(max_size=20)), st.floats(-1e9, 1e9))
def test_any_label_survives_its_escaping(labels: dict[str, str], value: float) -> None:
    written = ",".join(f'{name}="{escaped(said)}"' for name, said in labels.items())
    assert list(samples(f"up{{{written}}} {value!r}")) == [Sample("up", labels, value)]
