"""The stand-in's HTTP surface: what clients and probes rely on."""

import json
import re

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rig.engine.answering import answer
from tests.rig.engine.words import spelled, tokens
from tests.rig.engine_process import WEATHER_TOOL, Start


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("What is the capital of France? Answer with one word.", "Paris"),
        ("What is 17 + 25? Reply with the number only.", "42"),
        ("What is seven times eight?", "56"),
        ("What is 50 - 8?", "42"),
        ("What does sum(i*i for i in range(4)) evaluate to?", "14"),
        ("Counting from one to six in words: one, two, three,", "four, five, six"),
        ("On 2026-07-04, what colour is the sky? One word please.", "Blue"),
        ("Reply with exactly the text 'pong' and nothing else.", "pong"),
        ("Count from 3 to 6.", "3, 4, 5, 6"),
        ("Count from five to two.", "five, four, three, two"),
        ("Filler. The code word is HERON-42. More filler.\nWhat is the code word?", "HERON-42"),
        ("Earlier: my name is Ada. Now: what is my name?", "Ada"),
    ],
)
def test_simple_questions_are_answered_rightly(asked: str, expected: str) -> None:
    assert answer(asked) == expected


def test_counting_in_words_reaches_its_end() -> None:
    words = answer("Count from one to thirty in words, separated by commas.").split(", ")
    assert (words[0], words[20], words[-1], len(words)) == ("one", "twenty-one", "thirty", 30)


def test_json_is_made_of_the_keys_that_were_asked_for() -> None:
    body = answer('Reply with a JSON object with keys "city" and "country" for the capital of France.')
    assert json.loads(body) == {"city": "Paris", "country": "Paris"}


@given(st.text())
def test_tokens_join_back_to_the_text(text: str) -> None:
    assert "".join(tokens(text)) == text


@given(st.text(max_size=300))
def test_any_prompt_has_one_answer_and_always_the_same(text: str) -> None:
    assert answer(text) == answer(text) != ""


@given(st.integers(min_value=0, max_value=100))
def test_number_words_read_back_as_the_number(number: int) -> None:
    assert answer(f"Count from {spelled(number).split()[-1]} to {number} in digits") == str(number)


def test_an_answer_carries_real_token_counts(start: Start) -> None:
    body = start().ready().chat("Count from one to thirty in words.").json()
    text, usage = body["choices"][0]["message"]["content"], body["usage"]
    assert usage["completion_tokens"] == len(tokens(text)) > 30
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_a_stream_says_what_the_whole_answer_says_and_ends_with_usage(start: Start) -> None:
    process = start().ready()
    whole = process.said("Write a short haiku.")
    options = {"stream": True, "stream_options": {"include_usage": True}}
    lines = [line[6:] for line in process.chat("Write a short haiku.", **options).text.splitlines() if line]
    events = [json.loads(line) for line in lines[:-1]]
    pieces = [event["choices"][0]["delta"].get("content", "") for event in events if event["choices"]]
    assert lines[-1] == "[DONE]"
    assert "".join(pieces) == whole
    assert events[-1]["usage"]["completion_tokens"] == len(tokens(whole))


def test_plain_completions_are_served_too(start: Start) -> None:
    process = start().ready()
    payload = {"model": "stand-in", "prompt": "What is the capital of France?", "max_tokens": 5}
    body = httpx.post(process.url("/v1/completions"), json=payload).json()
    assert body["choices"][0]["text"] == "Paris"


def test_an_answer_is_cut_at_max_tokens_and_says_so(start: Start) -> None:
    body = start().ready().chat("Count from one to thirty.", max_tokens=4).json()
    assert body["usage"]["completion_tokens"] == 4
    assert body["choices"][0]["finish_reason"] == "length"


def test_a_schema_is_satisfied(start: Start) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "kind": {"enum": ["a", "b"]}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert json.loads(start().ready().said("Pick b, and 12.", response_format=wanted)) == {"n": 12, "kind": "b"}


def test_every_served_name_is_known_and_no_other(start: Start) -> None:
    process = start("--served-model-name", "one", "two").ready()
    names = [card["id"] for card in httpx.get(process.url("/v1/models")).json()["data"]]
    statuses = [process.chat("hello", model=name).status_code for name in ("one", "two", "stand-in")]
    assert (names, statuses) == (["one", "two"], [200, 200, 404])


def test_tools_are_called_when_they_were_enabled(start: Start) -> None:
    process = start("--enable-auto-tool-choice", "--tool-call-parser", "hermes").ready()
    choice = process.chat("What is the weather in Paris?", tools=[WEATHER_TOOL]).json()["choices"][0]
    function = choice["message"]["tool_calls"][0]["function"]
    assert choice["finish_reason"] == "tool_calls"
    assert (function["name"], json.loads(function["arguments"])) == ("get_weather", {"city": "Paris"})


def test_tools_that_were_not_enabled_are_refused_in_vllms_words(start: Start) -> None:
    reply = start().ready().chat("What is the weather in Paris?", tools=[WEATHER_TOOL])
    assert reply.status_code == 400
    assert "--enable-auto-tool-choice and --tool-call-parser" in reply.json()["error"]["message"]


def test_a_prompt_over_the_context_length_is_refused(start: Start) -> None:
    reply = start("--max-model-len", "64").ready().chat("word " * 80)
    assert reply.status_code == 400
    assert "maximum context length is 64 tokens" in reply.json()["error"]["message"]


def test_the_key_guards_the_api_and_not_health(start: Start) -> None:
    process = start(env={"VLLM_API_KEY": "secret"}).ready()
    bearer = {"Authorization": "Bearer secret"}
    assert process.chat("hello").status_code == 401
    assert httpx.get(process.url("/v1/models"), headers=bearer).status_code == 200


def test_speculation_and_the_prefix_cache_show_in_the_metrics(start: Start) -> None:
    process = start("--speculative-config", '{"method": "eagle3", "model": "/d", "num_speculative_tokens": 3}').ready()
    for _ in range(2):
        process.chat("Count from one to thirty in words, please, " + "and carefully " * 20)
    found = dict(re.findall(r"^vllm:(\w+)\{.*\} (\S+)$", httpx.get(process.url("/metrics")).text, re.MULTILINE))
    drafts, accepted = (
        float(found["spec_decode_num_drafts_total"]),
        float(found["spec_decode_num_accepted_tokens_total"]),
    )
    assert float(found["spec_decode_num_draft_tokens_total"]) == 3 * drafts
    assert 1.5 < 1 + accepted / drafts < 2
    assert 0 < float(found["prefix_cache_hits_total"]) < float(found["prefix_cache_queries_total"])


@pytest.mark.parametrize(("played", "dead"), [("0.26.0", True), ("0.27.1", False)])
def test_a_capped_draft_accepts_nothing_beyond_its_cap_before_0_27(
    start: Start, tmp_path, played: str, dead: bool
) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 64}')
    config = json.dumps({"method": "eagle3", "model": str(tmp_path), "num_speculative_tokens": 3})
    process = start("--speculative-config", config, VLLM_VERSION=played).ready()
    process.chat("Count from one to thirty. " + "word " * 100)
    accepted = re.search(r"accepted_tokens_total\{.*\} (\S+)", httpx.get(process.url("/metrics")).text)
    assert accepted is not None
    assert (float(accepted[1]) == 0) is dead
